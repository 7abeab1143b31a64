"""Memory that climbs without bound: the floor under its ups and downs, and where it began to rise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.departure import knee
from trainforensics.signals.noise import medians, resolution, robust_sigma

MIN_POINTS, FEWEST_POINTS = 40, 6  # of a log of steps, and of one row an epoch
ALIKE_GAINS, GROWN = 3.0, 1.5  # times the usual gain, either way; growth over so few points
START_SHARE = 0.05  # of a process life: allocators and caches fill
BLOCKS, FEWEST_BLOCKS = 40, 8
QUARTERS_RISE = 0.2  # of the mean quarter's gain that each quarter must bring
LAST_QUARTER = 0.7  # the same for the last: what saturates brings less (a square root 0.63)
LATER_HALF = 0.75  # of the earlier half's gain: a square root brings 0.55, whatever noise does to its last quarter
STEEPER = 1.5  # times the slope before: a leak begins, it does not slow down
ABOVE_NOISE = 8.0  # widths of the floor's noise
ALIKE_STAIRS, CRUMBS = 1.5, 0.1  # of the usual height: at most, and what is none
STAIRS = 6  # equal steps of memory printed in coarse units that make steady growth
EVEN = 0.75  # share of blocks that must rise: what grows in a few steps is allocated anew, not leaked


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """`curve` climbs from index `onset` to the end of its process life, from `before` to `now`, `per_step` a step."""

    curve: Curve
    onset: int
    before: float
    now: float
    per_step: float
    noise: float


def growth(curve: Curve) -> Growth | None:
    """The first process life in which memory climbs to its end, steadily and beyond its noise; None where none does."""
    curve = curve.take(curve.finite & (curve.value > 0))
    for life in np.unique(curve.segment):
        found = _growth(curve.take(curve.segment == life))
        if found is not None:
            return found
    return None


def _growth(curve: Curve) -> Growth | None:
    n = len(curve)
    if n < MIN_POINTS:
        return _growth_of_few(curve)
    start = int(START_SHARE * n)
    size = max(1, (n - start) // BLOCKS)
    count = (n - start) // size
    floor = curve.value[start : start + count * size].reshape(count, size).min(axis=1)
    if (stair := _staircase(floor)) is not None:
        return _described(curve, start + stair * size if stair else 0, resolution(floor) / 4)
    bend = knee(floor)
    for first in (bend, 0) if _rests(floor, bend) else (0, bend):
        if count - first < FEWEST_BLOCKS or not _steeper(floor, first):
            continue
        noise = _unbounded(floor[first:])
        if noise is not None:
            onset = start + _onset(curve.value[start:], first * size, size) if first else 0
            return _described(curve, onset, noise)
    return None


def _growth_of_few(curve: Curve) -> Growth | None:
    """A climb over a handful of points, an epoch each: every one brings a like gain, and the later ones no less.

    Where memory only wanders, n points are in order by chance once in n! times; what fills brings ever less.
    """
    value, n = curve.value, len(curve)
    if n < FEWEST_POINTS or value[-1] < GROWN * value[0]:
        return None
    gains = np.diff(value)
    usual = float(np.median(gains))
    if usual <= 0 or gains.min() * ALIKE_GAINS < usual or gains.max() > ALIKE_GAINS * usual:
        return None
    half = len(gains) // 2
    if gains[-half:].mean() < LATER_HALF * gains[:half].mean():
        return None
    steps = int(curve.step[-1] - curve.step[0])
    return Growth(curve, 0, float(value[0]), float(value[-1]), float(value[-1] - value[0]) / max(1, steps), 0.0)


def _rests(floor: Floats, bend: int) -> bool:
    """Whether the floor hardly rises before the bend, against as many blocks after it: the climb begins there."""
    if bend < 3 or len(floor) - bend < FEWEST_BLOCKS:
        return False
    span = min(bend, len(floor) - bend)
    before, after = floor[bend - span : bend], floor[bend : bend + span]
    return float(before[-1] - before[0]) < QUARTERS_RISE * float(after[-1] - after[0])


def _steeper(floor: Floats, first: int) -> bool:
    """Whether the floor climbs faster from the block on than before it; true for the first block."""
    if first < 3:
        return True
    span = min(first, len(floor) - first)
    before, after = floor[first - span : first], floor[first : first + span]
    return float(after[-1] - after[0]) > STEEPER * float(before[-1] - before[0])


def _unbounded(floor: Floats) -> float | None:
    """Noise of the floor around its climb, where it climbs in every part and not ever slower; else None."""
    smooth = _medians_of_three(floor)
    edges = np.linspace(0, len(smooth) - 1, 5).round().astype(int)
    gains = np.diff(smooth[edges])
    mean = float(gains.mean())
    if mean <= 0 or gains.min() < QUARTERS_RISE * mean or gains[-1] < LAST_QUARTER * mean:
        return None
    if _slows_down(floor):
        return None
    steps = np.diff(floor)
    noise = max(robust_sigma(steps) / np.sqrt(2), resolution(floor) / 4)
    if np.mean(steps > 0) < EVEN and smooth[-1] - smooth[0] < 2 * ABOVE_NOISE * noise:
        return None
    even = robust_sigma(np.diff(smooth, 2)) if len(smooth) > 4 else 0.0
    if smooth[-1] - smooth[0] < ABOVE_NOISE * max(noise, even) or np.mean(np.diff(smooth) > 0) < EVEN:
        return None
    return float(noise)


def _staircase(floor: Floats) -> int | None:
    """Where a floor begins to climb in alike stairs at even distances, never falling; None where it does not.

    Steady growth in coarse units looks so.
    """
    steps = np.diff(floor)
    height = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 0.0
    stairs = np.flatnonzero(steps > CRUMBS * height)  # lower ones are the allocator's
    if len(stairs) < STAIRS or steps.min() < 0 or steps.max() > ALIKE_STAIRS * height:
        return None
    rests = np.diff(np.concatenate(([0], stairs + 1, [len(floor)])))
    usual = float(np.median(rests))
    if _slows_down(floor[max(0, int(stairs[0] + 1 - usual)) :]):
        return None
    return max(0, int(stairs[0] + 1 - usual)) if rests[1:].max() <= 2 * usual + 1 else None


def _slows_down(floor: Floats) -> bool:
    """Whether the later half of a climb brings clearly less than the earlier: allocators that fill, caches, pools."""
    width = max(1, len(floor) // 10)
    middle = len(floor) // 2
    ends = floor[:width], floor[middle - width // 2 : middle - width // 2 + width], floor[-width:]
    start, half, end = (float(np.median(part)) for part in ends)
    return end - half < LATER_HALF * (half - start)


def _medians_of_three(values: Floats) -> Floats:
    padded = np.pad(values, 1, mode="edge")
    return medians(np.lib.stride_tricks.sliding_window_view(padded, 3))


def _onset(values: Floats, bend: int, size: int) -> int:
    """The bend among the points around the block where the floor bends."""
    low = max(0, bend - 8 * size)
    return low + knee(values[low : bend + 8 * size])


def _described(curve: Curve, onset: int, noise: float) -> Growth:
    n = len(curve)
    width = max(3, min(20, (n - onset) // 8))
    before = float(np.median(curve.value[max(0, onset - width) : max(onset, 1)]))
    now = float(np.median(curve.value[-width:]))
    steps = max(1, int(curve.step[-1 - width // 2] - curve.step[onset]))
    return Growth(curve, onset, before, now, (now - before) / steps, noise)
