"""The training loss before the onset and at its height."""

from __future__ import annotations

import numpy as np

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason

EIGHT = 8  # logged points before the onset without which calm cannot be told
VIOLENT = 30.0  # fold


def growth(case: Case, climbed: float = 0.0, sudden: float = 0.0) -> list[Reason]:
    """Whether loss or gradient norm grew towards the onset; a calm loss alone says half of what both say."""
    if facts.loss.climbed_before(case):
        return reason(climbed, "loss or gradient norm were already climbing out of their noise before it")
    if case.loss is not None and facts.timing.points_before(case) >= EIGHT:
        norm = case.curve("grad_norm")
        if norm is None or np.sum(norm.finite & (norm.step < case.onset)) < EIGHT:
            return reason(sudden / 2, "the loss did not announce it")
        return reason(sudden, "neither loss nor gradient norm announced it")
    return []


def violence(case: Case, points: float) -> list[Reason]:
    """A loss above that of an untrained model, or a gradient norm thirty times the usual: more than odd samples do."""
    found, height, norm = [], facts.loss.beyond_start(case), case.movement("grad_norm")
    if height is not None:
        peak, first = height
        found += reason(
            points, f"the loss went to {peak:.4g} within three points, above the {first:.4g} of the untrained model"
        )
    before, at = case.levels("grad_norm", norm.before, norm.at) if norm is not None else (0.0, 0.0)
    if before > 0 and VIOLENT <= at / before < float("inf"):
        found += reason(points, f"the gradient norm rose {at / before:.0f}-fold, to {at:.3g}")
    return found
