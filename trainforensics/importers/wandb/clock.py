"""Step on a W&B run's axis, and time, of every record: those of the history rows around it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import NO_TIME
from trainforensics.importers.wandb import axis as step_axis
from trainforensics.importers.wandb.items import Column
from trainforensics.model import Axis

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Clock:
    """Step on the run's axis, and time, of every record of the current batch."""

    def __init__(self) -> None:
        self.axis: Axis | None = None
        self._record = np.zeros(0, np.int64)
        self._step = np.zeros(0, np.int64)
        self._time = np.zeros(0, np.int64)
        self._before = (0, int(NO_TIME))  # step and time of the last row before the batch
        self.any = False  # whether a row was read so far

    @property
    def cadence(self) -> float:
        """Steps from one row of the batch to the next, as a rule."""
        gaps = np.diff(self._step)
        return float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0

    def start_at(self, step: int) -> None:
        """Where a resumed run takes up counting."""
        self._before = (step, self._before[1])

    def advance(self, rows: list[tuple[int, int]], columns: list[Column], definitions: list[tuple[str, str]]) -> None:
        """Take the rows of the next batch; the first of them decide the axis."""
        if len(self._step):
            self._before = (int(self._step[-1]), int(self._time[-1]))
        self._record = np.array([record for record, _ in rows], np.int64)
        by_name = {column.name: column for column in columns}
        if self.axis is None and rows:
            declared = step_axis.declared_counters(definitions)
            logged = {name: np.array(column.values) for name, column in by_name.items()}
            self.axis = step_axis.choose(declared, logged, len(rows))
        own = self._spread(by_name.get(step_axis.OWN_COUNTER))
        counter = np.where(np.isfinite(own), own, np.array([step for _, step in rows], float))
        if self.axis is not None and self.axis.name != step_axis.OWN_COUNTER:
            counter = self._spread(by_name.get(self.axis.name))
        self._step = self._carried(counter, self._before[0], backwards=not self.any)
        self._time = self._carried(self._spread(by_name.get("_timestamp")) * 1e6, self._before[1])
        self.any |= bool(rows)

    def at(self, record: Ints) -> tuple[Ints, Ints]:
        """Step and time (microseconds) of the last row up to each record."""
        place = np.searchsorted(self._record, record, "right")
        step, time = np.append(self._before[0], self._step), np.append(self._before[1], self._time)
        return step[place], time[place]

    def between(self, record: Ints) -> tuple[Floats, Floats]:
        """Steps of the rows before and behind each record; the latter infinite where that row is not read yet."""
        place = np.searchsorted(self._record, record, "right")
        step = np.concatenate([[self._before[0]], self._step, [np.inf]])
        return step[place], step[place + 1]

    def around(self, record: int) -> tuple[int | None, int | None]:
        """Steps of the rows before and behind a record number, where there are any."""
        place = int(np.searchsorted(self._record, record))
        before = int(self._step[place - 1]) if place else None
        after = int(self._step[place]) if place < len(self._step) else None
        return before, after

    def _spread(self, column: Column | None) -> Floats:
        """(rows,) values of a column, NaN in rows without."""
        spread = np.full(len(self._record), np.nan)
        if column is not None:
            spread[np.searchsorted(self._record, column.rows)] = column.values
        return spread

    def _carried(self, values: Floats, before: int, backwards: bool = False) -> Ints:
        """Whole numbers, the last known one where a value is missing (or the first, going back at the very start)."""
        known = np.isfinite(values) & (np.abs(values) < 2.0**62)
        whole = np.where(known, values, 0.0).round().astype(np.int64)
        last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1)) if len(values) else known
        if backwards and known.any():
            before = int(whole[np.argmax(known)])
        return np.where(last >= 0, whole[last], before) if len(values) else whole
