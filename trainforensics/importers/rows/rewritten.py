"""Rows that a logger writes again: below a header that comes again stand rows of before, with the same numbers.

A logger that saves all that it remembers at each save, into a file that it opened to append. Such rows are no further
measurements and no restart; rows of the same steps with other numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.rows.block import ABSENT, Block, Cells

_MOST_ROWS = 1 << 16  # to remember; a file in which more are written at every save would be too large to keep

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sifted:
    """What is new of a block's rows: which of them, those with what they add, and the first of another life."""

    keep: _Mask
    block: Block
    begins: int | None


@dataclass(slots=True, eq=False)
class Rewritten:
    """The rows of a source so far, against which those below a further header are held."""

    rows: int = 0  # that were written again
    first: int = 0  # step of them, and the last
    last: int = 0
    _remembered: int = 0
    _blocks: list[tuple[Block, NDArray[np.int64]]] = field(default_factory=list)
    _known: dict[int, dict[str, set[float | None]]] = field(default_factory=dict)
    _in_doubt: bool = False  # whether another life began with the last header
    _repeats: bool = False  # whether rows below the last header belong to those before it

    def header(self) -> None:
        """The header came again."""
        for block, step in self._blocks:
            for name, cells in block.columns.items():
                for row in np.flatnonzero(cells.given).tolist():
                    held = self._known.setdefault(int(step[row]), {})
                    held.setdefault(name, set()).add(_comparable(cells, row))
        self._blocks = []
        self._in_doubt, self._repeats = True, False

    def sift(self, block: Block, step: NDArray[np.int64], counted: Collection[str]) -> Sifted:
        """What further rows add to those before; `counted` are the columns that say the step."""
        new = Sifted(np.ones(len(block), dtype=np.bool_), block, None)
        if self._in_doubt:
            new = self._without_known(block, step, counted)
            self._in_doubt = new.begins is None
        if self._remembered < _MOST_ROWS:
            self._remembered += len(new.block)
            self._blocks.append((new.block, step[new.keep]))
        return new

    def _without_known(self, block: Block, step: NDArray[np.int64], counted: Collection[str]) -> Sifted:
        keep = np.ones(len(block), dtype=np.bool_)
        held = {name: np.zeros(len(block), dtype=np.bool_) for name in block.columns}
        begins: int | None = None
        for row, at in enumerate(step.tolist()):
            known = self._known.get(at)
            if known is None and self._repeats:
                continue
            same = None if known is None else self._same(block, row, known, counted)
            if same is None:
                begins = row
                break
            self._repeats = True
            if same:
                self._count(at)
            for name in same:
                held[name][row] = True
            keep[row] = not same or any(
                c.given[row] for n, c in block.columns.items() if n not in counted and n not in same
            )
        columns = {name: _without(cells, held[name]) for name, cells in block.columns.items()}
        rest = Block(columns, block.line).take(keep)
        return Sifted(keep, rest, None if begins is None else int(np.count_nonzero(keep[:begins])))

    @staticmethod
    def _same(
        block: Block, row: int, known: dict[str, set[float | None]], counted: Collection[str]
    ) -> frozenset[str] | None:
        """Columns in which a row holds a number that is known of its step; None where any of them holds another."""
        cells = {n: c for n, c in block.columns.items() if n in known and n not in counted and c.given[row]}
        same = frozenset(name for name, column in cells.items() if _comparable(column, row) in known[name])
        return same if len(same) == len(cells) else None

    def _count(self, step: int) -> None:
        self.first = min(self.first, step) if self.rows else step
        self.last = max(self.last, step) if self.rows else step
        self.rows += 1


def _comparable(cells: Cells, row: int) -> float | None:
    """A number that equals itself: None for NaN."""
    number = float(cells.number[row])
    return None if math.isnan(number) else number


def _without(cells: Cells, rows: _Mask) -> Cells:
    if not rows.any():
        return cells
    state = np.where(rows, np.uint8(ABSENT), cells.state)
    return Cells(cells.number, state, cells.text, cells.time, cells.naive)
