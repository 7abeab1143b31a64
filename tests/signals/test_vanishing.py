from __future__ import annotations

import numpy as np
from curves import grad_norm
from factories import make_signals

from trainforensics.signals.vanishing import collapse

N = 600
LOSS = 2 + 0.05 * np.random.default_rng(14).standard_normal(N)


def test_a_collapse_counts_only_beside_an_idle_loss() -> None:
    norm = grad_norm()
    norm[400:] = 1e-7
    found = collapse(make_signals({"train_loss": LOSS, "grad_norm": norm}))
    assert found is not None
    assert found.first == 400
    falling = 2 * np.exp(-np.arange(N) / 300)
    assert collapse(make_signals({"train_loss": falling, "grad_norm": norm})) is None
    assert collapse(make_signals({"grad_norm": norm})) is None


def test_a_norm_that_fades_while_nothing_is_learnt() -> None:
    fading = 20 * grad_norm() * 10.0 ** (-3 * np.minimum(np.arange(N) / 300, 1))
    found = collapse(make_signals({"train_loss": LOSS, "grad_norm": fading}))
    assert found is not None
    assert 80 < found.first < 160
    learnt = LOSS - 0.3 * np.minimum(np.arange(N) / 300, 1)
    assert collapse(make_signals({"train_loss": learnt, "grad_norm": fading})) is None


def test_a_norm_of_zero_in_each_of_a_few_rows() -> None:
    assert collapse(make_signals({"train_loss": np.array([10.26, 10.23, 10.21]), "grad_norm": np.zeros(3)})) is not None
    assert collapse(make_signals({"train_loss": np.array([10.26, 9.23, 8.21]), "grad_norm": np.zeros(3)})) is None
    small = np.array([0.0, 0.0, 1e-6])
    assert collapse(make_signals({"train_loss": np.array([10.26, 10.23, 10.21]), "grad_norm": small})) is None
