"""Rises of a validation curve that last, and humps that a second descent undoes.

All kernels take values of which lower is better, finite, in step order, condensed to block medians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.evaluations import (
    FEW,
    TINY,
    Condensed,
    noise_between_neighbours,
    noise_of_both_lags,
    point_noise,
    scale_of,
)
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.stretches import lasting_start

BEGUN = 4.0  # noise widths above the lowest level at which a ramp finds a rise under way
AT_ONCE = 0.25  # of the evaluations since the minimum: a rise within less has no slope to follow back
UP = 0.05  # of the level: a small validation set repeats within less
DONE = 0.9  # of a rise that is made at once: what it made before are crumbs
BACK = 0.1  # of a rise, within which an evaluation is back at the lowest level
CRUMB = 0.01  # of a rise, within which an evaluation is as good as the best
ESTABLISHED, LEAST_ESTABLISHED = 8, 3  # evaluations whose median is the level that a score has reached
COLLAPSED = ((0.125, 2), (0.5, 3))  # share of it that is kept, for evaluations: no noise of a score is as wide
LATEST = 3  # evaluations that are an end at least
AROUND, CALM = 4, 3.0  # evaluations on either side of a calm minimum; times less noise than there is in all
OUT, MOSTLY = 3.0, 0.85  # widths of that, beyond which so large a share of what follows lies
LOW = 0.3  # quantile that is the level before a rise: the values next to it may belong to its beginning


@dataclass(frozen=True, slots=True)
class Rise:
    """A sustained rise after a minimum. `best`, `onset`, `peak` are positions in the condensed curve.

    `low` and `level` are the levels at the minimum and over the last evaluations, `z` their distance in standard
    errors, `trend_p` the one-sided Mann-Kendall p-value from the minimum on, `relative` the rise against the scale of
    the curve (its level where positive, else its range).
    """

    best: int
    onset: int
    peak: int
    low: float
    level: float
    z: float
    trend_p: float
    relative: float


@dataclass(frozen=True, slots=True)
class SecondDescent:
    """A minimum, a broad peak and a second fall; positions in the condensed curve, levels of the curve.

    `z` is the lesser of rise and fall in standard errors of the `noise` from evaluation to evaluation.
    """

    first: int
    onset: int
    peak: int
    second: int
    low: float
    top: float
    end: float
    z: float
    noise: float
    relative: float


def mann_kendall(value: Floats) -> float:
    """One-sided p-value that the values rise: exact to 10 values without ties, else the normal approximation.

    1 for fewer than 3 values.
    """
    n = len(value)
    if n < 3:
        return 1.0
    s = float(np.sign(value[None, :] - value[:, None])[np.triu_indices(n, 1)].sum())
    ties = np.unique(value, return_counts=True)[1].astype(np.float64)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0 or s <= 0:
        return 1.0
    if n <= 10 and ties.max() == 1:
        pairs = n * (n - 1) // 2
        orders = np.ones(1)
        for k in range(2, n + 1):
            orders = np.convolve(orders, np.ones(k))  # orders of k values by number of inversions
        return float(orders[: (pairs - int(s)) // 2 + 1].sum() / orders.sum())
    return 0.5 * math.erfc((s - 1) / math.sqrt(2 * variance))


def never_again(value: Floats) -> float:
    """Chance that the last values, at most half of them, lie above so many of the lowest before them as they do.

    Exact for values in any order and blind to how far outliers lie; the least over all such ends, 1 for fewer than
    `2 * LATEST` values.
    """
    n = len(value)
    least = np.minimum.accumulate(value[::-1])[::-1]
    lower = ((n - m, int(np.sum(value[: n - m] < least[n - m]))) for m in range(LATEST, n // 2 + 1))
    return min((math.comb(before, k) / math.comb(n, k) for before, k in lower), default=1.0)


def apart(value: Floats, onset: int, before: int = 8) -> float:
    """Chance that all values from `onset` on lie above the `before` values before it, as they do; 1 if they do not."""
    early, late = value[max(0, onset - before) : onset], value[onset:]
    if not len(early) or not len(late) or late.min() <= early.max():
        return 1.0
    return 1 / math.comb(len(early) + len(late), len(early))


def _last_level(value: Floats) -> float:
    return float(np.median(value[-3:]))


def _level_error(noise: float, *levels: float) -> float:
    """Standard error of the difference of two levels of three evaluations each; never zero."""
    smallest = max(1e-9 * max(abs(level) for level in levels), TINY)
    return max(noise * math.sqrt(2 / 3), smallest)


def sustained_rise(curve: Condensed, min_after: int = 3) -> Rise | None:
    """The rise after the curve's minimum, if at least `min_after` evaluations follow it and their level is higher."""
    n = len(curve)
    if n < min_after + 2:
        return None
    best = int(np.argmin(curve.smooth[: n - min_after]))
    low, level = float(curve.smooth[best]), _last_level(curve.value[best + 1 :])
    since = curve.value[best:]
    noise = min(curve.noise, noise_of_both_lags(since)) if len(since) >= FEW else curve.noise
    error = _level_error(noise, low, level)
    scale = scale_of(curve.value)
    if not level > low or scale <= 0:
        return None
    return Rise(
        best=best,
        onset=_rise_onset(replace(curve, noise=noise), best, n - 1),
        peak=best + int(np.argmax(curve.smooth[best:])),
        low=low,
        level=level,
        z=(level - low) / error,
        trend_p=mann_kendall(since),
        relative=(level - low) / scale,
    )


