"""What else tells of it: the text of the log, other incidents, runs beside it."""

from __future__ import annotations

from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason


def said(case: Case, pattern: str, points: float) -> list[Reason]:
    """A line of the log's own text."""
    line = case.said(pattern)
    return reason(points, f'the log says: "{line}"') if line else []


def rooted(case: Case, points: float, *kinds: str) -> list[Reason]:
    """An incident of one of these kinds that this one follows from, or that begins no later."""
    root = case.root
    other = root if root is not None and root.kind in kinds else case.beside(*kinds)
    return [] if other is None else reason(points, f"{other.kind} at {other.onset_step}: {other.summary.rstrip('.')}")


def in_siblings(case: Case, points: float) -> list[Reason]:
    """The same steps stand out in a run of other weights that met the same batches."""
    twin = case.incident.scope.sibling
    if twin is None or case.kind != "instant-burst":
        return []
    return reason(points, f"{twin.rsplit('/', 1)[-1]}, fed in the same order, shows it at the same steps")
