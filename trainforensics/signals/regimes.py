"""Levels that a noisy series takes: one that it steps up to for good, stretches that stand above all others, and a
floor that climbs all along.

Unlike an excursion these need no level of noise that holds all along: what counts is that hardly a point before reaches
what hardly a point since falls short of, whatever wandering lies below.
"""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Bools, Floats
from trainforensics.signals.departure import knee
from trainforensics.signals.noise import median, robust_sigma
from trainforensics.signals.stretches import stretches
from trainforensics.signals.trend import moving_median

MIN_POINTS = 10
SIDE = 5  # points on either side of a step
STRAYS = 0.1  # share of points on either side that may lie on the wrong side of the middle
LEAST_OF_ONE = 6  # points of a side of which one may, however short
CLEAR = 3.0  # widths of the points on the wider side
SHARP = 0.6  # of a step that is made between the points next to it; a drift makes less
FEWEST = 3  # points of a stretch that is no pause
BEYOND = 4.0  # widths of all of the series' noise
MOST_STRETCHES = 3  # more of them come and go: a habit of the run
CLIMB_POINTS, EIGHTHS_POINTS = 10, 24
ALL_IN_ORDER = 0.8  # Kendall's coefficient of so few points that eighths of them tell nothing
IN_ORDER, EACH_GAIN = 6 / 7, 0.2  # share of eighths above the one before; of the mean gain, what each quarter brings
INSIDE = 2.0  # widths of the noise of a floor
ELSEWHERE, REACHED = 0.06, 0.5  # of the points elsewhere that may reach so much of a stretch's height


def lasting_step_up(value: Floats) -> int | None:
    """Index of the first point of a level above nearly all points before, kept to the end; None where there is none.

    `value` has shape (n,) and is finite.
    """
    n = len(value)
    if n < MIN_POINTS:
        return None
    smooth = moving_median(value, 5 if n >= 40 else 3)
    total, count = np.cumsum(smooth)[SIDE - 1 : n - SIDE], np.arange(SIDE, n - SIDE + 1)
    lift = (smooth.sum() - total) / (n - count) - total / count
    at = SIDE + int(np.argmax(np.where(lift > 0, lift**2 * count * (n - count), 0.0)))
    low, high = median(value[:at]), median(value[at:])
    above = value > (low + high) / 2
    at = _parted(above)
    if high <= low or not SIDE <= at <= n - SIDE or not (_few(above[:at]) and _few(~above[at:])):
        return None
    if high - low < CLEAR * max(robust_sigma(value[:at]), robust_sigma(value[at:])):
        return None
    wide = 2 * SIDE if n >= 40 else SIDE
    made = median(value[at : at + wide]) - median(value[max(0, at - wide) : at])
    return at if made >= SHARP * (median(value[at:]) - median(value[:at])) else None