def rise_in_order(curve: Condensed) -> Rise | None:
    """The rise of two evaluations or more, each above the one before, that follow the best of a few."""
    value = curve.value
    best = int(np.argmin(value))
    since, scale = value[best:], scale_of(value)
    if len(since) < 3 or np.any(np.diff(since) <= 0) or scale <= 0:
        return None
    low, level = float(since[0]), float(since[-1])
    error = max(curve.noise * math.sqrt(2), 1e-9 * abs(level), TINY)
    return Rise(
        best=best,
        onset=best + 1,
        peak=len(value) - 1,
        low=low,
        level=level,
        z=(level - low) / error,
        trend_p=1 / math.factorial(len(since)),
        relative=(level - low) / scale,
    )


def first_in_order(curve: Condensed, rise: Rise) -> int:
    """The onset, or the evaluation after the best where each from there to the onset is worse than the one before; of
    a few evaluations, too few for a ramp to be fitted to, the first of those that led up to it without a step back."""
    first, value = rise.onset, curve.value
    while first - 1 > rise.best and value[first - 1] < value[first]:
        first -= 1
    from_best = first == rise.best + 1 and value[rise.best] < value[first]
    while from_best and first < rise.onset and value[first] - value[rise.best] <= CRUMB * (rise.level - rise.low):
        first += 1
    return first if from_best or len(curve) < FEW else rise.onset


def never_back(curve: Condensed, rise: Rise) -> int:
    """The evaluation from which on, up to the peak, none comes back to the lowest level by all but a tenth."""
    back = np.flatnonzero(curve.value[rise.best : rise.peak + 1] <= rise.low + BACK * (rise.level - rise.low))
    return min(rise.best + 1 + int(back.max(initial=0)), rise.peak)


def _rise_onset(curve: Condensed, best: int, last: int) -> int:
    """First evaluation of the rise that leads from `best` to `last`: where its ramp begins, at the latest where the
    curve has left its lowest level for good."""
    low = float(curve.smooth[best])
    bar = low + max(BEGUN * curve.noise, UP * scale_of(curve.value))
    up = best + 1 + int(np.flatnonzero(curve.value[best : last + 1] < bar).max(initial=0))
    if up <= last and curve.value[up] - curve.value[up - 1] >= DONE * (float(curve.value[last]) - low):
        return up
    return min(_ramp_onset(curve, best, last), up, _left_calm(curve, best, last))


def _left_calm(curve: Condensed, best: int, last: int) -> int:
    """First evaluation from which on nearly all lie out of the noise around the minimum, where what rises is far
    noisier than that; else the last."""
    around = curve.value[max(0, best - AROUND) : best + AROUND + 1]
    calm = robust_sigma(around)
    if len(around) <= AROUND or not 0 < CALM * calm < curve.noise:
        return last
    out = curve.value[best : last + 1] > float(np.median(around)) + OUT * calm
    start = lasting_start(out, MOSTLY)
    return best + start if start is not None else last


