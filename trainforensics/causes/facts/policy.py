"""A policy and what it is paid."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once

MOSTLY = 0.85  # of the updates; where fewer are alike some advantage is left to learn from


@once
def unpaid(case: Case) -> float | None:
    """Share of the updates from the onset on at which every sample earns the same, if that is nearly all of them."""
    spread = case.curve("reward_std")
    since = spread.value[(spread.step >= case.onset) & spread.finite] if spread is not None else np.empty(0)
    share = float(np.mean(since == 0)) if len(since) else 0.0
    return share if share >= MOSTLY else None
