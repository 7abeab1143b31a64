"""Software, driver or machine changed."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.weight import CLEAR, HINT, Reason, Weight

CAUSE = "environment"
PRIORS: Mapping[str, float] = {
    "resume-discontinuity": 0.05,
    "throughput-drop": 0.05,
    "nondeterminism": 0.2,
    "straggler": 0.05,
    "hang": 0.05,
    "clock-skew": 0.5,
    "checkpoint-failure": 0.06,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = []
    for role in ("tokens_per_sec", "step_time"):
        move = case.movement(role)
        if move is not None and case.kind == "resume-discontinuity":
            moved = abs(move.widths) > 6
            text = f"{role} went from {move.before:.4g} to {move.at:.4g} across the restart"
            reasons.append(Reason(CLEAR if moved else -HINT, text))
            break
    return Weight(reasons, "run the same steps in the old environment: the old figures confirm it")
