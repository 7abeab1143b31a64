"""Lasting steps of a series: places where the level changes at once, far out of its own variation, and stays."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import medians, robust_sigma

SIDE = 8  # points either side whose medians are the levels
MIN_STEP = 8.0  # robust standard deviations of the series' own moves


def lasting_steps(value: Floats, side: int = SIDE, height: float = MIN_STEP) -> list[int]:
    """Index of the first point on each new level, in order; linear in the length of the series.

    A step must lift the medians of `side` points on both sides apart by `height` times the series' own point-to-point
    variation, and be made within one point. None for fewer than two sides of points.
    """
    n = len(value)
    if n < 2 * side:
        return []
    levels = medians(sliding_window_view(value, side))
    change = np.abs(levels[side:] - levels[:-side])  # at place i + side
    moves = np.diff(value)
    noise = max(robust_sigma(moves) / np.sqrt(2), 1e-9 * float(np.abs(value).max()), np.finfo(np.float64).tiny)
    high = np.flatnonzero(change > height * noise)
    if not len(high):
        return []
    groups = np.split(high, np.flatnonzero(np.diff(high) > side) + 1)
    found = []
    for group in groups:
        near = np.arange(group[0] + side, min(group[-1] + side + 1, n))
        at = int(near[np.argmax(np.abs(moves[near - 1]))])
        if abs(moves[at - 1]) >= 0.5 * float(change[group].max()):
            found.append(at)
    return found


def held_changes(value: Floats) -> list[int]:
    """Index of the first point on each new value of a setting that keeps its value for eight points either side."""
    return [
        int(at)
        for at in np.flatnonzero(np.diff(value)) + 1
        if len(set(value[at - SIDE : at])) == 1 and len(set(value[at : at + SIDE])) == 1
    ]


def other_moves(value: Floats, steps: list[int], share: float) -> float:
    """A quantile of how far neighbouring points lie apart, the steps and the start of learning left out."""
    moves = np.abs(np.diff(value))
    moves[[at - 1 for at in steps]] = np.nan
    return float(np.nanquantile(moves[len(moves) // 10 :], share))


def kept_up(value: Floats, at: int, share: float) -> bool:
    """Whether a step leads upwards, and most of it is there still after four times as many points as told it."""
    before, after = float(np.median(value[at - SIDE : at])), float(np.median(value[at : at + SIDE]))
    late = value[at + 3 * SIDE : at + 4 * SIDE]
    return after > before and len(late) == SIDE and float(np.median(late)) - before > share * (after - before)
