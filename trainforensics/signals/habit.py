"""Bursts that are the nature of the data: batches of several sorts, of which one follows another by chance."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.epochs import epoch_length
from trainforensics.signals.measure import Excursion
from trainforensics.signals.run import Signals
from trainforensics.signals.trend import WINDOW, level, moving_median

AROUND, FEWEST_AROUND = 64, 16  # points on either side of a burst that tell what is usual there
USUAL = 0.25  # of them on both sides, that reach half of its height: noise is not so often beyond two widths
FEW = 8  # points to a block, of which few make a cluster; larger ones are no matter of single points
STRAY = 3.0  # times a first point's stray that a burst may be; it is known from a few epochs
CHANCE = 0.01  # of healthy noise to show such a cluster anywhere in the log


def by_nature(values: Floats, burst: Excursion) -> bool:
    """Whether a burst that came back is what the data do all along; `values` are the finite points of the curve."""
    if burst.recovery not in ("recovered", "partial"):
        return False
    return _is_usual(values, burst) or (1 < burst.scale <= FEW and _is_cluster(values, burst))


def begins_a_window(signals: Signals, curve: Curve, burst: Excursion) -> bool:
    """Whether a lone point is the first of an epoch, in a log that shows each value beside its average, and such points
    stray by as much to either side: the value is smoothed over the last batches, of which there is but one by then."""
    length = epoch_length(signals)
    if length is None or burst.half > burst.onset + 1 or "(current)" not in curve.name:
        return False
    finite = curve.only_finite()
    firsts = np.flatnonzero(np.diff(finite.step // length)) + 1
    others = firsts[firsts != burst.peak]
    sides = level(finite.value)
    strays = (finite.value - (sides.left + sides.right) / 2)[others]
    strays = strays[np.isfinite(strays)]
    if len(others) == len(firsts) or not len(strays):
        return False
    return bool(np.abs(strays).max() > burst.height / STRAY > 0 and np.median(strays) < burst.height / 2)


def _is_usual(values: Floats, burst: Excursion) -> bool:
    """Whether the loss is as high time and again, before and after and shortly before it: where several batches of an
    easy sort come nearly in a row, the next ordinary one stands out of them."""
    before = values[max(0, burst.onset - AROUND) : max(0, burst.onset - burst.scale)]
    since = values[burst.end + burst.scale : burst.end + burst.scale + AROUND]
    if min(len(before), len(since)) < FEWEST_AROUND:
        return False
    half = (float(values[burst.peak]) + burst.before) / 2
    if before[-WINDOW:].max() < half:
        return False
    return all(
        np.mean(moving_median(side, burst.scale) > half) >= USUAL
        for side in (before, since)
        if len(side) >= FEWEST_AROUND
    )


def _is_cluster(values: Floats, burst: Excursion) -> bool:
    """Whether single points are as high so often that as many of them may meet by chance."""
    sides = level(values)
    height = (values - (sides.left + sides.right) / 2) / sides.sigma
    width = max(burst.scale, burst.half - burst.onset)
    own = np.sort((values[burst.onset : burst.onset + width] - burst.before) / sides.sigma[burst.onset])[::-1]
    height[max(0, burst.onset - burst.scale) : burst.end + burst.scale] = np.nan
    others = height[np.isfinite(height)]
    if not len(others):
        return False
    shares = (float(np.mean(others >= high)) for high in own[:FEW])
    chances = [len(values) * math.comb(width, k) * share**k for k, share in enumerate(shares, start=1)]
    return min(chances, default=0.0) > CHANCE
