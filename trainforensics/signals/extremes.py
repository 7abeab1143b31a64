"""Values beyond all scale of a loss: many times all that it ever was, or as far below zero as no loss goes."""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.excursions import HUGE, MIN_POINTS
from trainforensics.signals.measure import FIRST_POINTS, Excursion
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.starts import FIRST_VALUES, SURGE
from trainforensics.signals.stretches import stretches
from trainforensics.signals.trend import WINDOW

ABSURD = 1e6  # times the usual size of a loss
ABSURD_POINTS, ABSURD_SHARE = 3, 0.01  # at most so many points, or this share: more are a habit of the log


def surges_beyond(values: Floats) -> tuple[Excursion, ...]:
    """Leaps of a loss, from one point to the next, to many times all that it ever was: in a log too short or
    too noisy to judge them by that. Once it has come back, all that it was begins anew."""
    found: list[Excursion] = []
    first = 0
    while (surge := _surge_beyond(values[first:])) is not None:
        found.append(surge.later_by(first))
        if not surge.returned:
            break
        first += surge.end
    return tuple(found)


def _surge_beyond(values: Floats) -> Excursion | None:
    if len(values) <= FIRST_VALUES or values.min() <= 0:
        return None
    highest = np.maximum.accumulate(values)[:-1]
    above = np.flatnonzero(values[1:] > SURGE * highest) + 1
    if not len(above) or above[0] < FIRST_VALUES:
        return None
    onset = int(above[0])
    before = float(np.median(values[onset - FIRST_VALUES : onset]))
    peak = onset + int(np.argmax(values[onset:]))
    below = np.flatnonzero(values[peak:] < (values[peak] + before) / 2)
    back = np.flatnonzero(values[peak:] <= highest[onset - 1])
    return Excursion.plain(
        values,
        onset,
        peak,
        before=before,
        after=float(np.median(values[-FIRST_POINTS:])),
        sigma=float(highest[onset - 1]),
        recovery="recovered" if len(back) else "unrecovered",
        half=peak + int(below[0]) if len(below) else None,
        end=peak + int(back[0]) if len(back) else None,
        rise=peak - onset + 1,
    )


def absurd_falls(values: Floats) -> tuple[Excursion, ...]:
    """Values so far below all others that no loss has them (-1e34 in single precision), each stretch of them once.

    Upward they are excursions like any other; downward a loss may fall as it likes, but not to a million times its
    usual size and back. A hundredth of the points may be so.
    """
    if len(values) < MIN_POINTS:
        return ()
    usual, level = float(np.quantile(np.abs(values), 0.9)), float(np.median(values))
    below = values < -ABSURD * max(usual, np.finfo(np.float64).tiny)
    if not below.any() or below.sum() > max(ABSURD_POINTS, ABSURD_SHARE * len(values)):
        return ()
    sigma = max(robust_sigma(np.diff(values[~below])) / np.sqrt(2), usual / HUGE)
    found = []
    for start, stop in zip(*stretches(below), strict=True):
        before, since = values[max(0, start - WINDOW) : start], values[stop + 1 : stop + 1 + WINDOW]
        lowest = int(start + np.argmin(values[start : stop + 1]))
        ground = float(np.median(before)) if len(before) else level
        found.append(
            Excursion.plain(
                values,
                int(start),
                lowest,
                before=ground,
                after=float(np.median(since)) if len(since) else float(values[stop]),
                sigma=sigma,
                recovery="recovered" if len(since) else "ongoing",
                half=int(stop),
                end=min(int(stop) + 1, len(values) - 1),
                rise=0,
                height=ground - float(values[lowest]),
            )
        )
    return tuple(found)
