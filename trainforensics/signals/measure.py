"""One excursion measured: where a climb out of the noise begins, peaks and ends, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trainforensics.model import Recovery
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.pyramid import MIN_COMPANION, MIN_HEIGHT, Candidate, Pyramid
from trainforensics.signals.trend import WINDOW, moving_median

MIN_VISIBLE = 2.0  # a rise of less than this many widths of the point-to-point noise is left alone
FEW_POINTS = 2  # a climb to half its height within this many logged points is sudden
SETTLED = 8  # points from an onset on before "it does not come back" may be said
MOST = 0.7  # of the points at the top of a smoothed climb must be high themselves: two outliers are no climb
ERUPTION, TOWERING = 4.0, 2.0  # widths of the noise, heights of the highest, in the 16 points before
LOOKBACK = 1024  # blocks before a candidate in which its ground is sought
FIRST_POINTS = 3  # at the start of a log have no level before them
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
    half of its height, at `half` (else `end`).
    """

    shape: Literal["burst", "rise"]
    onset: int
    knee: int
    peak: int
    half: int
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


def measure(series: Pyramid, candidate: Candidate, limit: int, undo: Callable[[Any], Any]) -> Excursion | None:
    """Onset, peak, end and recovery of a candidate that looks no further than `limit`; `undo` leads back to values as
    logged. None for what is no excursion after all."""
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
    if len(shortly_before) and _ordinary(height, shortly_before, before, series.finest.skew, scale):
        return None
    foot, rise = _climb(smooth[onset : peak + 1], before, height, undo)
    sudden = rise <= FEW_POINTS
    if sudden:
        onset += foot
        if len(shortly_before):  # a burst is told against the level it came from, a rise against its ground
            before = float(np.median(shortly_before))
            height = float(smooth[peak]) - before
            onset += int(np.argmax(smooth[onset : peak + 1] >= before + FOOT * height))
    returned = turn < len(smooth) or calm >= 0 or _falls_later(series.values[limit:], scale, before + 0.5 * height)
    if sudden and returned and first + onset < FIRST_POINTS:  # a start-up has no level yet to come back to
        return None
    end = limit - 1
    if turn < len(smooth) or calm >= 0:
        end = first + (calm if calm >= 0 else turn + int(np.argmin(smooth[turn:])))
    after = float(np.median(series.values[end : end + WINDOW * scale]))
    return Excursion(
        shape="burst" if sudden else "rise",
        onset=first + onset,
        knee=first + onset + _knee(smooth[onset : peak + 1], before, height),
        peak=first + peak,
        half=min(first + turn, end),
        end=end,
        rise=rise if sudden else foot + rise,
        height=height,
        sigma=sigma,
        before=float(undo(before)),
        after=float(undo(after)),
        recovery=_recovery(returned, calm >= 0, series.values[first + onset : limit], height),
        returned=returned,
        scale=scale,
    )


def _climb(climb: Floats, before: float, height: float, undo: Callable[[Any], Any]) -> tuple[int, int]:
    """Points up to the foot of a climb, a tenth of its height, and from there to half of the height as logged."""
    foot = int(np.argmax(climb >= before + FOOT * height))
    logged, floor = undo(climb[foot:]), float(undo(before))
    return foot, int(np.argmax(logged >= floor + 0.5 * (logged[-1] - floor)))


def _ordinary(height: float, shortly_before: Floats, before: float, skew: float, scale: int) -> bool:
    """Whether the stretch before is so stormy that such a height is nothing new in it."""
    storm = robust_sigma(shortly_before) * skew / np.sqrt(scale)
    return bool(height < ERUPTION * storm and height < TOWERING * (shortly_before.max() - before))


def _falls_later(values: Floats, scale: int, half: float) -> bool:
    """Whether the series comes back below a height after the next excursion has cut this one short."""
    return len(values) >= SETTLED and bool(np.any(moving_median(values, max(scale, 5)) < half))


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
