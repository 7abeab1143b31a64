"""Progress bars: tqdm's ` 12%|█▏  | 100/850 [01:02<07:45,  1.61it/s, loss=0.5]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainforensics.importers.printed.text.numbers import count_of
from trainforensics.importers.printed.text.prefix import prefix_of
from trainforensics.importers.printed.text.tokens import NUMBER
from trainforensics.importers.printed.text.vocabulary import trust_of
from trainforensics.importers.printed.text.wordings import other_words
from trainforensics.importers.rows.axes import says_validation

# A bare bar of steps, for speed.
PLAIN_BAR = re.compile(r"\s*+\d{1,3}%\|[^|]*\|\s*(\d+)/(\d+)\s*\[[\d:<, ?.]*(?:it/s|s/it)\]\s*$")
_TAIL = re.compile(
    r"\|[^|]*\|\s*(?P<n>\d+(?:\.\d+)?[kMG]?)/(?P<total>\d+(?:\.\d+)?[kMG]?)\s*"
    r"\[(?:(?P<elapsed>\d+(?::\d\d){1,2})(?=<))?(?:[\d:?.<, dayshm]*)(?![A-Za-z]*/)"
    r"(?:,?\s*(?P<rate>[\d.?]*\s*[A-Za-z]+/[A-Za-z]+)(?=[,\]]|\s*$))?"
    r"(?P<rest>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)(?:\]|$)"
)
# A word in brackets belongs to it: "Epoch 1/30 [train]:", "(valid: 9 ):".
_DESCRIPTION = re.compile(
    r"(?:^\s*+|[\])}]|(?<!\s)\s{2,}+)(?P<text>(?:\[[^\W\d][\w /]*\]|\([^\W\d][\w :]*\)|[^\])}{]){0,120}?)\s*+\d{1,3}$"
)
_STEP_UNITS = re.compile(
    r"(?:\?|[\d.]+)?\s*(?:(?:it|steps?|batch(?:es)?|ba|iter|b|updates?|epochs?)/s|s/(?:it|steps?|batch(?:es)?|ba|iter|b|updates?|epochs?))$"
)
_RATES = ("it/s", "s/it", "?")
_ENDLESS = re.compile(
    r"(?P<text>[^|]{0,80}?):?\s*(?<!\S)(?P<n>\d+)[a-z]*\s\[\d+:\d\d(?::\d\d)?,\s*[\d.?]+\s?\w+/\w+,\s*(?P<rest>.*=.*)\]\s*$"
)
_WORDED = re.compile(
    r"Progress on:(?P<text>.*?) (?P<n>\d+(?:\.\d+)?[kMG]?)it/(?P<total>\d+(?:\.\d+)?[kMG]?)it rate:\S+ remaining:\S+"
    r" elapsed:\S+(?: postfix:(?P<rest>.*))?$"
)
_EPOCH = re.compile(r"(?:epochs?|\((?:train|valid|val|test)\w*)[ :=#\[(]*(\d+)", re.IGNORECASE)
_HELD_OUT = re.compile(r"\b(?:val|valid|validat\w*|eval|evaluat\w*|test|testing|sanity\w*|predict\w*)\b", re.IGNORECASE)
_NO_TRAINING = re.compile(
    r"\b(?:load|download|shard|map\b|token|filter|generat|process|preprocess|cach|copy|convert|prepar)", re.IGNORECASE
)
_METRIC = re.compile(r"[A-Za-z_]\w*[^\w@]{1,8}(?:[-+]?\d*\.\d|nan\b|inf\b)", re.IGNORECASE)
_BETWEEN_BARS = re.compile(r"(?:^|\|)\s*[A-Za-z_]\w* (?:[-+]?\d*\.\d|nan\b|inf\b)", re.IGNORECASE)
# Names with numbers right behind a bar, as its postfix is: "...]G: 0.5 | D: 0.25".
GLUED = re.compile(rf"(?:[A-Za-z]\w*: {NUMBER}(?: \| |\s*$)){{2,}}")
_NAMED = re.compile(r"([A-Za-z_][\w/]*)\s?[=:]")
_SUFFIX = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar as drawn once. `start`, `end`: its span in the line; `percent`: where its percentage ends.

    `postfix`: the numbers that the program put behind the rate or before the percentage. `elapsed`: seconds since the
    bar was begun, None where it does not say them.
    """

    start: int
    end: int
    count: int = 0
    total: int = 0
    epoch: int | None = None
    held_out: bool = False
    postfix: str = ""
    percent: int = 0
    elapsed: int | None = None

    @property
    def says_numbers(self) -> bool:
        """Whether its postfix may name numbers: "loss=0.5", "loss: 0.5", "Loss 0.5 | LR 0.1"."""
        return "=" in self.postfix or ":" in self.postfix or _BETWEEN_BARS.search(self.postfix) is not None


