from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import vanishing_gradient
from trainforensics.model import Clear, Fired
from trainforensics.signals import Curve, Signals

RNG = np.random.default_rng(5)
N = 500
FLAT = 2.303 + 0.01 * RNG.standard_normal(N)


def fires(signals: Signals) -> Fired:
    outcome = vanishing_gradient.detect(signals, {})
    assert isinstance(outcome, Fired)
    return outcome


def layered(loss: np.ndarray, *level: float) -> Signals:
    curves = [make_curve(loss, "train_loss")]
    for i, usual in enumerate(level):
        value = usual * np.exp(0.2 * RNG.standard_normal(N))
        curves.append(make_curve(value, "grad_norm", name=f"grad_norm/layer{i}", layer=f"layer{i}", series_id=i + 1))
    return make_signals(curves)


def every(signals: Signals) -> list[Curve]:
    return list(signals.every_curve())


def test_zero_from_the_start() -> None:
    outcome = fires(make_signals({"train_loss": FLAT, "grad_norm": np.zeros(N)}))
    assert outcome.findings[0].onset_step == 1


def test_a_norm_that_dies_later() -> None:
    norm = np.where(np.arange(N) < 200, 0.9, 3e-7) * np.exp(0.1 * RNG.standard_normal(N))
    outcome = fires(make_signals({"train_loss": FLAT, "grad_norm": norm}))
    assert outcome.findings[0].onset_step == 201


def test_starved_layers_are_named() -> None:
    outcome = fires(layered(FLAT, 1e-7, 3e-6, 1e-3, 0.1, 0.6))
    assert outcome.findings[0].scope.layer == "layer0"
    assert "layer0, layer1" in outcome.findings[0].summary


def test_a_converging_run_is_quiet() -> None:
    decay = 1e2 * np.exp(-np.arange(N) / 25)
    signals = make_signals({"train_loss": decay, "grad_norm": decay / 10})
    assert isinstance(vanishing_gradient.detect(signals, {}), Clear)


def test_small_gradients_of_a_loss_that_falls_are_quiet() -> None:
    falling = 0.01 * np.exp(-np.arange(N) / 300) + 1e-5 * RNG.standard_normal(N)
    signals = make_signals({"train_loss": falling, "grad_norm": 5e-5 * np.ones(N) + 1e-6 * RNG.random(N)})
    assert isinstance(vanishing_gradient.detect(signals, {}), Clear)


def test_frozen_layers_and_learning_layers_are_quiet() -> None:
    learning = 2.3 * np.exp(-np.arange(N) / 200) + 0.01 * RNG.standard_normal(N)
    for first in (0.0, 1e-7):
        assert isinstance(vanishing_gradient.detect(layered(learning, first, 0.2, 0.3), {}), Clear)
    assert isinstance(vanishing_gradient.detect(layered(FLAT, 0.2, 0.0, 0.3), {}), Clear)
    tuned = layered(FLAT, 0.0, 0.2, 0.3)
    rate = make_curve(np.full(N, 2e-5), "learning_rate")
    assert isinstance(vanishing_gradient.detect(make_signals([*every(tuned), rate]), {}), Clear)
    backbone = [replace(c, series=replace(c.series, name=f"backbone.{c.series.name}")) for c in every(tuned)]
    assert isinstance(vanishing_gradient.detect(make_signals(backbone), {}), Clear)


def test_first_layers_cut_off_from_the_start() -> None:
    readout = 1.27 + 0.25 * np.exp(-np.arange(N) / 30) + 0.02 * RNG.standard_normal(N)
    (found,) = fires(layered(readout, 0.0, 0.0, 0.3)).findings
    assert found.onset_step == 1
    assert "layer0, layer1" in found.summary


def test_biases_that_a_norm_cancels_are_quiet() -> None:
    signals = layered(FLAT, 1e-9, 0.2, 0.3)
    biased = [
        replace(c, series=replace(c.series, name=c.series.name.replace("layer0", "key.bias"))) for c in every(signals)
    ]
    assert isinstance(vanishing_gradient.detect(make_signals(biased), {}), Clear)


def test_rewards_decide_in_reinforcement_learning() -> None:
    signals = make_signals(
        {"train_loss": 1e-5 * RNG.standard_normal(N), "grad_norm": np.zeros(N), "reward": np.ones(N)}
    )
    assert isinstance(vanishing_gradient.detect(signals, {}), Clear)


def policy(norm: np.ndarray, spread: np.ndarray | None = None, gain: float = 0.0) -> Signals:
    reward = 0.4 + 0.04 * RNG.standard_normal(N) + np.linspace(0, gain, N)
    given = {"train_loss": 1e-8 * RNG.standard_normal(N), "grad_norm": norm, "reward": reward}
    return make_signals(given | ({} if spread is None else {"reward_std": spread}))


@pytest.mark.parametrize("start", [0, 200])
def test_a_policy_whose_gradient_never_arrives(start: int) -> None:
    norm = np.where(np.arange(N) < start, 0.3, 0.0)
    for spread in (None, 0.25 + 0.01 * RNG.standard_normal(N)):
        (found,) = fires(policy(norm, spread)).findings
        assert found.onset_step == start + 1
        assert "while the reward stays at" in found.summary


def test_equal_rewards_have_no_gradient_by_right() -> None:
    dull = RNG.random(N) < 0.9
    now_and_then = policy(np.where(dull, 0.0, 0.2), np.where(dull, 0.0, 0.3))
    solved = policy(np.where(np.arange(N) < 300, 0.2, 0.0), np.where(np.arange(N) < 300, 0.3, 0.0))
    learning = policy(np.zeros(N), np.full(N, 0.3), gain=0.5)  # the norm is not that of what learns
    for signals in (now_and_then, solved, learning):
        assert isinstance(vanishing_gradient.detect(signals, {}), Clear)
