"""The optimiser's moments did not fit the gradients: lost at a restart, stale, or with too long a memory."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.evidence.data import data
from trainforensics.causes.evidence.evaluation import validated
from trainforensics.causes.evidence.gradient import gradient
from trainforensics.causes.evidence.rate import rate_jump
from trainforensics.causes.evidence.recovery import recovery
from trainforensics.causes.evidence.restarts import counts_anew, joins, restart, thrown_back
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "optimizer-state"
TEST = "repeat from the last checkpoint with fresh moments, or a smaller beta2: a difference confirms it"
# With moments that were lost already, fresh ones change nothing.
TEST_AT_RESUME = (
    "resume once with the optimiser's state checked to be loaded, and once with fresh moments: "
    "a loss that joins in the first and jumps in the second confirms it"
)
PRIORS: Mapping[str, float] = {
    "instant-burst": 0.09,
    "gradual-rise": 0.12,
    "divergence": 0.09,
    "resume-discontinuity": 0.32,
    "lr-anomaly": 0.04,
    "plateau": 0.1,
    "gradient-explosion": 0.08,
    "oscillation": 0.06,
    "update-ratio": 0.1,
    "nan-onset": 0.02,
    "attention-collapse": 0.03,
}


def _at_resume(case: Case) -> list[Reason]:
    """A lost state shows as a bump that is learnt away; a loss that stays apart, or fell, is the data's."""
    return [
        *joins(case, "train_loss", higher=HINT, lower=-CLEAR, smooth=-CLEAR),
        *joins(case, "grad_norm", higher=HINT, smooth=-HINT),
        *thrown_back(case, far=-HINT),
        *counts_anew(case, -CLEAR),
    ]


def _with_its_neighbours(case: Case) -> list[Reason]:
    """A file holds the states of optimiser, schedule and scaler: where two of them begin anew, none was loaded."""
    rate = facts.rate.around(case)
    if rate is None or rate.jump <= 1.0 or not facts.precision.scale_lost(case):
        return []
    return [Reason(STRONG, "both learning rate and loss scale begin anew: the states beside the weights are lost")]


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*data(case, proven=-STRONG), *rate_jump(case, -CLEAR)]
    if case.kind == "resume-discontinuity":
        reasons += [*_at_resume(case), *_with_its_neighbours(case)]
    else:
        reasons += [*restart(case, near=CLEAR), *rooted(case, CLEAR, "resume-discontinuity")]
        reasons += [*recovery(case, fast=-HINT, slow=HINT), *gradient(case, quiet=-HINT)]
        reasons += validated(case, harmed=HINT, unharmed=-CLEAR)
    for role in ("update_norm", "update_ratio", "optimizer_state_norm"):
        move = case.movement(role)
        if move is not None and move.lead >= 3:
            text = f"{role} left its noise at {move.lead_step}, {case.onset - move.lead_step} steps before the loss"
            reasons.append(Reason(CLEAR, text))
            break
    unmoved = facts.updates.none_made(case) if case.kind == "plateau" else ""
    if unmoved:
        reasons.append(Reason(CLEAR, f"{unmoved}: the optimiser changes nothing"))
    return Weight(reasons, TEST_AT_RESUME if case.kind == "resume-discontinuity" else TEST)
