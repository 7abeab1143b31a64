"""How long a run takes for its work: seconds a step or a unit of data, and where it turned slower for long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.excursions import Excursion, excursions
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps

Basis = Literal["rate", "duration", "clock"]
MIN_POINTS = 40
START_SHARE, START_POINTS = 0.02, 5  # of the log: compilation and caches
LASTING_SHARE, LASTING_POINTS = 0.1, 20  # of the log, and points, for a slow stretch that ended
WALL_TIME = "wall time per step"  # name of the series that the time stamps make
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
    for role in ("tokens_per_sec", "mfu"):
        curve = signals.curve(role)
        if curve is not None and (usable := _positive(curve)) is not None:
            found.append(Pace(_with(usable, -np.log(usable.value)), usable, "rate"))
    curve = signals.curve("step_time")
    if curve is not None and (usable := _positive(curve)) is not None:
        found.append(Pace(_with(usable, np.log(usable.value) - _work(signals, usable)), usable, "duration"))
    if not found and (clock := clock_durations(signals)) is not None:
        found.append(Pace(_with(clock, np.log(clock.value) - _work(signals, clock)), clock, "clock"))
    return tuple(found)


def _positive(curve: Curve) -> Curve | None:
    curve = curve.take(curve.finite & (curve.value > 0))
    return curve if len(curve) >= MIN_POINTS else None


def _with(curve: Curve, value: Floats) -> Curve:
    return replace(curve, value=value, superseded=None)


def _work(signals: Signals, curve: Curve) -> Floats:
    """Logarithm of the data per step at the steps of the curve: batch size times sequence length, where logged."""
    total = np.zeros(len(curve))
    for role in ("batch_size", "seq_len"):
        size = signals.curve(role)
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
    settled = max(START_POINTS, int(START_SHARE * n))
    curve = pace.curve.take(np.arange(n) >= settled)
    found = []
    for e in excursions(curve):
        to_end = not e.returned
        long = (len(curve) if to_end else e.end) - e.onset
        if long >= (LASTING_POINTS if to_end else max(LASTING_POINTS, int(LASTING_SHARE * n))):
            found.append(_slowdown(pace, curve, e, settled, to_end))
    return tuple(found)


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
    return Slowdown(e.onset + settled, last - 1 + settled, factor, e.z, before, now, to_end, gradual)
