"""What became of it: whether the series came back, how soon, or went on to NaN."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.movement import LASTING_POINTS, MOVED, movement
from trainforensics.model import Incident

QUICK = 0.05  # of the steps so far: to learn again what was lost takes more


@once
def points_back(case: Case) -> int | None:
    """Logged points from onset to return, None for an incident that did not return."""
    end = case.incident.end_step
    if case.incident.recovery != "recovered" or end is None or case.loss is None:
        return None
    return int(np.searchsorted(case.loss.step, end) - np.searchsorted(case.loss.step, case.onset))


def quickly_back(case: Case) -> bool:
    """Whether a return took so small a part of the steps trained before that nothing can have been learnt anew."""
    points = points_back(case)
    if case.loss is None or points is None:
        return False
    return max(1, points) * case.cadence <= QUICK * (case.onset - int(case.loss.step[0]))


def lasting(case: Case) -> bool:
    """Whether the incident's own series stays where it jumped to: its median of 20 points stands out, finite."""
    curve = case.curve(case.incident.role) if case.incident.role else None
    if curve is None:
        return False
    at = int(np.searchsorted(curve.step, case.onset))
    after = curve.value[at : at + LASTING_POINTS]
    move = movement(curve, case.onset, LASTING_POINTS)
    enough = len(after) >= LASTING_POINTS // 2 and bool(np.isfinite(after).all())
    return enough and move is not None and move.median_widths > MOVED


@once
def turns_nan(case: Case) -> Incident | None:
    """An incident beside this one that is not finite, or hides it behind a loss of 0, a few points later."""
    if case.kind in ("nan-onset", "grad-nan", "transient-nan", "loss-zero"):
        return None
    return case.beside("nan-onset", "loss-zero", "grad-nan", after=0)
