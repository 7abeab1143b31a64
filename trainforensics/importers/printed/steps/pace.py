"""Printed dictionaries between two drawings of the training's bar share the steps that the bar went on by."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from trainforensics import roles
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.vocabulary import RESULT_ROLES

LEAPT = 3.0  # times the usual steps of a row


@dataclass(slots=True)
class Pace:
    """The rows since the bar was last drawn, at a step `anchor`; rows of one step stand together.

    `per_row`: how many steps the bar went on by from row to row, as far as is known. `told`: whether a bar told it.
    """

    anchor: int = 0
    per_row: float = 1.0
    told: bool = False
    _rows: list[list[tuple[Shape, int]]] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def adds(self, shape: Shape) -> bool:
        """Whether a row adds to the one before: an evaluation, or other results of the same step."""
        return bool(self._rows) and (not shape.training or self._names.isdisjoint(_results(shape)))

    def after(self, step: int, shape: Shape) -> int:
        """The step of a row of a shape, where the last step is known and no bar was drawn since."""
        return step if self.adds(shape) else step + round(self.per_row)

    def note(self, shape: Shape) -> None:
        """The last row of a shape was printed."""
        row = (shape, len(shape.steps) - 1)
        if self.adds(shape):
            self._rows[-1].append(row)
        else:
            self._rows.append([row])
            self._names = set()
        self._names |= _results(shape)

    def drawn(self, count: int) -> None:
        """The bar stands at a count: so does the last row, and those before it are spread evenly; at the usual distance
        where a bar that began at nothing has leapt to where an earlier run had been."""
        apart = (count - self.anchor) / len(self._rows) if self._rows else 0.0
        if self.told and self.anchor == 0 and apart > LEAPT * self.per_row:
            self.anchor, apart = count - round(len(self._rows) * self.per_row), self.per_row
        if len(self._rows) > 1 and apart >= 1:
            self.per_row, self.told = apart, True
            for i, rows in enumerate(self._rows, 1):
                for shape, at in rows:
                    shape.steps[at] = self.anchor + round(i * apart)
        self.anchor = count
        self._rows.clear()

    def taken(self, step: int) -> None:
        """The rows so far can no longer be changed."""
        if self._rows:
            self.anchor = step
            self._rows.clear()


@dataclass(slots=True)
class Order:
    """Whether printed dictionaries take their step from the bar drawn after them or, where none redraws it, before.

    The bar stands behind a row where it is drawn again when the row was written. Rows come at regular steps, so the
    second stands at twice the step of the first: the bars of which that is true, and not of the others, tell.
    """

    before: bool = False
    _known: bool = False
    _rows: list[tuple[Shape, int, int, int]] = field(default_factory=list)  # with the bar before and the one after

    def printed(self, shape: Shape, count: int) -> None:
        """A row of a shape was printed, and the bar drawn last stands at a count."""
        if not self._known:
            self._rows.append((shape, len(shape.steps) - 1, count, 0))

    def drawn(self, shape: Shape, count: int) -> None:
        """The bar was drawn after the last row of a shape."""
        if not self.before:
            shape.steps[-1] = count
        if not self._known and self._rows:
            self._rows[-1] = (*self._rows[-1][:3], count)
            self._decide()

    def taken(self) -> None:
        """The rows so far can no longer be changed."""
        self._rows.clear()

    def _decide(self) -> None:
        if len(self._rows) < 2:
            return
        (_, _, before, after), (_, _, second_before, second_after) = self._rows[:2]
        self._known = True
        self.before = second_before == 2 * before > 0 and second_after != 2 * after
        for shape, at, count, _ in self._rows if self.before else ():
            shape.steps[at] = count
        self._rows.clear()


def _results(shape: Shape) -> frozenset[str]:
    return _results_among(shape.names)


@lru_cache
def _results_among(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if roles.resolve(name).role in RESULT_ROLES) or names
