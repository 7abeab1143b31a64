"""Kernels for validation curves: few points, correlated wander, and shapes (rise, second descent, jump) that matter.

All of them take values of which lower is better, finite, in step order. A curve longer than `MAX_POINTS` is condensed
to block medians first, so that noise estimated from it already holds what neighbouring evaluations have in common.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.signals.curve import Bools, Curve, Floats, Ints
from trainforensics.signals.noise import median, medians, medians_of
from trainforensics.signals.run import Signals

MAX_POINTS = 100
MAX_JUMP_POINTS = 400  # a jump needs neighbouring evaluations, so less may be condensed
FEW, VERY_FEW = 12, 8  # evaluations below which second differences, and running medians, show mostly the shape
HELD = 3  # rows that show one value: rounding alone repeats most values less often
BEGUN = 4.0  # noise widths above the lowest level at which a ramp finds a rise under way
AT_ONCE = 0.25  # of the evaluations since the minimum: a rise within less has no slope to follow back
LOW = 0.3  # quantile that is the level before a rise: the values next to it may belong to its beginning
MAD_TO_SD = 1.4826  # of a normal distribution
_TINY = float(np.finfo(np.float64).tiny)
_HUGE = 1e100  # larger values would overflow when squared; a curve that holds them is another kind's business
_LOWER_IS_BETTER = re.compile(
    r"(^|[^a-z])(err(or)?(_?rate)?|loss|nll|ppl|perplexity|bpb|bpc|wer|cer|fid|kid|fvd|eer|mse|mae|rmse|mape|lpips|top\d?_?err)"
    r"($|[^a-z])"
)


@dataclass(frozen=True, slots=True, eq=False)
class Condensed:
    """A validation curve as block medians. `index` (shape (m,)) is where each block begins in the full curve."""

    index: Ints
    step: Ints
    value: Floats
    smooth: Floats
    noise: float

    def __len__(self) -> int:
        return len(self.step)


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


@dataclass(frozen=True, slots=True)
class Jump:
    """A level change between two evaluations: the position of the first evaluation on the new level.

    `z`: the step in units of point noise and of the other steps; `kept_z`: the step between two parallel lines through
    both sides in units of its standard error and of such steps elsewhere (0 at the start, where curves are no lines).
    """

    at: int
    before: float
    after: float
    z: float
    kept_z: float
    relative: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a series moved between two evaluations, against its own noise: its levels around both."""

    way: Literal["falls", "flat", "rises", "unknown"]
    before: float = math.nan
    after: float = math.nan
    noise: float = math.nan
    text: str = ""  # both levels and the steps whose medians they are

    @property
    def kept(self) -> float:
        """The later level as a share of the earlier one; NaN unless both are positive."""
        return self.after / self.before if self.before > 0 and self.after > 0 else math.nan


def usable(curve: Curve) -> Curve:
    """The finite points of a curve with values that arithmetic can stand, one a step (the last logged)."""
    return curve.derive("usable", lambda: _usable(curve))


def _usable(curve: Curve) -> Curve:
    keep = curve.finite
    keep[keep] = np.abs(curve.value[keep]) < _HUGE
    keep &= _last_of_step(curve.step, keep)
    return curve.take(keep)


def runs(value: Floats) -> tuple[Ints, Ints]:
    """Where stretches of one repeated value begin, and their lengths; both of shape (stretches,)."""
    starts = np.flatnonzero(np.append(True, np.diff(value) != 0)) if len(value) else np.empty(0, np.int64)
    return starts, np.diff(np.append(starts, len(value)))


def evaluated(curve: Curve) -> Curve:
    """Without the rows that repeat the last evaluation until the next one, as loggers that write all they know do.

    Where most values are held for `HELD` rows or more, the usual length of a stretch stands for one evaluation; a
    longer stretch keeps its surplus, for an evaluation may be frozen as well.
    """
    starts, lengths = runs(curve.value)
    usual = int(np.median(lengths[:-1])) if len(lengths) > HELD else 1  # the last one may be cut short
    if usual < HELD:
        return curve
    return curve.take(np.concatenate([np.arange(s, s + n, usual) for s, n in zip(starts, lengths, strict=True)]))


