"""Where a series climbs out of its own noise: bursts, rises and lasting jumps, measured one by one.

Standing above the higher of the two levels on either side sets aside what is no incident: steep descents, epoch stairs,
learning-rate drops. Candidates come from a pyramid of scales; here each gets its onset, peak, end and recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trainforensics.model import Recovery
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.pyramid import MIN_COMPANION, MIN_HEIGHT, Candidate, Pyramid, pyramid
from trainforensics.signals.stretches import stretches
from trainforensics.signals.trend import WINDOW, log_space, moving_median

HUGE = 1e100  # values whose squares would leave the range of numbers are judged in units of the largest
MIN_POINTS = 12
MIN_VISIBLE = 2.0  # a rise of less than this many widths of the point-to-point noise is left alone
FEW_POINTS = 2  # a climb to half its height within this many logged points is sudden
SHARP = 2  # blocks: a jump that climbs within so few is measured on a finer scale, if one shows it
SETTLED = 8  # points from an onset on before "it does not come back" may be said
MOST = 0.7  # of the points at the top of a smoothed climb must be high themselves: two outliers are no climb
ERUPTION = 4.0  # widths of the noise in the 16 points before: in a stormy stretch high points are ordinary
LOOKBACK = 1024  # blocks before a candidate in which its ground is sought
FIRST_POINTS, LEAP = 3, 2.0  # no healthy loss ends above twice the values it begins with
ABSURD = 1e6  # times the usual size of a loss
ABSURD_POINTS, ABSURD_SHARE = 3, 0.01  # at most so many points, or this share: more are a habit of the log
BEYOND_COUNT = 1e6  # noise widths that nobody reads digit by digit
FOOT = 0.1  # of the height of a burst: what lies below before the jump is its noise
OUTSIDE = {1: 3.0}  # noise widths of the smoothed series that count as outside: 3 for single points, 2 for medians


@dataclass(frozen=True, slots=True)
class Excursion:
    """One climb out of the noise. Indices refer to the finite points of the curve; values are as logged.

    `onset`: first point outside the noise; `peak`: highest point; `end`: first point back inside, or the last point;
    `knee`: where the steepest half of the climb begins, when that half takes less than a fifth of it, else the onset;
    `rise`: points from onset to half of the height; `height` above the level before, `sigma` the noise there (both in
    the space of judgement, see `log_space`), `before` and `after` the levels as logged; `returned`: it came back below
    half of its height.
    """

    shape: Literal["burst", "rise"]
    onset: int
    knee: int
    peak: int
    end: int
    rise: int
    height: float
    sigma: float
    before: float
    after: float
    recovery: Recovery
    returned: bool
    scale: int

    @property
    def z(self) -> float:
        """Height in noise widths."""
        return self.height / self.sigma if self.sigma > 0 else np.inf

    @property
    def widths(self) -> str:
        """The height in noise widths as a sentence says it."""
        return f"{self.z:.0f}" if not BEYOND_COUNT < self.z < np.inf else f"{self.z:.1g}"


def excursions(curve: Curve) -> tuple[Excursion, ...]:
    """Every excursion of a curve's finite points, by onset; empty for fewer than 12 points."""
    values = curve.value[curve.finite]
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
        excursion = _measure(series, candidate, limit, np.exp if logged else lambda x: x * unit) if limit else None
        if excursion is None:
            continue
        if candidate.jump and candidate.scale > 1 and excursion.rise <= SHARP * candidate.scale:
            sharp.append(excursion)
        elif not any(known.onset <= excursion.onset <= known.end for known in found):
            found.append(excursion)
    for excursion in reversed(sharp):  # the finest first
        if not any(known.onset <= excursion.end and excursion.onset <= known.end for known in found):
            found.append(excursion)
    return tuple(
        sorted((e for e in found if e.scale == 1 or e.height >= MIN_HEIGHT * series.wander), key=lambda e: e.onset)
    )


