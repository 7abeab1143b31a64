"""Model and data do not fit each other in size."""

from __future__ import annotations

from collections.abc import Mapping

from trainforensics.causes.case import Case
from trainforensics.causes.weight import Weight

CAUSE = "capacity"
PRIORS: Mapping[str, float] = {
    "double-descent": 0.42,
    "plateau": 0.12,
    "vanishing-gradient": 0.04,
    "val-divergence": 0.05,
}


def weigh(_: Case) -> Weight:
    """What speaks for it and against it."""
    return Weight((), "train a model of twice and of half the size on the same data and compare the turning point")
