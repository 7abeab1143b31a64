"""A loss or input is normalised wrongly: sum for mean, a wrong divisor, a missing norm."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.timing import start
from trainforensics.causes.weight import HINT, STRONG, Reason, Weight

CAUSE = "normalisation"
PRIORS: Mapping[str, float] = {
    "bad-start": 0.08,
    "expert-collapse": 0.05,
    "scale-mismatch": 0.04,
    "gradient-explosion": 0.04,
    "activation-outlier": 0.15,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = start(case, early=HINT)
    if (level := facts.loss.never_scaled(case)) is not None:
        reasons.append(Reason(STRONG, f"at {level:.2g} nothing speaks but the size of what is to be predicted"))
    return Weight(
        reasons,
        "compute the loss of one batch by hand, divided by its number of tokens, and compare it with the logged one",
    )
