"""A shard of the data is damaged: its documents do harm wherever they turn up."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import documents
from trainforensics.causes.evidence.gradient import gradient
from trainforensics.causes.evidence.loss import violence
from trainforensics.causes.evidence.ranks import lone_gap, lone_rank
from trainforensics.causes.evidence.rate import rate_jump
from trainforensics.causes.evidence.recovery import after_jump
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "bad-shard"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.06,
    "nan-onset": 0.03,
    "transient-nan": 0.06,
    "grad-nan": 0.05,
    "gradient-explosion": 0.03,
    "skipped-steps": 0.05,
    "scale-decay": 0.05,
    "rank-divergence": 0.2,
    "data-shift": 0.08,
    "periodic-data-order": 0.1,
    "suspect-shard": 0.55,
    "divergence": 0.02,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [
        *gradient(case, led=-CLEAR),
        *documents(case, few=-HINT, many=HINT),
        *rate_jump(case, -STRONG),
        *restart(case, near=-CLEAR),
        *lone_rank(case, HINT),
        *lone_gap(case, at_once=CLEAR, grew=-CLEAR),
        *after_jump(case, alone=CLEAR, slow=-HINT),
        *violence(case, -HINT),
    ]
    shard = facts.data.suspect(case, "shard")
    if shard is not None and shard.confidence >= 0.5:
        reasons.append(Reason(PROOF, f"shard {shard.id}: {shard.why} (confidence {shard.confidence:.2f})"))
    elif case.incident.blame is not None and case.incident.blame.batches:
        reasons.append(Reason(-HINT, "no shard turns up more often than chance"))
    return Weight(
        reasons,
        "train on with the shard left out: no further incident confirms it; one elsewhere refutes it",
    )
