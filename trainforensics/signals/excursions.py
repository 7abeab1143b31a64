"""Where a series climbs out of its own noise: bursts, rises and lasting jumps, one by one.

Standing above the higher of the two levels on either side sets aside what is no incident: steep descents, epoch stairs,
learning-rate drops. Candidates come from a pyramid of scales; each is measured, and of those that meet one is kept.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.measure import FIRST_POINTS, Excursion, measure
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.pyramid import MIN_JUMP, Candidate, pyramid
from trainforensics.signals.stretches import stretches
from trainforensics.signals.trend import WINDOW, log_space, moving_median

HUGE = 1e100  # values whose squares would leave the range of numbers are judged in units of the largest
MIN_POINTS = 12
SHARP = 2  # blocks: a jump that climbs within so few is measured on a finer scale, if one shows it
MOST_SHARP = 4  # points to a block of what may be a burst of its own in the aftermath of another
LEARNT = 0.05  # of the level in the middle third of the log, by which the last lies lower
SURGE = 20.0  # times the first value; a warm-up that begins roughly doubles it
LEAP = 2.0  # no healthy loss ends above twice the values it begins with
LEAST_SINCE = 5  # points of which none is as good as those
EARLY = 8  # points of a log whose noise is not known yet
LOW_LEFT = 1.5  # times three low points in a row, below which none is later
FIRST_VALUES, MOSTLY, LEFT = 5, 0.25, 3.0  # of a start; share of late values that may lie below; noise widths above it
SCATTERED, FEWEST_RUNS = 0.1, 3  # share of all points, runs of them in every third
ABSURD = 1e6  # times the usual size of a loss
ABSURD_POINTS, ABSURD_SHARE = 3, 0.01  # at most so many points, or this share: more are a habit of the log


def excursions(curve: Curve) -> tuple[Excursion, ...]:
    """Every excursion of a curve's finite points, by onset; empty for fewer than 12 points.

    Zeros scattered all over the log are steps that had nothing to learn from, as batches without an active triplet:
    the others are judged among themselves.
    """
    values = curve.value[curve.finite]
    if not _scattered(values == 0):
        return _excursions(values)
    at = np.flatnonzero(values).tolist()
    return tuple(
        replace(e, onset=at[e.onset], knee=at[e.knee], peak=at[e.peak], half=at[e.half], end=at[e.end])
        for e in _excursions(values[at])
    )


def _scattered(mask: NDArray[np.bool_]) -> bool:
    """Whether points are at least a tenth of all and come and go in every third of the log."""
    if len(mask) < MIN_POINTS or mask.mean() < SCATTERED:
        return False
    return all(np.count_nonzero(np.diff(part.astype(np.int8)) == 1) >= FEWEST_RUNS for part in np.array_split(mask, 3))


def _excursions(values: Floats) -> tuple[Excursion, ...]:
    if len(values) < MIN_POINTS or values.max() == values.min():
        return ()
    logged = log_space(values)
    largest = float(np.max(np.abs(values)))
    unit = largest if largest > HUGE and not logged else 1.0
    series = pyramid(np.log(values) if logged else values / unit)
    found: list[Excursion] = []
    sharp: list[Excursion] = []
    for candidate in series.candidates:
        limit = _limit(candidate, found, len(values))
        excursion = measure(series, candidate, limit, np.exp if logged else lambda x: x * unit) if limit else None
        if excursion is None:
            continue
        if candidate.jump and candidate.scale > 1 and excursion.rise <= SHARP * candidate.scale:
            sharp.append(excursion)
        elif not any(
            known.onset <= excursion.onset <= known.end and excursion.onset <= _closed(known, candidate)
            for known in found
        ):
            found.append(excursion)
    for excursion in reversed(sharp):  # the finest first
        if not any(known.onset <= excursion.end and excursion.onset <= known.end for known in found):
            found.append(excursion)
    found = sorted((e for e in found if e.scale == 1 or e.height >= MIN_JUMP * series.wander), key=lambda e: e.onset)
    return tuple(_until(e, later.onset) for e, later in pairwise(found)) + tuple(found[-1:])


def _until(excursion: Excursion, following: int) -> Excursion:
    """An excursion that the next one cuts short."""
    if following > excursion.end:
        return excursion
    return replace(excursion, end=following - 1, recovery="partial")


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
        if not (lost or left):
            continue
        level = float(np.median(before))
        return Excursion(
            shape="burst",
            onset=first,
            knee=first,
            peak=first + int(np.argmax(since[:WINDOW])),
            half=len(values) - 1,
            end=len(values) - 1,
            rise=1,
            height=float(since[:WINDOW].max()) - level,
            sigma=robust_sigma(np.diff(since)) / np.sqrt(2),
            before=level,
            after=float(np.median(since[-WINDOW:])),
            recovery="unrecovered",
            returned=False,
            scale=1,
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
    first, end = float(values[0]), peak + int(back[0])
    return Excursion(
        shape="burst",
        onset=1 + int(np.argmax(values[1:] > LEAP * first)),
        knee=1,
        peak=peak,
        half=peak + int(np.argmax(values[peak:] < (values[peak] + first) / 2)),
        end=end,
        rise=peak,
        height=float(values[peak]) - first,
        sigma=first,
        before=first,
        after=float(np.median(values[end:])),
        recovery="recovered",
        returned=True,
        scale=1,
    )


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
    middle = (values[peak] + before) / 2
    below = np.flatnonzero(values[peak:] < middle)
    back = np.flatnonzero(values[peak:] <= highest[onset - 1])
    last = len(values) - 1
    return Excursion(
        shape="burst",
        onset=onset,
        knee=onset,
        peak=peak,
        half=peak + int(below[0]) if len(below) else last,
        end=peak + int(back[0]) if len(back) else last,
        rise=peak - onset + 1,
        height=float(values[peak]) - before,
        sigma=float(highest[onset - 1]),
        before=before,
        after=float(np.median(values[-FIRST_POINTS:])),
        recovery="recovered" if len(back) else "unrecovered",
        returned=len(back) > 0,
        scale=1,
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
    onset = int(np.flatnonzero(left)[0])
    peak = onset + int(np.argmax(values[onset:]))
    return Excursion(
        shape="rise",
        onset=onset,
        knee=onset,
        peak=peak,
        half=n - 1,
        end=n - 1,
        rise=max(peak - onset, 1),
        height=float(values[peak]) - before,
        sigma=max(noise, before / 100),
        before=before,
        after=float(np.median(late)),
        recovery="unrecovered",
        returned=False,
        scale=1,
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
            Excursion(
                shape="burst",
                onset=int(start),
                knee=int(start),
                peak=lowest,
                half=int(stop),
                end=min(int(stop) + 1, len(values) - 1),
                rise=0,
                height=ground - float(values[lowest]),
                sigma=sigma,
                before=ground,
                after=float(np.median(since)) if len(since) else float(values[stop]),
                recovery="recovered" if len(since) else "ongoing",
                returned=len(since) > 0,
                scale=1,
            )
        )
    return tuple(found)


def _limit(candidate: Candidate, found: list[Excursion], n: int) -> int:
    """How far a candidate may look: to the next excursion known already; 0 where it is that excursion seen again."""
    start, stop, scale = candidate.start, candidate.stop, candidate.scale
    for known in found:
        if known.end <= start - scale or known.onset >= min(stop + scale, start + 4 * scale):
            continue
        if start < _closed(known, candidate) + scale:
            return 0
    return min((known.onset for known in found if known.onset >= stop), default=n)


def _closed(known: Excursion, candidate: Candidate) -> int:
    """Up to where an excursion takes in whatever rises in it: a sharp burst in the aftermath of another, once that is
    out of its sight, is one of its own."""
    sharp = candidate.scale <= MOST_SHARP and not candidate.jump
    if known.shape == "burst" and known.returned and sharp:
        return min(known.half + WINDOW * candidate.scale, known.end)
    return known.end
