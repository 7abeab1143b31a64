"""Whether the optimiser changes the parameters."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.signals.stuck import weights_at_rest


@once
def none_made(case: Case) -> str:
    """What says that the parameters do not change from the onset on; empty where nothing does."""
    for role in ("update_ratio", "update_norm"):
        curve = case.curve(role)
        after = curve.only_finite() if curve is not None else None
        after = after.take(after.step >= case.onset) if after is not None else None
        if after is not None and len(after) and float(np.median(after.value)) == 0.0:
            return f"{after.name} is exactly 0"
    rest = weights_at_rest(case.signals)
    if rest is not None and abs(int(rest[0].step[rest[1]]) - case.onset) <= 2 * rest[0].cadence:
        return f"{rest[0].name} stands still to its last digit"
    return ""
