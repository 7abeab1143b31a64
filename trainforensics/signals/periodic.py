"""Events that come like clockwork: the period of a set of onsets, and how little chance explains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Floats, Ints

FEWEST = 4
JITTER = 0.03  # of the period; a burst's first point outside the noise varies by some points
SHARE = 0.85  # of the onsets that must keep time


@dataclass(frozen=True, slots=True)
class Period:
    """Onsets `kept` (steps) lie `steps` apart, or multiples of it, within `tolerance`; `chance` is the probability of
    this for onsets at random."""

    steps: float
    kept: tuple[int, ...]
    tolerance: float
    chance: float


def period(onsets: Ints, cadence: int) -> Period | None:
    """The period of a set of steps; None for fewer than four of them or where too few keep time."""
    onsets = np.unique(onsets)
    if len(onsets) < FEWEST:
        return None
    gaps = np.diff(onsets)
    best: Period | None = None
    for rough in np.unique(gaps):
        found = _with_period(onsets, float(rough), cadence)
        if found is not None and (best is None or found.chance < best.chance):
            best = found
    return best


def _with_period(onsets: Ints, rough: float, cadence: int) -> Period | None:
    allowed = max(1.5 * cadence, JITTER * rough)
    if allowed > 0.15 * rough:
        return None
    turns = np.round((onsets - onsets[0]) / rough)
    usual = float(_slope(turns, onsets)) if np.ptp(turns) > 0 else rough
    phase = np.median(onsets - turns * usual)
    late = np.abs(onsets - turns * usual - phase)
    kept = onsets[late <= allowed]
    steady = len(kept) >= max(FEWEST, SHARE * len(onsets)) and len(np.unique(turns[late <= allowed])) == len(kept)
    # most turns must be there: a period so short that it hits every onset somewhere explains nothing
    if not steady or len(kept) < 0.6 * (np.ptp(turns[late <= allowed]) + 1):
        return None
    tolerance = max(float(cadence), float(late[late <= allowed].max()))
    free = len(kept) - 2  # two onsets fix period and phase
    missed = len(onsets) - len(kept)
    chance = (2 * tolerance / usual) ** free * len(onsets) ** missed * len(onsets)
    return Period(usual, tuple(int(s) for s in kept), tolerance, float(chance))


def _slope(x: Floats, y: Ints) -> float:
    """Steps per turn by the median of slopes to the farthest points (robust against one stray onset)."""
    half = len(x) // 2
    rise, run = y[half:] - y[: len(y) - half], x[half:] - x[: len(x) - half]
    usable = run > 0
    return float(np.median(rise[usable] / run[usable])) if usable.any() else float(np.median(np.diff(y)))
