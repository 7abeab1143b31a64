"""A device computes or delivers wrongly."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data
from trainforensics.causes.evidence.ranks import lone_gap, lone_rank
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "hardware"
PRIORS: Mapping[str, float] = {
    "hardware-fault": 0.9,
    "rank-divergence": 0.2,
    "straggler": 0.4,
    "throughput-drop": 0.15,
    "nan-onset": 0.04,
    "transient-nan": 0.05,
    "grad-nan": 0.03,
    "hang": 0.2,
    "gradual-rise": 0.03,
    "divergence": 0.03,
    "instant-burst": 0.02,
    "checkpoint-failure": 0.05,
    "resume-discontinuity": 0.04,
    "clock-skew": 0.2,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [
        *said(
            case,
            r"\bxid\b|uncorrectable|ecc error|nvlink error|fallen off the bus|rerun.*(transient|not reproducible)",
            STRONG,
        ),
        *lone_rank(case, HINT),
        *data(case, proven=-STRONG),
        *lone_gap(case, at_once=-HINT),
    ]
    for role in ("gpu_temperature", "ecc_errors", "gpu_clock"):
        move = case.movement(role)
        if move is not None and abs(move.widths) > 6:
            reasons.append(Reason(CLEAR, f"{role} moved from {move.before:.4g} to {move.at:.4g}"))
            break
    return Weight(reasons, "run the same step again on another node, and the device's own diagnostics on this one")
