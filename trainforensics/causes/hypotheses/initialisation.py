"""The model started from unsuitable weights."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.gradient import no_gradient
from trainforensics.causes.evidence.timing import start
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "initialisation"
PRIORS: Mapping[str, float] = {
    "nan-onset": 0.04,
    "grad-nan": 0.05,
    "bad-start": 0.32,
    "vanishing-gradient": 0.38,
    "divergence": 0.03,
    "gradient-explosion": 0.05,
    "plateau": 0.05,
    "instant-burst": 0.01,
    "activation-outlier": 0.2,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = start(case, early=CLEAR, late=-CLEAR)
    reasons += no_gradient(case, -STRONG)
    if facts.loss.never_scaled(case) is not None:
        reasons.append(Reason(-CLEAR, "the loss is that of large targets, whatever the weights"))
    if case.kind == "bad-start" and case.signals.curve("val_loss") is not None:
        reasons.append(Reason(-HINT, "validation is logged and can be held against it"))
    return Weight(
        reasons,
        "start again from another seed and with the framework's default initialisation: a normal start confirms it",
    )
