from __future__ import annotations

import numpy as np
from factories import make_signals

from trainforensics.signals.levels import norm_step

N = 600
RNG = np.random.default_rng(13)
LOSS = 2 + 0.05 * RNG.standard_normal(N)
NORM = np.exp(0.2 * RNG.standard_normal(N))


def test_the_norm_at_a_step_of_something_else() -> None:
    stepped = NORM.copy()
    stepped[400:] *= 2
    signals = make_signals({"grad_norm": stepped})
    levels = norm_step(signals, 401)
    assert levels is not None
    assert 1.7 < levels[1] / levels[0] < 2.4
    assert norm_step(signals, 300) is None
    assert norm_step(make_signals({"train_loss": LOSS}), 401) is None
