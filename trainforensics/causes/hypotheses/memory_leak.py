"""Memory is held and never freed."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import longer_samples
from trainforensics.causes.weight import CLEAR, Weight

CAUSE = "memory-leak"
PRIORS: Mapping[str, float] = {
    "memory-growth": 0.92,
    "throughput-drop": 0.03,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = longer_samples(case, -CLEAR)
    return Weight(reasons, "compare two heap snapshots some hundred steps apart; look for tensors kept in lists")
