"""The interconnect is slow or lossy."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.pace import part_of_step
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import CLEAR, HINT, Weight

CAUSE = "network"
PRIORS: Mapping[str, float] = {
    "straggler": 0.2,
    "throughput-drop": 0.1,
    "hang": 0.3,
    "rank-divergence": 0.03,
    "checkpoint-failure": 0.05,
    "clock-skew": 0.1,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = said(case, r"nccl.*(time|watchdog|abort)|connection (reset|closed)|socket", CLEAR)
    spent = (part_of_step(case, role, role, longer=CLEAR, usual=-HINT) for role in ("comm_time", "barrier_wait"))
    reasons += next(filter(None, spent), [])
    return Weight(reasons, "run an all-reduce benchmark on the same nodes")
