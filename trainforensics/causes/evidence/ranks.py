"""One rank against the others."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason


def lone_rank(case: Case, points: float) -> list[Reason]:
    """One rank that moved first and alone."""
    rank = facts.data.suspect(case, "rank")
    return [] if rank is None else reason(points, f"rank {rank.id} moved first: {rank.why}")


def lone_gap(case: Case, at_once: float = 0.0, grew: float = 0.0) -> list[Reason]:
    """Other data sets a rank apart at once; weights that no longer agree drift apart step by step."""
    gap = facts.ranks.lone_gap(case)
    if gap is None:
        return []
    rank, first, later, usual = gap
    if not later or abs(later) < 3 * usual:
        return []
    text = (
        f"the loss of rank {rank} was {first:.3g} from the middle rank's in its first three points (usual {usual:.2g})"
    )
    if first / later >= 0.7:
        return reason(at_once, f"{text} and {later:.3g} later: it left at once")
    return reason(grew, f"{text} and {later:.3g} later: it drifts away") if first / later <= 0.6 else []