def find_bar(line: str, at: int) -> Bar | None:
    """The bar whose percent sign stands at a place, None if there is none; one that counts no steps has no total."""
    tail = _TAIL.match(line, at + 1)
    if tail is None:
        return None
    count, total, elapsed, rate, rest = tail.groups()
    start, text = _description(line, at)
    text = other_words(text)
    said = _METRIC.search(text) is not None
    if (rate and not rate.endswith(_RATES) and not _STEP_UNITS.match(rate)) or (not said and _NO_TRAINING.search(text)):
        return Bar(start, tail.end(), percent=at)
    epoch = _EPOCH.search(text)
    behind = rest.lstrip(" ,")
    return Bar(
        start,
        tail.end(),
        _number(count),
        _number(total),
        count_of(epoch[1]) if epoch else None,
        _HELD_OUT.search(text) is not None and (not said or all(map(says_validation, _NAMED.findall(text + behind)))),
        f"{text.rstrip(': ')}, {behind}" if said else behind,
        at,
        _seconds(elapsed) if elapsed else None,
    )


def endless_bar(line: str) -> str | None:
    """The bar of a training whose length is unknown, `12it [00:03,  4.0it/s, loss=0.5]`, in other words."""
    if "/s, " not in line and "s/it, " not in line:
        return None
    found = _ENDLESS.match(line)
    if found is None or _NO_TRAINING.search(found["text"]) or _HELD_OUT.search(found["text"]):
        return None
    epoch = _EPOCH.search(found["text"])
    declared = any(trust_of(name.lower()) is not None for name in _NAMED.findall(found["rest"]))
    count = "" if declared else f"iteration {found['n']}, "
    return f"{f'epoch {epoch[1]}, ' if epoch else ''}{count}{found['rest']}"


def worded_bar(line: str) -> Bar | None:
    """A bar in words, for what is no terminal: `Progress on:train 12it/1.00kit rate:4.0it/s ... postfix:...`."""
    start = line.find("Progress on:")
    found = _WORDED.match(line, start) if start >= 0 else None
    if found is None:
        return None
    held_out = _HELD_OUT.search(found["text"]) is not None
    prefix = prefix_of(line)
    said_at = f"{line[slice(*prefix.time)]} " if start and prefix.time else ""
    rest = f"{said_at}{found['rest'] or ''}"
    return Bar(start, len(line), _number(found["n"]), _number(found["total"]), None, held_out, rest)


def _description(line: str, at: int) -> tuple[int, str]:
    """Where the bar begins, and what stands before its percentage."""
    head = line[max(0, at - 160) : at]
    if head.strip().isdigit():
        return at - len(head), ""
    found = _DESCRIPTION.search(head)
    return (at - len(head) + found.start("text"), found["text"].strip()) if found else (at, "")


def _seconds(text: str) -> int:
    """Of "1:02:03" or "02:03"."""
    total = 0
    for part in text.split(":"):
        total = 60 * total + int(part)
    return total


def _number(text: str) -> int:
    return count_of(text) if text[-1] not in _SUFFIX else round(float(text[:-1]) * _SUFFIX[text[-1]])
