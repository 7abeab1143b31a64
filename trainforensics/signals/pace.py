"""How long a run takes for its work: seconds a step or a unit of data, from rates, durations or clocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.signals.batch import batch_size
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.noise import printed_grid
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps

Basis = Literal["rate", "duration", "clock", "mean"]
MIN_POINTS, FEWEST_POINTS = 40, 10  # of a log of steps, and of one of epochs or longer
WALL_TIME = "wall time per step"  # name of the series that the time stamps make
RESETS = 0.05  # share of falls at which a clock may start anew (each epoch)
_CLOCK = re.compile(
    r"(^|[/_. ])(elapsed(_time|_seconds|_s)?|time_elapsed|wall(_?time|_?clock)?|train_wall)$", re.IGNORECASE
)
# Time since the start in a unit of its own: good for a pace, not for pauses in seconds.
_TOTAL = re.compile(r"(^|[/_. ])(train(ing)?|total)_time(_(ms|s|secs?|min|minutes))?$", re.IGNORECASE)
_TRAINING = re.compile(r"(^|[/_. ])train(ing)?_time(_(ms|s|secs?|min|minutes))?$", re.IGNORECASE)
_MEAN = re.compile(r"(^|[/_. ])(avg|average|mean)([/_. ]|$)", re.IGNORECASE)
_UNIT = "(epoch|iter|it|step|batch)"
_PER_UNIT = re.compile(
    rf"(^|[^a-z])(epoch[ _](time|duration|secs|seconds)|(s|secs?|seconds|ms|time)([ _]per[ _]|/){_UNIT})", re.IGNORECASE
)
RESOLVED, SAME_WORK = 5, 0.02  # units of a clock's last digit; share by which rounded work may differ
BULK = 0.1  # share of clock differences next to nothing above which rows were written in bulk


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """Logarithm of the time per unit of work, shape (n,), and what it was read from."""

    curve: Curve
    logged: Curve
    basis: Basis

    @property
    def of_training(self) -> bool:
        """Whether it was read from a clock that counts the time of training alone."""
        return self.basis == "clock" and _TRAINING.search(self.logged.name) is not None

    @property
    def name(self) -> str:
        """What was measured, in words where the log holds it only by what adds up."""
        named = self.logged.name
        return f"time per step by {named}" if self.basis in {"clock", "mean"} and named != WALL_TIME else named


def paces(signals: Signals) -> tuple[Pace, ...]:
    """Every way in which the run's log tells its pace, the best first: rates, durations, the wall clock."""
    found = []
    for role in ("tokens_per_sec", "step_time", "mfu"):  # the last is often a running mean
        curve = _momentary(signals, role)
        if curve is None or (usable := _positive(curve)) is None:
            continue
        behind = _behind_mean(signals, usable) if role == "tokens_per_sec" else None
        if behind is not None:
            found.append(Pace(_with(behind, np.log(behind.value) - _work(signals, behind)), behind, "mean"))
        elif role == "step_time":
            found.append(Pace(_with(usable, np.log(usable.value) - _work(signals, usable)), usable, "duration"))
        else:
            found.append(Pace(_with(usable, -np.log(usable.value)), usable, "rate"))
    clock = None if found else clock_durations(signals) or _logged_clock_durations(signals)
    if clock is not None:
        found.append(Pace(_with(clock, np.log(clock.value) - _work(signals, clock)), clock, "clock"))
    return tuple(found)


def accumulates(curve: Curve) -> bool:
    """Whether a series hardly ever falls within a process life and mostly rises: a clock or a counter. What is measured
    anew at each step falls as often as it rises, unless it grows all along; then its name must say what it is of. A
    clock whose last digit changes more rarely than rows are written ticks on by one."""
    curve = curve.only_finite()
    if _PER_UNIT.search(curve.name):
        return False
    moves = np.diff(curve.value)[np.diff(curve.segment) == 0]
    if np.count_nonzero(moves) < 5 or float(np.mean(moves < 0)) > RESETS:
        return False
    return float(np.mean(moves > 0)) >= 0.5 or set(np.rint(moves / printed_grid(curve.value))) == {0, 1}


def _momentary(signals: Signals, role: str) -> Curve | None:
    """The series that speaks for a role: none that accumulates, nor a mean since the start beside its clock."""
    curve = signals.curve(role)
    clock = total_time(signals) if role == "step_time" else None
    if curve is None or not (accumulates(curve) or (clock is not None and _MEAN.search(curve.name))):
        return curve
    others = (c for c in signals.curves(role) if c.series.rank is None and not accumulates(c))
    return next((c for c in others if clock is None or not _MEAN.search(c.name)), None)


def logged_clock(signals: Signals) -> Curve | None:
    """The logged seconds since the start, of which a fraction of a second tells; None where there are none."""
    return _accumulating(signals, _CLOCK)


def total_time(signals: Signals) -> Curve | None:
    """The logged time since the start, in whatever unit."""
    return logged_clock(signals) or _accumulating(signals, _TOTAL)


def _accumulating(signals: Signals, name: re.Pattern[str]) -> Curve | None:
    """The first duration, or series without a role of such a name, that accumulates; a mean that climbs does not."""
    named = (c for c in signals.unmapped if name.search(c.name))
    clocks = (*(c for c in signals.curves("step_time") if not _MEAN.search(c.name)), *named)
    for curve in (c.only_finite() for c in clocks if c.series.rank is None):
        counts = curve.series.role is not None and bool(np.all(curve.value % 1 == 0))
        if not counts and accumulates(curve):
            return curve
    return None


def _logged_clock_durations(signals: Signals) -> Curve | None:
    """Time per step from a logged clock, in its unit."""
    curve = total_time(signals)
    if curve is None:
        return None
    times, steps = np.diff(curve.value), np.diff(curve.step)
    later = np.flatnonzero((np.diff(curve.segment) == 0) & (times > 0) & (steps > 0)) + 1
    return _positive(_with(curve.take(later), times[later - 1] / steps[later - 1]))


def _behind_mean(signals: Signals, rate: Curve) -> Curve | None:
    """Time per step, in the clock's unit, behind a rate that is the mean since step 0; None for any other rate.

    Such a rate times the clock is the work done, at every point as far as the clock is printed.
    """
    clock = total_time(signals)
    if clock is None or rate.segment[0] != rate.segment[-1]:
        return None
    shown = at_steps(clock, rate.step)
    grid = printed_grid(clock.value)
    known = np.isfinite(shown) & (shown > RESOLVED * grid) & (rate.step > 0)
    if known.sum() < FEWEST_POINTS:
        return None
    told = rate.step / rate.value
    scale = shown[known] / told[known]
    scale /= (unit := float(np.median(scale)))
    if np.any(np.abs(scale - 1) > grid / shown[known] + SAME_WORK):
        return None
    later = np.flatnonzero(np.diff(rate.step) > 0) + 1
    times = unit * np.diff(told)[later - 1] / np.diff(rate.step)[later - 1]
    blur = told[-1] * printed_grid(rate.value) / rate.value[-1]
    return _positive(_with(rate.take(later), times)) if blur < SAME_WORK * np.median(np.diff(told)) else None


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
