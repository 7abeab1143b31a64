"""Batch statistics differ between training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evaluation import trained
from trainforensics.causes.evidence import start
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight

CAUSE = "batch-norm"
PRIORS: Mapping[str, float] = {
    "eval-invalid": 0.15,
    "val-jump": 0.06,
    "val-divergence": 0.01,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = start(case, early=HINT)
    if case.kind == "val-jump":
        reasons += trained(case, moved=-CLEAR)
        if case.incident.recovery == "recovered":
            text = f"it came back by itself by {case.incident.end_step}, as running statistics do"
            reasons.append(Reason(CLEAR, text))
    if case.configured(r".*(batch_?norm|bn).*"):
        reasons.append(Reason(CLEAR, "the configuration names batch norm"))
    return Weight(prior, tuple(reasons), "evaluate with batch statistics (training mode): a normal figure confirms it")
