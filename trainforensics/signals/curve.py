"""A series as detectors see it: replays set aside, process lives marked, steps in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from trainforensics.model import Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
T = TypeVar("T")
BEFORE = 64  # points that tell the level and the noise before an end that was replaced


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One series of one run on the run's step axis.

    `step` int64, not decreasing; `value` float64 with NaN and infinities as logged (a missing value is no point);
    `time` float64 seconds since the epoch, NaN where unknown; `segment` int32 process life. All have shape (n,).
    `superseded` holds the points that a later process life logged again (their steps lie in both), in their own order.
    """

    series: Series
    step: Ints
    value: Floats
    time: Floats
    segment: NDArray[np.int32]
    superseded: Curve | None = None
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.step)

    @property
    def name(self) -> str:
        """The series' logged name."""
        return self.series.name

    @property
    def finite(self) -> Bools:
        """Mask of ordinary numbers, shape (n,)."""
        return np.isfinite(self.value)

    @property
    def cadence(self) -> int:
        """Median distance of logged steps, at least 1."""
        return self.derive("cadence", self._usual_gap)

    def _usual_gap(self) -> int:
        gaps = np.diff(self.step)
        gaps = gaps[gaps > 0]
        return max(1, int(np.median(gaps))) if len(gaps) else 1

    def only_finite(self) -> Curve:
        """The curve without its non-finite points."""
        return self.derive("finite", lambda: self.take(self.finite))

    def take(self, mask: Bools | Ints) -> Curve:
        """The points a mask or an index array selects; the same arrays where a mask selects all."""
        at = slice(None) if mask.dtype == np.bool_ and mask.all() else mask
        return Curve(self.series, self.step[at], self.value[at], self.time[at], self.segment[at])

    def derive(self, key: str, compute: Callable[[], T]) -> T:
        """What follows from the curve alone, computed once per key."""
        if key not in self._cache:
            self._cache[key] = compute()
        return cast("T", self._cache[key])

    def rolled_back(self, most: int | None = None) -> tuple[Curve, ...]:
        """What the log showed before each roll-back: the curve up to there, and the end that a later life replaced.

        Of more than `most` roll-backs those whose ends rise highest above the points before them, in their noise.
        """
        gone = self.superseded
        if gone is None or not len(gone):
            return ()
        order = np.argsort(gone.segment, kind="stable")
        ends = [gone.take(rows) for rows in np.split(order, np.flatnonzero(np.diff(gone.segment[order])) + 1)]
        if most is not None and len(ends) > most:
            highest = np.argsort([-self._rise(end) for end in ends], kind="stable")[:most]
            ends = [ends[i] for i in sorted(highest.tolist())]
        views = []
        for end in ends:
            kept = self.take((self.segment <= end.segment[0]) & (self.step < end.step[0]))
            views.append(_joined(kept, end))
        return tuple(views)

    def _rise(self, end: Curve) -> float:
        """How far the end rises above the finite points before it, in widths of their noise."""
        at = int(np.searchsorted(self.step, end.step[0]))
        before = self.value[max(0, at - BEFORE) : at]
        before, replaced = before[np.isfinite(before)], end.value[end.finite]
        if not len(before) or not len(replaced):
            return 0.0
        level = float(np.median(before))
        return float(replaced.max() - level) / max(float(np.median(np.abs(before - level))), 1e-12)

    def at(self, step: int) -> int:
        """Index of the last point at or before `step`; -1 before the first."""
        return int(np.searchsorted(self.step, step, side="right")) - 1


def _joined(first: Curve, second: Curve) -> Curve:
    return Curve(
        first.series,
        np.concatenate([first.step, second.step]),
        np.concatenate([first.value, second.value]),
        np.concatenate([first.time, second.time]),
        np.concatenate([first.segment, second.segment]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Several series of one role on their common steps: `value` has shape (row, step), `rows` names the rows."""

    rows: tuple[Series, ...]
    step: Ints
    value: Floats
