"""What validation curves are, their noise, and their levels beside the training loss.

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
FEW, VERY_FEW = 12, 8  # evaluations below which second differences, and running medians, show mostly the shape
HELD = 3  # rows that show one value: rounding alone repeats most values less often
MAD_TO_SD = 1.4826  # of a normal distribution
TINY = float(np.finfo(np.float64).tiny)
_HUGE = 1e100  # larger values would overflow when squared; a curve that holds them is another kind's business
_PERPLEXITY = re.compile(r"(^|[^a-z])(ppl|perplexity)([^a-z]|$)", re.IGNORECASE)
_LOWER_IS_BETTER = re.compile(
    r"(^|[^a-z])(err(or)?(_?rate)?|loss|nll|ppl|perplexity|bpb|bpc|wer|cer|fid|kid|fvd|eer|mse|mae|rmse|mape|lpips|distance|hausdorff|ece|brier|top\d?_?err)"
    r"($|[^a-z])"
)
_UNSAID = re.compile(r"(?:(?:test|val|valid|validation|eval)[ _/]+)*metrics?")
DECADE, ENDS = 0.1, 4  # of the first evaluations, what the last ones of an error have left; how many of each


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
    """Whether a metric is a score (accuracy, BLEU, reward) rather than an error, judged by its name.

    One that is merely called a metric is an error where it falls through a decade: scores have no decades to fall.
    """
    if _UNSAID.fullmatch(curve.name.lower()) is not None and len(value := curve.value[curve.finite]) >= FEW:
        return not 0 < median(value[-ENDS:]) < DECADE * median(value[:ENDS])
    return _LOWER_IS_BETTER.search(curve.name.lower()) is None


def oriented(curve: Curve) -> Curve:
    """A metric as an error: scores are turned upside down, so that lower is better."""
    if not higher_is_better(curve):
        return curve
    return Curve(curve.series, curve.step, -curve.value, curve.time, curve.segment)


def is_whole(curve: Curve) -> bool:
    """Whether the series speaks for the model rather than for one rank, layer or expert."""
    return curve.series.rank is None and curve.series.layer is None and curve.series.expert is None


def log_perplexities(signals: Signals) -> tuple[Curve, ...]:
    """The losses behind validation perplexities, where no loss is logged: their logarithms."""
    if signals.has("train_loss") or signals.has("val_loss"):
        return ()
    named = (c for c in validation_curves(signals, "val_metric") if _PERPLEXITY.search(c.name) and c.value.min() > 1)
    return tuple(replace(curve, value=np.log(curve.value), superseded=None) for curve in named)


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
    noise = noise_of_both_lags(value)
    if 0 < n < FEW:
        noise = min(noise, _wrong_way_noise(value))
    smooth = value if len(value) < VERY_FEW else smooth3(value)
    return Condensed(index, curve.step[index], value, smooth, noise)


def noise_of_both_lags(value: Floats) -> float:
    """Noise between neighbours, and that of slow wander."""
    return max(noise_between_neighbours(value), point_noise(value, max(1, len(value) // 10)))


def noise_between_neighbours(value: Floats) -> float:
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


def scale_of(value: Floats) -> float:
    """What a change is held against: the lowest level where all values are positive, else their range."""
    low, high = float(value.min()), float(value.max())
    return low if low > 0 else high - low


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
