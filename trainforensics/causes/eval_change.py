"""The evaluation itself changed: its set, tokeniser, preprocessing or mode."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import restart
from trainforensics.causes.weight import HINT, Reason, Weight

CAUSE = "eval-change"
PRIORS: Mapping[str, float] = {
    "val-jump": 0.6,
    "val-divergence": 0.08,
    "eval-regression": 0.3,
    "eval-invalid": 0.35,
    "double-descent": 0.02,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = restart(case, near=HINT)
    loss = case.movement("train_loss")
    if case.kind == "val-jump" and loss is not None and abs(loss.widths) < 4:
        reasons.append(Reason(HINT, f"the training loss did not move ({loss.at:.4g}, usual {loss.before:.4g})"))
    if case.kind == "val-divergence":
        reasons.append(Reason(-HINT, "it worsens over many evaluations, not at one"))
    if case.kind == "eval-invalid" and case.early:
        reasons.append(Reason(HINT, "it is so from the first evaluation"))
    return Weight(
        prior,
        tuple(reasons),
        "evaluate a checkpoint from before with the present evaluation: the same worse figure confirms it",
    )
