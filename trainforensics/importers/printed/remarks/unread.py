"""Lines that were not read: those that could not be, and those that say nothing, though they may look like records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainforensics.model import ReadWarning

# A result's name before a number with decimals; what compares or averages was said before.
_RECORD_LIKE = re.compile(
    r"\b(?:\w+_)?(?:loss(?:es)?|acc|accuracy|perplexity|ppl|reward|nll|mse|bleu|auc|f1|iou|grad_?norm)\b[^\w.]{1,6}[-+]?\d+\.\d",
    re.IGNORECASE,
)
_COMPARES = re.compile(r"--+>|\b(?:best|max|min|from|than|improved|threshold|target|averaged stats)\b", re.IGNORECASE)
_MANY, _MOST_KINDS, _LONGEST = 10, 1000, 120
_MOST_IDLE, _LONGEST_IDLE = 20_000, 400
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class Unread:
    """Counts them. Lines are of one kind where they differ in their numbers alone."""

    _failed: int = 0
    _first_failed: tuple[int, str] = (0, "")
    _kinds: dict[str, tuple[int, str]] = field(default_factory=dict)  # the first of each: its number and text
    _beyond: int = 0  # after too many kinds of records
    _first_beyond: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _idle: set[str] = field(default_factory=set)  # kinds that said nothing since the last new kind of record

    def fails(self, line: int, error: Exception) -> None:
        """Reading a line ended with an error."""
        self._first_failed = self._first_failed if self._failed else (line, str(error))
        self._failed += 1

    def of_too_many(self, line: int) -> None:
        """A line may be a record, of one kind more than are learned."""
        self._first_beyond = self._first_beyond or line
        self._beyond += 1

    def idle_kind(self, line: str) -> str:
        """The kind of a line that differs in its numbers alone from one that said nothing; empty for another line."""
        if not self._idle or len(line) > _LONGEST_IDLE or "%|" in line:
            return ""
        kind = _NUMBERS.sub("#", line)
        return kind if kind in self._idle else ""

    def again(self, kind: str) -> None:
        """A further line of a kind that says nothing."""
        if kind in self._counts:
            self._counts[kind] += 1

    def note(self, number: int, line: str) -> None:
        """A line said nothing."""
        if len(line) > _LONGEST_IDLE or len(self._idle) >= _MOST_IDLE:
            return
        self._idle.add(kind := _NUMBERS.sub("#", line))
        if kind in self._counts:
            self._counts[kind] += 1
        elif len(self._counts) < _MOST_KINDS and _RECORD_LIKE.search(line) and not _COMPARES.search(line):
            self._counts[kind] = 1
            self._kinds[kind] = number, line.strip()[:_LONGEST]

    def forget_idle(self) -> None:
        """Lines that said nothing so far may say something now."""
        self._idle.clear()

    def warnings(self) -> Iterator[ReadWarning]:
        """One of each."""
        if self._failed:
            line, error = self._first_failed
            lines = "one line" if self._failed == 1 else f"{self._failed} lines"
            yield ReadWarning("bad-line", f"line {line}", f"{lines} could not be read, beginning here: {error}")
        if self._beyond:
            message = f"{self._beyond} lines were not read: the log holds too many kinds of records before them"
            yield ReadWarning("unread-lines", f"line {self._first_beyond}", message)
        many = {kind: count for kind, count in self._counts.items() if count >= _MANY}
        if many:
            line, text = self._kinds[max(many, key=many.__getitem__)]
            message = f"{sum(many.values())} lines with numbers were not read, as this one: {text!r}"
            yield ReadWarning("unread-lines", f"line {line}", message)
