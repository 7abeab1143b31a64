"""The learning rate around the onset, and against the declared one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.blame.described import matching
from trainforensics.causes.case import Case, once
from trainforensics.causes.facts.timing import EARLY_POINTS
from trainforensics.signals import Curve
from trainforensics.signals.curve import Floats, Ints

LR_JUMP = 1.5  # per logged point; the steepest usual schedules, warm-ups from zero apart, stay below
STEEPENING = 0.35  # of the height of a rise, halfway


@dataclass(frozen=True, slots=True)
class Rate:
    """The learning rate around an onset. `jump`: largest factor between neighbouring points there; 1.0 without one.

    `ramp`: how many-fold it rose in one go up to the onset, from `ramp_from` on, later than in the first points or
    ever steeper, as no warm-up does.
    `first`: first logged step; `constant`: it never changed so far; `warmup`: steps until 95 % of the highest rate so
    far, 0 for a run that starts there.
    """

    now: float
    peak: float
    jump: float
    jump_step: int
    first: int
    constant: bool
    warmup: int
    warming: bool
    ramp: float
    ramp_from: int

    @property
    def share(self) -> float:
        """Of the highest rate so far."""
        return self.now / self.peak if self.peak > 0 else 0.0


@once
def around(case: Case) -> Rate | None:
    """The learning rate around the onset."""
    curve = case.curve("learning_rate")
    return None if curve is None else _around(curve.only_finite(), case.onset, case.cadence)


@once
def far_below_declared(case: Case) -> tuple[float, float] | None:
    """The learning rate at the onset and the declared one, where it is a tenth of that or less; else None."""
    declared = [
        float(value)
        for _, value in matching(case.signals.config, r"(max_|peak_|base_)?(lr|learning_rate)")
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    rate = around(case)
    if rate is None or not declared or rate.peak > 1.01 * max(declared):
        return None
    return (rate.now, max(declared)) if rate.now <= 0.1 * max(declared) else None


def is_zero(case: Case) -> bool:
    """Whether the learning rate is logged and exactly 0 at the onset, so that no update can have done harm."""
    curve = case.curve("learning_rate")
    return curve is not None and len(curve) > 0 and float(curve.value[max(0, curve.at(case.onset))]) == 0.0


def _around(curve: Curve, onset: int, cadence: int) -> Rate | None:
    """The learning rate around a step, None without points or below zero; `cadence`: steps between two of the loss."""
    at = max(0, curve.at(onset))
    so_far = curve.value[: at + 1]
    peak = float(np.max(so_far, initial=-1.0))
    if peak < 0:
        return None
    reached = int(np.flatnonzero(so_far >= 0.95 * peak)[0])
    foot = _foot(so_far)
    runaway = _steepens(curve.step[: at + 1], so_far, foot)
    from_start = foot <= 1 and so_far[0] < 0.5 * peak and not runaway
    warmup = int(curve.step[reached] - curve.step[0]) if so_far[0] < 0.5 * peak and not runaway else 0
    top = int(np.flatnonzero(so_far >= 0.999 * peak)[0])
    recent = not runaway and at - top <= max(3, top // 10) and (from_start or _foot(so_far[: top + 1]) <= 1)
    jump, jump_step = _jump(curve, at)
    ramp = float(so_far[-1] / so_far[foot]) if (foot > EARLY_POINTS or runaway) and so_far[foot] > 0 else 1.0
    return Rate(
        float(so_far[-1]),
        peak,
        jump,
        jump_step,
        int(curve.step[0]),
        float(np.min(so_far)) == peak,
        warmup,
        warmup > cadence and recent,
        ramp if ramp > LR_JUMP else 1.0,
        int(curve.step[foot]),
    )


def _steepens(step: Ints, value: Floats, foot: int) -> bool:
    """Whether a rise from the first points on gets ever steeper: no warm-up, which is straight or levels off.

    Halfway a straight rise from 0 has half its height, and one from above 0 more.
    """
    if foot > 1 or len(value) < 2 * EARLY_POINTS:
        return False
    half = int(np.searchsorted(step, (int(step[foot]) + int(step[-1])) // 2))
    return 0 < float(value[half]) < STEEPENING * float(value[-1])


def _foot(value: Floats) -> int:
    """Index at which the rise that ends `value` began; the last index where it does not rise."""
    falls = np.flatnonzero(np.diff(value) <= 0)
    return int(falls[-1]) + 1 if len(falls) else 0


def _jump(curve: Curve, at: int) -> tuple[float, int]:
    """Largest factor between neighbouring points around an index that the points before never took, and its step."""
    jump, step = 1.0, int(curve.step[at])
    for i in range(max(4, at - 3), min(len(curve), at + 2)):  # what changes from the first points on is a warm-up
        low, high = float(curve.value[i - 1]), float(curve.value[i])
        usual = np.diff(curve.value[max(0, i - 20) : i])
        if low > 0 and high / low > max(LR_JUMP, jump) and high - low > 3 * float(np.max(np.abs(usual), initial=0.0)):
            jump, step = high / low, int(curve.step[i])
    return jump, step
