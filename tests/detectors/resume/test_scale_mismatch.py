from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.resume import scale_mismatch
from trainforensics.model import Finding, Fired
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in scale_mismatch.META.params}
N, EVERY = 400, 20
Floats = NDArray[np.float64]


def loss(seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return 1 + 2 * np.exp(-np.arange(N) / 100) + 0.03 * rng.standard_normal(N)


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = scale_mismatch.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


@pytest.mark.parametrize("k", [2.0, 4.0, 0.125])
def test_a_loss_that_is_suddenly_a_multiple(k: float) -> None:
    value = loss()
    value[250:] *= k
    found = findings(make_signals({"train_loss": value}, config={"gradient_accumulation_steps": 4}))
    assert [f.onset_step for f in found] == [251]
    assert ("gradient_accumulation_steps is 4" in found[0].summary) == (k == 4)


def test_a_loss_that_is_a_multiple_of_validation_all_along() -> None:
    validation = make_curve(loss(1)[::EVERY], "val_loss", step=np.arange(1, N, EVERY), series_id=1)
    assert len(findings(make_signals([make_curve(8 * loss()), validation]))) == 1
    assert not findings(make_signals([make_curve(loss()), validation]))
    assert not findings(make_signals([make_curve(1.5 * loss()), validation]))
    bits = make_curve(validation.value, "val_loss", name="val/bpb", step=validation.step, series_id=1)
    assert not findings(make_signals([make_curve(3 * loss()), bits]))


def test_a_level_that_doubles_without_its_noise_is_none() -> None:
    value = loss()
    value[250:] += np.median(value[240:250])
    assert not findings(make_signals({"train_loss": value}))


def test_healthy_curves_are_silent() -> None:
    for seed in range(50):
        overfit = np.linspace(1, 3, N // EVERY)
        validation = make_curve(loss(seed)[::EVERY] * overfit, "val_loss", step=np.arange(1, N, EVERY), series_id=1)
        assert not findings(make_signals([make_curve(loss(seed)), validation]))


def test_a_loss_that_comes_back_is_none() -> None:
    value = loss()
    value[250:] *= 1 + np.exp(-np.arange(N - 250) / 40)
    assert not findings(make_signals({"train_loss": value}))


def test_a_fall_that_learning_explains_is_none() -> None:
    value, epoch = loss(), np.arange(N) / 62.5
    value[250:] /= 7
    assert findings(make_signals({"train_loss": value}))
    assert not findings(make_signals({"train_loss": value, "epoch": epoch}))
    rate = np.full(N, 1e-3)
    rate[250:] = 1e-4
    assert not findings(make_signals({"train_loss": value, "learning_rate": rate}))


def test_a_ratio_that_is_near_no_whole_number_is_none() -> None:
    value = loss()
    value[250:] *= 6.5
    assert not findings(make_signals({"train_loss": value}))


def test_a_multiple_of_validation_is_seen_though_the_loss_falls_fast_at_first() -> None:
    fast = 1 + 4 * np.exp(-np.arange(N) / 30) + 0.02 * np.random.default_rng(1).standard_normal(N)
    validation = make_curve(4 * fast[::40][1:], "val_loss", step=np.arange(41, N, 40), series_id=1)
    assert len(findings(make_signals([make_curve(fast), validation]))) == 1


def test_a_gradient_norm_that_does_not_move_stands_in_for_a_whole_number() -> None:
    rng, at = np.random.default_rng(2), 200
    value = (0.2 + np.exp(-np.arange(N) / 80)) * np.exp(0.05 * rng.standard_normal(N))
    value[at:] *= 6.5
    norm = 0.5 * np.exp(0.25 * rng.standard_normal(N))
    (found,) = findings(make_signals({"train_loss": value, "grad_norm": norm}))
    assert (found.onset_step, found.confidence) == (at + 1, 0.7)
    assert "about 6." in found.summary
    moved = norm * np.where(np.arange(N) < at, 1, 2)
    for other in (moved, np.ones(N)):  # the second is held by clipping
        assert not findings(make_signals({"train_loss": value, "grad_norm": other}))


def test_a_gradient_norm_that_falls_by_the_same_factor_stands_in_for_a_whole_number() -> None:
    rng, late = np.random.default_rng(2), np.arange(N) >= 220
    value = (0.2 + np.exp(-np.arange(N) / 80)) * np.exp(0.05 * rng.standard_normal(N)) / np.where(late, 6.5, 1)
    norm = 0.5 * np.exp(0.25 * rng.standard_normal(N))
    (found,) = findings(make_signals({"train_loss": value, "grad_norm": norm / np.where(late, 6.5, 1)}))
    assert found.onset_step == 221
    assert not findings(make_signals({"train_loss": value, "grad_norm": norm / np.where(late, 2, 1)}))


@pytest.mark.parametrize("k", [7.0, 9.7, 128.0])
def test_validation_that_stands_at_one_large_ratio_and_falls_with_training_is_a_scale(k: float) -> None:
    for seed in range(5):
        noisy = loss(seed) * np.exp(0.08 * np.random.default_rng(seed + 50).standard_normal(N))
        validation = make_curve(k * loss(seed + 9)[::EVERY], "val_loss", step=np.arange(1, N, EVERY), series_id=1)
        (found,) = findings(make_signals([make_curve(noisy), validation]))
        assert found.onset_step == 1


def test_a_large_ratio_may_look_smaller_at_a_start_where_training_falls_fast() -> None:
    fast = 1 + 4 * np.exp(-np.arange(N) / 25) + 0.005 * np.random.default_rng(1).standard_normal(N)
    true = 1 + 4 * np.exp(-np.arange(0, N, EVERY) / 25)
    validation = make_curve(31.5 * true, "val_loss", step=np.arange(1, N, EVERY), series_id=1)
    (found,) = findings(make_signals([make_curve(fast), validation]))
    assert found.onset_step == 1


def test_a_large_gap_that_opens_or_adds_is_no_scale() -> None:
    opens, level = np.linspace(1, 12, N // EVERY), 1 + 2 * np.exp(-np.arange(N) / 100)
    for seed in range(20):
        noisy = loss(seed) * np.exp(0.08 * np.random.default_rng(seed + 50).standard_normal(N))
        at = loss(seed + 9)[::EVERY]
        for value in (at * opens, at + 10, 8 + 0.1 * level[::EVERY]):
            validation = make_curve(value, "val_loss", step=np.arange(1, N, EVERY), series_id=1)
            assert not findings(make_signals([make_curve(noisy), validation]))


def test_a_few_evaluations_tell_no_large_ratio_from_a_gap() -> None:
    validation = make_curve(9.7 * loss(3)[60::60], "val_loss", step=np.arange(61, N, 60), series_id=1)
    assert not findings(make_signals([make_curve(loss()), validation]))


def test_a_few_evaluations_tell_a_scale_where_both_fall_tenfold() -> None:
    rows, level = np.arange(100, 700, 100), np.array([15.4, 2.4, 0.35, 0.32, 0.31, 0.304])
    validation = make_curve(level, "val_loss", step=rows, series_id=1)
    behind = np.array([1.1, 4.0, 1.7, 1.01, 1.0, 0.98])  # training is the mean of the stretch before
    (found,) = findings(make_signals([make_curve(16.9 * level * behind, step=rows), validation]))
    assert found.onset_step == 100
    assert not findings(make_signals([make_curve(16.9 + level * behind, step=rows), validation]))
    settled = make_curve(level[3:].repeat(2), "val_loss", step=rows, series_id=1)
    assert not findings(make_signals([make_curve(16.9 * level[3:].repeat(2), step=rows), settled]))


def test_a_step_that_evaluation_follows_is_the_models() -> None:
    rng = np.random.default_rng(11)
    loss = (3 + np.exp(-np.arange(400) / 80)) * np.exp(0.01 * rng.standard_normal(400))
    loss[250:] *= 2
    level = 3 + np.exp(-np.arange(19, 400, 20) / 80)
    level[12:] *= 2
    train = make_curve(loss)
    val = make_curve(level, "val_loss", step=np.arange(20, 401, 20), series_id=1)
    told = [isinstance(scale_mismatch.detect(make_signals(c), PARAMS), Fired) for c in ([train], [train, val])]
    assert told == [True, False]


@pytest.mark.parametrize(("times", "found"), [(200.0, 1), (20.0, 0)])
def test_validation_far_above_training_from_the_first_evaluation_on(times: float, found: int) -> None:
    rng = np.random.default_rng(2)
    train = 1e-4 * np.exp(-np.linspace(0, 4, 28))
    wandering = times * train * np.exp(0.5 * rng.standard_normal(28))
    epoch = np.arange(28)
    curves = [make_curve(train, "train_loss", step=epoch), make_curve(wandering, "val_loss", step=epoch, series_id=1)]
    assert len(findings(make_signals(curves))) == found
