"""The training loss up to the onset and at its height."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.facts import timing
from trainforensics.causes.movement import CREPT_POINTS, climb


@once
def climbed_before(case: Case) -> bool:
    """Whether loss or gradient norm were climbing out of their noise before the onset (of a NaN, mostly)."""
    return any(climb(curve, case.onset) for role in ("train_loss", "grad_norm") if (curve := case.curve(role)))


@once
def beyond_start(case: Case) -> tuple[float, float] | None:
    """Highest loss of the incident and the first of the run, where the former is 1.3 times the latter or more.

    None for a loss that falls below zero: its first value is no level of an untrained model.
    """
    if case.loss is None or timing.early(case) or not len(case.loss.only_finite()):
        return None
    finite = case.loss.only_finite()
    at = int(np.searchsorted(finite.step, case.onset))
    peak, first = float(np.max(finite.value[at : at + CREPT_POINTS], initial=-np.inf)), float(finite.value[0])
    return (peak, first) if first > 0 and finite.value.min() >= 0 and peak > 1.3 * first else None


@once
def never_scaled(case: Case) -> float | None:
    """The level of a loss that is a bad start for its size alone, no loss of guessing being known."""
    rows = case.incident.evidence if case.kind == "bad-start" else ()
    return next((row.value for row in rows[:1] if row.expected is None), None)


@once
def zero_for_once(case: Case) -> bool:
    """Whether the training loss that is exactly zero at the onset is another number at the next point."""
    if case.loss is None:
        return False
    near = case.loss.value[case.loss.step >= case.onset][:2]
    return len(near) == 2 and near[0] == 0 and bool(np.isfinite(near[1])) and bool(near[1] != 0)
