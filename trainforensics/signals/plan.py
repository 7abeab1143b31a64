"""What the learning rate does against a declared schedule, for those who know what was declared.

Moves that a single smooth decay does not hold (a gentle way back up, a decay that comes again, a fall at once, a
stand), a warm-up that is cut, and declared moves of which nothing is seen.
"""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.schedule import (
    ANEW,
    FEWEST,
    FEWEST_OF_TOOTH,
    LOW_END,
    MOVE,
    STRAIGHT,
    ZERO,
    ScheduleFault,
    rises,
    warmed_up,
)
from trainforensics.signals.stretches import stretches

DECAY_POINTS, STEADILY = 30, 0.7  # points of a decay before it stops, and the share of them that fall: few decimals
STANDING, STILL_HIGH, WOULD_FALL = 0.1, 0.25, 0.1  # of the log, of the peak, of the rate had it gone on
AT_ONCE = 0.3  # of the time between two restarts: a rise that takes longer is half of a wave
LINE_POINTS, ON_LINE = 20, 0.02  # points of a linear warm-up, and the share of its height by which they leave the line
CUT_SHORT, LEAP = 0.95, 0.2  # of the declared warm-up; share of the rate by which it leaps off the line
DROP, FAR_SMALLER = 0.3, 0.2  # of the peak, more than what a cosine skips beside its warm-up; of it, other moves
SEEN_FROM = 0.1  # of a warm-up, by when the log must have begun
FEWEST_WARMING, WHOLE = 3, 0.99  # points that tell a line through the origin; share of the planned steps
RANGE_TEST = 0.5  # what a search for the highest rate goes beyond, and a warm-up does not
LATE_CUT = 2  # times the step at which a cut was due: steps may be counted before gradients are accumulated


def climb_back(curve: Curve) -> ScheduleFault | None:
    """Where a decayed rate turns and climbs gently to half of its peak or more; a rise at once is a restart."""
    rate = curve.value[curve.finite]
    warm = warmed_up(rate)
    peak = float(rate.max())
    first, last = stretches(rate[warm:] <= LOW_END * peak)  # of several ways down the first counts
    if not len(first):
        return None
    low = warm + int(first[0]) + int(np.argmin(rate[warm + first[0] : warm + last[0] + 1]))
    after = rate[low:]
    if len(rate) < FEWEST or len(after) < FEWEST_OF_TOOTH or rate[low] > LOW_END * peak or rate[warm] < 0.5 * peak:
        return None
    top = low + int(np.argmax(after))
    if rate[top] < 0.5 * peak or np.diff(rate[low : top + 1]).max() > 0.5 * (rate[top] - rate[low]):
        return None
    onset = min(len(rate) - 1, low + 1)
    return ScheduleFault("back", onset, len(rate) - 1, float(rate[warm]), float(rate[top]))


def comes_again(curve: Curve) -> ScheduleFault | None:
    """A decay that comes again and again at even distances, the rate rising at once from its low end in between."""
    rate = curve.value[curve.finite]
    peak = float(rate.max(initial=0.0))
    ups = [up for up in rises(rate, warmed_up(rate)) if rate[up[0]] <= LOW_END * peak and rate[up[1]] >= 0.5 * peak]
    if len(ups) < ANEW:
        return None
    gaps = np.diff([-1, *(low for low, _ in ups)])
    sudden = all(high - low <= AT_ONCE * gaps.mean() for low, high in ups)
    if not sudden or np.ptp(gaps) > 0.1 * float(gaps.mean()) + 1 or gaps.min() < FEWEST_OF_TOOTH:
        return None
    low = ups[0][0]
    return ScheduleFault("again", low + 1, len(rate) - 1, peak, float(rate[low]))


def drop(curve: Curve) -> ScheduleFault | None:
    """One fall at once and for good in a schedule that otherwise moves in far smaller steps; None for any other."""
    rate = curve.value[curve.finite]
    moves = np.diff(rate)
    at, peak = int(np.argmin(moves)) + 1 if len(moves) else 0, float(rate.max(initial=0.0))
    others = np.abs(np.delete(moves, at - 1))
    others = others[others > 0]
    if not FEWEST_OF_TOOTH <= at < len(rate) - FEWEST_OF_TOOTH or len(others) < FEWEST:
        return None
    size = float(rate[at - 1] - rate[at])
    kept = float(rate[at:].max()) <= rate[at] + MOVE * peak and rate[at] > ZERO * peak
    if size < DROP * peak or float(np.quantile(others, 0.95)) > size * FAR_SMALLER or not kept:
        return None
    return ScheduleFault("drop", at, len(rate) - 1, float(rate[at - 1]), float(rate[at]))


