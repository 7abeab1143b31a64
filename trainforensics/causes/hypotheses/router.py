"""The router of a mixture of experts sends its tokens to few experts."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight

CAUSE = "router"
PRIORS: Mapping[str, float] = {
    "expert-collapse": 0.85,
    "instant-burst": 0.01,
    "divergence": 0.01,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = rooted(case, CLEAR, "expert-collapse") if case.kind != "expert-collapse" else []
    move = case.movement("load_balance_loss")
    if move is not None and case.kind == "expert-collapse" and abs(move.widths) > 5:
        reasons.append(Reason(HINT, f"the balance loss moved from {move.before:.4g} to {move.at:.4g}"))
    return Weight(
        reasons,
        "repeat from a checkpoint before the onset with a larger balance coefficient and router noise",
    )
