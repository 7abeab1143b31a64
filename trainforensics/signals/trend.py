"""The level of a series before and after each point, and the space in which it is judged."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import local_sigma, median, medians, resolution, robust_sigma

WINDOW = 16  # points either side: medians of 16 shrug off bursts of up to 7 points
POSITIONS = 8_192  # medians computed at most; longer series evaluate every q-th position
NORMAL_95 = 1.645  # standard deviations from the middle of normal noise to its 95th percentile
HIGHER = 1.5  # ratio of levels from which their noise can be compared
FEWEST, NEIGHBOURS, OUTLIER = 60, 9, 5.0  # points of a series, and of a level; times the usual distance from it
DECADES = 10.0  # ratio of the 95th to the 5th percentile above which a positive series is judged by its logarithm


def log_space(values: Floats) -> bool:
    """Whether a series is positive and its noise a factor rather than a distance: it spans decades, or where it stands
    higher its noise is wider as well."""
    return spans_decades(values) or (len(values) >= FEWEST and float(values.min()) > 0 and _proportional(values))


def spans_decades(values: Floats) -> bool:
    """Whether a series is positive and all but its extremes differ by orders of magnitude."""
    if not len(values) or values.min() <= 0 or values.max() <= DECADES * values.min():
        return False
    low, high = np.quantile(values, [0.05, 0.95])
    return bool(high > DECADES * low)


def _proportional(values: Floats) -> bool:
    """Whether noise in the highest third is wider than in the lowest, by half the orders of magnitude of the levels."""
    middle, wide = moving_median(values, NEIGHBOURS), moving_median(values, 2 * WINDOW + 1)
    order, third = np.argsort(wide, kind="stable"), len(values) // 3
    low, high = order[:third], order[-third:]
    level = float(np.median(wide[high]) / np.median(wide[low]))
    apart = np.abs(values - middle)
    return level >= HIGHER and _width(apart[high]) > math.sqrt(level) * _width(apart[low])


def _width(apart: Floats) -> float:
    """Mean distance from the middle, outliers cut."""
    return float(np.mean(np.minimum(apart, OUTLIER * float(np.median(apart)))))


def span(n: int) -> int:
    """Points on either side that make a level: 16, fewer in short series, whose descent would bend it."""
    return min(WINDOW, max(5, n // 16))


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Level before (`left`) and after (`right`) each point, and its noise `sigma`; all shape (n,).

    At point i, `left` is the median of up to 16 points before i, `right` of up to 16 points after it; NaN where fewer
    than 3 exist. `correlation` (0..1) is that of neighbouring points' noise. `skew` (0..1): width of the noise above
    its middle against that of both sides; 1 unless its long tail lies below, as of squared errors in log space.
    """

    left: Floats
    right: Floats
    sigma: Floats
    correlation: float
    skew: float = 1.0

    @property
    def upward(self) -> Floats:
        """Noise above the level, shape (n,): what a climb has to leave."""
        return self.sigma * self.skew

    def persistence(self, scale: int) -> float:
        """Factor by which slow wandering widens the median of 16 blocks of `scale` points: sqrt((1 + r) / (1 - r)) for
        blocks correlated by r, first-order autoregressive; 1 for independent noise."""
        r = self.correlation**scale
        return float(min(np.sqrt((1 + r) / max(1 - r, 1e-9)), np.sqrt(WINDOW)))


def level(values: Floats) -> Level:
    """Two-sided level and noise of a finite series, in time linear in its length."""
    n = len(values)
    window = span(n)
    before, after = sides(values, window)
    middle = np.where(np.isnan(before), after, np.where(np.isnan(after), before, (before + after) / 2))
    residual = values - middle
    residual = residual[np.isfinite(residual)]
    floor = max(resolution(values), 1e-6 * robust_sigma(values), float(np.finfo(np.float64).tiny))
    sigma = local_sigma(residual, floor) if len(residual) == n else np.full(n, max(robust_sigma(residual), floor))
    return Level(before, after, sigma, _correlation(residual), _skew(residual))


def sides(values: Floats, window: int) -> tuple[Floats, Floats]:
    """Medians of up to `window` values before and after each point, shape (n,) each; NaN with fewer than 3 of them."""
    return _medians_after(values[::-1], window)[::-1], _medians_after(values, window)


def _skew(residual: Floats) -> float:
    """Width up to the 95th percentile against the whole where it is smaller than chance would make it (3 scatters of
    1.2 / sqrt(n)), else 1."""
    both = robust_sigma(residual)
    if both <= 0:
        return 1.0
    upper = float(np.quantile(residual, 0.95) - median(residual)) / NORMAL_95
    return upper / both if 0 < upper < (1 - 3.6 / np.sqrt(len(residual))) * both else 1.0


def _correlation(residual: Floats) -> float:
    """Correlation of neighbours by the robust scales of their sums and differences."""
    if len(residual) < 8:
        return 0.0
    every = -(-len(residual) // POSITIONS)
    first, second = residual[:-1:every], residual[1::every]
    together, apart = robust_sigma(second + first), robust_sigma(second - first)
    larger = max(together, apart)
    if not 0 < larger < np.inf:
        return 0.0
    together, apart = (together / larger) ** 2, (apart / larger) ** 2  # squares of losses near 1e300 are no numbers
    return float(np.clip((together - apart) / (together + apart), 0.0, 1.0))


def _medians_after(values: Floats, window: int) -> Floats:
    """Median of up to `window` values behind each one, shape (n,); NaN for the last three."""
    n = len(values)
    result = np.full(n, np.nan)
    full = n - window
    if full > 0:
        stride = -(-full // POSITIONS)
        blocks = medians(sliding_window_view(values[1:], window)[::stride])
        # between computed positions the next later one holds: it never looks at the point itself
        at = np.minimum(-(-np.arange(full) // stride), len(blocks) - 1)
        result[:full] = blocks[at]
    for i in range(max(full, 0), n - 3):
        result[i] = median(values[i + 1 :])
    return result


FINE = 32  # points; longer windows run over medians of blocks, 16 to a window


def moving_median(values: Floats, width: int) -> Floats:
    """Centred running median, shape (n,); reflected at the ends. Long windows are evaluated at block distance."""
    n = len(values)
    if width <= 1 or n <= 2:
        return values
    if width > FINE and n > width:
        size = width // WINDOW
        whole = n - n % size
        blocks = medians(values[:whole].reshape(-1, size))
        at = (np.arange(len(blocks)) + 0.5) * size - 0.5
        return np.interp(np.arange(n), at, moving_median(blocks, WINDOW))
    half = width // 2
    after = width - 1 - half
    if half > n:
        padded = np.pad(values, (half, after), mode="symmetric")
    else:  # the same, far sooner
        padded = np.concatenate([values[:half][::-1], values, values[n - after :][::-1]])
    return medians(sliding_window_view(padded, width))