def _ramp_onset(curve: Condensed, best: int, last: int) -> int:
    """First evaluation of the rise that leads from `best` to `last`.

    The ramp that fits best tells the level before the rise, however the curve wandered since its minimum. Where it is
    done at once, or rises ever slower, the rise begins with it, unless the curve had left its noise before. One that
    rises evenly or ever faster began before it left the noise: its slope outside, the steeper of its first quarter's
    and its whole, is followed back to that level.
    """
    value = curve.smooth[best : last + 1]
    start, stop, even = ramp(value)
    low = float(np.quantile(value[: start + 1], LOW))
    inside = np.flatnonzero(value <= low + 2 * curve.noise)
    out = min(best + int(inside.max(initial=0)) + 1, last)
    if not even or stop - start <= AT_ONCE * len(value):
        return out if value[start] > low + BEGUN * curve.noise else best + start + 1
    step, risen = curve.step[out : last + 1].astype(np.float64), curve.smooth[out : last + 1]
    stops = [at for at in (max(2, len(step) // 4), len(step) - 1) if 0 < at < len(step)]
    slope = max(((risen[at] - risen[0]) / max(step[at] - step[0], 1.0) for at in stops), default=0.0)
    if slope <= 0:
        return out
    left = int(np.searchsorted(curve.step, step[0] - (risen[0] - low) / slope, side="right"))
    return min(max(left, best + 1), out, best + start + 1)


def ramp(value: Floats) -> tuple[int, int, bool]:
    """The ramp that fits best: a level, a rise or fall to a second level, and that level to the end.

    The last position on the first level, the first on the second one, and whether the way is straight; else it bends
    towards the second level as an exponential does, and stands at it after three of its time constants.
    """
    n = len(value)
    starts, stops = np.triu_indices(n, 1)
    at = np.arange(n)
    way = (at - starts[:, None]) / (stops - starts)[:, None]
    straight, bent = np.clip(way, 0, 1), 1 - np.exp(-3 * np.clip(way, 0, None))
    explained = [_explained(value, shape) for shape in (straight, bent)]
    even = bool(explained[0].max() >= explained[1].max())
    found = int(np.argmax(explained[0 if even else 1]))
    return int(starts[found]), int(stops[found]), even


def _explained(value: Floats, shapes: Floats) -> Floats:
    """Sum of squares that each shape, scaled and shifted, explains of the values; `shapes` is (shapes, n)."""
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    explained: Floats = (centred @ (value - value.mean())) ** 2 / (centred**2).sum(axis=1)
    return explained


def earlier_wobble(curve: Condensed, best: int) -> float:
    """Largest rise above its running minimum that the curve made, and undid, in the evaluations before `best`.

    The first fifth of the evaluations does not count: start-up may do anything.
    """
    past = curve.smooth[len(curve) // 5 : best + 1]
    return float((past - np.minimum.accumulate(past)).max()) if len(past) else 0.0


def second_descent(curve: Condensed, min_side: int = 3) -> SecondDescent | None:
    """The largest hump: a peak that stands above a minimum before it and a minimum after it."""
    n, s = len(curve), curve.smooth
    if n < 3 * min_side:
        return None
    floor_before = np.minimum.accumulate(s)
    floor_after = np.minimum.accumulate(s[::-1])[::-1]
    height = np.minimum(s - floor_before, s - floor_after)
    peak = int(np.argmax(height))
    first = int(np.argmin(s[: peak + 1]))
    second = peak + int(np.argmin(s[peak:]))
    low, top, end = float(s[first]), float(s[peak]), _last_level(curve.value)
    scale = scale_of(curve.value)
    if not height[peak] > 0 or scale <= 0 or n - 1 - peak < min_side:
        return None
    raised = s > (low + top) / 2
    wide = int(raised[first : second + 1].sum())
    if wide < min_side:
        return None
    noise = curve.noise
    if n >= FEW:  # longer lags would measure the hump itself
        around = max(point_noise(curve.value[first : second + 1]), point_noise(curve.value[: 2 * peak]))
        noise = max(noise_between_neighbours(curve.value), around)
    error = _level_error(noise, low, top)
    onset = _rise_onset(curve, first, peak)
    z, relative = min(top - low, top - end) / error, (top - low) / scale
    return SecondDescent(first, onset, peak, second, low, top, end, z, noise, relative)


def collapses(score: Floats) -> tuple[tuple[int, int], ...]:
    """Stretches (first, end) of a score in which it keeps so little of its established level, for so many evaluations,
    as `COLLAPSED` says. The level is the median of up to `ESTABLISHED` evaluations before, at most one in eight of
    which is as low, and more than a beginning: a fifth of the best."""
    found, at = [], LEAST_ESTABLISHED
    while at < len(score):
        before = score[max(0, at - ESTABLISHED) : at]
        end = max((_low_until(score, at, before, kept, least) for kept, least in COLLAPSED), default=at)
        if end > at:
            found.append((at, end))
        at = max(end, at + 1)
    return tuple(found)


def _low_until(score: Floats, at: int, before: Floats, kept: float, least: int) -> int:
    """Where the evaluations from `at` on, `least` of them, are back above `kept` of the level before; else `at`."""
    level = float(np.median(before))
    bar = kept * level if level > score.max() / 5 else -math.inf
    high = np.flatnonzero(score[at:] >= bar)
    end = at + int(high[0]) if len(high) else len(score)
    return end if end - at >= least and float(np.mean(before < bar)) <= 1 / 8 else at
