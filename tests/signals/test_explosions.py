from __future__ import annotations

import numpy as np
from curves import grad_norm
from factories import make_signals

from trainforensics.signals.explosions import explosions, loss_moved

N = 600
LOSS = 2 + 0.05 * np.random.default_rng(14).standard_normal(N)


def test_an_explosion_tells_its_size() -> None:
    norm = grad_norm()
    norm[400:] *= 50
    (found,) = explosions(make_signals({"train_loss": LOSS, "grad_norm": norm}))
    assert found.lasting
    assert found.onset == 400
    assert 0.7 < found.level < 1.4
    assert found.factor > 40


def test_the_loss_that_moves_at_the_same_steps() -> None:
    loss = LOSS.copy()
    loss[300:304] += 3
    signals = make_signals({"train_loss": loss})
    assert loss_moved(signals, 302, 303)
    assert not loss_moved(signals, 100, 120)


def test_a_step_after_a_slow_drift_counts_from_the_level_before_it() -> None:
    drifting = 0.5 * grad_norm() * np.linspace(1, 3, N)
    stepped = drifting.copy()
    stepped[400:] *= 5
    (found,) = explosions(make_signals({"train_loss": LOSS, "grad_norm": stepped}))
    assert not found.slow
    assert found.onset == 400
    assert found.level > 1
    assert all(e.slow for e in explosions(make_signals({"train_loss": LOSS, "grad_norm": drifting})))
