"""Attention breaks down: logits grow, the softmax saturates, a mask is wrong or a kernel fails."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, Reason, Weight

CAUSE = "attention"
PRIORS: Mapping[str, float] = {
    "attention-collapse": 0.7,
    "instant-burst": 0.03,
    "divergence": 0.03,
    "gradual-rise": 0.03,
    "grad-nan": 0.05,
    "nan-onset": 0.03,
    "suspicious-low-loss": 0.15,
    "activation-outlier": 0.1,
    "scale-decay": 0.03,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = rooted(case, CLEAR, "attention-collapse") if case.kind != "attention-collapse" else []
    for role in ("attention_logit_max", "attention_entropy"):
        move = case.movement(role)
        if move is not None and (move.lead >= 3 or abs(move.widths) > 6):
            reasons.append(Reason(CLEAR, f"{role} went from {move.before:.3g} to {move.at:.3g}"))
            break
    packed = case.configured(r".*packing.*")
    if case.kind == "suspicious-low-loss" and packed is not None and str(packed[1]).lower() == "true":
        reasons.append(Reason(CLEAR, f"{packed[0]} is on: attention may cross documents"))
    return Weight(
        reasons,
        f"repeat from a checkpoint before {case.onset} with reference attention in fp32, and with QK norm",
    )
