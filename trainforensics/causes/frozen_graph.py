"""No gradient reaches the parameters: frozen, detached, or not given to the optimiser."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import said, start
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "frozen-graph"
PRIORS: Mapping[str, float] = {
    "vanishing-gradient": 0.22,
    "plateau": 0.1,
    "loss-zero": 0.03,
    "underflow": 0.05,
    "lr-anomaly": 0.01,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = said(
        case, r"requires_grad|does not require grad|gradients will be none|no trainable|unused parameter", PROOF
    )
    if case.zero_gradient > 0.5 and case.kind != "loss-zero":  # a loss of 0 has no gradient, frozen or not
        text = f"the gradient norm is exactly 0 at {case.zero_gradient:.0%} of the logged points from the onset on"
        reasons.append(Reason(STRONG, text))
    elif case.kind == "plateau" and case.gradient is not None:
        reasons.append(Reason(-CLEAR, "gradients are not 0"))
    elif case.kind == "vanishing-gradient" and case.gradient_level:
        text = f"the gradient norm is {case.gradient_level:.2g}, not exactly 0: something is still connected"
        reasons.append(Reason(-CLEAR, text))
    if case.no_updates and case.kind == "plateau":
        reasons.append(Reason(CLEAR, case.no_updates))
    if case.kind == "vanishing-gradient":
        reasons += start(case, early=HINT)
    return Weight(
        prior, tuple(reasons), "list the parameters with requires_grad and a gradient after one backward pass"
    )
