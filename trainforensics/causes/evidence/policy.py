"""A policy in reinforcement learning."""

from __future__ import annotations

from trainforensics.causes.case import Case
from trainforensics.causes.movement import CREPT_POINTS
from trainforensics.causes.weight import Reason, reason


def drifted(case: Case, points: float) -> list[Reason]:
    """A policy that left its reference before the reward fell."""
    move = case.movement("kl")
    if move is None or move.lead < CREPT_POINTS:
        return []
    return reason(points, f"KL left its noise at {move.lead_step}, before the onset")
