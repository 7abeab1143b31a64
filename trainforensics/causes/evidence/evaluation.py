"""What training and evaluation say of one another."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason


def trained(case: Case, moved: float = 0.0, still: float = 0.0, unseen: float = 0.0) -> list[Reason]:
    """The training loss around an evaluation that jumped."""
    if case.kind != "val-jump":
        return []
    found = facts.evaluation.training(case)
    points = {"moved": moved, "still": still, "unseen": unseen, "unclear": 0.0}[found.state]
    return reason(points, found.text)


def validated(case: Case, harmed: float = 0.0, unharmed: float = 0.0) -> list[Reason]:
    """An evaluation made while the training loss was up: as high as that, or as if nothing had been."""
    found = facts.evaluation.validated(case)
    if found is None:
        return []
    return reason(harmed if found.state == "harmed" else unharmed, found.text)
