"""The interconnect is slow or lossy."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import longer_step, said
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight

CAUSE = "network"
PRIORS: Mapping[str, float] = {
    "straggler": 0.2,
    "throughput-drop": 0.1,
    "hang": 0.3,
    "rank-divergence": 0.03,
    "checkpoint-failure": 0.05,
    "clock-skew": 0.1,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = said(case, r"nccl.*(time|watchdog|abort)|connection (reset|closed)|socket", CLEAR)
    for role in ("comm_time", "barrier_wait"):
        move = case.movement(role)
        if move is not None:
            points = CLEAR if move.widths > 6 else -HINT
            reasons.append(Reason(points, f"{role} went from {move.before:.3g} to {move.at:.3g}"))
            reasons += longer_step(case, role, CLEAR)
            break
    return Weight(prior, tuple(reasons), "run an all-reduce benchmark on the same nodes")
