"""One excursion measured: where a climb out of the noise begins, peaks and ends, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from trainforensics.model import Recovery
from trainforensics.signals.course import LOOKBACK, Course, Ground, course_of, ground_of
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.pyramid import MIN_COMPANION, MIN_JUMP, Candidate, Pyramid
from trainforensics.signals.trend import WINDOW, moving_median

MIN_VISIBLE = 2.0  # a rise of less than this many widths of the point-to-point noise is left alone
FEW_POINTS = 2  # a climb to half its height within this many logged points is sudden
SETTLED = 8  # points from an onset on before "it does not come back" may be said
NEAREST = 3  # points before a burst that tell its level on a descent
MOST = 0.7  # of the points at the top of a smoothed climb must be high themselves: two outliers are no climb
ERUPTION, TOWERING = 4.0, 2.0  # widths of the noise, heights of the highest, in the 16 points before
LEFT, FALLING = 0.1, 0.25  # of a height, that is not most of the way back; of what is left, that a third still falls by
STILL_CLIMBS = 0.4  # of its gain on the third before, that the last third gains itself; a straight climb gains half
FIRST_POINTS = 3  # at the start of a log have no level before them
BEYOND_COUNT = 1e6  # noise widths that nobody reads digit by digit
LITTLE = 0.25  # of the height of a burst: a wobble that leads up to its leap
FOOT = 0.1  # of the height of a burst: what lies below before the jump is its noise
# Points that rise one after another before an onset (independent noise does so once in 24); times any rise before them.
UNBROKEN, ABOVE_USUAL = 3, 2.0
FAR_ABOVE = 10.0  # times any rise before it: a point that belongs to the climb, however wide its descent made the noise
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

    @classmethod
    def plain(
        cls,
        values: Floats,
        onset: int,
        peak: int,
        *,
        before: float,
        after: float,
        sigma: float,
        recovery: Recovery,
        shape: Literal["burst", "rise"] = "burst",
        knee: int | None = None,
        half: int | None = None,
        end: int | None = None,
        rise: int = 1,
        height: float | None = None,
        scale: int = 1,
    ) -> Excursion:
        """One that is judged by the values as logged. It lasts to the last point, begins steep at its onset and is
        as high as its peak is above the level before, unless told otherwise."""
        last = len(values) - 1
        return cls(
            shape=shape,
            onset=onset,
            knee=onset if knee is None else knee,
            peak=peak,
            half=last if half is None else half,
            end=last if end is None else end,
            rise=rise,
            height=float(values[peak]) - before if height is None else height,
            sigma=sigma,
            before=before,
            after=after,
            recovery=recovery,
            returned=recovery in ("recovered", "partial"),
            scale=scale,
        )

    def later_by(self, points: int) -> Excursion:
        """The same with all indices counted from so many points earlier."""
        at = {name: getattr(self, name) + points for name in ("onset", "knee", "peak", "half", "end")}
        return replace(self, **at)


@dataclass(frozen=True, slots=True)
class _Climb:
    """The way up: its first point (an index into the course), the points to half of its height, and that height above
    the level `before`."""

    onset: int
    rise: int
    before: float
    height: float

    @property
    def sudden(self) -> bool:
        """Whether it is a burst, and no rise."""
        return self.rise <= FEW_POINTS


def measure(series: Pyramid, candidate: Candidate, limit: int, undo: Callable[[Any], Any]) -> Excursion | None:
    """Onset, peak, end and recovery of a candidate that looks no further than `limit`; `undo` leads back to values as
    logged. None for what is no excursion after all."""
    values, scale = series.values, candidate.scale
    first = max(0, candidate.start - LOOKBACK * scale)
    ground = ground_of(series, candidate, first)
    if ground is None:
        return None
    course = course_of(values[first:limit], candidate, first, ground)
    crest = values[first + course.peak - scale // 2 : first + course.peak + (scale + 1) // 2]
    if not _stands_out(course, ground, crest, jump=candidate.jump):
        return None
    onset = _onset(course, ground, scale)
    shortly_before = values[max(0, first + onset - WINDOW) : first + onset]
    if _ordinary(course.smooth[course.peak] - ground.level, shortly_before, ground.level, series.finest.skew, scale):
        return None
    climb = _climb(course, onset, ground, shortly_before, undo, scale)
    returned = course.returned or _falls_later(values[limit:], scale, climb.before + 0.5 * climb.height)
    if climb.sudden and returned and _is_start(values, first + climb.onset, climb.height):
        return None
    recovery = _recovery(returned, course.calm >= 0, values[first + climb.onset : limit], climb, limit == len(values))
    lost = recovery in ("unrecovered", "diverging")
    end = first + course.back(otherwise=limit - 1 - first)
    begun = first + climb.onset
    if not returned:
        begun = _first_of_climb(values, _first_far_above(values, begun), sudden=climb.sudden)
    after = values[max(first + course.peak, limit - WINDOW * scale) if lost else end :][: WINDOW * scale]
    return Excursion(
        shape="burst" if climb.sudden else "rise",
        onset=begun,
        knee=begun + _knee(course.smooth[begun - first : course.peak + 1], climb.before, climb.height),
        peak=first + course.peak,
        half=min(first + course.turn, end),
        end=end,
        rise=climb.rise,
        height=climb.height,
        sigma=ground.sigma,
        before=float(undo(_level_before(climb, shortly_before, ground.sigma) if returned else climb.before)),
        after=float(undo(float(np.median(after)))),
        recovery=recovery,
        returned=returned,
        scale=scale,
    )


def _stands_out(course: Course, ground: Ground, crest: Floats, *, jump: bool) -> bool:
    """Whether a course is high enough, and most of the points around its peak are high themselves."""
    height = float(course.smooth[course.peak] - ground.level)
    if height < max((MIN_JUMP if jump else MIN_COMPANION) * ground.noise, MIN_VISIBLE * ground.sigma):
        return False
    return not np.mean(crest > ground.level + 0.5 * height) < MOST


def _is_start(values: Floats, onset: int, height: float) -> bool:
    """Whether a start-up has no level to come back to yet: in its first points, or where each since the first is higher
    than the one before, by half of the height in all."""
    before = values[:onset]
    return onset < FIRST_POINTS or bool(before[-1] - before[0] > height / 2 and np.diff(before).min() > 0)


def _onset(course: Course, ground: Ground, scale: int) -> int:
    """The first point from which the course is outside the noise up to its top."""
    inside = np.flatnonzero(course.smooth[: course.top + 1] <= ground.level + OUTSIDE.get(scale, 2.0) * ground.noise)
    return int(inside[-1]) + 1 if len(inside) else 0


def _climb(
    course: Course, onset: int, ground: Ground, shortly_before: Floats, undo: Callable[[Any], Any], scale: int
) -> _Climb:
    """The climb from a first point outside the noise. A rise is told against its ground; a burst against the level it
    came from, and from its foot on, a tenth of its height."""
    smooth, before = course.smooth[: course.peak + 1], ground.level
    height = float(smooth[-1] - before)
    foot = _foot(smooth[onset:], before, height)
    logged, floor = undo(smooth[onset + foot :]), float(undo(before))
    rise = int(np.argmax(logged >= floor + 0.5 * (logged[-1] - floor)))
    leap = _leap(smooth[onset + foot :], before, height, scale) if rise > FEW_POINTS >= scale else 0
    if rise > FEW_POINTS and not leap:
        return _Climb(onset, foot + rise, before, height)
    onset, rise = onset + foot + leap, 0 if leap else rise
    if len(shortly_before):
        before = float(np.median(shortly_before))
        height = float(smooth[-1]) - before
        onset += _foot(smooth[onset:], before, height)
    return _Climb(onset, rise, before, height)


def _leap(climb: Floats, before: float, height: float, scale: int) -> int:
    """Index of the first point of those that gain most of the height at once, as far as medians of `scale` points show
    it, where what led up to them is little of it; else 0."""
    gained = climb[scale:] - climb[:-scale]
    if not len(gained):
        return 0
    at = int(np.argmax(gained))
    return at + 1 if gained[at] >= 0.5 * height and climb[at] - before <= LITTLE * height else 0


def _level_before(climb: _Climb, shortly_before: Floats, sigma: float) -> float:
    """The level before a climb; of a burst on a descent, that of the last points."""
    last = float(np.median(shortly_before[-NEAREST:])) if climb.sudden and len(shortly_before) else climb.before
    return last if climb.before - last > sigma else climb.before


def _foot(climb: Floats, before: float, height: float) -> int:
    """Points up to the foot of a climb."""
    return int(np.argmax(climb >= before + FOOT * height))


def _ordinary(height: float, shortly_before: Floats, before: float, skew: float, scale: int) -> bool:
    """Whether the stretch before is so stormy that such a height is nothing new in it, or the log so young that its
    noise is not known yet and the height was risen to already."""
    if not len(shortly_before):
        return False
    risen_to = shortly_before[1:][np.diff(shortly_before) > 0]
    if len(shortly_before) < WINDOW and len(risen_to) and before + height <= risen_to.max():
        return True
    storm, highest = robust_sigma(shortly_before), float(shortly_before.max() - before)
    if len(shortly_before) >= SETTLED:
        risen = shortly_before - np.minimum.accumulate(shortly_before)  # a fall is no storm
        storm, highest = min(storm, robust_sigma(risen)), min(highest, float(risen.max()))
    return height < ERUPTION * storm * skew / np.sqrt(scale) and height < TOWERING * highest


def _falls_later(values: Floats, scale: int, half: float) -> bool:
    """Whether the series comes back below a height after the next excursion has cut this one short."""
    return len(values) >= SETTLED and bool(np.any(moving_median(values, max(scale, 5)) < half))


def _knee(climb: Floats, before: float, height: float) -> int:
    """Index at which the shortest stretch that gains half of the height begins; 0 for an even climb."""
    if len(climb) < 10:
        return 0
    gained = np.maximum.accumulate(climb) - before
    reach = np.searchsorted(gained, gained + height / 2)
    length = np.where(reach < len(gained), reach - np.arange(len(gained)), len(gained))
    at = int(np.argmin(length))
    return at if length[at] < len(climb) / 5 else 0


def _first_far_above(values: Floats, onset: int) -> int:
    """The first of the points right before an onset that rose far more than any point before them did, and than the
    last of those moved."""
    moves = np.diff(values[:onset])
    while len(moves) > WINDOW:
        before = moves[-1 - WINDOW : -1]
        if moves[-1] <= FAR_ABOVE * max(before.max(), float(np.median(np.abs(before[-WINDOW // 2 :])))):
            break
        moves = moves[:-1]
    return len(moves) + 1


def _first_of_climb(values: Floats, onset: int, *, sudden: bool) -> int:
    """Where what never came back began to climb, point after point, before it was out of the noise; the onset itself
    where so few points rose, or by so little, that noise does as much. A slow one: from the first point of a log."""
    moves = np.diff(values[:onset])
    falls = np.flatnonzero(moves <= 0)
    first = int(falls[-1]) + 2 if len(falls) else 1
    if not sudden:
        return first if first == 1 <= onset else onset
    if onset - first < UNBROKEN:
        return onset
    usual = max(float(moves[max(0, first - 1 - WINDOW) : first - 1].max(initial=0.0)), 0.0)
    return first if values[onset - 1] - values[first - 1] > ABOVE_USUAL * usual else onset


def _recovery(returned: bool, calm: bool, since: Floats, climb: _Climb, to_the_end: bool) -> Recovery:
    """What became of it; `since` holds the points from the onset on. What came back but in part, and then stays above
    the level before as far as the log goes, is lost as well."""
    if calm:
        return "recovered"
    third = len(since) // 3
    if len(since) < SETTLED:
        return "partial" if returned else "ongoing"
    late, middle = float(np.median(since[-third:])), float(np.median(since[third:-third]))
    if not returned:
        first, last = (float(np.median(half)) for half in np.array_split(since[-third:], 2))
        climbs = late > middle + 0.1 * climb.height and last - first > STILL_CLIMBS * (late - middle)
        return "diverging" if climbs else "unrecovered"
    left = late - climb.before
    stays = to_the_end and third >= SETTLED and left > LEFT * climb.height and middle - late < FALLING * left
    return "unrecovered" if stays else "partial"
