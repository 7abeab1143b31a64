"""Bursts that are the nature of the data: batches of several sorts, of which one follows another by chance."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.signals.batch import batch_size
from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.epochs import epoch_length
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.trend import WINDOW, level, moving_median

AROUND, FEWEST_AROUND = 64, 16  # points on either side of a burst that tell what is usual there
USUAL = 0.25  # of them on both sides, that reach half of its height: noise is not so often beyond two widths
FEW = 8  # points to a block, of which few make a cluster; larger ones are no matter of single points
STRAY = 3.0  # times a first point's stray that a burst may be; it is known from a few epochs
MANY = 1000  # points at one place of an epoch
LONGEST_CYCLE = 12  # rows of an epoch that is not told
OUT_OF_NOISE = 6.0  # widths that a normal series of 200,000 points stays within
CHANCE = 0.01  # of healthy noise to show such a cluster anywhere in the log


def by_nature(values: Floats, burst: Excursion) -> bool:
    """Whether a burst that came back is what the data do all along; `values` are the finite points of the curve."""
    if burst.recovery not in ("recovered", "partial"):
        return False
    return _is_usual(values, burst) or (1 < burst.scale <= FEW and _is_cluster(values, burst))


def begins_a_window(signals: Signals, curve: Curve, burst: Excursion) -> bool:
    """Whether a lone point is the first of an epoch, where such points stray by as much to either side: the value is a
    mean over the last batches, or those of the epoch, of which there is but one by then.

    A log that shows each value beside its average says so itself; in others the first points alone stray that much, and
    where no epoch is known, those at one place of a cycle of few rows.
    """
    if burst.half > burst.onset + 1:
        return False
    finite, length = curve.only_finite(), epoch_length(signals)
    if length is not None:
        firsts = np.flatnonzero(np.diff(finite.step // length)) + 1
        said = "(current)" in curve.name
        return burst.peak in firsts and _strays(finite, f"epoch {length}", firsts, burst, said=said)
    cycles = range(2, 1 + min(LONGEST_CYCLE, len(finite) // (FEW + 2)))
    places = ((n, burst.peak % n) for n in cycles)
    return any(_strays(finite, f"{at} of {n}", slice(at, None, n), burst, said=False) for n, at in places)


def of_smaller_batch(signals: Signals, curve: Curve, burst: Excursion) -> bool:
    """Whether a burst's batch holds so much less data than others that its height is within the noise of so small ones,
    which is wider by the square root: the last of an epoch, as a rule."""
    sizes = batch_size(signals)
    if sizes is None:
        return False
    step = curve.only_finite().step[burst.peak]
    at = sizes.at(int(step))
    if at < 0 or sizes.step[at] != step or not sizes.value[at] > 0:
        return False
    wider = math.sqrt(float(np.nanmedian(sizes.value)) / float(sizes.value[at]))
    return burst.z < OUT_OF_NOISE * wider > OUT_OF_NOISE


def _strays(finite: Curve, place: str, firsts: Ints | slice, burst: Excursion, *, said: bool) -> bool:
    """Whether the points at `firsts`, which are called `place`, stray from the level between both sides by as much as a
    burst among them is high; unless the log has `said` so, far more than all others."""
    stray = finite.derive("stray", lambda: _stray(finite.value))
    own = finite.derive(f"strays of {place}", lambda: np.sort(stray[firsts][np.isfinite(stray[firsts])]))
    known = bool(np.isfinite(stray[burst.peak]))  # the last point has no level behind it
    at = int(np.searchsorted(own, stray[burst.peak])) if known else len(own)
    n, rest = len(own), len(own) - known
    if rest < 1:
        return False
    largest = max(abs(float(own[i])) for i in (0, 1, n - 2, n - 1) if 0 <= i < n and i != at)
    median = float(np.mean([own[i + (i >= at)] for i in ((rest - 1) // 2, rest // 2)]))
    if not (largest > burst.height / STRAY > 0 and median < burst.height / 2):
        return False
    if said or n > MANY:  # of many, one makes no difference
        return said or finite.derive(f"wilder at {place}", lambda: _is_wilder(own, np.delete(stray, firsts)))
    return _is_wilder(np.delete(own, slice(at, at + 1)), np.delete(stray, firsts))


def _stray(value: Floats) -> Floats:
    """How far each value lies from the level between both sides."""
    sides = level(value)
    stray: Floats = value - (sides.left + sides.right) / 2
    return stray


def _is_wilder(own: Floats, others: Floats) -> bool:
    others = others[np.isfinite(others)]
    return min(len(own), len(others)) >= FEW and robust_sigma(own) > STRAY * robust_sigma(others)


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
