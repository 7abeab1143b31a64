from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.generalisation import double_descent
from trainforensics.model import Finding, Fired, NotApplicable
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in double_descent.META.params}
Floats = NDArray[np.float64]


def hump(n: int, height: float, end: float = -0.2, noise: float = 0.01, seed: int = 0) -> Floats:
    """Falls to 1 at a fifth of the run, climbs by `height` until two fifths, ends at 1 + `end`."""
    at = np.linspace(0, 1, n)
    value = np.interp(at, [0, 0.2, 0.4, 1], [1.6, 1.0, 1.0 + height, 1.0 + end])
    return value + noise * np.random.default_rng(seed).standard_normal(n)


def training(n: int) -> Curve:
    return make_curve(1 + np.exp(-np.linspace(0, 4, n)), "train_loss")


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = double_descent.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


@pytest.mark.parametrize("n", [25, 60, 500])
def test_the_second_descent_is_told_with_what_early_stopping_would_have_lost(n: int) -> None:
    found = findings(make_signals([make_curve(hump(n, 0.3), "val_loss"), training(n)]))
    assert len(found) == 1
    assert found[0].onset_step is not None
    assert 0.15 * n <= found[0].onset_step <= 0.3 * n
    assert float(found[0].summary.rsplit("given up ")[1]) == pytest.approx(0.2, abs=0.05)
    assert found[0].recovery == "recovered"


def test_a_score_speaks_as_an_error() -> None:
    score = make_curve(2 - hump(60, 0.3), "val_metric", name="eval/accuracy")
    found = findings(make_signals([score, training(60)]))
    assert [finding.series for finding in found] == ["eval/accuracy"]
    assert found[0].evidence[0].value == pytest.approx(1.0, abs=0.05)


def test_a_burst_that_training_shares_is_none() -> None:
    train = training(60).value
    train[12:40] += hump(60, 0.4, end=0.0, noise=0.0)[12:40] - 1
    signals = make_signals([make_curve(hump(60, 0.4, end=0.0), "val_loss"), make_curve(train, "train_loss")])
    assert not findings(signals)


def test_overfitting_without_a_second_fall_is_none() -> None:
    assert not findings(make_signals([make_curve(hump(60, 0.3, end=0.3), "val_loss"), training(60)]))


def test_regular_swings_are_none() -> None:
    at = np.linspace(0, 1, 80)
    swings = 1 + np.exp(-8 * at) + 0.2 * np.sin(8 * np.pi * at)
    assert not findings(make_signals([make_curve(swings, "val_loss"), training(80)]))


@pytest.mark.parametrize("n", [9, 20, 60, 300])
def test_noise_alone_is_none(n: int) -> None:
    at = np.linspace(0, 1, n)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        value = 1 + np.exp(-8 * at) + 0.1 * rng.standard_normal(n)
        assert not findings(make_signals([make_curve(value, "val_loss"), training(n)]))


def test_few_evaluations_are_not_judged() -> None:
    outcome = double_descent.detect(make_signals({"val_loss": [1.0, 2.0, 1.0]}), PARAMS)
    assert isinstance(outcome, NotApplicable)


@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_a_hump_over_a_few_evaluations_is_not_taken_for_noise(noise: float) -> None:
    value = 1 + 0.5 * np.exp(-np.linspace(0, 20, 40)) + noise / 4 * np.random.default_rng(2).standard_normal(40)
    value[15:25] += 12 * noise / 4 * np.sin(np.linspace(0, np.pi, 10))
    value[25:] -= noise
    assert len(findings(make_signals([make_curve(value, "val_loss"), training(40)]))) == 1


def test_a_curve_that_begins_with_the_rise_is_none() -> None:
    """Grokking: validation gets worse from the untrained start on, and falls at last."""
    at = np.linspace(0, 1, 200)
    value = np.interp(at, [0, 0.2, 0.6, 0.8, 1], [4.5, 6.5, 6.5, 0.3, 0.2])
    value += 0.05 * np.random.default_rng(0).standard_normal(200)
    assert not findings(make_signals([make_curve(value, "val_loss", series_id=1), training(200)]))


def test_a_hump_that_a_stage_announces_is_none() -> None:
    curves = [make_curve(hump(60, 0.5), "val_loss", series_id=1), training(60)]
    fold = make_curve((np.arange(60) >= 18).astype(float), "stage", name="fold", series_id=2)
    assert findings(make_signals(curves))
    assert not findings(make_signals([*curves, fold]))


def test_a_score_that_is_all_but_lost_is_no_second_descent() -> None:
    at = np.arange(60)
    value = 0.8 - 0.5 * np.exp(-at / 4)
    value[20:32] *= np.abs(np.linspace(-1, 1, 12)) ** 2
    step = 20 * (at + 1)
    scored = make_curve(value, "val_metric", name="val/mAP", step=step, series_id=1)
    train = make_curve(1 + np.exp(-np.linspace(0, 4, 1200)), "train_loss")
    params = {p.name: p.default for p in double_descent.META.params}
    assert not isinstance(double_descent.detect(make_signals([scored, train]), params), Fired)


def test_a_noisy_hump_is_told_beside_a_training_set_that_is_learnt_by_heart() -> None:
    n = 60
    noisy = make_curve(hump(n, 0.15, 0.01, noise=0.04), "val_loss")
    by_heart = make_curve(np.exp(-np.linspace(0, 4, n)), "train_loss")
    learning = make_curve(np.linspace(1.1, 1.0, n), "train_loss")
    assert [len(findings(make_signals([noisy, train]))) for train in (by_heart, learning)] == [1, 0]
