"""Communication overlaps computation wrongly, so that ranks read half-written tensors."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import said
from trainforensics.causes.weight import HINT, Weight

CAUSE = "comm-race"
PRIORS: Mapping[str, float] = {
    "loss-zero": 0.04,
    "nan-onset": 0.02,
    "nondeterminism": 0.15,
}


def weigh(case: Case) -> Weight | None:
    """Weighed where the kind of incident makes it thinkable."""
    prior = PRIORS.get(case.kind)
    if prior is None:
        return None
    reasons = said(case, r"overlap_comm|overlap.*(reduce|gather)", HINT)
    return Weight(prior, tuple(reasons), "repeat with communication overlap switched off")