def _few(strays: Bools) -> bool:
    """Whether hardly a point of a side is true: a tenth, or one of six."""
    return int(strays.sum()) <= max(STRAYS * len(strays), len(strays) // LEAST_OF_ONE > 0)


def last_points_up(value: Floats, height: float) -> int | None:
    """Index of the first of the last few points, fewer than a level needs, that all lie above every one before by
    `height`; None where they do not. `value` has shape (n,) and is finite."""
    n = len(value)
    if n < MIN_POINTS:
        return None
    ends = (n - k for k in range(SIDE - 1, FEWEST - 1, -1))
    return next((at for at in ends if value[at:].min() - value[:at].max() >= height), None)


def _parted(above: Bools) -> int:
    """Where a mask is best cut into false before and true since."""
    wrong = np.concatenate(([0], np.cumsum(above))) + np.append(np.cumsum(~above[::-1])[::-1], 0)
    return int(np.argmin(wrong))


def high_stretches(value: Floats, height: float) -> list[tuple[int, int]]:
    """First index and the one behind the last of each stretch that stands above all else by `height` and more.

    `value` has shape (n,) and is finite. Empty where more than three do, where points elsewhere come near them, and for
    what reaches either end.
    """
    n = len(value)
    if n < MIN_POINTS:
        return []
    level = median(value)
    smooth = moving_median(value, 5 if n >= 100 else 3)
    bar = level + max(height, BEYOND * robust_sigma(smooth))
    first, last = stretches(_closed(smooth > bar, 5 if n >= 100 else 1))
    found = [(int(a), int(b) + 1) for a, b in zip(first, last, strict=True) if b - a + 1 >= FEWEST]
    if not 0 < len(found) <= MOST_STRETCHES:
        return []
    inside = np.zeros(n, dtype=bool)
    for a, b in found:
        inside[max(0, a - 2) : b + 2] = True
    reach = level + REACHED * (min(median(value[a:b]) for a, b in found) - level)
    if inside.all() or np.mean(value[~inside] > reach) > ELSEWHERE:
        return []
    trimmed = [_trimmed(value, a, b, level) for a, b in found]
    return [(a, b) for a, b in trimmed if a >= SIDE and b <= n - FEWEST and _between_low(value, a, b, level)]


def _closed(mask: Bools, most: int) -> Bools:
    """A mask in which gaps of up to `most` points between true values are closed."""
    first, last = stretches(~mask)
    filled = mask.copy()
    for a, b in zip(first, last, strict=True):
        if a > 0 and b < len(mask) - 1 and b - a < most:
            filled[a : b + 1] = True
    return filled


def _between_low(value: Floats, first: int, stop: int, level: float) -> bool:
    """Whether the points on both sides of a stretch lie below half of its height."""
    half = level + (median(value[first:stop]) - level) / 2
    return max(median(value[first - SIDE : first]), median(value[stop : stop + SIDE])) < half


def _trimmed(value: Floats, first: int, stop: int, level: float) -> tuple[int, int]:
    """A stretch up to the points that have half of its height themselves."""
    low = max(0, first - 2)
    half = level + (median(value[first:stop]) - level) / 2
    high = np.flatnonzero(value[low : stop + 2] > half)
    return low + int(high[0]), low + int(high[-1]) + 1


def steady_climb(value: Floats) -> int | None:
    """Index from which the floor of a positive series climbs in every part of it and to its end; None where it does
    not. A floor is the lower quartile of a stretch, which bursts do not move."""
    n = len(value)
    if n < EIGHTHS_POINTS:
        return 0 if n >= CLIMB_POINTS and _in_order(value) else None
    eighths = np.array([np.quantile(part, 0.25) for part in np.array_split(value, 8)])
    gains = np.diff(eighths.reshape(4, 2).mean(axis=1))
    if np.mean(np.diff(eighths) > 0) < IN_ORDER or gains.min() <= EACH_GAIN * gains.mean():
        return None
    size = max(4, n // 40)
    floor = np.quantile(value[: n - n % size].reshape(-1, size), 0.25, axis=1)
    bend = knee(floor)
    before, since = (floor[bend] - floor[0]) / max(bend, 1), (floor[-1] - floor[bend]) / max(len(floor) - bend, 1)
    # a climb without a bend began between the first point and where it has left its noise
    return size * bend if bend >= 3 and before < since / 2 else size * _first_out(floor) // 2


def _first_out(floor: Floats) -> int:
    """Index of the first value of a climb after which none is back inside the noise around the first ones."""
    moves = np.diff(floor)
    noise = robust_sigma(moves - np.median(moves)) / np.sqrt(2)
    inside = np.flatnonzero(floor[: len(floor) // 4] <= np.median(floor[:3]) + INSIDE * noise)
    return int(inside[-1]) + 1 if inside[-1] >= 3 else 0


def in_every_part(value: Floats) -> bool:
    """Whether each eighth of a series lies above the one before by a fair share of what they gain: no stairs."""
    if len(value) < EIGHTHS_POINTS:
        return True
    gains = np.diff([median(part) for part in np.array_split(value, 8)])
    return bool(gains.min() > EACH_GAIN * gains.mean() > 0)


def _in_order(value: Floats) -> bool:
    """Whether few points climb one by one, in the later half no less than a third of what the earlier brings."""
    n = len(value)
    order = np.sign(value[None, :] - value[:, None])[np.triu_indices(n, 1)]
    first, middle, last = (median(part) for part in np.array_split(value, 3))
    return bool(order.mean() >= ALL_IN_ORDER and last - middle > (middle - first) / 3)