def _last_of_step(step: Ints, keep: Bools) -> Bools:
    where = np.flatnonzero(keep)
    last = np.zeros(len(step), dtype=np.bool_)
    if len(where):
        last[where[np.append(np.diff(step[where]) != 0, True)]] = True
    return last


def higher_is_better(curve: Curve) -> bool:
    """Whether a metric is a score (accuracy, BLEU, reward) rather than an error, judged by its name."""
    return _LOWER_IS_BETTER.search(curve.name.lower()) is None


def oriented(curve: Curve) -> Curve:
    """A metric as an error: scores are turned upside down, so that lower is better."""
    if not higher_is_better(curve):
        return curve
    return Curve(curve.series, curve.step, -curve.value, curve.time, curve.segment)


def is_whole(curve: Curve) -> bool:
    """Whether the series speaks for the model rather than for one rank, layer or expert."""
    return curve.series.rank is None and curve.series.layer is None and curve.series.expert is None


def validation_curves(signals: Signals, role: str = "val_loss") -> tuple[Curve, ...]:
    """Usable validation curves of a role: those without a domain first, then one a domain."""
    curves = [evaluated(usable(curve)) for curve in signals.curves(role) if is_whole(curve)]
    return tuple(sorted(curves, key=lambda curve: (curve.series.domain is not None, -len(curve))))


def point_noise(value: Floats, lag: int = 1) -> float:
    """Standard deviation from point to point, robust, from second differences (blind to level and slope).

    With a longer `lag` slow wander counts as noise too; a parabola over n points still stands 25 standard errors above
    what it adds to the estimate at lag n / 10.

    Not below the grid on which the values lie (rounding to 4 decimals leaves that much unknown). 0 for < 3 points.
    """
    if len(value) <= 2 * lag:
        return 0.0
    bend = np.abs(value[2 * lag :] - 2 * value[lag:-lag] + value[: -2 * lag])
    moves = np.abs(np.diff(value))
    grid = float(moves[moves > 0].min()) if np.any(moves > 0) else 0.0
    rounding = min(grid, 0.1 * median(moves)) / math.sqrt(12)
    return max(MAD_TO_SD * median(bend) / math.sqrt(6), rounding)


def smooth3(value: Floats) -> Floats:
    """Running median of three; the ends keep their neighbour's median, so a lone outlier nowhere survives."""
    if len(value) < 3:
        return value.copy()
    middle = medians(np.lib.stride_tricks.sliding_window_view(value, 3))
    return np.concatenate([middle[:1], middle, middle[-1:]])


