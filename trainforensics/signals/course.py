"""The ground that a climb sets out from, and the course it takes from there on a smoothed series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.pyramid import Candidate, Pyramid
from trainforensics.signals.trend import WINDOW, moving_median

LOOKBACK = 1024  # blocks before a candidate in which its ground is sought


@dataclass(frozen=True, slots=True)
class Ground:
    """What a climb set out from: the level, the noise of single points there (`sigma`) and of the smoothed series."""

    level: float
    sigma: float
    noise: float


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """The smoothed series as far as needed, and indices into it: its first `top`, where it fell below half of its
    height (`turn`, its length where never), the `peak` in between, and where it was back inside the noise (`calm`, -1
    where never)."""

    smooth: Floats
    top: int
    turn: int
    peak: int
    calm: int

    @property
    def returned(self) -> bool:
        """Whether it came back below half of its height as far as it was seen."""
        return self.turn < len(self.smooth) or self.calm >= 0

    def back(self, otherwise: int) -> int:
        """Where it was back inside the noise, else the lowest point after it turned; `otherwise` where it never did."""
        if self.calm >= 0:
            return self.calm
        return self.turn + int(np.argmin(self.smooth[self.turn :])) if self.returned else otherwise


def ground_of(series: Pyramid, candidate: Candidate, first: int) -> Ground | None:
    """The lowest smoothed point before a candidate, looking back to `first` at most and until the series stood clearly
    higher; None where nothing precedes."""
    start, scale = candidate.start, candidate.scale
    space, width = series.values[first:start], 4 * scale + 1
    if len(space) < 3:
        return None
    upward = series.finest.sigma[first:start] * series.finest.skew
    back = moving_median(space, width)[::-1]
    lowest = np.minimum.accumulate(back)
    higher = np.flatnonzero(back > lowest + 4 * float(upward[-1]) / np.sqrt(width))
    reach = int(higher[0]) if len(higher) and higher[0] > 0 else len(back)
    at = int(np.argmin(back[:reach]))
    sigma = float(upward[-1 - at])
    return Ground(float(back[at]), sigma, sigma * min(1.0, series.finest.persistence(1) / np.sqrt(scale)))


def course_of(space: Floats, candidate: Candidate, first: int, ground: Ground) -> Course:
    """The course that a candidate takes from `first` on; looks ahead in growing steps."""
    scale, start, stop = candidate.scale, candidate.start - first, candidate.stop - first
    ahead = max(4 * WINDOW * scale, stop - start)
    while True:
        course = _followed(space[: start + ahead], candidate, start, stop, ground)
        settled = course.calm >= 0 and course.turn < len(course.smooth) - 2 * scale
        if settled or start + ahead >= len(space):
            return course
        ahead *= 4


def _followed(seen: Floats, candidate: Candidate, start: int, stop: int, ground: Ground) -> Course:
    """The course as far as it is seen, of a candidate in [start, stop)."""
    smooth = moving_median(seen, candidate.scale)
    top = start + int(np.argmax(smooth[start:stop]))
    steady = smooth[top:] if candidate.scale > 1 else moving_median(smooth[top:], 5)
    # a jump is as high as what lasts of it, a burst as its highest point
    highest = np.maximum.accumulate(steady if candidate.jump else smooth[top:])
    below = np.flatnonzero(steady - ground.level < 0.5 * (highest - ground.level))
    turn = top + int(below[0]) if len(below) else len(smooth)
    peak = top + int(np.argmax(smooth[top : max(turn, top + 1)]))
    calm = np.flatnonzero(moving_median(seen[peak:], 5) <= ground.level + 2 * ground.noise)
    return Course(smooth, top, turn, peak, peak + int(calm[0]) if len(calm) else -1)
