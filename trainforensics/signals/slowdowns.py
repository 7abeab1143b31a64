"""Where the time that a run takes for its work rose for long."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.departure import knee
from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import printed_grid, robust_sigma
from trainforensics.signals.pace import MIN_POINTS, Pace
from trainforensics.signals.regimes import high_stretches, in_every_part, last_points_up, lasting_step_up, steady_climb
from trainforensics.signals.saw import is_saw

START_SHARE, START_POINTS = 0.02, 5  # of the log: compilation and caches
FEWEST_SLOW, COSTLY = 5, 0.2  # points, no pause; time lost in that of all of the log at its usual pace
LASTING_SHARE, LASTING_POINTS = 0.1, 20  # of the log, and points, for a slow stretch that ended
HIGH, COSTLY_STRETCH = float(np.log(1.3)), 0.1  # of a stretch above all else: its logarithm, and time lost as above
FEWEST_FAST, FAST = 3, float(np.log(1.5))  # points of a fast start; how far all others are above it, in logarithms
STAIR, STEEP = 10, 2.0  # points on either side; widths of the point-to-point noise, 5 of such a difference
PAUSE, FEWEST_PAUSES = 6.0, 4  # widths of the point-to-point noise; lone points that make a habit
TELLING = 1.5  # units of the last printed digit; 3 frames a second and 2 may be 3.0 and 2.9


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The time per unit of work rose by `factor` at index `onset` of the pace and stayed up until `end`.

    `before` and `since` are medians of the time or its inverse as logged.
    """

    onset: int
    end: int
    factor: float
    z: float
    before: float
    since: float
    lasting: bool
    gradual: bool


def slowdowns(pace: Pace) -> tuple[Slowdown, ...]:
    """Where the time per unit of work left its noise upwards for long; start-up set aside."""
    n = len(pace.curve)
    settled = _settled(n)
    curve = _without_pauses(pace.curve.take(np.arange(n) >= settled))
    if is_saw(curve.value):
        return ()
    climb = _climb(pace, curve.value, settled)
    found = [] if climb is not None else _levels(pace, curve.value, settled)
    left = [_of_excursion(pace, curve, e, settled) for e in excursions(curve)]
    # noise hides the beginning of a slope from a look at single points
    from_start = climb is not None and climb.onset <= settled and in_every_part(curve.value)
    for slow in (climb, *left) if from_start else (*left, climb):
        if slow is not None and not any(known.onset <= slow.end and slow.onset <= known.end for known in found):
            found.append(slow)
    if not found and (early := _early(pace, settled)) is not None:
        found = [early]
    grid = printed_grid(pace.logged.value)
    told = (slow for slow in found if abs(slow.since - slow.before) >= TELLING * grid)
    return tuple(sorted(told, key=lambda slow: slow.onset))


def _early(pace: Pace, settled: int) -> Slowdown | None:
    """A pace that none of all later points reaches after the first few: what starts up is slow, not fast."""
    value, n = pace.curve.value, len(pace.curve)
    at = np.arange(FEWEST_FAST, min(max(settled, START_POINTS), n - FEWEST_SLOW) + 1)
    if not len(at):
        return None
    highest, lowest = (of.accumulate(value[::-1])[::-1][at] for of in (np.maximum, np.minimum))
    apart = lowest - np.maximum.accumulate(value)[at - 1]
    early = at[apart >= np.maximum(FAST, highest - lowest)]
    return _level(pace, value, int(early[0]), n, 0) if len(early) else None


def _without_pauses(curve: Curve) -> Curve:
    """The curve with the lone high points at even distances, as of the first batch of each epoch, put level with those
    beside them: each would cut short whatever lasts over it."""
    value = curve.value
    beside = np.maximum(value[:-2], value[2:])
    far = PAUSE * robust_sigma(np.diff(value)) if len(value) > 1 else np.inf
    lone = np.flatnonzero(value[1:-1] - beside > max(far, HIGH)) + 1
    apart = np.diff(lone)
    if len(lone) < FEWEST_PAUSES or np.ptp(apart) > 1 or apart.min() < FEWEST_SLOW:
        return curve
    level = value.copy()
    level[lone] = (value[lone - 1] + value[lone + 1]) / 2
    return replace(curve, value=level)


