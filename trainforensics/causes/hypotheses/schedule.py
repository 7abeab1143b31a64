"""The learning-rate schedule is not the intended one."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.rate import skipped
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "schedule"
PRIORS: Mapping[str, float] = {
    "lr-anomaly": 0.72,
    "resume-discontinuity": 0.1,
    "plateau": 0.12,
    "instant-burst": 0.01,
    "batch-size-change": 0.03,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = rooted(case, CLEAR, "lr-anomaly") if case.kind != "lr-anomaly" else restart(case, near=HINT)
    reasons += skipped(case, -CLEAR)
    rate = facts.rate.around(case)
    if case.kind == "resume-discontinuity" and case.incident.role == "learning_rate":
        reasons.append(Reason(STRONG, "what does not join is the learning rate"))
    elif rate is not None and case.kind in ("plateau", "resume-discontinuity"):
        if rate.now == 0 or rate.share < 0.01:
            reasons.append(Reason(STRONG, f"the learning rate is {rate.now:.3g} here, its highest was {rate.peak:.3g}"))
        elif rate.jump > 1.0:
            reasons.append(Reason(STRONG, f"the learning rate jumped {rate.jump:.3g}-fold at {rate.jump_step}"))
        else:
            reasons.append(Reason(-CLEAR, f"the learning rate goes on smoothly ({rate.now:.3g})"))
    return Weight(
        reasons,
        "print the schedule's value for every step from the configuration and lay it over the logged one",
    )
