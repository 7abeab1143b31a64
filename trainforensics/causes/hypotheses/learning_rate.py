"""The learning rate was too high for where the model stood: updates overshoot, gradients grow, the loss follows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data
from trainforensics.causes.evidence.evaluation import trained, validated
from trainforensics.causes.evidence.gradient import gradient, rescaled
from trainforensics.causes.evidence.loss import growth
from trainforensics.causes.evidence.policy import drifted
from trainforensics.causes.evidence.ranks import lone_rank
from trainforensics.causes.evidence.rate import declared_rate, no_rate, rate_jump, rate_level
from trainforensics.causes.evidence.recovery import after_jump
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.evidence.timing import periodic, start
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "learning-rate"
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.2,
    "gradual-rise": 0.45,
    "divergence": 0.42,
    "oscillation": 0.6,
    "nan-onset": 0.22,
    "transient-nan": 0.05,
    "grad-nan": 0.08,
    "gradient-explosion": 0.4,
    "plateau": 0.3,
    "clip-saturation": 0.5,
    "update-ratio": 0.6,
    "scale-decay": 0.06,
    "vanishing-gradient": 0.12,
    "lr-anomaly": 0.15,
    "resume-discontinuity": 0.05,
    "val-divergence": 0.04,
    "val-jump": 0.05,
    "expert-collapse": 0.04,
    "rl-collapse": 0.35,
    "attention-collapse": 0.08,
    "batch-size-change": 0.1,
    "bad-start": 0.05,
    "underflow": 0.03,
    "activation-outlier": 0.3,
    "skipped-steps": 0.06,
}
TIMID = 1e-7  # supervised training uses none so low


def timid(case: Case) -> list[Reason]:
    """A plateau under a rate that never came near any that trains."""
    rate = case.curve("learning_rate") if case.kind == "plateau" else None
    peak = float(np.nanmax(rate.value, initial=0.0)) if rate is not None else 0.0
    return [Reason(STRONG, f"the learning rate never exceeds {peak:.2g}")] if 0 < peak < TIMID else []


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [
        *rate_jump(case, PROOF),
        *timid(case),
        *periodic(case, -CLEAR),
        *(rooted(case, STRONG, "lr-anomaly") if not facts.rate.is_zero(case) else no_rate(case, -STRONG)),
        *(gradient(case, led=CLEAR, quiet=-CLEAR) if case.kind != "oscillation" else ()),
        *(declared_rate(case, -STRONG) or rate_level(case, high=HINT, low=-CLEAR)),
        *after_jump(case, alone=-CLEAR, fast=-HINT, slow=CLEAR),
        *data(case, proven=-STRONG, nothing=HINT),
        *restart(case, near=-HINT),
        *lone_rank(case, -CLEAR),
        *rescaled(case, -CLEAR),
        *validated(case, harmed=HINT, unharmed=-CLEAR),
        *trained(case, moved=CLEAR),
    ]
    if case.kind in ("nan-onset", "grad-nan", "scale-decay", "skipped-steps", "loss-zero"):
        reasons += growth(case, climbed=CLEAR, sudden=-CLEAR)
    elif case.kind == "vanishing-gradient":
        reasons += start(case, early=-CLEAR)
    elif case.kind == "rl-collapse":
        reasons += drifted(case, HINT)
    test = f"replay the same batches up to {case.onset} at half the learning rate: no incident confirms it"
    if case.kind == "plateau":
        test = "repeat the start at three times and at a third of the learning rate: a loss that falls confirms it"
    return Weight(reasons, test)
