"""Not everything was in the checkpoint, or not everything was loaded."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import counts_anew, joins, restart, said, thrown_back
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Weight

CAUSE = "incomplete-checkpoint"
PRIORS: Mapping[str, float] = {
    "resume-discontinuity": 0.12,
    "bad-start": 0.12,
    "checkpoint-failure": 0.05,
    "divergence": 0.01,
    "instant-burst": 0.01,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
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
        prior,
        tuple(reasons),
        "compare parameters and optimiser state in memory right after loading with the file, key by key",
    )
