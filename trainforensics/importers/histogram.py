"""A logged histogram becomes a few numbers that can be followed over steps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"p01": 0.01, "median": 0.5, "p99": 0.99}
# TensorBoard's exponential buckets begin at +-1e-12: what lies in one of those is zero as far as a histogram can tell.
ZERO = 1e-12


def quantiles(
    edges: NDArray[np.float64], counts: NDArray[np.float64], low: float = math.nan, high: float = math.nan
) -> dict[str, float]:
    """min, p01, median, p99, max and, where a bucket can tell, the fraction of zeros.

    `edges` (n + 1) bound the buckets, `counts` (n) fill them; `low` and `high` are the extremes where the log states
    them, else the outer edges of the filled buckets. Values are taken as spread evenly within a bucket. Empty where
    nothing was counted.
    """
    counts = np.where(np.isfinite(counts) & (counts > 0), counts, 0.0)
    filled = np.flatnonzero(counts)
    total = float(counts.sum())
    if not len(filled):
        return {}
    low = float(edges[filled[0]]) if math.isnan(low) else low
    high = float(edges[filled[-1] + 1]) if math.isnan(high) else high
    inner = np.clip(edges, low, high)
    cumulative = np.append(0.0, np.cumsum(counts)) / total
    inside = np.interp(list(QUANTILES.values()), cumulative, inner).tolist()
    result = {"min": low, **dict(zip(QUANTILES, inside, strict=True)), "max": high}
    at_zero = (edges[:-1] >= -ZERO) & (edges[1:] <= ZERO)
    if at_zero.any() or low > 0 or high < 0:
        result["zero_fraction"] = float(counts[at_zero].sum()) / total
    return result
