"""Headings: whether what follows was measured in an evaluation, "> EVALUATION", "Validation Results - Epoch: 5"."""

from __future__ import annotations

import re

from trainforensics.importers.printed.text.prefix import prefix_of
from trainforensics.importers.printed.text.vocabulary import SPLITS

_HELD_OUT = frozenset(word for word, held_out in SPLITS.items() if held_out)
_TRAIN = frozenset(SPLITS) - _HELD_OUT
_AROUND = frozenset({
    "start", "starting", "begin", "beginning", "running", "run", "now", "on", "the", "set", "results", "result",
    "phase", "performance", "metrics", "metric", "epoch", "step", "iteration", "iter", "model", "mode", "stats",
    "scores", "report", "for", "at", "of", "and", "end", "in", "summary", "loop", "error", "errors",
    "perplexity", "accuracy",
})  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")
_COUNT = re.compile(r"\b(?:epoch|step|iter(?:ation)?)\W*\d+(?:\s*/\s*\d+)?", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_LONGEST, _MOST_WORDS = 120, 7
_MARKS = " \t|>*#+-"
_HEADED = "val: "


def heading(line: str) -> bool | None:
    """Whether a line that is no record announces an evaluation; False for training, None for neither."""
    if len(line) > _LONGEST:
        return None
    behind = line[prefix_of(line).end :]
    said = _COUNT.sub(" epoch ", behind if _WORD.search(behind) else line)  # "Test Error:" looks like a logger's level
    words = [word.lower() for word in _WORD.findall(said)]
    known = _HELD_OUT | _TRAIN | _AROUND
    if _DIGIT.search(said) or not 0 < len(words) <= _MOST_WORDS or not known.issuperset(words):
        return None
    return False if not _TRAIN.isdisjoint(words) else True if not _HELD_OUT.isdisjoint(words) else None


def under_evaluation(line: str) -> str:
    """A line as it reads with the heading of an evaluation before it, which is put there once."""
    end = prefix_of(line).end
    lead, said = (f"{line[:end]} " if end and line[:end].strip(_MARKS) else ""), line[end:].lstrip(_MARKS)
    return line if said.startswith(_HEADED) else f"{lead}{_HEADED}{said}"
