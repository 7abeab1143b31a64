"""No gradient reaches the parameters: frozen, detached, or not given to the optimiser."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.timing import start
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "frozen-graph"
PRIORS: Mapping[str, float] = {
    "vanishing-gradient": 0.22,
    "plateau": 0.1,
    "loss-zero": 0.03,
    "underflow": 0.05,
    "lr-anomaly": 0.01,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = said(
        case, r"requires_grad|does not require grad|gradients will be none|no trainable|unused parameter", PROOF
    )
    zeros, level, unmoved = facts.gradient.zero_share(case), facts.gradient.level(case), facts.updates.none_made(case)
    if zeros > 0.5 and case.kind != "loss-zero":  # a loss of 0 has no gradient, frozen or not
        text = f"the gradient norm is exactly 0 at {zeros:.0%} of the logged points from the onset on"
        reasons.append(Reason(STRONG, text))
    elif case.kind == "plateau" and case.movement("grad_norm") is not None:
        reasons.append(Reason(-CLEAR, "gradients are not 0"))
    elif case.kind == "vanishing-gradient" and level:
        text = f"the gradient norm is {level:.2g}, not exactly 0: something is still connected"
        reasons.append(Reason(-CLEAR, text))
    if unmoved and case.kind == "plateau":
        reasons.append(Reason(CLEAR, unmoved))
    if case.kind == "vanishing-gradient":
        reasons += start(case, early=HINT)
    return Weight(reasons, "list the parameters with requires_grad and a gradient after one backward pass")
