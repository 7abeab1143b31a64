"""The evaluation itself changed: its set, tokeniser, preprocessing or mode."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evaluation import trained
from trainforensics.causes.evidence import restart
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

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
    if case.kind == "val-jump":
        reasons += trained(case, moved=-STRONG, still=HINT, unseen=-HINT)
        if case.incident.recovery == "recovered":
            text = f"it came back by itself by {case.incident.end_step}, which a changed evaluation would not"
            reasons.append(Reason(-CLEAR, text))
    if case.kind == "val-divergence":
        reasons.append(Reason(-HINT, "it worsens over many evaluations, not at one"))
    if case.kind == "eval-invalid" and case.early:
        reasons.append(Reason(HINT, "it is so from the first evaluation"))
    return Weight(
        prior,
        tuple(reasons),
        "evaluate a checkpoint from before with the present evaluation: the same worse figure confirms it",
    )
