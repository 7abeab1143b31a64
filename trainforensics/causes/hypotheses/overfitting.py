"""The model learns its training set by heart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.rate import rate_jump
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight
from trainforensics.signals.curve import Floats

CAUSE = "overfitting"
PRIORS: Mapping[str, float] = {
    "val-divergence": 0.62,
    "double-descent": 0.35,
    "eval-regression": 0.2,
    "val-jump": 0.02,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = rate_jump(case, -CLEAR)
    loss = case.loss.only_finite() if case.loss is not None else None
    if loss is not None and len(loss) >= 8:
        after = loss.value[loss.step >= case.onset]
        before = loss.value[loss.step < case.onset]
        if len(after) >= 3 and len(before) >= 3:
            old, new = case.levels("train_loss", _last_quarter(before), _last_quarter(after))
            text = f"the training loss went from {old:.4g} to {new:.4g} meanwhile"
            of_train = case.kind in ("val-divergence", "double-descent")
            reasons.append(Reason(HINT if of_train else 0.0, text) if new < old else Reason(-CLEAR, text))
    elif case.kind in ("val-divergence", "double-descent"):
        reasons.append(Reason(-HINT, "no training loss is seen that goes on falling, so a failing run looks the same"))
    val = case.movement("val_loss") if case.kind == "eval-regression" else None
    if val is not None and val.widths < 4:
        reasons.append(Reason(-CLEAR, f"the validation loss did not rise ({val.at:.4g}, usual {val.before:.4g})"))
    if case.incident.onset_step is not None and case.onset <= 0:
        reasons.append(Reason(-STRONG, "the gap is there from the first evaluation, before anything was learnt"))
    return Weight(
        reasons,
        "continue from the best checkpoint with stronger weight decay or dropout: a later turning point confirms it",
    )


def _last_quarter(values: Floats) -> float:
    return float(np.median(values[-len(values) // 4 or -1 :]))
