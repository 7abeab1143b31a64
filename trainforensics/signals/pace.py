"""How long a run takes for its work: seconds a step or a unit of data, and where it turned slower for long."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.signals.batch import batch_size
from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.departure import knee
from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import medians, printed_grid, robust_sigma
from trainforensics.signals.regimes import high_stretches, in_every_part, lasting_step_up, steady_climb
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps, stretches

Basis = Literal["rate", "duration", "clock"]
MIN_POINTS, FEWEST_POINTS = 40, 10  # of a log of steps, and of one of epochs or longer
START_SHARE, START_POINTS = 0.02, 5  # of the log: compilation and caches
ALIKE = 0.4  # of the highest tooth of a saw that each must climb
UNEVEN = 0.15  # of a tooth by which their lengths may differ
CLIMBED = 0.2  # of its fall that a tooth climbs between its outer thirds; a flat course does not
FEWEST_SLOW, COSTLY = 5, 0.2  # points, no pause; time lost in that of all of the log at its usual pace
LASTING_SHARE, LASTING_POINTS = 0.1, 20  # of the log, and points, for a slow stretch that ended
HIGH, COSTLY_STRETCH = float(np.log(1.3)), 0.1  # of a stretch above all else: its logarithm, and time lost as above
STAIR, STEEP = 10, 2.0  # points on either side; widths of the point-to-point noise, 5 of such a difference
TELLING = 1.5  # units of the last printed digit; 3 frames a second and 2 may be 3.0 and 2.9
WALL_TIME = "wall time per step"  # name of the series that the time stamps make
RESETS = 0.05  # share of falls at which a clock may start anew (each epoch)
_CLOCK = re.compile(
    r"(^|[/_. ])(elapsed(_time|_seconds|_s)?|time_elapsed|wall(_?time|_?clock)?|train_wall)$", re.IGNORECASE
)
_UNIT = "(epoch|iter|it|step|batch)"
_PER_UNIT = re.compile(
    rf"(^|[^a-z])(epoch[ _](time|duration|secs|seconds)|(s|secs?|seconds|ms|time)([ _]per[ _]|/){_UNIT})", re.IGNORECASE
)
BULK = 0.1  # share of clock differences next to nothing above which rows were written in bulk


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """Logarithm of the time per unit of work, shape (n,), and what it was read from."""

    curve: Curve
    logged: Curve
    basis: Basis


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


def paces(signals: Signals) -> tuple[Pace, ...]:
    """Every way in which the run's log tells its pace, the best first: rates, durations, the wall clock."""
    found = []
    for role in ("tokens_per_sec", "step_time", "mfu"):  # the last is often a running mean
        curve = _momentary(signals, role)
        if curve is None or (usable := _positive(curve)) is None:
            continue
        if role == "step_time":
            found.append(Pace(_with(usable, np.log(usable.value) - _work(signals, usable)), usable, "duration"))
        else:
            found.append(Pace(_with(usable, -np.log(usable.value)), usable, "rate"))
    clock = None if found else clock_durations(signals) or _logged_clock_durations(signals)
    if clock is not None:
        found.append(Pace(_with(clock, np.log(clock.value) - _work(signals, clock)), clock, "clock"))
    return tuple(found)


def accumulates(curve: Curve) -> bool:
    """Whether a series hardly ever falls within a process life and mostly rises: a clock or a counter. What is measured
    anew at each step falls as often as it rises, unless it grows all along; then its name must say what it is of."""
    curve = curve.only_finite()
    if _PER_UNIT.search(curve.name):
        return False
    moves = np.diff(curve.value)[np.diff(curve.segment) == 0]
    return len(moves) >= 5 and float(np.mean(moves < 0)) <= RESETS and float(np.mean(moves > 0)) >= 0.5


def _momentary(signals: Signals, role: str) -> Curve | None:
    """The series that speaks for a role among those that do not accumulate."""
    curve = signals.curve(role)
    if curve is None or not accumulates(curve):
        return curve
    return next((c for c in signals.curves(role) if c.series.rank is None and not accumulates(c)), None)


def logged_clock(signals: Signals) -> Curve | None:
    """The logged seconds since the start, of which a fraction of a second tells; None where there are none."""
    clocks = (*signals.curves("step_time"), *(c for c in signals.unmapped if _CLOCK.search(c.name)))
    for curve in (c.only_finite() for c in clocks if c.series.rank is None):
        counts = curve.series.role is not None and bool(np.all(curve.value % 1 == 0))
        if not counts and accumulates(curve):
            return curve
    return None


def _logged_clock_durations(signals: Signals) -> Curve | None:
    """Seconds per step from a logged clock."""
    curve = logged_clock(signals)
    if curve is None:
        return None
    seconds, steps = np.diff(curve.value), np.diff(curve.step)
    later = np.flatnonzero((np.diff(curve.segment) == 0) & (seconds > 0) & (steps > 0)) + 1
    return _positive(_with(curve.take(later), seconds[later - 1] / steps[later - 1]))


def _positive(curve: Curve) -> Curve | None:
    curve = curve.take(curve.finite & (curve.value > 0))
    return curve if len(curve) >= FEWEST_POINTS else None


def _with(curve: Curve, value: Floats) -> Curve:
    return replace(curve, value=value, superseded=None)


