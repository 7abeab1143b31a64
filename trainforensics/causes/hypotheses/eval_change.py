"""The evaluation itself changed: its set, tokeniser, preprocessing or mode."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.evaluation import trained
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "eval-change"
PRIORS: Mapping[str, float] = {
    "val-jump": 0.6,
    "val-divergence": 0.08,
    "eval-regression": 0.3,
    "eval-invalid": 0.35,
    "double-descent": 0.02,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*restart(case, near=HINT), *trained(case, moved=-STRONG, still=HINT, unseen=-HINT)]
    if case.kind == "val-jump" and case.incident.recovery == "recovered":
        text = f"it came back by itself by {case.incident.end_step}, which a changed evaluation would not"
        reasons.append(Reason(-CLEAR, text))
    if case.kind == "val-divergence":
        reasons.append(Reason(-HINT, "it worsens over many evaluations, not at one"))
    if case.kind == "eval-invalid" and facts.timing.early(case):
        reasons.append(Reason(HINT, "it is so from the first evaluation"))
    return Weight(
        reasons,
        "evaluate a checkpoint from before with the present evaluation: the same worse figure confirms it",
    )
