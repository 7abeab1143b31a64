from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import update_ratio
from trainforensics.model import Clear, Fired
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in update_ratio.META.params}
RNG = np.random.default_rng(7)
N = 600
NOISE = np.exp(0.1 * RNG.standard_normal(N))


def onset(signals: Signals) -> int | None:
    outcome = update_ratio.detect(signals, PARAMS)
    assert isinstance(outcome, Fired)
    return outcome.findings[0].onset_step


def test_updates_that_are_dropped() -> None:
    ratio = 4e-3 * NOISE
    ratio[150:] = 0
    rate = np.linspace(1e-3, 1e-4, N)
    assert onset(make_signals({"update_ratio": ratio, "learning_rate": rate})) == 151


def test_violent_updates_of_one_layer() -> None:
    wild = 2e-3 * NOISE
    wild[400:] *= 200
    layers = [
        make_curve(2e-3 * NOISE, "update_ratio", name="ratio/a", layer="a"),
        make_curve(wild, "update_ratio", name="ratio/b", layer="b", series_id=1),
    ]
    assert onset(make_signals(layers)) == 401


def test_warm_up_and_decay_are_quiet() -> None:
    rate = 1e-3 * np.minimum(np.arange(N) / 100, np.cos(np.linspace(0, np.pi / 2, N)) ** 2) + 1e-9
    signals = make_signals({"update_ratio": 2 * rate * NOISE, "learning_rate": rate})
    assert isinstance(update_ratio.detect(signals, PARAMS), Clear)
    assert isinstance(update_ratio.detect(make_signals({"update_ratio": 2 * rate * NOISE}), PARAMS), Clear)


def test_a_run_that_was_always_so_is_quiet() -> None:
    assert isinstance(update_ratio.detect(make_signals({"update_ratio": 3e-6 * NOISE}), PARAMS), Clear)


def test_updates_that_were_always_too_small_matter_where_the_loss_does_not_fall() -> None:
    flat = 1.2 + 0.1 * RNG.standard_normal(N)
    timid = {"update_ratio": 3e-6 * NOISE, "learning_rate": np.full(N, 1e-4)}
    assert onset(make_signals({**timid, "train_loss": flat})) == 1
    falling = flat + np.linspace(0.8, 0, N)
    tiny_rate = {**timid, "learning_rate": np.full(N, 1e-6), "train_loss": flat}
    for quiet in ({**timid, "train_loss": falling}, tiny_rate):
        outcome = update_ratio.detect(make_signals(quiet), PARAMS)
        assert isinstance(outcome, Clear)


def test_updates_that_add_up_to_nothing() -> None:
    """The rate is as small, but in 6,000 steps the weights cannot move by a hundredth, and the loss did not move."""
    step = 20 * np.arange(300)
    still = 6.9 - np.linspace(0, 0.09, 300) + 0.02 * RNG.standard_normal(300)
    timid = {"update_ratio": 4e-7 * NOISE[:300], "learning_rate": np.full(300, 1e-7)}
    assert onset(make_signals({**timid, "train_loss": still}, step=step)) == 0
    falls = still - np.linspace(0, 0.8, 300)  # as where a trained model is tuned
    assert isinstance(update_ratio.detect(make_signals({**timid, "train_loss": falls}, step=step), PARAMS), Clear)
    soon = make_signals({**timid, "train_loss": still}, step=np.arange(300))
    assert isinstance(update_ratio.detect(soon, PARAMS), Clear)
