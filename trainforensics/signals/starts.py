"""A loss against the values it begins with: leaps off them for good, overshoots, and later halves that lie above."""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.excursions import MIN_POINTS
from trainforensics.signals.measure import FIRST_POINTS, Excursion
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.trend import WINDOW, moving_median

LEAP = 2.0  # no healthy loss ends above twice the values it begins with
LEAST_SINCE = 5  # points of which none is as good as those
EARLY = 8  # points of a log whose noise is not known yet
LOW_LEFT = 1.5  # times three low points in a row, below which none is later
SURGE = 20.0  # times the first value; a warm-up that begins roughly doubles it
FEWEST_FALLING = 5  # points of an overshoot that fall one after another, as no noise does
STEADY = 0.1  # of the first value, what is taken for its noise
FIRST_VALUES, MOSTLY, LEFT = 5, 0.25, 3.0  # of a start; share of late values that may lie below; noise widths above it
LEARNT = 0.05  # of the level in the middle third of the log, by which the last lies lower


def leap_at_start(values: Floats) -> Excursion | None:
    """A loss that leaps to more than twice its first values within three points and never comes back to those it began
    with: what was loaded is lost. Or one that leaps from three low points, within the first eight, to half as much more
    at least for good. None where it does not."""
    for first in range(1, EARLY + 1):
        before, since = values[max(0, first - FIRST_POINTS) : first], values[first:]
        if len(since) < LEAST_SINCE or before.min() <= 0:
            continue
        highest, lowest = float(before.max()), float(since.min())
        lost = first <= FIRST_POINTS and lowest > highest and since[:FIRST_POINTS].min() > LEAP * highest
        left = first >= FIRST_POINTS and len(since) >= MIN_POINTS and lowest > LOW_LEFT * highest
        if lost or left:
            return Excursion.plain(
                values,
                first,
                first + int(np.argmax(since[:WINDOW])),
                before=float(np.median(before)),
                after=float(np.median(since[-WINDOW:])),
                sigma=robust_sigma(np.diff(since)) / np.sqrt(2),
                recovery="unrecovered",
            )
    return None


def surge_at_start(values: Floats) -> Excursion | None:
    """A loss that surges within the first points to many times its first value and all that it has later on, and comes
    back below the first; None where it does not."""
    if len(values) < MIN_POINTS or values.min() <= 0:
        return None
    peak = int(np.argmax(values[: 2 * FIRST_POINTS]))
    back = np.flatnonzero(values[peak:] <= values[0])
    usual = max(float(values[0]), float(values[len(values) // 3 :].max()))
    if not 0 < peak <= FIRST_POINTS or values[peak] < SURGE * usual or not len(back):
        return None
    return _overshoot(values, peak, peak + int(back[0]), outside=LEAP * float(values[0]), sigma=float(values[0]))


def overshoot_at_start(values: Floats) -> Excursion | None:
    """A loss that leaps within three points to twice its first value and all later ones, and falls back below the first
    point after point: an update that was far too large; None where it does not."""
    peak = int(np.argmax(values[: FIRST_POINTS + 1]))
    back = np.flatnonzero(values[peak:] <= values[0])
    if peak == 0 or values.min() <= 0 or len(back) == 0 or back[0] < FEWEST_FALLING:
        return None
    first, end = float(values[0]), peak + int(back[0])
    if values[peak] <= LEAP * max(first, values[end:].max()) or np.diff(values[peak : end + 1]).max() >= 0:
        return None
    return _overshoot(values, peak, end, outside=(first + values[peak]) / 2, sigma=STEADY * first)


def _overshoot(values: Floats, peak: int, end: int, *, outside: float, sigma: float) -> Excursion:
    first = float(values[0])
    return Excursion.plain(
        values,
        1 + int(np.argmax(values[1:] > outside)),
        peak,
        before=first,
        after=float(np.median(values[end:])),
        sigma=sigma,
        recovery="recovered",
        knee=1,
        half=peak + int(np.argmax(values[peak:] < (first + values[peak]) / 2)),
        end=end,
        rise=peak,
    )


def above_start(values: Floats) -> Excursion | None:
    """A loss whose later half lies above twice its first values, however it swings there; None where it does not."""
    n = len(values)
    if n < 2 * MIN_POINTS or values.min() <= 0:
        return None
    late = values[n // 2 :]
    before = float(np.median(values[:FIRST_VALUES]))
    if np.quantile(late, MOSTLY) <= before or np.median(late) <= LEAP * before:
        return None
    middle, last = values[n // 3 : -(n // 3)], values[-(n // 3) :]
    error = robust_sigma(last) * np.sqrt(2 / len(last))
    if np.median(middle) - np.median(last) > max(LEARNT * np.median(middle), LEFT * error):
        return None  # against a queue or a teacher that moves, a loss rises first and is learnt then
    noise = robust_sigma(np.diff(values[: 2 * MIN_POINTS])) / np.sqrt(2)
    left = moving_median(values, WINDOW) > before + max(LEFT * noise, before / 10)
    if not left.any():
        return None  # it swings so far at first that it never leaves that
    onset = int(np.flatnonzero(left)[0])
    peak = onset + int(np.argmax(values[onset:]))
    return Excursion.plain(
        values,
        onset,
        peak,
        before=before,
        after=float(np.median(late)),
        sigma=max(noise, before / 100),
        recovery="unrecovered",
        shape="rise",
        rise=max(peak - onset, 1),
    )