def warmup_cut(curve: Curve, planned: int) -> ScheduleFault | None:
    """A straight warm-up over `planned` steps that ends earlier by a leap to its goal; None for any other."""
    rate, step = curve.value, curve.step.astype(np.float64)
    early = rate[step < CUT_SHORT * planned]
    at = int(np.argmax(np.diff(early))) + 1 if len(early) > LINE_POINTS else 0
    if at < LINE_POINTS or rate[at] < (1 - STRAIGHT) * rate.max():
        return None
    slope, start = np.polyfit(step[:at], rate[:at], 1)
    goal = slope * planned + start
    straight = np.abs(rate[:at] - slope * step[:at] - start).max() <= ON_LINE * rate[at - 1]
    leaps = rate[at] - slope * step[at] - start >= LEAP * rate[at] and abs(goal - rate[at]) <= LEAP * goal
    return ScheduleFault("short", at, at, float(rate[at - 1]), float(rate[at])) if straight and leaps else None


def stopped_decay(rate: Floats) -> ScheduleFault | None:
    """A decay that went on from point to point and stands still from one on, far above its end; None for any other.

    A decay that has reached its end is low, or was hardly moving any more.
    """
    n, peak = len(rate), float(rate.max())
    moves = np.diff(rate)
    moved = np.flatnonzero(np.abs(moves) > 1e-9 * peak)
    last = int(moved[-1]) if len(moved) else 0
    before = moves[max(0, last + 1 - DECAY_POINTS) : last + 1]
    rest = n - 1 - last
    if len(before) < DECAY_POINTS or np.mean(before < 0) < STEADILY or np.any(before > 0) or rest < STANDING * n:
        return None
    if rate[-1] < STILL_HIGH * peak or -float(before.mean()) * rest < WOULD_FALL * rate[-1]:
        return None
    return ScheduleFault("stands", last + 2, n - 1, float(rate[last + 1]), float(rate[-1]))


def undecayed(curve: Curve, planned: int, share: float) -> int | None:
    """Index from which on a rate rests where a decay over the planned steps must have been seen by half of them.

    None where it has moved by a `share` of its peak, or only rests since later than half of the log.
    """
    rate, step, last = curve.value, curve.step, int(curve.step[-1])
    warm, peak = warmed_up(rate), float(rate.max())
    if last < planned / 2 or rate[-1] < (1 - share) * peak:
        return None
    if peak <= 0 or float(np.ptp(rate[warm:])) > share * peak or step[warm] > last / 2:
        return None
    return warm


def unmoved(curve: Curve, due: int) -> int | None:
    """Index from which on a rate should have been cut at step `due`, and has not moved at all until twice that step."""
    warm = warmed_up(curve.value)
    at = int(np.searchsorted(curve.step, due, side="right"))
    if at >= len(curve) or curve.step[-1] < LATE_CUT * due or warm >= at or not curve.value[-1] > 0:
        return None
    return at if float(np.ptp(curve.value[warm:])) <= 1e-6 * curve.value[-1] else None


def unwarmed(curve: Curve, planned: int) -> bool:
    """Whether a rate does not move at all over a warm-up of `planned` steps that the log shows from its start on."""
    early = curve.value[curve.step <= planned]
    seen = len(curve) > len(early) >= FEWEST and curve.step[0] <= SEEN_FROM * planned
    return seen and early[0] > 0 and float(np.ptp(early)) <= 1e-6 * float(early[0])


def still_warming(curve: Curve, planned: int) -> bool:
    """Whether a rate climbs in a straight line from zero up to the end of all `planned` steps: its warm-up is longer
    than the run."""
    rate, step = curve.value, curve.step.astype(np.float64)
    if len(curve) < FEWEST_WARMING or not WHOLE * planned <= step[-1] <= planned / WHOLE:
        return False
    if float(np.diff(rate).min()) <= 0:
        return False
    if rate[-1] >= RANGE_TEST:
        return False
    slope, start = np.polyfit(step, rate, 1)
    straight = np.abs(rate - slope * step - start).max() <= ON_LINE * rate[-1]
    return bool(straight and step[0] <= 2 * curve.cadence and abs(start) <= slope * curve.cadence)
