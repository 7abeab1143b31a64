"""Losses that end where they began, and scores that tell of a resting loss that nothing was learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import ArrayLike, NDArray

from trainforensics.model import Axis
from trainforensics.signals import Curve, Signals
from trainforensics.signals.standstill import nothing_told_apart, scores_at_rest, standstill

Floats = NDArray[np.float64]


def noise(n: int, size: float, seed: int = 3) -> Floats:
    return size * np.random.default_rng(seed).standard_normal(n)


def epochs(loss: ArrayLike, *others: Curve, unit: str = "epoch", first: int = 1, **config: Any) -> Signals:
    values = np.asarray(loss, dtype=np.float64)
    curve = make_curve(values, name="loss", step=np.arange(first, first + len(values)))
    return replace(make_signals([curve, *others], config=config), axis=Axis(unit, unit))


def evaluated(value: ArrayLike, name: str = "val_loss", role: str | None = "val_loss") -> Curve:
    return make_curve(value, role, name=name, series_id=1)


def said(signals: Signals) -> str | None:
    found = standstill(signals, signals.curves("train_loss")[0])
    return found.reason if found is not None else None


def flat(n: int = 15, level: float = 16.0) -> Floats:
    return level * (1 + noise(n, 0.002))


def test_epochs_that_end_where_they_began() -> None:
    assert "after 15 epochs it is" in (said(epochs(flat())) or "")
    assert said(epochs(flat(9))) is None
    assert said(epochs(flat(), unit="step")) is None
    assert said(epochs(flat() * np.linspace(1.06, 1, 15))) is None
    assert said(epochs(flat() * np.linspace(1, 1.4, 15))) is None
    assert said(epochs(flat() * (1 + noise(15, 0.08)))) is None


def test_a_few_epochs_at_the_loss_of_guessing() -> None:
    guessed = np.log(10) * (1 + noise(5, 0.001))
    assert "guessing" in (said(epochs(guessed)) or "")
    assert said(epochs(guessed[:4])) is None
    assert said(epochs(1.02 * guessed)) is None
    assert said(epochs(guessed, unit="step")) is None


def test_rows_with_an_evaluation_each_are_epochs() -> None:
    assert "after 15 evaluations it is" in (said(epochs(flat(), evaluated(flat()), unit="row")) or "")
    assert said(epochs(flat(), evaluated(flat(4)), unit="row")) is None


@pytest.mark.parametrize(
    "better",
    [
        evaluated(np.linspace(4, 3.8, 15)),
        evaluated(np.linspace(0.70, 0.76, 15), "val_auc", "val_metric"),
        evaluated(np.full(15, 0.97), "val_acc", "val_metric"),
        evaluated(np.linspace(0.4, 0.38, 15), "wer", "val_metric"),
        evaluated(np.linspace(0.2, 0.9, 15), "reward", "reward"),
        evaluated(flat(), "unet/lr", "learning_rate"),
        evaluated(flat(), "policy_loss", None),
    ],
    ids=lambda curve: curve.name,
)
def test_a_flat_loss_is_none_where_something_else_says_it_learns(better: Curve) -> None:
    assert said(epochs(flat(), better)) is None


def test_a_flat_loss_that_begins_late_is_the_tail_of_something() -> None:
    assert said(epochs(flat(), first=150)) is None
    assert said(epochs(flat(), noise_offset=0.1)) is None


@pytest.mark.parametrize(("name", "value"), [("mIoU", 0.001), ("val/mAP50", 0.0), ("eval_wer", 1.0), ("f1_score", 0.0)])
def test_a_loss_at_rest_beside_a_score_of_nothing(name: str, value: float) -> None:
    loss = [82.5, 37.9, 34.7, 34.7, 34.9, 34.7]
    found = standstill(s := epochs(loss, evaluated(np.full(6, value), name, "val_metric")), s.curves("train_loss")[0])
    assert found is not None
    assert found.start == 2
    assert name in found.reason
    assert said(epochs([82.5, 60, 50, 42, 36, 30], evaluated(np.full(6, value), name, "val_metric"))) is None
    assert said(epochs(loss, evaluated(np.full(6, 0.3), name, "val_metric"))) is None


def test_a_loss_at_rest_beside_the_same_answers_again_and_again() -> None:
    loss = np.append(1.148, 0.97 + noise(14, 0.001))
    value = 0.2 + noise(15, 0.01)
    value[::2] = 0.213417
    assert "one answer for all" in (said(epochs(loss, evaluated(value, "val_precision", "val_metric"))) or "")
    assert said(epochs(loss, evaluated(np.round(value, 2), "val_precision", "val_metric"))) is None
    assert said(epochs(np.append(3.0, loss[1:]), evaluated(value, "val_precision", "val_metric"))) is None


def test_a_loss_at_rest_where_hardly_half_is_right() -> None:
    loss = 0.82 + 0.16 * np.exp(-np.arange(50) / 4) + noise(50, 0.001)
    right = 0.55 - 0.1 * np.exp(-np.arange(50) / 4) + noise(50, 0.005)
    assert "are right" in (said(epochs(loss, evaluated(right, "val_acc", "val_metric"))) or "")
    assert said(epochs(loss, evaluated(right + 0.3, "val_acc", "val_metric"))) is None
    assert said(epochs(loss, evaluated(right, "val_acc", "val_metric"), vocab_size=100)) is None


def test_thousands_of_updates_that_end_as_high_as_the_first() -> None:
    def signals(cadence: int, size: float = 0.1, start: int = 0, fall: float = 0.0) -> Signals:
        loss = 2.7 * (1 + noise(80, size)) + fall * np.exp(-np.arange(80) / 3)
        return make_signals([make_curve(loss, step=start + cadence * np.arange(80))])

    assert "7,900 updates" in (said(signals(100)) or "")
    for other in (signals(10), signals(100, start=5000), signals(100, size=0.5), signals(100, fall=1.5)):
        assert said(other) is None


def test_scores_alone_that_stay_those_of_guessing() -> None:
    def signals(test: ArrayLike, train: ArrayLike) -> Signals:
        return make_signals([evaluated(test, "val/accuracy", "val_metric"), evaluated(train, "accuracy", None)])

    low = [0.1028, 0.1032, 0.1135, 0.1028, 0.1028, 0.1135]
    found = scores_at_rest(signals(low, 0.108 + noise(6, 0.002)))
    assert found is not None
    assert found[0].name == "val/accuracy"
    assert scores_at_rest(signals(low, np.linspace(0.1, 0.19, 6))) is None
    assert scores_at_rest(signals(np.multiply(low, 5), 0.5 + noise(6, 0.002))) is None
    assert scores_at_rest(make_signals([evaluated(low, "val/accuracy", "val_metric")])) is None


def test_a_handful_of_epochs_at_rest_in_which_nothing_is_heard() -> None:
    def signals(loss: ArrayLike, error: ArrayLike) -> Signals:
        return epochs(loss, evaluated(error, "valid WER", "val_metric"), evaluated([0.9, 0.8, 0.75, 0.72]))

    at_rest, wrong = [126.0, 106.0, 106.0, 106.0], [100.0] * 4
    assert "never falls below 1 in 4 evaluations" in (said(signals(at_rest, wrong)) or "")
    assert said(signals([126.0, 106.0, 104.0, 102.0], wrong)) is None
    assert said(signals(at_rest, [100.0, 100.0, 98.0, 90.0])) is None


def test_an_excerpt_in_which_no_token_is_right() -> None:
    def signals(right: float, first: int = 1040, swing: float = 0.005) -> Signals:
        step = first + 10 * np.arange(8)
        loss = make_curve(11.17 + swing * np.array([0, 1, -1, 2, 0, -1, 1, 0]), name="Loss", step=step)
        return make_signals([loss, make_curve(np.full(8, right), None, name="MLM_acc", step=step, series_id=1)])

    assert "MLM_acc is zero in all 8 rows" in (said(signals(0.0)) or "")
    for other in (signals(0.02), signals(0.0, first=10), signals(0.0, swing=0.5)):
        assert said(other) is None


@pytest.mark.parametrize(
    ("left", "found", "told"), [(0.98, 0.05, True), (0.8, 0.05, False), (0.98, 0.2, False)], ids=["", "falls", "found"]
)
def test_classes_that_are_never_told_apart(left: float, found: float, *, told: bool) -> None:
    boxes = make_curve(np.linspace(3.6, 2.3, 40), name="train/box_loss")
    classes = make_curve(4.1 * np.append(1.1, np.linspace(1, left, 39)), name="train/cls_loss", series_id=1)
    precision = make_curve(np.linspace(0.001, found, 40), "val_metric", name="metrics/mAP50(B)", series_id=2)
    assert (nothing_told_apart(make_signals([boxes, classes, precision])) is not None) == told
