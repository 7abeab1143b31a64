"""How a series behaved around a step, against what was usual before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals import Curve
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma

FEWEST_BEFORE = 8  # logged points before the onset, without which nothing is usual
BASELINE = 128  # logged points before the onset that tell what is usual there
LASTING_POINTS = 20  # logged points from the onset on that tell whether a level lasts
MOVED = 5.0  # noise widths; a normal baseline of 128 points exceeds it about once in 10,000 runs
CREPT_POINTS = 3  # a climb is a lead when it began this many logged points before the loss left its noise
STILL = 2.5  # noise widths; the highest of three points of an unmoved series strays less


@dataclass(frozen=True, slots=True)
class Movement:
    """How a series behaved around an onset: level before, value and height (noise widths) at it, points of lead."""

    before: float
    at: float
    widths: float
    lead: int
    lead_step: int
    median_widths: float


def movement(curve: Curve, onset: int, points: int = CREPT_POINTS) -> Movement | None:
    """How a curve moved in the `points` from a step on, against a straight line through the points before.

    None with fewer than eight of them. Judged on the logarithm where all values are positive. A NaN or infinity at
    the onset counts as infinitely high.
    """
    at = int(np.searchsorted(curve.step, onset))
    before = curve.value[max(0, at - BASELINE) : at]
    after = curve.value[at : at + points]
    finite = np.isfinite(before)
    if finite.sum() < FEWEST_BEFORE or not len(after):
        return None
    logged = bool(np.all(before[finite] > 0) and np.all(after[np.isfinite(after)] > 0))
    y = np.log(before[finite]) if logged else before[finite]
    line, sigma = _line(y)
    expected = float(line[-1])
    heights = [np.inf if not np.isfinite(v) else ((np.log(v) if logged else v) - expected) / sigma for v in after]
    lead = _lead((y - line[: len(y)]) / sigma)
    steps = curve.step[max(0, at - BASELINE) : at][finite]
    top = int(np.argmax(heights))
    return Movement(
        float(np.exp(expected) if logged else expected),
        float(after[top]),
        float(heights[top]),
        lead,
        int(steps[len(steps) - lead]) if lead else int(onset),
        float(np.median(heights)),
    )


def climb(curve: Curve, onset: int) -> int:
    """Logged points before a step by which the curve had left its noise upwards; the log may end there."""
    before = curve.value[curve.step < onset][-BASELINE:]
    finite = before[np.isfinite(before)]
    if len(finite) < FEWEST_BEFORE:
        return 0
    y = np.log(finite) if np.all(finite > 0) else finite
    line, sigma = _line(y)
    return _lead((y - line[: len(y)]) / sigma)


def _lead(residual: Floats) -> int:
    """Points at the end of `residual` whose running median of three is above three noise widths throughout."""
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(residual, 1, mode="edge"), 3), axis=1)
    calm = np.flatnonzero(smooth < 3.0)
    return len(smooth) - 1 - int(calm[-1]) if len(calm) else len(smooth)


def _line(y: Floats) -> tuple[Floats, float]:
    """A straight line through the older three quarters, one point beyond the end, and the noise about it.

    The newest quarter is left out so that a climb just before the onset does not pass for the trend.
    """
    n = len(y)
    old = y[: max(6, 3 * n // 4)]
    third = max(2, len(old) // 3)
    rise = float(np.median(old[-third:]) - np.median(old[:third])) / max(1, len(old) - third)
    middle = float(np.median(old - rise * np.arange(len(old))))
    line: Floats = middle + rise * np.arange(n + 1, dtype=np.float64)
    # a trend must not be carried on for ever: beyond the fitted part the level is held
    line[len(old) :] = line[len(old) - 1]
    sigma = robust_sigma(old - line[: len(old)])
    return line, max(sigma, 1e-9 * max(1.0, abs(middle)), 1e-12)
