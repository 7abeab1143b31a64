"""Batch statistics differ between training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.evaluation import trained
from trainforensics.causes.evidence.timing import start
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight

CAUSE = "batch-norm"
PRIORS: Mapping[str, float] = {
    "eval-invalid": 0.15,
    "val-jump": 0.06,
    "val-divergence": 0.01,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*start(case, early=HINT), *trained(case, moved=-CLEAR)]
    if case.kind == "val-jump" and case.incident.recovery == "recovered":
        reasons.append(Reason(CLEAR, f"it came back by itself by {case.incident.end_step}, as running statistics do"))
    if case.kind == "val-jump" and case.incident.role == "val_metric" and case.signals.has("val_loss"):
        reasons.append(Reason(-CLEAR, "running statistics would move the validation loss as well"))
    if case.configured(r".*(batch_?norm|bn).*"):
        reasons.append(Reason(CLEAR, "the configuration names batch norm"))
    return Weight(reasons, "evaluate with batch statistics (training mode): a normal figure confirms it")
