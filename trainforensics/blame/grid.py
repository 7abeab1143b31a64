"""The steps at which a run logged."""

from __future__ import annotations

import numpy as np

from trainforensics.signals import Signals
from trainforensics.signals.curve import Ints


def log_grid(signals: Signals) -> Ints:
    """The steps at which the run logged, shape (n,): those of the optimisation series with most points."""
    return signals.derive("log-grid", lambda: _log_grid(signals))


def _log_grid(signals: Signals) -> Ints:
    curves = [c for role in ("train_loss", "grad_norm", "learning_rate", "loss_scale") if (c := signals.curve(role))]
    curves = curves or list(signals.every_curve())
    if not curves:
        return np.array([], dtype=np.int64)
    step = max(curves, key=len).step
    return step[np.diff(step, prepend=step[:1] - 1) > 0]
