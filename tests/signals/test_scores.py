from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.signals import Signals
from trainforensics.signals.losses import loss_events
from trainforensics.signals.scores import accuracy_gains


def queue(accuracy: np.ndarray) -> Signals:
    """A contrastive loss whose negatives come in one after another: it climbs to its level and is learnt from there."""
    n = len(accuracy)
    at = np.arange(n)
    loss = np.log(1 + 8000 * (1 - np.exp(-at / 60))) * (0.75 + 0.25 * np.exp(-at / 400))
    loss += 0.06 * np.random.default_rng(0).normal(size=n)
    return make_signals([make_curve(np.maximum(loss, 0.02), "train_loss"), make_curve(accuracy, None, name="Acc@1")])


@pytest.mark.parametrize("learns", [True, False])
def test_a_loss_that_rises_while_more_answers_are_right_has_not_gone_astray(learns: bool) -> None:
    accuracy = 8 + 72 * (1 - np.exp(-np.arange(1200) / 600)) * learns + np.random.default_rng(1).normal(0, 2, 1200)
    assert bool(loss_events(queue(accuracy))) is not learns


def test_accuracy_must_gain_a_tenth_beyond_its_noise_and_keep_it() -> None:
    def gains(*levels: float) -> bool:
        value = np.repeat(levels, 50) + np.random.default_rng(2).normal(0, 0.005, 50 * len(levels))
        return accuracy_gains(make_signals([make_curve(value, None, name="train_acc")]), 51, 51, 10_000)

    assert gains(0.5, 0.7)
    assert not gains(0.92, 0.924)
    assert not gains(0.5, 0.7, 0.4)
    assert not accuracy_gains(make_signals({"train_loss": np.ones(100)}), 51, 51, 100)
