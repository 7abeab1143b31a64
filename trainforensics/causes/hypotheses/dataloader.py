"""The loader fed the wrong data or not in time: order, position, shuffling, workers."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes import facts
from trainforensics.causes.case import PACE_KINDS, Case
from trainforensics.causes.evidence.pace import part_of_step
from trainforensics.causes.evidence.ranks import lone_gap
from trainforensics.causes.evidence.rate import rate_jump
from trainforensics.causes.evidence.restarts import counts_anew, joins
from trainforensics.causes.evidence.timing import periodic
from trainforensics.causes.evidence.witnesses import rooted
from trainforensics.causes.weight import CLEAR, HINT, PROOF, STRONG, Reason, Weight

CAUSE = "dataloader"
PRIORS: Mapping[str, float] = {
    "resume-discontinuity": 0.3,
    "periodic-data-order": 0.7,
    "data-shift": 0.22,
    "instant-burst": 0.02,
    "throughput-drop": 0.1,
    "straggler": 0.15,
    "hang": 0.15,
    "loss-zero": 0.06,
    "oscillation": 0.1,
    "suspicious-low-loss": 0.12,
    "transient-nan": 0.02,
    "rank-divergence": 0.05,
}


def _at_resume(case: Case) -> list[Reason]:
    """Replayed or reordered data moves the loss a little, or down, while everything else joins."""
    reasons = [
        *joins(case, "train_loss", lower=CLEAR, smooth=-CLEAR),
        *joins(case, "grad_norm", smooth=HINT, higher=-HINT),
        *counts_anew(case, -PROOF),
    ]
    if case.incident.recovery == "unrecovered":
        reasons.append(Reason(HINT, "the difference stays"))
    return reasons


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = [*rate_jump(case, -CLEAR), *periodic(case, PROOF)]
    if case.kind == "resume-discontinuity":
        reasons += _at_resume(case)
    elif case.kind in ("data-shift", "instant-burst", "oscillation"):
        reasons += rooted(case, CLEAR, "resume-discontinuity", "periodic-data-order")
    elif case.kind == "rank-divergence":
        reasons += lone_gap(case, at_once=CLEAR, grew=-CLEAR)
    elif case.kind == "straggler" and case.incident.role == "dataloader_time":
        reasons.append(Reason(STRONG, "what takes longer on this rank is the loading of its data"))
    elif case.kind == "loss-zero" and facts.loss.zero_for_once(case):
        reasons.append(Reason(PROOF, "single epochs are zero between others, scores and all: no batch came"))
    else:
        reasons += part_of_step(case, "dataloader_time", "data loading", longer=CLEAR, usual=-HINT)
    return Weight(
        reasons,
        "run some steps with one batch kept in memory: the old pace confirms it"
        if case.kind in PACE_KINDS
        else "log the sample ids of the first batches on both sides and compare them with what the sampler should give",
    )
