"""How often the data were gone through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from factories import make_curve, make_signals

from trainforensics.model import Axis
from trainforensics.signals.epochs import epoch_length, length_since, passes, steps_of_epoch


def test_as_logged_or_as_the_axis_counts() -> None:
    plain = make_signals({"train_loss": np.ones(10)})
    assert passes(plain, 5) is None
    assert epoch_length(plain) is None
    counted = replace(plain, axis=Axis("epoch x 400 + iteration", "step"))
    assert epoch_length(counted) == 400
    assert passes(counted, 100) == 0.25
    logged = make_signals({"train_loss": np.ones(10), "epoch": np.linspace(0.1, 1, 10)})
    assert passes(logged, 5) == 0.5


def test_an_axis_that_jumps_tells_epochs_of_another_length() -> None:
    jumped = make_curve(
        np.ones(80), step=np.concatenate([np.arange(0, 1800, 45), np.arange(4 * 715, 8 * 715, 71)[:40]])
    )
    signals = replace(make_signals([jumped]), axis=Axis("epoch x 450 + iteration", "step"))
    assert length_since(signals, jumped, 4 * 715) == 715
    assert length_since(signals, jumped, 900) is None
    assert length_since(replace(signals, axis=Axis("step", "step")), jumped, 4 * 715) is None
    left_out = make_curve(np.ones(80), step=np.concatenate([np.arange(0, 1800, 45), np.arange(3600, 5400, 45)]))
    assert length_since(signals, left_out, 3600 + 45) is None


def test_the_logged_epoch_tells_its_length() -> None:
    step = np.arange(2, 1442, 2)
    signals = make_signals({"train_loss": np.ones(720), "epoch": (step - 1) // 160}, step=step)
    assert steps_of_epoch(signals) == 160
    assert steps_of_epoch(make_signals({"train_loss": np.ones(720), "epoch": step / 160}, step=step)) == 160
    assert steps_of_epoch(make_signals({"train_loss": np.ones(720)}, step=step)) is None