def _work(signals: Signals, curve: Curve) -> Floats:
    """Logarithm of the data per step at the steps of the curve: batch size times sequence length, where logged."""
    total = np.zeros(len(curve))
    for size in (batch_size(signals), signals.curve("seq_len")):
        if size is not None:
            values = at_steps(size, curve.step)
            usual = np.isfinite(values) & (values > 0)
            if usual.mean() > 0.9:
                total += np.log(np.where(usual, values, np.median(values[usual])))
    return total


def clock_durations(signals: Signals) -> Curve | None:
    """Seconds per step between neighbouring points by their wall times; None where these do not tell."""
    curve = signals.curve("train_loss") or max(signals.every_curve(), key=len, default=None)
    if curve is None or len(curve) < MIN_POINTS + 1:
        return None
    seconds, steps = np.diff(curve.time), np.diff(curve.step)
    same_life = np.diff(curve.segment) == 0
    known = np.isfinite(seconds) & (steps > 0) & same_life
    later = np.flatnonzero(known) + 1
    if len(later) < MIN_POINTS:
        return None
    value = seconds[later - 1] / steps[later - 1]
    usual = float(np.median(value))
    if usual <= 1e-3 or float(np.mean(value < usual / 20)) > BULK:
        return None
    times = _positive(_with(curve.take(later), value))
    return times and replace(times, series=replace(times.series, name=WALL_TIME, role=None))


def slowdowns(pace: Pace) -> tuple[Slowdown, ...]:
    """Where the time per unit of work left its noise upwards for long; start-up set aside."""
    n = len(pace.curve)
    settled = _settled(n)
    curve = pace.curve.take(np.arange(n) >= settled)
    if is_saw(curve.value):
        return ()
    climb = _climb(pace, curve.value, settled)
    found = [] if climb is not None else _levels(pace, curve.value, settled)
    left = [_of_excursion(pace, curve, e, settled) for e in excursions(curve)]
    # noise hides the beginning of a slope from a look at single points
    from_start = climb is not None and climb.onset == settled and in_every_part(curve.value)
    for slow in (climb, *left) if from_start else (*left, climb):
        if slow is not None and not any(known.onset <= slow.end and slow.onset <= known.end for known in found):
            found.append(slow)
    grid = printed_grid(pace.logged.value)
    told = (slow for slow in found if abs(slow.since - slow.before) >= TELLING * grid)
    return tuple(sorted(told, key=lambda slow: slow.onset))


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
    if at is not None and n - at >= min(LASTING_POINTS, n // 4):
        return [_level(pace, value, at, n, settled)]
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
    return Slowdown(start + settled, end, float(np.exp(lift)), z, before, since, lasting=True, gradual=True)


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


def is_saw(value: Floats) -> bool:
    """Whether a series climbs little by little and falls back at once, again and again at even distances: epochs that
    begin with short samples and end with long ones. The first and last tooth may be cut."""
    falls = _falls(value)
    if not len(falls):
        return False
    lengths = np.diff([0, *falls, len(value)])
    tooth = float(np.median(lengths[1:-1])) if len(falls) > 1 else float(lengths[0])
    even = bool(np.all(np.abs(lengths[1:-1] - tooth) <= UNEVEN * tooth + 2))
    if not even or lengths[0] > (1 + UNEVEN) * tooth or lengths[-1] > (1 + UNEVEN) * tooth:
        return False
    parts = np.split(value, falls)
    last = parts.pop() if lengths[-1] < (1 - UNEVEN) * tooth else parts[-1]
    whole = [part for part in parts if len(part) >= max(9, tooth / 2)]
    thirds = [[float(np.median(third)) for third in np.array_split(part, 3)] for part in whole]
    climbs = [end - start for start, _, end in thirds]
    fallen = float(np.median([np.ptp(value[max(0, at - 9) : at + 9]) for at in falls]))
    if not climbs or min(climbs) <= max(ALIKE * max(climbs), CLIMBED * fallen):
        return False
    gradual = all(middle - start > 0.1 * (end - start) for start, middle, end in thirds)
    if len(last) < tooth / 6:
        return gradual and len(whole) > 1
    goes_on = abs(float(np.median(last)) - float(np.median(whole[-1][: len(last)]))) < ALIKE * max(climbs)
    return gradual and goes_on and (len(whole) > 1 or len(last) >= tooth / 3)


def _falls(value: Floats) -> Ints:
    """Indices at which a series falls at once by half of its range or more and far out of its noise, in order."""
    n = len(value)
    width = max(3, min(9, n // 40))
    levels = medians(np.lib.stride_tricks.sliding_window_view(value, width))
    change = levels[width:] - levels[:-width]
    low, high = np.quantile(value, (0.05, 0.95))
    bar = -max(0.5 * float(high - low), 6 * robust_sigma(np.diff(value)) / np.sqrt(width))
    first, last = stretches(change < bar)
    return np.array([a + width + int(np.argmin(change[a : b + 1])) for a, b in zip(first, last, strict=True)], np.int64)


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
        onset = low + knee(curve.value[low : e.onset + e.rise + 1])
    return Slowdown(onset + settled, last - 1 + settled, factor, e.z, before, now, to_end, gradual)


def _steps_up(value: Floats, at: int) -> bool:
    """Whether the levels on both sides of a point differ at once by more than noise: the first of several stairs."""
    before, since = value[max(0, at - STAIR) : at], value[at : at + STAIR]
    noise = robust_sigma(np.diff(value)) / np.sqrt(2)
    return len(before) >= STAIR / 2 and float(np.median(since) - np.median(before)) > STEEP * noise
