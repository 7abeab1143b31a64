from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.model import Axis
from trainforensics.signals import Signals
from trainforensics.signals.pace import paces
from trainforensics.signals.stalls import Stalls, stalls

STEP = 20 * np.arange(1, 81)


def logged(
    stall: float,
    every: int = 9,
    evaluated: bool = False,
    name: str = "train_time_ms",
    longer: bool = False,
    **config: int,
) -> Signals:
    """Rows 20 steps of 15 ms apart, and `stall` ms more in every few of them."""
    took = 300.0 + stall * (np.arange(80) % every == every - 1) + np.random.default_rng(0).random(80)
    curves = [
        make_curve(2 + np.exp(-STEP / 300), step=STEP),
        make_curve(np.cumsum(took), None, name=name, step=STEP, series_id=1),
    ]
    if evaluated:
        curves.append(make_curve(np.ones(80 // every), "val_loss", step=STEP[every - 1 :: every], series_id=2))
    if longer:
        curves.append(make_curve(64 * took, "seq_len", step=STEP, series_id=3))
    return make_signals(curves, config=config)


def found(signals: Signals) -> Stalls | None:
    (pace,) = paces(signals)
    return stalls(signals, pace)


def test_a_third_of_the_time_is_lost_in_stalls() -> None:
    told = found(logged(4000.0))
    assert told is not None
    assert told.steps[0] == 180
    assert 0.5 < told.lost < 0.7


@pytest.mark.parametrize(
    "signals",
    [
        logged(500.0),
        logged(4000.0, every=3),
        logged(4000.0, evaluated=True),
        logged(4000.0, name="elapsed"),
        logged(4000.0, longer=True),
        logged(4000.0, accumulate_grad_batches=180),
    ],
    ids=["little", "half of the rows", "evaluations", "wall clock", "longer samples", "updates"],
)
def test_what_is_little_usual_or_explained_is_none(signals: Signals) -> None:
    assert found(signals) is None


@pytest.mark.parametrize(
    ("slow", "told"),
    [((9, 15), True), ((9,), False), ((4, 9, 14), False), ((9, 10), False), ((3, 9, 12), True),
     ((7, 15), False), ((4, 9, 14, 17), False), ((9, 17), False)],
    ids=["two", "one", "even", "neighbours", "three", "every eighth", "every fifth and the last", "half and the last"],
)  # fmt: skip
def test_single_epochs_that_take_twice_as_long(slow: tuple[int, ...], *, told: bool) -> None:
    took = 400 + 30 * np.random.default_rng(0).random(18)
    took[list(slow)] *= 2.8
    curves = [
        make_curve(2 + np.exp(-np.arange(18) / 5)),
        make_curve(took, "step_time", name="epoch_time_seconds", series_id=1),
    ]
    stalled = found(replace(make_signals(curves), axis=Axis("epoch", "epoch")))
    assert (stalled is not None) == told
    assert stalled is None or stalled.steps.tolist() == [at + 1 for at in slow]


def test_epochs_that_hold_an_evaluation_may_take_longer() -> None:
    took = 400 + 30 * np.random.default_rng(0).random(18)
    took[[9, 15]] *= 2.8
    curves = [
        make_curve(2 + np.exp(-np.arange(18) / 5)),
        make_curve(took, "step_time", name="epoch_time_seconds", series_id=1),
        make_curve(np.ones(2), "val_loss", step=np.array([10, 16]), series_id=2),
    ]
    assert found(replace(make_signals(curves), axis=Axis("epoch", "epoch"))) is None


@pytest.mark.parametrize(("times", "told"), [(9.0, True), (2.2, False)])
def test_most_of_the_time_is_lost_in_stretches_of_slow_epochs(times: float, *, told: bool) -> None:
    took = 2300 * (1 + 0.1 * np.random.default_rng(1).random(30))
    took[[3, 4, 8, 15, 16, 22, 23, 24, 27]] *= times
    curves = [make_curve(np.linspace(2, 1, 30)), make_curve(took, "step_time", name="epoch_time", series_id=1)]
    signals = replace(make_signals(curves), axis=Axis("epoch", "epoch"))
    assert (found(signals) is not None) is told
