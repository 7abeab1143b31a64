from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.signals.stuck import hidden_points, stuck, weights_at_rest

N = 200
RNG = np.random.default_rng(12)
LOSS = 2 + 0.1 * RNG.standard_normal(N)
NORM = 1 + 0.1 * RNG.random(N)


@pytest.mark.parametrize(
    ("norm", "reason"),
    [(np.nan, "filter"), (1.0, "filter"), (0.0, "dead"), (None, "constant")],
)
def test_what_zero_means_by_the_gradient(norm: float | None, reason: str) -> None:
    loss, gradient = LOSS.copy(), NORM.copy()
    loss[150:] = 0
    curves = {"train_loss": loss}
    if norm is not None:
        gradient[150:] = norm
        curves["grad_norm"] = gradient
    found = stuck(make_signals(curves))
    assert found is not None
    assert (found.reason, found.first, found.value) == (reason, 150, 0.0)


def test_a_jump_before_zero_hides_an_overflow() -> None:
    loss = LOSS.copy()
    loss[149] = 40
    loss[150:] = 0
    found = stuck(make_signals({"train_loss": loss}))
    assert found is not None
    assert found.reason == "filter"


@pytest.mark.parametrize("tail", [4, 9])
def test_a_few_equal_values_at_the_end_are_none(tail: int) -> None:
    loss = LOSS.copy()
    loss[-tail:] = 0.0 if tail < 5 else loss[-tail]
    assert stuck(make_signals({"train_loss": loss})) is None


def test_hidden_points_need_a_bad_gradient_and_a_start() -> None:
    curve = make_curve([2.0, 1.9, 0.0, 1.8, 1.8, 1.8, 0.0])
    bad = np.array([1, 1, np.inf, 1, 1, np.inf, 1])
    assert hidden_points(curve, bad).tolist() == [False, False, True, False, False, True, False]
    assert not hidden_points(make_curve([0.0, 0.0, 1.0]), np.array([np.inf, np.inf, 1.0])).any()


def test_weights_at_rest_need_a_rate_and_digits() -> None:
    norm = 10 + 0.01 * np.minimum(np.arange(N), 80) + np.where(np.arange(N) < 80, 1e-4 * NORM, 0)
    rate = np.full(N, 1e-3)
    found = weights_at_rest(make_signals({"param_norm": norm, "learning_rate": rate}))
    assert found is not None
    assert found[1] == 80
    assert weights_at_rest(make_signals({"param_norm": norm})) is None
    assert weights_at_rest(make_signals({"param_norm": norm.round(1), "learning_rate": rate})) is None
    decayed = np.where(np.arange(N) < 80, 1e-3, 1e-5)
    assert weights_at_rest(make_signals({"param_norm": norm, "learning_rate": decayed})) is None


def test_a_log_of_nothing_but_zeros() -> None:
    assert stuck(make_signals({"train_loss": np.zeros(3)})) is not None
    assert stuck(make_signals({"train_loss": np.array([0.4, 0.0, 0.0])})) is None


def test_zero_in_the_first_epoch_while_evaluation_lives() -> None:
    """Printed coarsely, it came there step by step: only new data and an evaluation say that it cannot be."""
    loss = np.round(np.maximum(6 * np.exp(-np.arange(N) / 6) - 0.1, 0) / 0.2) * 0.2
    epoch = make_curve(np.linspace(0, 0.99, N), "epoch", series_id=2)
    value = make_curve(np.full(8, 1.15), "val_loss", step=np.arange(1, 9) * 25, series_id=1)
    found = stuck(make_signals([make_curve(loss), value, epoch]))
    assert found is not None
    assert found.value == 0
    later = make_curve(np.linspace(0, 30, N), "epoch", series_id=2)
    assert stuck(make_signals([make_curve(loss), value, later])) is None


def test_zeros_hide_nothing_where_most_bad_gradients_stand_beside_a_moving_loss() -> None:
    curve = make_curve([0.3, 0.0, 0.2, -0.1, 0.0, 0.4, 0.1, -0.2])
    assert not hidden_points(curve, np.full(8, np.inf)).any()
