"""Losses that fall too low for a while: a stretch of samples that are far too easy, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.trend import WINDOW, level

LOW, BACK = 0.5, 0.8  # of the level before: what all of a dip lies below, what its borders lie above
FEWEST, LONGEST = 5, 0.2  # points of a dip; share of the log
FAR = 8  # times the points that tell the level before, for the usual one
OUT_OF_NOISE = 6.0  # widths that a normal series of 200,000 points stays within
USUAL = 0.01  # share of the other points that are as low: then some samples are easy by nature


@dataclass(frozen=True, slots=True)
class Dip:
    """Points `first`..`last` far below the level `before`."""

    first: int
    last: int
    before: float


def dips(value: Floats) -> tuple[Dip, ...]:
    """Stretches of a positive loss that lie below half of the level before them, from one point to the next and back;
    none where single points do so as well, or most only repeat the one before, which hides the noise."""
    if len(value) < 4 * WINDOW or value.min() <= 0 or np.median(np.abs(np.diff(value))) == 0:
        return ()
    ground = level(value)
    low = value < LOW * ground.left
    found: list[Dip] = []
    for first in (np.flatnonzero(low[WINDOW + 1 :] & ~low[WINDOW:-1]) + WINDOW + 1).tolist():
        dip = _dip(value, first, float(ground.left[first]), float(ground.sigma[first]))
        if dip is not None and not (found and first <= found[-1].last):
            found.append(dip)
    others = np.ones(len(value), dtype=np.bool_)
    others[: WINDOW + 1] = False
    for dip in found:
        others[dip.first : dip.last + 1] = False
    return tuple(found) if others.any() and np.mean(low[others]) < USUAL else ()


def _dip(value: Floats, first: int, before: float, sigma: float) -> Dip | None:
    """The dip that begins at a point, if its borders are sharp and the level before is met again behind it."""
    if value[first - 1] < BACK * before or value[first : first + FEWEST].max() >= LOW * before:
        return None
    last = _last_below(value, first, LOW * before)
    if last == len(value) - 1:
        return None
    after = value[last + 1 : last + 1 + WINDOW]
    sharp = value[last + 1] >= BACK * before and len(after) >= FEWEST and float(np.median(after)) >= BACK * before
    long = FEWEST <= last + 1 - first <= LONGEST * len(value)
    deep = before - float(value[first : last + 1].max()) >= OUT_OF_NOISE * sigma
    usual = float(np.median(value[max(0, first - FAR * WINDOW) : first]))  # before may be a burst, and this its end
    deep &= float(np.median(value[first : last + 1])) < BACK * usual
    return Dip(first, last, before) if sharp and long and deep else None


def _last_below(value: Floats, first: int, bar: float) -> int:
    """Index of the last point of the stretch below a bar that begins at `first`, in time of its length."""
    start, width = first, WINDOW
    while start < len(value):
        back = np.flatnonzero(value[start : start + width] >= bar)
        if len(back):
            return start + int(back[0]) - 1
        start, width = start + width, 2 * width
    return len(value) - 1
