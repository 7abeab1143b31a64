"""Warm-up was too short or ended too high: the first large updates met a model and moments that were not ready."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data
from trainforensics.causes.evidence.gradient import gradient
from trainforensics.causes.evidence.loss import growth
from trainforensics.causes.evidence.rate import declared_rate, rate_jump
from trainforensics.causes.evidence.recovery import recovery
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "warmup"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.05,
    "gradual-rise": 0.08,
    "divergence": 0.1,
    "nan-onset": 0.05,
    "lr-anomaly": 0.12,
    "gradient-explosion": 0.04,
    "oscillation": 0.04,
    "update-ratio": 0.1,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [
        *gradient(case, led=HINT),
        *recovery(case, slow=HINT),
        *rate_jump(case, -CLEAR),
        *data(case, proven=-STRONG),
    ]
    if case.kind == "nan-onset":
        reasons += growth(case, climbed=HINT, sudden=-CLEAR)
    reasons += restart(case, near=-HINT)
    rate = facts.rate.around(case)
    if rate is not None and rate.warming:
        text = f"the learning rate is still rising ({rate.now:.3g}) or has just reached its highest at the onset"
        reasons.append(Reason(CLEAR, text))
        reasons += declared_rate(case, -STRONG)
    elif rate is not None:
        since = case.onset - rate.first - rate.warmup
        if since > max(4 * rate.warmup, 20 * case.cadence):
            reasons.append(Reason(-CLEAR, f"warm-up ({rate.warmup} steps) was over {since} steps before"))
    return Weight(reasons, "repeat the start with a warm-up four times as long: no incident confirms it")
