from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import vanishing_gradient
from trainforensics.detectors.loss import loss_zero
from trainforensics.detectors.numerics import grad_nan, nan_onset
from trainforensics.model import Axis, Clear, Finding, Fired
from trainforensics.signals import Signals

RNG = np.random.default_rng(8)
N = 300
LOSS = 2 + np.exp(-np.arange(N) / 50) + 0.05 * RNG.standard_normal(N)
NORM = 1 + 0.2 * RNG.random(N)


def one(signals: Signals) -> Finding:
    outcome = loss_zero.detect(signals, {})
    assert isinstance(outcome, Fired)
    for other in (nan_onset, grad_nan, vanishing_gradient):
        assert not isinstance(other.detect(signals, {}), Fired)
    return outcome.findings[0]


@pytest.mark.parametrize("norm", [np.nan, 0.0])
def test_zero_from_the_start(norm: float) -> None:
    found = one(make_signals({"train_loss": np.zeros(60), "grad_norm": np.full(60, norm)}))
    assert found.onset_step == 1
    assert "masked" in found.summary


def test_zero_with_a_dead_gradient() -> None:
    loss, norm = LOSS.copy(), NORM.copy()
    loss[200:] = norm[200:] = 0
    assert one(make_signals({"train_loss": loss, "grad_norm": norm})).onset_step == 201


def test_another_constant_while_gradients_go_on() -> None:
    loss = LOSS.copy()
    loss[200:] = loss[199]
    assert one(make_signals({"train_loss": loss, "grad_norm": NORM})).onset_step == 200


def test_zero_by_construction_is_quiet() -> None:
    zero = np.where(RNG.random(N) < 0.97, 0.0, 1e-4)
    zero[:3] = 0.0001
    signals = make_signals({"train_loss": zero, "grad_norm": 0.3 * NORM, "reward": np.linspace(0, 1, N)})
    assert isinstance(loss_zero.detect(signals, {}), Clear)
    assert isinstance(loss_zero.detect(make_signals({"train_loss": np.zeros(N), "grad_norm": NORM}), {}), Clear)


def test_rounding_of_a_small_loss_is_quiet() -> None:
    shrinking = np.round(2 * np.exp(-np.arange(N) / 15), 4)
    assert shrinking[-1] == 0
    assert isinstance(loss_zero.detect(make_signals({"train_loss": shrinking, "grad_norm": 0.01 * NORM}), {}), Clear)


def test_a_plateau_printed_to_two_decimals_is_quiet() -> None:
    coarse = np.round(0.70 + 0.002 * RNG.standard_normal(N), 2)
    assert isinstance(loss_zero.detect(make_signals({"train_loss": coarse, "grad_norm": NORM}), {}), Clear)


def test_the_first_value_repeated_for_a_while_is_quiet() -> None:
    warm = np.r_[np.full(30, 0.6931), 0.69 - 0.001 * np.arange(270)]
    assert isinstance(loss_zero.detect(make_signals({"train_loss": warm, "grad_norm": NORM}), {}), Clear)


def test_a_placeholder_beside_the_real_loss_is_quiet() -> None:
    curves = [make_curve(np.zeros(N), name="loss_total"), make_curve(LOSS, name="loss", series_id=1)]
    assert isinstance(loss_zero.detect(make_signals(curves), {}), Clear)


def test_a_column_of_zeros_beside_a_loss_that_is_trained_has_no_part_in_it() -> None:
    zeros = make_curve(np.zeros(N), "train_loss", name="LOSS TRANSFORMER")
    trained = make_curve(200 * LOSS - 350, None, name="LOSS NER", series_id=1)
    idle = make_curve(1 + 0.01 * RNG.random(N), None, name="aux_loss", series_id=1)
    assert isinstance(loss_zero.detect(make_signals([zeros, trained]), {}), Clear)
    assert isinstance(loss_zero.detect(make_signals([zeros, idle]), {}), Fired)


def test_a_constant_whose_gradient_stands_still_as_well_is_an_optimiser_that_has_stopped() -> None:
    loss, norm = np.full(90, 757.7), np.full(90, 3180.2)
    loss[:2], norm[:2] = (2993, 2960), (575, 549)
    assert isinstance(loss_zero.detect(make_signals({"train_loss": loss, "grad_norm": norm}), {}), Clear)
    assert one(make_signals({"train_loss": loss})).onset_step == 3


def epochs(loss: list[float], dice: list[float], tested: list[float]) -> Signals:
    curves = [
        make_curve(loss),
        make_curve(dice, None, name="dice", series_id=1),
        make_curve(tested, "val_loss", series_id=2),
    ]
    return replace(make_signals(curves), axis=Axis("epoch", "epoch"))


def test_epochs_without_a_batch() -> None:
    found = one(epochs([0.77, 0.0, 0.57, 0.0, 0.5], [0.3, 0.0, 0.4, 0.0, 0.5], [0.8, 0.8, 0.7, 0.7, 0.6]))
    assert found.occurrences == (2, 4)
    assert "without a batch" in found.summary
    assert one(epochs([0.77, 0.0, 0.57], [0.3, 0.3, 0.4], [0.8, 0.8, 0.7])).onset_step == 2
    for quiet in (
        epochs([0.77, 0.0, 0.57], [0.3, 0.3, 0.4], [0.8, 0.75, 0.7]),
        epochs([0.0, 0.77, 0.57], [0.0, 0.3, 0.4], [0.8, 0.8, 0.7]),
        epochs([0.77, 0.0, 0.57], [0.3, 0.0, 0.0], [0.8, 0.7, 0.6]),
    ):
        assert isinstance(loss_zero.detect(quiet, {}), Clear)


def test_what_rounding_leaves_of_nothing_is_nothing() -> None:
    loss = LOSS.copy()
    loss[200:] = -6e-20 * (1 + RNG.random(N - 200))
    assert one(make_signals({"train_loss": loss, "grad_norm": NORM})).onset_step == 201
