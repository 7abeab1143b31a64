"""Progress bars: tqdm's ` 12%|█▏  | 100/850 [01:02<07:45,  1.61it/s, loss=0.5]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAIL = re.compile(
    r"\|[^|]*\|\s*(?P<n>\d+(?:\.\d+)?[kMG]?)/(?P<total>\d+(?:\.\d+)?[kMG]?)\s*"
    r"\[(?P<times>[\d:?.<, dayshm]*)(?:,\s*(?P<rate>[\d.?]*\s*[\w/]+))?"
    r"(?P<rest>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)(?:\]|$)"
)
_DESCRIPTION = re.compile(r"(?:^|[\])}]|\s{2,})(?P<text>[^\])}{]{0,60}?)\s*\d{1,3}$")
_STEP_UNITS = re.compile(
    r"(?:\?|[\d.]+)?\s*(?:(?:it|steps?|batch(?:es)?|ba|iter|b|updates?)/s|s/(?:it|steps?|batch(?:es)?|ba|iter|b|updates?))$"
)
_EPOCH = re.compile(r"epochs?[ :=#\[(]*(\d+)", re.IGNORECASE)
_HELD_OUT = re.compile(r"\b(?:val|valid|validat\w*|eval|evaluat\w*|test|testing|sanity\w*|predict\w*)\b", re.IGNORECASE)
_NO_TRAINING = re.compile(
    r"load|download|shard|map|token|filter|generat|process|cache|copy|convert|prepar", re.IGNORECASE
)
_SUFFIX = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar as drawn once. `start`, `end`: its span in the line. `postfix`: what the program put behind the rate."""

    start: int
    end: int
    count: int
    total: int
    epoch: int | None
    held_out: bool
    postfix: str


def find_bar(line: str, at: int) -> Bar | None:
    """The bar whose percent sign stands at a place; None if it is none that counts steps."""
    tail = _TAIL.match(line, at + 1)
    if tail is None:
        return None
    rate = tail["rate"]
    head = line[max(0, at - 80) : at]
    found = _DESCRIPTION.search(head)
    text = found["text"].strip() if found else ""
    start = at - len(head) + found.start("text") if found else at
    if (rate and not _STEP_UNITS.match(rate)) or _NO_TRAINING.search(text):
        return Bar(start, tail.end(), 0, 0, None, True, "")
    epoch = _EPOCH.search(text)
    return Bar(
        start,
        tail.end(),
        _count(tail["n"]),
        _count(tail["total"]),
        int(epoch[1]) if epoch else None,
        _HELD_OUT.search(text) is not None,
        tail["rest"].lstrip(" ,"),
    )


def _count(text: str) -> int:
    return round(float(text[:-1]) * _SUFFIX[text[-1]]) if text[-1] in _SUFFIX else int(float(text))
