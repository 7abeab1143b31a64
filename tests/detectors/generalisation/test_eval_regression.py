from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.generalisation import eval_regression
from trainforensics.model import Finding, Fired
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in eval_regression.META.params}
EVERY = 20
Floats = NDArray[np.float64]


def evaluation(value: Floats, role: str = "val_metric", name: str = "eval/accuracy") -> Curve:
    return make_curve(value, role, step=EVERY * np.arange(1, len(value) + 1), name=name, series_id=1)


def loss(n: int) -> Curve:
    rng = np.random.default_rng(5)
    return make_curve(1 + np.exp(-np.linspace(0, 4, EVERY * n)) + 0.03 * rng.standard_normal(EVERY * n), "train_loss")


def score(n: int, fall: float, noise: float = 0.01, seed: int = 0) -> Floats:
    at = np.arange(n) / n
    value = 0.8 - 0.4 * np.exp(-8 * at) - fall * np.maximum(0, at - 0.5) * 2
    return value + noise * np.random.default_rng(seed).standard_normal(n)


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = eval_regression.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


@pytest.mark.parametrize("n", [14, 40, 200])
def test_accuracy_that_falls_while_the_loss_does_not_rise(n: int) -> None:
    found = findings(make_signals([evaluation(score(n, 0.3)), loss(n)]))
    assert len(found) == 1
    assert found[0].onset_step is not None
    assert 0.4 <= found[0].onset_step / (EVERY * n) <= 0.75


def test_an_error_rate_that_rises() -> None:
    error = evaluation(1 - score(40, 0.3), name="eval/error_rate")
    assert len(findings(make_signals([error, loss(40)]))) == 1


def test_a_validation_loss_that_rises_too_is_another_kind() -> None:
    rising = evaluation(2 - score(40, 0.3), "val_loss", "eval/loss")
    assert not findings(make_signals([evaluation(score(40, 0.3)), loss(40), rising]))


@pytest.mark.parametrize("n", [6, 14, 40, 200])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
def test_a_noisy_score_is_none(n: int, noise: float) -> None:
    for seed in range(25):
        assert not findings(make_signals([evaluation(score(n, 0.0, noise, seed)), loss(n)]))


def test_a_validation_loss_that_is_no_number_meanwhile_is_another_kind() -> None:
    score_ = evaluation(score(40, 0.3))
    ill = np.full(40, 1.0)
    ill[26:] = np.nan
    stray = np.full(40, 1.0)
    stray[26] = np.nan
    for loss_, told in ((ill, 0), (stray, 1)):
        validation = evaluation(loss_ + np.exp(-np.arange(40) / 9), "val_loss", "eval/loss")
        assert len(findings(make_signals([score_, validation, loss(40)]))) == told


@pytest.mark.parametrize("n", [20, 40, 100, 300])
def test_the_onset_is_where_the_score_leaves_its_level_not_its_best_evaluation(n: int) -> None:
    at, onsets = np.arange(n) / n, []
    for seed in range(10):
        wander = 0.97 - 0.04 * (1 - np.exp(-20 * at)) - 0.2 * (at >= 0.5)
        value = wander + 0.01 * np.random.default_rng(seed).standard_normal(n)
        onsets += [f.onset_step / (EVERY * n) for f in findings(make_signals([evaluation(value), loss(n)]))]
    assert len(onsets) >= 8
    assert np.quantile(np.abs(np.array(onsets) - 0.5), 0.9) < 0.1


@pytest.mark.parametrize("n", [20, 40, 100])
def test_a_score_that_falls_at_once_and_stays(n: int) -> None:
    onsets = []
    for seed in range(10):
        value = score(n, 0.0, 0.01, seed) - 0.2 * (np.arange(n) >= n // 2)
        onsets += [f.onset_step for f in findings(make_signals([evaluation(value), loss(n)]))]
    assert len(onsets) >= 6
    assert set(onsets) == {EVERY * (n // 2 + 1)}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([0.294, 0.305, 0.325, 0.004, 0.002], True),
        ([0.294, 0.305, 0.325, 0.204, 0.202], False),
        ([0.01, 0.305, 0.325, 0.004, 0.002], False),  # it began as low
        ([0.294, 0.305, 0.325, 0.33, 0.002], False),  # once
    ],
)
def test_a_score_that_is_all_but_lost_in_the_last_evaluations(value: list[float], told: bool) -> None:
    step = 200 * np.arange(1, 6)
    loss = make_curve(np.linspace(2, 1, 1000))
    curves = [loss, make_curve(value, "val_metric", name="mAP", step=step, series_id=1)]
    outcome = eval_regression.detect(make_signals(curves), PARAMS)
    assert isinstance(outcome, Fired) is told
    if isinstance(outcome, Fired):
        assert outcome.findings[0].onset_step == 800


def test_where_nothing_was_learnt_no_score_is_lost() -> None:
    flat = np.log(5) + 1e-4 * np.random.default_rng(0).standard_normal(300)
    train = make_curve(np.full(300, 0.2), None, name="Train", series_id=1)
    score = make_curve(np.r_[np.full(20, 0.24), np.full(280, 0.13)], "val_metric", name="Val", series_id=2)
    outcome = eval_regression.detect(make_signals([make_curve(flat), train, score]), PARAMS)
    assert not isinstance(outcome, Fired)


def test_a_score_that_is_lost_for_a_while_and_comes_back() -> None:
    value = score(60, 0.0)
    value[20:26] = 0.03
    value[40:44] = 0.25
    (found,) = findings(make_signals([evaluation(value), loss(60)]))
    assert (found.onset_step, found.occurrences, found.recovery) == (EVERY * 21, (EVERY * 21, EVERY * 41), "recovered")
    assert found.end_step == EVERY * 45
    assert "came back" in found.summary


def test_the_last_evaluations_of_a_noisy_score_below_the_best() -> None:
    rng = np.random.default_rng(7)
    value = np.append(60 + 12 * rng.random(14), 90 + 12 * rng.random(7))
    error = evaluation(value, name="eval/edit_distance")
    assert len(findings(make_signals([error, loss(21)]))) == 1


def test_the_crumbs_of_a_calm_score_are_no_onset() -> None:
    value = 1 - 1e-4 * np.exp(-np.arange(24.0)) - 1e-7 * np.maximum(0, np.arange(24) - 12)
    value[15:] = -1
    found = findings(make_signals([evaluation(value, name="val/map"), loss(24)]))
    assert [finding.onset_step for finding in found] == [EVERY * 16]


@pytest.mark.parametrize(("ill_from", "told"), [(0.9, False), (1.0, True)])
def test_a_score_that_falls_after_the_loss_has_turned_nan_is_another_kind(ill_from: float, told: bool) -> None:
    n = 40
    value = np.where(np.arange(1, n + 1) < 0.92 * n, score(n, 0.0), 0.1)
    train = loss(n)
    train.value[int(ill_from * len(train)) :] = np.nan
    ill = make_curve(train.value, "train_loss")
    assert bool(findings(make_signals([evaluation(value), ill]))) is told
