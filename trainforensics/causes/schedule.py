"""The learning-rate schedule is not the intended one."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import restart, rooted, skipped
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "schedule"
PRIORS: Mapping[str, float] = {
    "lr-anomaly": 0.72,
    "resume-discontinuity": 0.1,
    "plateau": 0.12,
    "instant-burst": 0.01,
    "batch-size-change": 0.03,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = rooted(case, CLEAR, "lr-anomaly") if case.kind != "lr-anomaly" else restart(case, near=HINT)
    if case.kind == "lr-anomaly" and case.no_rate:
        reasons += skipped(case, -CLEAR)
    rate = case.rate
    if rate is not None and case.kind in ("plateau", "resume-discontinuity"):
        if rate.now == 0 or rate.share < 0.01:
            reasons.append(Reason(STRONG, f"the learning rate is {rate.now:.3g} here, its highest was {rate.peak:.3g}"))
        elif rate.jump > 1.0:
            reasons.append(Reason(STRONG, f"the learning rate jumped {rate.jump:.3g}-fold at {rate.jump_step}"))
        else:
            reasons.append(Reason(-CLEAR, f"the learning rate goes on smoothly ({rate.now:.3g})"))
    return Weight(
        prior,
        tuple(reasons),
        "print the schedule's value for every step from the configuration and lay it over the logged one",
    )
