"""Where a series climbs out of its own noise: bursts, rises and lasting jumps, one by one.

Standing above the higher of the two levels on either side sets aside what is no incident: steep descents, epoch stairs,
learning-rate drops. Candidates come from a pyramid of scales; each is measured, and of those that meet one is kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.measure import Excursion, measure
from trainforensics.signals.noise import printed_grid
from trainforensics.signals.pyramid import MIN_JUMP, Candidate, pyramid
from trainforensics.signals.trend import WINDOW, log_space

HUGE = 1e100  # values whose squares would leave the range of numbers are judged in units of the largest
MIN_POINTS = 12
ROUNDED = 2.5  # steps of the printed grid: what two roundings may add to a step, which logarithms make a leap
SHARP = 2  # blocks: a jump that climbs within so few is measured on a finer scale, if one shows it
MOST_SHARP = 4  # points to a block of what may be a burst of its own in the aftermath of another
SCATTERED, FEWEST_RUNS = 0.1, 3  # share of all points, runs of them in every third


def excursions(curve: Curve) -> tuple[Excursion, ...]:
    """Every excursion of a curve's finite points, by onset; empty for fewer than 12 points.

    Zeros scattered all over the log are steps that had nothing to learn from, as batches without an active triplet:
    the others are judged among themselves.
    """
    values = curve.value[curve.finite]
    if not _scattered(values == 0):
        return _excursions(values)
    at = np.flatnonzero(values).tolist()
    return tuple(
        replace(e, onset=at[e.onset], knee=at[e.knee], peak=at[e.peak], half=at[e.half], end=at[e.end])
        for e in _excursions(values[at])
    )


def _scattered(mask: NDArray[np.bool_]) -> bool:
    """Whether points are at least a tenth of all and come and go in every third of the log."""
    if len(mask) < MIN_POINTS or mask.mean() < SCATTERED:
        return False
    return all(np.count_nonzero(np.diff(part.astype(np.int8)) == 1) >= FEWEST_RUNS for part in np.array_split(mask, 3))


def _excursions(values: Floats) -> tuple[Excursion, ...]:
    if len(values) < MIN_POINTS or values.max() == values.min():
        return ()
    logged = log_space(values)
    largest = float(np.max(np.abs(values)))
    unit = largest if largest > HUGE and not logged else 1.0
    series = pyramid(np.log(values) if logged else values / unit, logged=logged)
    known = _Known(len(values))
    sharp: list[Excursion] = []
    for candidate in series.candidates:
        limit = _limit(candidate, known)
        excursion = measure(series, candidate, limit, np.exp if logged else lambda x: x * unit) if limit else None
        if excursion is None:
            continue
        if candidate.jump and candidate.scale > 1 and excursion.rise <= SHARP * candidate.scale:
            sharp.append(excursion)
        elif not any(excursion.onset <= _closed(e, candidate) for e in known.between(excursion.onset, excursion.onset)):
            known.add(excursion)
    for excursion in reversed(sharp):  # the finest first
        if not known.between(excursion.onset, excursion.end):
            known.add(excursion)
    found = known.found
    if logged:
        steps = ROUNDED * printed_grid(values)
        found = [e for e in found if float(values[e.peak]) - e.before > steps]
    found = sorted((e for e in found if e.scale == 1 or e.height >= MIN_JUMP * series.wander), key=lambda e: e.onset)
    return tuple(_until(e, later.onset) for e, later in pairwise(found)) + tuple(found[-1:])


class _Known:
    """The excursions found so far among `n` points, and where they lie: a log may hold ten thousand."""

    def __init__(self, n: int) -> None:
        self.found: list[Excursion] = []
        self._n = n
        self._onsets: list[int] = []  # in order, and the excursions that begin there
        self._by_onset: list[Excursion] = []
        self._longest = 0

    def add(self, excursion: Excursion) -> None:
        at = bisect_left(self._onsets, excursion.onset)
        self._onsets.insert(at, excursion.onset)
        self._by_onset.insert(at, excursion)
        self._longest = max(self._longest, excursion.end - excursion.onset)
        self.found.append(excursion)

    def between(self, first: int, last: int) -> list[Excursion]:
        """Those of which a point lies in [first, last]."""
        near = slice(bisect_left(self._onsets, first - self._longest), bisect_right(self._onsets, last))
        return [excursion for excursion in self._by_onset[near] if excursion.end >= first]

    def next_from(self, point: int) -> int:
        """Where the next one from a point on begins; the number of points where there is none."""
        at = bisect_left(self._onsets, point)
        return self._onsets[at] if at < len(self._onsets) else self._n


def _until(excursion: Excursion, following: int) -> Excursion:
    """An excursion that the next one cuts short."""
    if following > excursion.end:
        return excursion
    return replace(excursion, end=following - 1, recovery="partial")


def _limit(candidate: Candidate, known: _Known) -> int:
    """How far a candidate may look: to the next excursion known already; 0 where it is that excursion seen again."""
    start, stop, scale = candidate.start, candidate.stop, candidate.scale
    near = known.between(start - scale + 1, min(stop + scale, start + 4 * scale) - 1)
    if any(start < _closed(excursion, candidate) + scale for excursion in near):
        return 0
    return known.next_from(stop)


def _closed(known: Excursion, candidate: Candidate) -> int:
    """Up to where an excursion takes in whatever rises in it: a sharp burst in the aftermath of another, once that is
    out of its sight, is one of its own."""
    sharp = candidate.scale <= MOST_SHARP and not candidate.jump
    if known.shape == "burst" and known.returned and sharp:
        return min(known.half + WINDOW * candidate.scale, known.end)
    return known.end
