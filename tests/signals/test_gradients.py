from __future__ import annotations

import numpy as np
from factories import make_signals

from trainforensics.signals.gradients import collapse, explosions, loss_moved, norm_step

N = 600
RNG = np.random.default_rng(13)
LOSS = 2 + 0.05 * RNG.standard_normal(N)
NORM = np.exp(0.2 * RNG.standard_normal(N))


def test_an_explosion_tells_its_size() -> None:
    norm = NORM.copy()
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


def test_a_collapse_counts_only_beside_an_idle_loss() -> None:
    norm = NORM.copy()
    norm[400:] = 1e-7
    found = collapse(make_signals({"train_loss": LOSS, "grad_norm": norm}))
    assert found is not None
    assert found.first == 400
    falling = 2 * np.exp(-np.arange(N) / 300)
    assert collapse(make_signals({"train_loss": falling, "grad_norm": norm})) is None
    assert collapse(make_signals({"grad_norm": norm})) is None


def test_a_norm_that_fades_while_nothing_is_learnt() -> None:
    fading = 20 * NORM * 10.0 ** (-3 * np.minimum(np.arange(N) / 300, 1))
    found = collapse(make_signals({"train_loss": LOSS, "grad_norm": fading}))
    assert found is not None
    assert 80 < found.first < 160
    learnt = LOSS - 0.3 * np.minimum(np.arange(N) / 300, 1)
    assert collapse(make_signals({"train_loss": learnt, "grad_norm": fading})) is None


def test_a_step_after_a_slow_drift_counts_from_the_level_before_it() -> None:
    drifting = 0.5 * NORM * np.linspace(1, 3, N)
    stepped = drifting.copy()
    stepped[400:] *= 5
    (found,) = explosions(make_signals({"train_loss": LOSS, "grad_norm": stepped}))
    assert not found.slow
    assert found.onset == 400
    assert found.level > 1
    assert all(e.slow for e in explosions(make_signals({"train_loss": LOSS, "grad_norm": drifting})))


def test_the_norm_at_a_step_of_something_else() -> None:
    stepped = NORM.copy()
    stepped[400:] *= 2
    signals = make_signals({"grad_norm": stepped})
    levels = norm_step(signals, 401)
    assert levels is not None
    assert 1.7 < levels[1] / levels[0] < 2.4
    assert norm_step(signals, 300) is None
    assert norm_step(make_signals({"train_loss": LOSS}), 401) is None
