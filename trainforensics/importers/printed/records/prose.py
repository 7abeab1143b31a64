"""Lines that name numbers and are no records: sentences, titles, settings, what is said of the best so far."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from trainforensics.importers.printed.records.items import Item
from trainforensics.importers.printed.text.vocabulary import is_count, says_result

_CHANGE = re.compile(r"\s*-+>\s*$")  # "improved: 8.1 --> 5.4"
_SENTENCE = re.compile(r"['\"]|(?<!\bavg)\.\s|\b(?:from|to|than|by|with|into)$", re.IGNORECASE)
_STOPPED = re.compile(r"(?<!\bavg)\. ", re.IGNORECASE)
# What is said of the best so far, beside the log's own row of it: "New best model saved! Epoch: 2, val accuracy: 0.8".
_BEST = re.compile(
    r"(?i)(?<![a-z_])best(?![a-z_]).{0,40}?(?:\b(?:model|checkpoint)\b|模型|so far)|!.{0,20}(?<![a-z_])best(?![a-z_])"
    r"|\bnew best\s*:"
)
_NOT_BETTER = re.compile(r"(?i)\b(?:did not|didn't|not) improve")  # "val_loss did not improve from 0.25"
_FRAMED = re.compile(r"\s*([-=*#~])\1{2,}\s.*\[[^\]]*\]\s*\1{3,}\s*$")  # "--- Epoch 5: focus [a:0.5 - b:0.5] ---"
# A title with the settings of what follows in brackets: "BASELINE (dims = 256, beta = 1, batch = 32)".
_TITLED = re.compile(r"[A-Za-z][\w -]*\((?:[A-Za-z][\w ]* ?= ?[\w.+-]+, )+[A-Za-z][\w ]* ?= ?[\w.+-]+\)\s*$")
_SETTINGS = re.compile(r"\s*(?:\w+\s*[:=]\s*)?\w*(?:Namespace|Arguments|Args|Config)\(")
_MODULE = re.compile(r"\s*\(\w+\): [A-Z]\w*\s?\(")  # a line of PyTorch's print of a model: "(1): Dropout(p=0.1)"
_PATH = re.compile(r"\s/\w")
_SPLIT_RESULT = re.compile(
    r"(?:train|val|valid|validation|eval|test|dev|avg|average|mean|total)"
    r" (?:loss|acc|accuracy|error|ppl|reward|return|score)",
    re.IGNORECASE,
)


def is_prose(line: str, items: Sequence[Item]) -> bool:
    """Whether numbers merely stand among words: several words before one, with nothing between them and the last.

    Two numbers with an arrow between them say how something changed, and "==" compares; a path is the name of a file.
    """
    if any(line[item.start - 2 : item.start] == "==" or _PATH.search(item.name) for item in items) or any(
        _CHANGE.match(line[one.end : two.start]) for one, two in pairwise(items)
    ):
        return True
    unsaid = [item for item in items if not item.said and not is_count(item.name)]
    if len(items) > 1 and is_count(items[0].name) and unsaid and unsaid[0] is items[1]:
        del unsaid[0]  # "Step 100 per-step time 0.4s"
    unsaid = [item for item in unsaid if not _SPLIT_RESULT.fullmatch(item.name)]
    return any((" " in item.name and not item.apart) or _SENTENCE.search(item.name) for item in unsaid) or any(
        _STOPPED.search(item.name) and item.name.count(" ") > 1 for item in items
    )


def is_title(line: str, items: Sequence[Item], start: int) -> bool:
    """Whether a line entitles what follows, with numbers of which none is a result."""
    titled = _TITLED.match(line, start) or _FRAMED.match(line)
    return titled is not None and not any(says_result(item.name) for item in items)


def tells_of_best(line: str, items: Sequence[Item], start: int) -> bool:
    """Whether a line says again, or compares with, what was the best so far."""
    return _BEST.search(line, start, items[0].start) is not None or any(_NOT_BETTER.search(i.name) for i in items)


def is_settings(line: str, start: int) -> bool:
    """Whether a line is the arguments of the program, or a part of its model, printed as an object."""
    return (_SETTINGS.match(line, start) or _MODULE.match(line)) is not None
