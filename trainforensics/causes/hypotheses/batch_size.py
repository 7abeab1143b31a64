"""The batch changed its size and the learning rate did not follow, or sum and mean were confused."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.gradient import rescaled
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.movement import MOVED
from trainforensics.causes.weight import CLEAR, PROOF, STRONG, Reason, Weight

CAUSE = "batch-size"
PRIORS: Mapping[str, float] = {
    "batch-size-change": 0.85,
    "scale-mismatch": 0.05,
    "gradient-explosion": 0.05,
    "instant-burst": 0.01,
    "oscillation": 0.05,
    "gradual-rise": 0.02,
    "data-shift": 0.03,
    "divergence": 0.02,
}
CHANGED = 1.5  # fold; batches filled by tokens vary by less from step to step


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*rooted(case, CLEAR, "batch-size-change"), *rescaled(case, STRONG)]
    for role in ("batch_size", "world_size", "gradient_accumulation"):
        move = case.movement(role)
        if move is None or abs(move.median_widths) < MOVED or min(move.before, move.at) <= 0:
            continue
        ratio = move.at / move.before
        if max(ratio, 1 / ratio) >= CHANGED:
            points = PROOF if ratio < 1 else CLEAR
            reasons.append(Reason(points, f"{role} changed from {move.before:.4g} to {move.at:.4g}"))
            break
    return Weight(reasons, _test(case))


def _test(case: Case) -> str:
    levels = facts.gradient.rescaled(case)
    if levels is None:
        return "scale the learning rate with the batch (linearly for SGD, by the square root for Adam) and repeat"
    before, after = levels
    return (
        f"compute the gradient norm of a step before and after {case.onset} by hand: the reduction of the loss, "
        f"accumulation or unscaling explains the factor of {after / before:.3g}"
    )