def _settled(n: int) -> int:
    """Points at the start that are left out."""
    return max(START_POINTS, int(START_SHARE * n)) if n >= MIN_POINTS else max(1, n // 8)


def _of_excursion(pace: Pace, curve: Curve, e: Excursion, settled: int) -> Slowdown | None:
    """An excursion that lasts, or takes much of the time of the log."""
    n, to_end = len(pace.curve), not e.returned
    long = (len(curve) if to_end else e.end) - e.onset
    if long < FEWEST_SLOW:
        return None
    slow = _slowdown(pace, curve, e, settled, to_end)
    least = min(LASTING_POINTS, n // 4)
    lasting = long >= (least if to_end else max(least, int(LASTING_SHARE * n)))
    return slow if lasting or long * (slow.factor - 1) >= COSTLY * n else None


def _levels(pace: Pace, value: Floats, settled: int) -> list[Slowdown]:
    """Levels that nearly no other point reaches: one kept to the end, and stretches that take much of the time."""
    n = len(value)
    at = lasting_step_up(value)
    at = last_points_up(value, HIGH) if at is None else at
    if at is not None:
        slow = _level(pace, value, at, n, settled)
        if n - at >= min(LASTING_POINTS, n // 4) or (n - at) * (slow.factor - 1) >= COSTLY * n:
            return [slow]
    found = [_level(pace, value, first, stop, settled) for first, stop in high_stretches(value, HIGH)]
    return [slow for slow in found if (slow.end - slow.onset + 1) * (slow.factor - 1) >= COSTLY_STRETCH * n]


def _climb(pace: Pace, value: Floats, settled: int) -> Slowdown | None:
    """A climb of the floor to the end, by its first and last eighth; None where there is none to speak of."""
    start = steady_climb(np.exp(value - np.median(value)))
    if start is None:
        return None
    width = max(START_POINTS, (len(value) - start) // 8)
    first, last = slice(start, start + width), slice(len(value) - width, None)
    lift = float(np.median(value[last]) - np.median(value[first]))
    if lift < HIGH:
        return None
    logged = pace.logged.value[settled:]
    before, since = float(np.median(logged[first])), float(np.median(logged[last]))
    z = lift / _noise(pace, np.diff(value) / np.sqrt(2))
    end = len(value) - 1 + settled
    begun = start + settled
    if start == 0 and float(np.max(pace.curve.value[:settled], initial=-np.inf)) <= float(np.median(value[first])):
        begun = 0  # what is left out of other logs, a slow start, was part of it
    return Slowdown(begun, end, float(np.exp(lift)), z, before, since, lasting=True, gradual=True)


def _noise(pace: Pace, value: Floats) -> float:
    """Width of logarithms, no less than rounding makes it."""
    return max(robust_sigma(value), printed_grid(pace.logged.value) / float(np.median(pace.logged.value)) / 2, 1e-3)


def _level(pace: Pace, value: Floats, first: int, stop: int, settled: int) -> Slowdown:
    """A level in [first, stop) against all other points."""
    others = np.ones(len(value), dtype=bool)
    others[first:stop] = False
    lift = float(np.median(value[first:stop]) - np.median(value[others]))
    logged = pace.logged.value[settled:]
    before, since = float(np.median(logged[others])), float(np.median(logged[first:stop]))
    z, lasting = lift / _noise(pace, value[others]), stop == len(value)
    return Slowdown(first + settled, stop - 1 + settled, float(np.exp(lift)), z, before, since, lasting, gradual=False)


def _slowdown(pace: Pace, curve: Curve, e: Excursion, settled: int, to_end: bool) -> Slowdown:
    last = len(curve) if to_end else e.end
    # a slope is measured where it has arrived, a step over all of its length
    half = e.onset + (last - e.onset) // 2
    since = slice(half, last)
    earlier = slice(max(0, e.onset - max(64, (last - e.onset) // 2)), e.onset)
    factor = float(np.exp(np.median(curve.value[since]) - np.median(curve.value[earlier])))
    logged = pace.logged.value[settled:]
    before, now = float(np.median(logged[earlier])), float(np.median(logged[since]))
    gradual = e.shape == "rise" and e.rise > 0.1 * (last - e.onset)
    onset = e.onset
    if gradual and not _steps_up(curve.value, onset):
        # a slope begins where it bends, which noise hides from a look at single points
        low = max(0, e.onset - e.rise)
        onset = low + knee(curve.value[low : max(e.onset, e.knee) + e.rise + 1])
    return Slowdown(onset + settled, last - 1 + settled, factor, e.z, before, now, to_end, gradual)


def _steps_up(value: Floats, at: int) -> bool:
    """Whether the levels on both sides of a point differ at once by more than noise: the first of several stairs."""
    before, since = value[max(0, at - STAIR) : at], value[at : at + STAIR]
    noise = robust_sigma(np.diff(value)) / np.sqrt(2)
    return len(before) >= STAIR // 3 and float(np.median(since) - np.median(before)) > STEEP * noise
