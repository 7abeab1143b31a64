"""Reinforcement learning: lasting moves of reward, KL and entropy out of their noise, in the order they happened."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.departure import departure
from trainforensics.signals.excursions import Excursion, excursions
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.trend import moving_median

MIN_POINTS = 30
LASTING_SHARE, LASTING_POINTS = 0.05, 8
START_SHARE = 0.1  # KL grows from nothing and entropy falls fast at first
# Implicit rewards of preference optimisation: that of rejected answers falls, and that of chosen ones may.
_PREFERENCE = re.compile(r"chosen|rejected|margin|accurac", re.IGNORECASE)
SUDDEN_SHARE = 0.1  # of the log
BEST = 5.0  # standard errors; the best of many windows is 2 above the rest by chance
VISIBLE = 3.0  # widths of the point-to-point noise


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A series that left `before` at index `onset` and stands at `after`."""

    curve: Curve
    onset: int
    before: float
    after: float
    z: float

    @property
    def step(self) -> int:
        """Step of the onset."""
        return int(self.curve.step[self.onset])


def reward_fall(signals: Signals, share: float) -> Move | None:
    """A lasting fall of the reward by at least `share` of what had been gained (or of its height above the present)."""
    for logged in signals.curves("reward"):
        curve = logged.only_finite()
        if len(curve) < MIN_POINTS or curve.series.rank is not None or _PREFERENCE.search(curve.name):
            continue
        value = curve.value
        noise = robust_sigma(np.diff(value)) / np.sqrt(2)
        begin = float(np.median(value[: max(5, len(value) // 20)]))
        for e in _lasting(curve, -value):
            before, after = -e.before, _late(value)
            gained = before - min(begin, after)
            if before - after > max(share * gained, VISIBLE * noise):
                return Move(curve, e.onset, before, after, e.z)
    return None


def lasting_change(signals: Signals, role: str, factor: float) -> Move | None:
    """A lasting and sudden rise of a positive series by `factor` (a fall for a factor below one), its start set aside.

    What climbs evenly over most of the log is its ordinary course; the steepest half of the climb is what counts.
    """
    sign = 1.0 if factor > 1 else -1.0
    for logged in signals.curves(role):
        curve = logged.take(logged.finite & (logged.value > 0))
        if len(curve) < MIN_POINTS or curve.series.rank is not None or curve.series.layer is not None:
            continue
        for e in _lasting(curve, sign * np.log(curve.value)):
            sudden = e.knee > e.onset or e.rise <= SUDDEN_SHARE * len(curve)
            before = float(np.median(curve.value[max(0, e.knee - 20) : e.knee])) if e.knee else curve.value[0]
            after = _late(curve.value)
            if sudden and e.knee >= START_SHARE * len(curve) and (after / before) ** sign >= factor**sign:
                return Move(curve, e.knee, before, after, e.z)
    return None


def exhausted(signals: Signals, share: float) -> Move | None:
    """An entropy that falls, however slowly, below `share` of its early level for good."""
    for curve in signals.curves("entropy"):
        left = departure(curve, share) if curve.series.rank is None and curve.series.layer is None else None
        if left is not None and left.onset >= START_SHARE * len(left.curve):
            return Move(left.curve, left.onset, left.before, left.after, np.inf)
    return None


def _late(value: Floats) -> float:
    return float(np.median(value[-max(5, len(value) // 20) :]))


def _lasting(curve: Curve, value: Floats) -> list[Excursion]:
    moved = Curve(curve.series, curve.step, value, curve.time, curve.segment)
    least = max(LASTING_POINTS, int(LASTING_SHARE * len(curve)))
    return [e for e in excursions(moved) if not e.returned and len(curve) - e.onset >= least]


def rises(signals: Signals, role: str, step: int) -> bool:
    """Whether a series ends higher than it stood before a step, beyond its noise; unknown counts as yes."""
    change = level_change(signals, role, step)
    if change is None:
        return True
    curve, before, late = change
    noise = robust_sigma(np.diff(curve.value)) / np.sqrt(2)
    return bool(late - before > VISIBLE * 1.2533 * noise * np.sqrt(2 / max(5, len(curve) // 20)))


def below_best(signals: Signals, role: str) -> bool:
    """Whether a series ends below the best level it has had, beyond its noise."""
    curve = signals.curve(role)
    curve = curve.only_finite() if curve is not None else None
    if curve is None or len(curve) < MIN_POINTS:
        return False
    width = max(5, len(curve) // 10)
    best = float(moving_median(curve.value, width).max())
    noise = robust_sigma(np.diff(curve.value)) / np.sqrt(2)
    return bool(best - np.median(curve.value[-width:]) > BEST * 1.2533 * noise * np.sqrt(2 / width))


def level_change(signals: Signals, role: str, step: int) -> tuple[Curve, float, float] | None:
    """Level of a series just before a step and at the end."""
    curve = signals.curve(role)
    curve = curve.only_finite() if curve is not None else None
    if curve is None or len(curve) < MIN_POINTS:
        return None
    before = curve.value[curve.step < step][-max(5, len(curve) // 10) :]
    return (curve, float(np.median(before)), _late(curve.value)) if len(before) else None
