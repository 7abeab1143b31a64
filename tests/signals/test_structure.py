from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curves import healthy
from factories import make_curve, make_signals

from trainforensics.model import Axis, AxisUnit
from trainforensics.signals.losses import loss_events
from trainforensics.signals.structure import announced, ramps


def sorted_epochs(epochs: int, points: int, seed: int = 0) -> np.ndarray:
    """Short samples first in each epoch, harder ones later."""
    rng = np.random.default_rng(seed)
    within = np.tile(np.arange(points) / points, epochs)
    level = np.repeat(6 * 0.7 ** np.arange(epochs), points)
    return level * (1 + 2 * within) * np.exp(rng.normal(0, 0.03, epochs * points))


@pytest.mark.parametrize("epochs", [3, 6])
def test_data_sorted_within_each_epoch_climb_again_and_again(epochs: int) -> None:
    loss = sorted_epochs(epochs, 120)
    assert ramps(make_curve(loss)) == tuple(range(121, 120 * epochs, 120))
    assert loss_events(make_signals({"train_loss": loss})) == ()


def test_a_last_epoch_that_the_log_cuts_short_is_a_ramp_too() -> None:
    assert len(ramps(make_curve(sorted_epochs(5, 120)[:540]))) == 4


def test_falls_at_unequal_distances_or_without_climbs_are_no_ramps() -> None:
    loss = sorted_epochs(4, 120)
    assert ramps(make_curve(np.delete(loss, np.s_[130:190]))) == ()
    stairs = healthy(480) * np.repeat([8.0, 4.0, 2.0, 1.0], 120)
    assert ramps(make_curve(stairs)) == ()
    assert ramps(make_curve(healthy(480))) == ()


def test_a_step_that_the_configuration_names() -> None:
    plan = {"rollout_schedule": {"0": 1, "500": 2}, "lr_schedule": {"700": 0.1}}
    signals = make_signals({"train_loss": np.ones(100)}, config=plan)
    assert announced(signals, 495, 500)
    assert not announced(signals, 505, 510)
    assert not announced(signals, 695, 700)  # of the learning rate


@pytest.mark.parametrize(("unit", "told"), [("epoch", True), ("step", False)])
def test_the_last_epochs_without_augmentation(unit: AxisUnit, told: bool) -> None:
    signals = make_signals({"train_loss": np.ones(100)}, config={"epochs": 100, "close_mosaic": 10})
    assert announced(replace(signals, axis=Axis("epoch", unit)), 90, 91) is told