def leap_at_start(values: Floats) -> Excursion | None:
    """A loss that leaps to more than twice its first values within three points and never comes back below that: what
    was loaded is lost. None where it does not."""
    for first in range(1, FIRST_POINTS + 1):
        before, since = values[:first], values[first:]
        if len(since) < MIN_POINTS or before.min() <= 0 or since.min() <= LEAP * before.max():
            continue
        level = float(np.median(before))
        return Excursion(
            shape="burst",
            onset=first,
            knee=first,
            peak=first + int(np.argmax(since[:WINDOW])),
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
        if start < known.end + scale and stop > known.onset - scale and start > known.onset - 4 * scale:
            return 0
    return min((known.onset for known in found if known.onset >= stop), default=n)


def _measure(series: Pyramid, candidate: Candidate, limit: int, undo: Callable[[Any], Any]) -> Excursion | None:
    """Onset, peak, end and recovery of a candidate that looks no further than `limit`; `undo` leads back to values as
    logged."""
    scale, start = candidate.scale, candidate.start
    first = max(0, start - LOOKBACK * scale)
    before, base = _ground(series.values[first:start], scale, float(series.finest.upward[max(start - 1, 0)]))
    if base < 0:
        return None
    sigma = float(series.finest.upward[first + base])
    noise = sigma * min(1.0, series.finest.persistence(1) / np.sqrt(scale))
    smooth, top, turn, calm = _course(series.values[first:limit], candidate, first, before, noise)
    peak = top + int(np.argmax(smooth[top : max(turn, top + 1)]))
    height = float(smooth[peak] - before)
    if height < max((MIN_HEIGHT if candidate.jump else MIN_COMPANION) * noise, MIN_VISIBLE * sigma):
        return None
    crest = series.values[first + peak - scale // 2 : first + peak + (scale + 1) // 2]
    if np.mean(crest > before + 0.5 * height) < MOST:
        return None
    inside = np.flatnonzero(smooth[: top + 1] <= before + OUTSIDE.get(scale, 2.0) * noise)
    onset = int(inside[-1]) + 1 if len(inside) else 0
    shortly_before = series.values[max(0, first + onset - WINDOW) : first + onset]
    if height < ERUPTION * robust_sigma(shortly_before) * series.finest.skew / np.sqrt(scale):
        return None
    climb, floor = undo(smooth[onset : peak + 1]), float(undo(before))
    rise = int(np.argmax(climb >= floor + 0.5 * (climb[-1] - floor)))
    sudden = rise <= FEW_POINTS
    if sudden and len(shortly_before):  # a burst is told against the level it came from, a rise against its ground
        before = float(np.median(shortly_before))
        height, floor = float(smooth[peak]) - before, float(undo(before))
        onset += int(np.argmax(smooth[onset : peak + 1] >= before + FOOT * height))
    returned = turn < len(smooth) or calm >= 0
    end = first + calm if calm >= 0 else first + turn + int(np.argmin(smooth[turn:])) if returned else limit - 1
    after = float(np.median(series.values[end : end + WINDOW * scale]))
    return Excursion(
        shape="burst" if sudden else "rise",
        onset=first + onset,
        knee=first + onset + _knee(smooth[onset : peak + 1], before, height),
        peak=first + peak,
        end=end,
        rise=rise,
        height=height,
        sigma=sigma,
        before=floor,
        after=float(undo(after)),
        recovery=_recovery(returned, calm >= 0, series.values[first + onset : limit], height),
        returned=returned,
        scale=scale,
    )


def _ground(space: Floats, scale: int, sigma: float) -> tuple[float, int]:
    """Level and index from which a climb that ends `space` set out: the lowest smoothed point before it, looking back
    until the series stood clearly higher; index -1 where nothing precedes."""
    width = 4 * scale + 1
    if len(space) < 3:
        return np.nan, -1
    back = moving_median(space, width)[::-1]
    lowest = np.minimum.accumulate(back)
    higher = np.flatnonzero(back > lowest + 4 * sigma / np.sqrt(width))
    reach = int(higher[0]) if len(higher) and higher[0] > 0 else len(back)
    at = int(np.argmin(back[:reach]))
    return float(back[at]), len(space) - 1 - at


def _course(
    space: Floats, candidate: Candidate, first: int, before: float, noise: float
) -> tuple[Floats, int, int, int]:
    """The smoothed series as far as needed, its first top, where it fell below half of its height (its length where
    never) and where it was back inside the noise (-1 where never). Looks ahead in growing steps."""
    start, stop = candidate.start - first, candidate.stop - first
    ahead = max(4 * WINDOW * candidate.scale, stop - start)
    while True:
        seen = space[: start + ahead]
        smooth = moving_median(seen, candidate.scale)
        top = start + int(np.argmax(smooth[start:stop]))
        steady = smooth[top:] if candidate.scale > 1 else moving_median(smooth[top:], 5)
        # a jump is as high as what lasts of it, a burst as its highest point
        highest = np.maximum.accumulate(steady if candidate.jump else smooth[top:])
        below = np.flatnonzero(steady - before < 0.5 * (highest - before))
        turn = top + int(below[0]) if len(below) else len(smooth)
        peak = top + int(np.argmax(smooth[top : max(turn, top + 1)]))
        calm = np.flatnonzero(moving_median(seen[peak:], 5) <= before + 2 * noise)
        settled = len(calm) > 0 and len(below) > 0 and turn < len(smooth) - 2 * candidate.scale
        if settled or len(seen) == len(space):
            return smooth, top, turn, peak + int(calm[0]) if len(calm) else -1
        ahead *= 4


def _knee(climb: Floats, before: float, height: float) -> int:
    """Index at which the shortest stretch that gains half of the height begins; 0 for an even climb."""
    if len(climb) < 10:
        return 0
    gained = np.maximum.accumulate(climb) - before
    reach = np.searchsorted(gained, gained + height / 2)
    length = np.where(reach < len(gained), reach - np.arange(len(gained)), len(gained))
    at = int(np.argmin(length))
    return at if length[at] < len(climb) / 5 else 0


def _recovery(returned: bool, calm: bool, since: Floats, height: float) -> Recovery:
    """What became of it; `since` holds the points from the onset on."""
    if calm:
        return "recovered"
    if returned:
        return "partial"
    if len(since) < SETTLED:
        return "ongoing"
    third = len(since) // 3
    late, middle = np.median(since[-third:]), np.median(since[third:-third])
    return "diverging" if late > middle + 0.1 * height else "unrecovered"
