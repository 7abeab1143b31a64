"""A positive series that leaves its own early level for good, by a factor, and where it began to."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from trainforensics.model import Series
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.stretches import lasting_start

MIN_POINTS = 30
KNEE_POINTS = 400  # points before the crossing in which its beginning is sought
LEVEL_POINTS, OUTSIDE = 30, 3.0  # points before a knee; widths of their noise
AT_ONCE, CRUMB = 0.5, 0.05  # of the way to the factor, in logarithms, that a leap makes; of a leap, before it
STEEP = 5  # points from a knee to beyond the factor
NEAR_KNEE, NARROWED = 12, 3  # points before a knee that tell the course it leaves; times the view is narrowed


@dataclass(frozen=True, slots=True, eq=False)
class Departure:
    """`curve` left `before` at index `onset` and has stood at `after`, beyond the factor, since index `first`."""

    curve: Curve
    onset: int
    first: int
    before: float
    after: float

    @property
    def step(self) -> int:
        """Step of the onset."""
        return int(self.curve.step[self.onset])


@np.errstate(all="ignore")
def departure(curve: Curve, factor: float) -> Departure | None:
    """Where the curve goes beyond `factor` times its early level (below it for a factor under one) and stays there.

    The early level is the median of the first tenth after the start-up (5 %, at least two points). The beginning of
    what does not leap is found as the break of a line through the logarithms before the crossing; of what falls to
    nothing, and is steepest at its end in logarithms, no later than where it has left its noise.
    """
    curve = curve.take(curve.finite & (curve.value >= 0))
    n = len(curve)
    if n < MIN_POINTS:
        return None
    start = max(2, n // 20)
    before = float(np.median(curve.value[start : start + max(5, n // 10)]))
    if not before > 0:
        return None
    mask = curve.value > factor * before if factor > 1 else curve.value < factor * before
    first = lasting_start(mask)
    if first is None or first <= start or n - first < max(5, n // 20):
        return None
    after = float(np.median(curve.value[first:]))
    low = max(0, first - KNEE_POINTS)
    way = curve.value[low : first + 1]
    if _at_once(way, factor):
        return Departure(curve, first, first, before, after)
    logarithms = np.log(np.maximum(way, max(1e-12, 1e-6 * before)))
    bend, left = _sharpest_knee(logarithms), _left_noise(way if factor < 1 else -way)
    # a line needs points beyond the bend, so that a steep one is found too early
    steep = len(way) - bend <= STEEP and left < len(way) - 1
    onset = low + (max(bend, left) if steep else bend if factor > 1 else min(bend, left))
    return Departure(curve, onset, first, before, after)


def _at_once(way: Floats, factor: float) -> bool:
    """Whether the last value is half of the way to the factor and more off the one before it, up to which all are
    level."""
    before, moved = way[:-1][-LEVEL_POINTS:], np.log(max(way[-1], 1e-12) / max(way[-2], 1e-12)) / np.log(factor)
    noise = robust_sigma(np.diff(before)) / np.sqrt(2)
    usual = np.median(before)
    near = max(OUTSIDE * noise, CRUMB * abs(way[-1] - usual))
    return bool(len(before) >= LEVEL_POINTS // 2 and abs(before[-1] - usual) <= near and moved >= AT_ONCE)


def _left_noise(way: Floats) -> int:
    """Index of the first value of a fall, of which none after it is back inside the noise of those before its knee; the
    last index where these are not level."""
    at = knee(way)
    before = way[max(0, at - LEVEL_POINTS) : at]
    noise = robust_sigma(np.diff(before)) / np.sqrt(2)
    half = len(before) // 2
    if half < 4 or abs(np.median(before[:half]) - np.median(before[half:])) > noise:
        return len(way) - 1
    inside = np.flatnonzero(way >= np.median(before) - OUTSIDE * noise)
    return min(int(inside[-1]) + 1, len(way) - 1)


def _sharpest_knee(y: Floats) -> int:
    """The knee as seen from nearby: no more points before it than after, for a bent course is no line from afar."""
    at = knee(y)
    for _ in range(NARROWED):
        start = max(0, at - max(len(y) - at, NEAR_KNEE))
        nearer = start + knee(y[start:])
        if nearer == at:
            break
        at = nearer
    return at


def knee(y: Floats) -> int:
    """Index where two straight lines through `y` meet best (least squares, at least three points a side)."""
    n = len(y)
    if n < 8:
        return max(0, n - 1)
    x = np.arange(n, dtype=float)
    sums = [np.cumsum(term) for term in (np.ones(n), x, y, x * x, x * y, y * y)]

    def error(part: list[Floats]) -> Floats:
        count, sx, sy, sxx, sxy, syy = part
        spread = np.maximum(sxx - sx * sx / count, 1e-12)
        cross = sxy - sx * sy / count
        left: Floats = syy - sy * sy / count - cross * cross / spread
        return left

    at = np.arange(2, n - 4)
    before = [total[at] for total in sums]
    after = [total[-1] - total[at] for total in sums]
    return int(at[np.argmin(error(before) + error(after))]) + 1


def layer_order(series: Series) -> tuple[float, str]:
    """Depth of a series' layer by the first number in its name; layers without a number come last."""
    number = re.search(r"\d+", series.layer or series.name)
    return (float(number[0]) if number else float("inf"), series.layer or series.name)
