"""Communication overlaps computation wrongly, so that ranks read half-written tensors."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.witnesses import said
from trainforensics.causes.weight import HINT, Weight

CAUSE = "comm-race"
PRIORS: Mapping[str, float] = {
    "loss-zero": 0.04,
    "nan-onset": 0.02,
    "nondeterminism": 0.15,
}


def weigh(case: Case) -> Weight:
    """What speaks for it and against it."""
    reasons = said(case, r"overlap_comm|overlap.*(reduce|gather)", HINT)
    return Weight(reasons, "repeat with communication overlap switched off")
