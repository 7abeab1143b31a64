"""A shard of the data is damaged: its documents do harm wherever they turn up."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import (
    documents,
    gradient,
    lone_gap,
    lone_jump,
    lone_rank,
    rate_jump,
    recovery,
    restart,
    violence,
)
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
    "suspect-shard": 0.55,
    "divergence": 0.02,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    lone = lone_jump(case, CLEAR)
    reasons = [
        *gradient(case, led=-CLEAR),
        *documents(case, few=-HINT, many=HINT),
        *rate_jump(case, -STRONG),
        *restart(case, near=-CLEAR),
        *lone_rank(case, HINT),
        *lone_gap(case, at_once=CLEAR, grew=-CLEAR),
        *lone,
        *recovery(case, slow=0.0 if lone else -HINT),
        *violence(case, -HINT),
    ]
    shard = case.suspect("shard")
    if shard is not None and shard.confidence >= 0.5:
        reasons.append(Reason(PROOF, f"shard {shard.id}: {shard.why} (confidence {shard.confidence:.2f})"))
    elif case.incident.blame is not None and case.incident.blame.batches:
        reasons.append(Reason(-HINT, "no shard turns up more often than chance"))
    return Weight(
        prior,
        tuple(reasons),
        "train on with the shard left out: no further incident confirms it; one elsewhere refutes it",
    )