def condense(curve: Curve, max_points: int = MAX_POINTS) -> Condensed:
    """A usable curve as at most `max_points` block medians with their noise."""
    n = len(curve)
    width = max(1, -(-n // max_points))
    index = np.arange(0, n, width, dtype=np.int64)
    value = curve.value if width == 1 else medians_of(curve.value, index, np.minimum(index + width, n))
    noise = _of_both_lags(value)
    if 0 < n < FEW:
        noise = min(noise, _wrong_way_noise(value))
    smooth = value if len(value) < VERY_FEW else smooth3(value)
    return Condensed(index, curve.step[index], value, smooth, noise)


def _of_both_lags(value: Floats) -> float:
    """Noise between neighbours, and that of slow wander."""
    return max(_point_to_point(value), point_noise(value, max(1, len(value) // 10)))


def _point_to_point(value: Floats) -> float:
    """Noise between neighbours; it often grows or shrinks over a run, and the later half may be the noisier one."""
    whole = point_noise(value)
    return max(whole, point_noise(value[len(value) // 2 :])) if len(value) >= FEW else whole


def _wrong_way_noise(value: Floats) -> float:
    """Noise of a few evaluations from their moves against a fall to the lowest and a rise after it.

    Second differences of so few points are mostly the shape itself. At least 1 % of the level: a smooth course of a
    handful of points does not prove that there is no noise.
    """
    moves, lowest = np.diff(value), int(np.argmin(value))
    wrong = np.append(moves[:lowest].clip(min=0), moves[lowest:].clip(max=0))
    wrong = wrong[wrong != 0]
    seen = math.sqrt(float(np.mean(wrong**2)) / 2) if len(wrong) else 0.0
    return max(seen, 0.01 * abs(float(np.median(value))))


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


def apart(value: Floats, onset: int, before: int = 8) -> float:
    """Chance that all values from `onset` on lie above the `before` values before it, as they do; 1 if they do not."""
    early, late = value[max(0, onset - before) : onset], value[onset:]
    if not len(early) or not len(late) or late.min() <= early.max():
        return 1.0
    return 1 / math.comb(len(early) + len(late), len(early))


def scale_of(value: Floats) -> float:
    """What a change is held against: the lowest level where all values are positive, else their range."""
    low, high = float(value.min()), float(value.max())
    return low if low > 0 else high - low


def _last_level(value: Floats) -> float:
    return float(np.median(value[-3:]))


def _level_error(noise: float, *levels: float) -> float:
    """Standard error of the difference of two levels of three evaluations each; never zero."""
    smallest = max(1e-9 * max(abs(level) for level in levels), _TINY)
    return max(noise * math.sqrt(2 / 3), smallest)


def sustained_rise(curve: Condensed, min_after: int = 3) -> Rise | None:
    """The rise after the curve's minimum, if at least `min_after` evaluations follow it and their level is higher."""
    n = len(curve)
    if n < min_after + 2:
        return None
    best = int(np.argmin(curve.smooth[: n - min_after]))
    low, level = float(curve.smooth[best]), _last_level(curve.value[best + 1 :])
    since = curve.value[best:]
    noise = min(curve.noise, _of_both_lags(since)) if len(since) >= FEW else curve.noise
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
    error = max(curve.noise * math.sqrt(2), 1e-9 * abs(level), _TINY)
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
    """The onset, or, of a few evaluations, the first of those before it that led up to it without a step back: too few
    for a ramp to be fitted to."""
    onset, value = rise.onset, curve.value
    if len(curve) >= FEW:
        return onset
    while onset - 1 > rise.best and value[onset - 1] < value[onset]:
        onset -= 1
    return onset


def _rise_onset(curve: Condensed, best: int, last: int) -> int:
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
    out = min(best + int(inside[-1]) + 1, last)
    if not even or stop - start <= AT_ONCE * len(value):
        return out if value[start] > low + BEGUN * curve.noise else best + start + 1
    step, risen = curve.step[out : last + 1].astype(np.float64), curve.smooth[out : last + 1]
    stops = [at for at in (max(2, len(step) // 4), len(step) - 1) if 0 < at < len(step)]
    slope = max(((risen[at] - risen[0]) / max(step[at] - step[0], 1.0) for at in stops), default=0.0)
    if slope <= 0:
        return out
    left = int(np.searchsorted(curve.step, step[0] - (risen[0] - low) / slope, side="right"))
    return min(max(left, best + 1), out)


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


def best_step(curve: Curve, points: Condensed, position: int) -> int:
    """Step of the lowest value of the full curve around a position of the condensed one."""
    start = int(points.index[max(0, position - 1)])
    stop = int(points.index[position + 2]) if position + 2 < len(points) else len(curve)
    return int(curve.step[start + int(np.argmin(curve.value[start:stop]))])


def level_steps(curve: Curve, points: Condensed, position: int) -> str:
    """The steps of the full curve whose median is the smoothed level at a position: `steps 250-350`."""
    n = len(points)
    reach = 1 if n >= VERY_FEW else 0
    middle = min(max(position, reach), n - 1 - reach)
    stop = int(points.index[middle + reach + 1]) if middle + reach + 1 < n else len(curve)
    return _steps(int(curve.step[points.index[middle - reach]]), int(curve.step[stop - 1]))


def last_level_steps(points: Condensed, curve: Curve) -> str:
    """The steps whose median is the level of the last evaluations."""
    return _steps(int(points.step[-3:][0]), int(curve.step[-1]))


def median_of(steps: str, curve: Curve, step: int) -> str:
    """`median of steps 250-350 (step 250 itself: 3.027)`: a level that is listed at one step, and the value there."""
    itself = float(curve.value[max(0, curve.at(step))])
    return f"median of {steps}" + (f" (step {step} itself: {itself:.4g})" if steps != f"step {step}" else "")


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first}-{last}"


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
        noise = max(_point_to_point(curve.value), point_noise(curve.value[first : second + 1]))
    error = _level_error(noise, low, top)
    onset = _rise_onset(curve, first, peak)
    z, relative = min(top - low, top - end) / error, (top - low) / scale
    return SecondDescent(first, onset, peak, second, low, top, end, z, noise, relative)


def level_jump(curve: Condensed, min_side: int = 3) -> Jump | None:
    """The largest level change between two neighbouring evaluations, `z` in units of its own noise and unrest.

    A change that is not done at once, or not kept, is none: the step between the two evaluations must make up most of
    the difference between the levels before and after it.
    """
    n, v = len(curve), curve.value
    side = max(min_side, min(8, n // 5))
    if n < 2 * min_side:
        return None
    moves = np.diff(v)
    at = np.arange(min_side, n - min_side + 1)
    before = medians_of(v, np.maximum(0, at - side), at)
    after = medians_of(v, at, np.minimum(at + side, n))
    drift = medians_of(moves, np.maximum(0, at - 1 - side), np.minimum(at + side, n - 1))
    excess = moves[at - 1] - drift
    centres = (np.minimum(side, at) + np.minimum(side, n - at)) / 2
    kept = after - before - drift * centres
    smaller, larger = np.minimum(np.abs(excess), np.abs(kept)), np.maximum(np.abs(excess), np.abs(kept))
    size = np.where((np.sign(excess) == np.sign(kept)) & (smaller >= 0.6 * larger), smaller, 0.0)
    k = int(np.argmax(size))
    if size[k] <= 0:
        return None
    elsewhere = (np.abs(np.arange(len(at)) - k) > 1) & (at >= min(n // 5, at[k]))  # start-up may do anything
    others = np.abs(excess[elsewhere])
    unrest = float(others.max()) if len(others) else 0.0
    least = max(1e-9 * float(np.abs(v).max()), _TINY)
    settled = n // 4 if n >= 16 and at[k] >= n // 4 else 0  # the bend of a steep start is no noise
    point = point_noise(v[settled:])
    noise = max(point * math.sqrt(2), unrest / 3, least)
    step, error = _fitted_steps(v, at, side)
    far = np.abs(step / error)[(np.abs(np.arange(len(at)) - k) >= side) & (at >= min(n // 5, at[k]))]
    kept_noise = max(point, float(far.max()) / 3.5 if len(far) else 0.0, least)
    scale = scale_of(v)
    level_before = float(before[k] + drift[k] * min(side, at[k]) / 2)
    return Jump(
        at=int(at[k]),
        before=level_before,
        after=float(after[k]),
        z=float(size[k]) / noise,
        kept_z=abs(float(step[k] / error[k])) / kept_noise if at[k] >= n // 4 else 0.0,
        relative=float(size[k]) / scale if scale > 0 else 0.0,
    )


def outlying(curve: Curve, gap: float, size: float, most: int = 2) -> Ints:
    """Positions of the one to `most` evaluations that stand `gap` times as far above their neighbours as all others do.

    Heights are measured against the median of five; where all values are positive in logarithms, for the errors of a
    curve that falls over decades are proportional. `size` is the least height against the level. The first three
    evaluations may do anything.
    """
    shown, height, positive = _heights(curve)
    order = np.argsort(height)[::-1]
    least = math.log1p(size) if positive else size * scale_of(curve.value)
    for count in range(1, min(most, len(curve) - 1) + 1):
        lowest, rest = height[order[count - 1]], height[order[count]]
        if lowest >= max(gap * rest, least, 6 * point_noise(np.delete(shown, order[:count]))):
            return np.sort(order[:count])
    return np.empty(0, np.int64)


def spikes(curve: Curve, size: float, fewest: int) -> Ints:
    """Positions of `fewest` or more evaluations of a positive curve that stand alone above calm ones, after its start.

    `size` is the least height against the median of five; each is also six times the noise of all others, and at most
    one evaluation in six stands so high. Those of the first quarter do not count, those of the first tenth may do
    anything.
    """
    shown, height, positive = _heights(curve)
    n = len(curve)
    high = height >= math.log1p(size)
    if not positive or high.sum() > n / 6:
        return np.empty(0, np.int64)
    found = np.flatnonzero(high & (height >= 6 * point_noise(shown[~high])))
    return found[found >= n // 10] if np.sum(found >= n // 4) >= fewest else found[:0]


def _heights(curve: Curve) -> tuple[Floats, Floats, bool]:
    """The evaluations (in logarithms where all are positive), their heights above the median of five, and whether they
    are positive; the first three have none."""
    value, n = curve.value, len(curve)
    positive = bool(np.all(value > 0))
    shown = np.log(value) if positive else value
    first = np.maximum(0, np.minimum(np.arange(n) - 2, n - 5))
    height = shown - medians_of(shown, first, np.minimum(first + 5, n))
    height[: min(3, n)] = 0.0
    return shown, height, positive


def swings(curve: Curve, factor: float, as_bad: float) -> tuple[int, float, float] | None:
    """Whether the later half of a positive curve swings to and fro by `factor`, again and again back to its start.

    The index of the first swing up, and the 10th and 90th percentile of the later half. A share `as_bad` of it must lie
    above the first evaluations; the middle is crossed by every fourth move at least, as one rise does not.
    """
    value, n = curve.value, len(curve)
    if n < 2 * FEW or value.min() <= 0:
        return None
    late = value[n // 2 :]
    low, high = (float(q) for q in np.quantile(late, (0.1, 0.9)))
    above = value > math.sqrt(low * high)
    often = float(np.mean(above[n // 2 + 1 :] != above[n // 2 : -1]))
    if high < factor * low or often < 0.25 or float(np.mean(late > np.median(value[:3]))) < as_bad:
        return None
    first_low = int(np.argmin(above))
    return first_low + int(np.argmax(above[first_low:])), low, high


def _fitted_steps(value: Floats, at: Ints, side: int) -> tuple[Floats, Floats]:
    """Steps between parallel least-squares lines left and right of each place, and their errors for unit noise."""
    step, error = np.empty(len(at)), np.empty(len(at))
    for i, k in enumerate(at):
        r = min(side, int(k), len(value) - int(k))
        x = np.arange(r) - (r - 1) / 2
        left, right = value[k - r : k], value[k : k + r]
        spread = 2 * float(x @ x)
        slope = float(x @ left + x @ right) / spread
        step[i] = right.mean() - left.mean() - slope * r
        error[i] = math.sqrt(2 / r + r * r / spread)
    return step, error


def level_up_to(curve: Curve | None, step: Ints) -> Floats:
    """Median of a series over each stretch up to an evaluation step, shape of `step`; NaN where none was logged."""
    if curve is None or not len(step):
        return np.full(len(step), np.nan)
    points = usable(curve)
    ends = np.searchsorted(points.step, step, side="right")
    return medians_of(points.value, np.append(0, ends[:-1]), ends)


def course_between(curve: Curve | None, points: Condensed, first: int, last: int) -> Course:
    """How a series went from around evaluation `first` to the stretch that ends at evaluation `last`."""
    level = level_up_to(curve, points.step)
    known = np.isfinite(level)
    before = level[max(0, first - 1) : first + 2]
    after = level[max(first + 2, last - 2) : last + 1]
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if not len(before) or not len(after) or known.sum() < 3:
        return Course("unknown")
    noise = point_noise(level[known])
    low, high = float(np.median(before)), float(np.median(after))
    of_levels = math.sqrt(1 / len(before) + 1 / len(after))
    error = noise * of_levels
    ends = [int(points.step[max(at, 0)]) for at in (first - 2, first + 1, max(first + 1, last - 3), last)]
    text = f"{low:.4g} -> {high:.4g}, medians of steps {ends[0]}-{ends[1]} and {ends[2]}-{ends[3]}"
    shares = low > 0 and high > 0 and level[known].min() > 0  # noise of a loss that falls over decades falls with it
    in_shares = shares and math.log(low / high) > 2 * of_levels * point_noise(np.log(level[known]))
    if high < low - 2 * error or in_shares:
        return Course("falls", low, high, noise, text)
    return Course("rises" if high > low + 3 * error else "flat", low, high, noise, text)
