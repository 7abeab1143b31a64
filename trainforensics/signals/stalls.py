"""Time that a run loses by standing still again and again between steps of its usual pace."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Bools, Ints
from trainforensics.signals.evaluations import validation_curves
from trainforensics.signals.pace import Pace
from trainforensics.signals.run import Signals
from trainforensics.signals.task import stated

LONG, SELDOM = 3.0, 0.25  # times the usual time per step; share of the points that may be as long
LOST, FEWEST = 0.3, 3  # of all the time of training; places
START = 5  # points of compilation and caches
TWICE, SLOW_EPOCHS, LOST_BY_EPOCHS = 2.0, 2, 0.15  # times the usual epoch; such epochs at least; of the time of all
MOSTLY_LOST = 0.5  # of the time of all, where several stretches of epochs are slow, one after another
EXPLAINED = 0.5  # of the long ones that hold an evaluation or a save, against that of the others
_ACCUMULATION = re.compile(r"accum|update_freq")


@dataclass(frozen=True, slots=True, eq=False)
class Stalls:
    """Where time was lost (steps), the usual time per step and that in a stall, in the unit of the clock, and the share
    of all time."""

    steps: Ints
    usual: float
    stalled: float
    lost: float


def stalls(signals: Signals, pace: Pace) -> Stalls | None:
    """Stalls by a clock that counts the time of training alone, or slow ones among timed epochs; None where they take
    little of it, or evaluations and saves explain them."""
    if pace.basis == "duration" and signals.axis.unit == "epoch":
        return _slow_epochs(signals, pace)
    if not pace.of_training or len(pace.logged) <= START:
        return None
    since = np.arange(len(pace.logged)) >= START
    curve, worked = pace.logged.take(since), np.exp(pace.curve.value[since])
    steps = np.diff(pace.logged.step)[START - 1 :]
    usual = float(np.median(curve.value))
    long = (curve.value > LONG * usual) & (worked > LONG * float(np.median(worked)))
    first = np.flatnonzero(long & ~np.append(False, long[:-1]))
    whole, lost = float(curve.value @ steps), float((curve.value - usual)[long] @ steps[long])
    if long.mean() > SELDOM or len(first) < FEWEST or lost < LOST * whole:
        return None
    halves = first < len(long) // 2
    if halves.all() or not halves.any() or _explained(signals, curve.step, steps, long):
        return None
    if float(np.median(np.diff(curve.step[first]))) in _accumulated(signals):
        return None
    return Stalls(curve.step[first], usual, float(np.median(curve.value[long])), lost / whole)


def _slow_epochs(signals: Signals, pace: Pace) -> Stalls | None:
    """Single epochs that take twice as long as the others, unless what is evaluated or saved every few of them explains
    them."""
    value, worked, step = pace.logged.value[1:], np.exp(pace.curve.value[1:]), pace.logged.step[1:]
    usual = float(np.median(value))
    slow = (value > TWICE * usual) & (worked > TWICE * float(np.median(worked)))
    lost = float((value - usual)[slow].sum() / value.sum())
    begins = np.flatnonzero(slow & ~np.append(False, slow[:-1]))
    seldom = slow.mean() <= SELDOM and lost >= LOST_BY_EPOCHS and len(begins) == slow.sum()
    mostly = lost >= MOSTLY_LOST and slow.mean() < 0.5 and len(begins) >= FEWEST
    if slow.sum() < SLOW_EPOCHS or not (seldom or mostly):
        return None
    if _every_few(slow) or _explained(signals, step, np.diff(pace.logged.step), slow):
        return None
    return Stalls(step[begins], usual, float(np.median(value[slow])), lost)


def _every_few(slow: Bools) -> bool:
    """Whether epochs from the second on come in equal distances, with the last of all or without, as that one is
    evaluated anyway. Two of them: in distances that begin with the first epoch, counted from zero or one."""
    at = np.flatnonzero(slow) + 1
    before_last = at[at < len(slow)]
    for told in (at, before_last):
        apart = np.diff(told)
        if len(told) > SLOW_EPOCHS and np.ptp(apart) == 0:
            return True
        if len(told) == SLOW_EPOCHS and (told[0] + 1) % apart[0] <= 1:
            return True
    return len(before_last) == 1 and 2 * (before_last[0] + 1) > len(slow)


def _accumulated(signals: Signals) -> set[int]:
    """How many batches make an update by the settings: in a log of batches, the one that updates takes longer."""
    return {value for key, value in stated(signals) if _ACCUMULATION.search(key) and isinstance(value, int)}


def _explained(signals: Signals, step: Ints, length: Ints, long: Bools) -> bool:
    """Whether what is long holds an evaluation or a save, and what is not does not."""
    evaluations = [curve.step for role in ("val_loss", "val_metric") for curve in validation_curves(signals, role)]
    for made in (*evaluations, np.array([c.step for c in signals.checkpoints], dtype=np.int64)):
        holds = np.searchsorted(made, step, side="right") > np.searchsorted(made, step - length, side="right")
        if holds[long].mean() > EXPLAINED and holds[~long].mean() < EXPLAINED * holds[long].mean():
            return True
    return False
