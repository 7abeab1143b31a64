"""Ranks hold different weights or states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.ranks import lone_gap
from trainforensics.causes.evidence.restarts import restart
from trainforensics.causes.weight import CLEAR, HINT, STRONG, Reason, Weight

CAUSE = "rank-desync"
PRIORS: Mapping[str, float] = {
    "rank-divergence": 0.5,
    "nondeterminism": 0.1,
    "resume-discontinuity": 0.02,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = restart(case, near=HINT)
    reasons += lone_gap(case, at_once=-CLEAR, grew=CLEAR)
    checksums = case.signals.ranks("checksum") or case.signals.ranks("param_norm")
    if checksums is not None:
        now = checksums.value[:, checksums.step >= case.onset]
        apart = bool(now.size) and float(np.ptp(now, axis=0).max()) > 1e-6 * float(np.abs(now).max())
        text = (
            "checksums or parameter norms differ between ranks"
            if apart
            else "parameter norms are the same on all ranks"
        )
        reasons.append(Reason(STRONG if apart else -STRONG, text))
    if case.incident.recovery == "recovered":
        reasons.append(Reason(-CLEAR, "the rank came back by itself"))
    return Weight(
        reasons,
        "compare a checksum of the parameters across ranks; broadcast rank 0's and see whether the gap closes",
    )
