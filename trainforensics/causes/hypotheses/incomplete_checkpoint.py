"""Not everything was in the checkpoint, or not everything was loaded."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.restarts import counts_anew, joins, restart, thrown_back
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Weight

CAUSE = "incomplete-checkpoint"
PRIORS: Mapping[str, float] = {
    "resume-discontinuity": 0.12,
    "bad-start": 0.12,
    "checkpoint-failure": 0.05,
    "divergence": 0.01,
    "instant-burst": 0.01,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = said(
        case, r"missing key|unexpected key|not initialized|newly initialized|size mismatch|strict=False", STRONG
    )
    if case.kind != "resume-discontinuity":
        reasons += restart(case, near=HINT)
    else:
        anew = counts_anew(case, CLEAR)
        reasons += anew or joins(case, "train_loss", higher=HINT, lower=-CLEAR, smooth=-STRONG)
        reasons += thrown_back(case, far=CLEAR, little=-HINT)
    return Weight(
        reasons,
        "compare parameters and optimiser state in memory right after loading with the file, key by key",
    )
