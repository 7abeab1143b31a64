from __future__ import annotations

import numpy as np
import pytest
from factories import make_signals

from trainforensics.signals import Signals
from trainforensics.signals.progress import improving, learns, loss_falls_after

RNG = np.random.default_rng(9)


def _falling(slope: float) -> Signals:
    return make_signals({"train_loss": 3 - slope * np.arange(300) + 0.01 * RNG.standard_normal(300)})


def test_whether_the_loss_still_falls() -> None:
    assert loss_falls_after(_falling(0.005), 150) is True
    assert loss_falls_after(_falling(0.0), 150) is False
    assert loss_falls_after(make_signals({"grad_norm": np.ones(300)}), 150) is None


def test_whether_the_model_learns_over_the_log() -> None:
    assert learns(_falling(0.005))
    assert not learns(_falling(0.0))
    assert not learns(make_signals({"train_loss": np.arange(8.0, 0.0, -1.0)}))


def test_whether_the_loss_improved_before_each_cut() -> None:
    cuts = np.array([100, 150, 200])
    assert improving(_falling(0.005), cuts, 1e-3)
    assert not improving(_falling(0.0), cuts, 1e-3)


@pytest.mark.parametrize(
    ("n", "fall", "told"), [(20, 0.05, True), (20, 0.002, False), (60, 0.02, True), (8, 0.5, False)]
)
def test_a_loss_that_ends_lower_than_it_began(n: int, fall: float, told: bool) -> None:
    loss = 0.2 - fall * np.linspace(0, 1, n) + 0.002 * np.random.default_rng(0).standard_normal(n)
    assert learns(make_signals({"train_loss": loss})) is told
