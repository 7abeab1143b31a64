"""Losses that ring."""

from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.signals import Signals
from trainforensics.signals.ringing import rings


def spring(n: int, period: float, damping: float, noise: float, seed: int = 0) -> np.ndarray:
    """The loss of a damped spring, whose square swings twice in each of its own periods."""
    turn = np.pi * np.arange(n) / period
    course = np.exp(-damping * turn) * np.cos(turn)
    return (0.02 + course**2) * np.exp(noise * np.random.default_rng(seed).standard_normal(n))


def of(loss: np.ndarray, **more: np.ndarray) -> Signals:
    return make_signals({"train_loss": loss, **more})


@pytest.mark.parametrize(("n", "period"), [(100, 12.0), (400, 50.0), (6000, 700.0)])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_light_damping_rings(n: int, period: float, noise: float) -> None:
    signals = of(spring(n, period, 0.1, noise))
    found = rings(signals, signals.curve("train_loss"))
    assert found is not None
    assert abs(found.period - period) < 0.1 * period
    assert abs(found.turns[0] - period / 2) < 0.15 * period  # the first minimum


def test_a_heavy_damping_does_not() -> None:
    signals = of(spring(400, 50, 1.0, 0.03))
    assert rings(signals, signals.curve("train_loss")) is None


def test_low_swings_need_a_heavy_momentum() -> None:
    n = 400
    loss = (1 + 2 * np.exp(-np.arange(n) / 20)) * (1 + 0.12 * np.cos(np.arange(n) / 8))
    for momentum, expected in ((0.9, False), (0.999, True)):
        signals = of(loss, momentum=np.full(n, momentum))
        assert (rings(signals, signals.curve("train_loss")) is not None) is expected


def test_one_hump_and_bursts_are_none() -> None:
    n = 400
    at = np.arange(n)
    base = 0.3 + 2 * np.exp(-at / 30)
    hump = base + 2 * np.exp(-(((at - 200) / 40) ** 2))
    bursts = base + 2 * (at % 60 < 4) * (at > 60)
    for loss in (base, hump, bursts):
        signals = of(loss)
        assert rings(signals, signals.curve("train_loss")) is None


def test_a_rate_or_an_epoch_of_that_period_explains_it() -> None:
    loss = spring(400, 50, 0.1, 0.03)
    wave = 1e-3 * (1 + np.cos(2 * np.pi * np.arange(400) / 50))
    for more in ({"learning_rate": wave}, {"epoch": np.arange(400) // 50}, {"reward": np.ones(400)}):
        signals = of(loss, **more)
        assert rings(signals, signals.curve("train_loss")) is None


def test_wandering_noise_hardly_ever_does() -> None:
    found = 0
    for seed in range(40):
        steps = np.random.default_rng(seed).standard_normal(400)
        walk = np.zeros(400)
        for i in range(1, 400):
            walk[i] = 0.97 * walk[i - 1] + 0.25 * steps[i]
        signals = of((0.3 + 2 * np.exp(-np.arange(400) / 40)) * np.exp(0.15 * walk))
        found += rings(signals, make_curve(signals.curve("train_loss").value)) is not None
    assert found <= 1


def test_swings_on_a_way_that_leads_far_down_are_the_noise_of_learning() -> None:
    n = 400
    for fall, expected in ((0.0, True), (0.03, False)):
        loss = spring(n, 50, 0.1, 0.03) * np.exp(-fall * np.arange(n))
        signals = of(loss)
        assert (rings(signals, signals.curve("train_loss")) is not None) is expected
