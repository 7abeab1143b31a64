from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.data import data_shift
from trainforensics.model import Axis, Finding, Fired
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in data_shift.META.params}
N, EVERY, AT = 1000, 25, 430
Floats = NDArray[np.float64]


def fall(n: int = N, noise: float = 0.03, seed: int = 0) -> Floats:
    return 2 + 2 * np.exp(-np.linspace(0, 6, n)) + noise * np.random.default_rng(seed).standard_normal(n)


def validation(value: Floats | None = None) -> Curve:
    values = fall(N // EVERY, 0.01, 1) if value is None else value
    return make_curve(values, "val_loss", step=EVERY * np.arange(1, len(values) + 1), series_id=1)


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = data_shift.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def shifted(by: float) -> Curve:
    value = fall()
    value[AT:] += by
    return make_curve(value)


@pytest.mark.parametrize("by", [0.3, -0.3])
def test_training_that_shifts_without_validation(by: float) -> None:
    found = findings(make_signals([shifted(by), validation()]))
    assert len(found) == 1
    assert abs((found[0].onset_step or 0) - AT) <= 10


def test_a_shift_that_validation_shares_is_the_models() -> None:
    value = fall(N // EVERY, 0.01, 1)
    value[AT // EVERY :] -= 0.3
    assert not findings(make_signals([shifted(-0.3), validation(value)]))


def test_epoch_stairs_and_learning_rate_steps_are_silent() -> None:
    stairs = fall()
    stairs[N // 2 :] -= 0.3
    epoch = make_curve(np.arange(1, N + 1) / AT, "epoch", series_id=2)
    rate = make_curve(np.where(np.arange(N) < AT, 1e-3, 1e-4), "learning_rate", series_id=3)
    assert not findings(make_signals([make_curve(stairs), validation()]))
    assert not findings(make_signals([shifted(-0.3), validation(), epoch]))
    assert not findings(make_signals([shifted(-0.3), validation(), rate]))


def test_a_change_of_length_that_the_loss_follows_and_one_that_it_does_not() -> None:
    length = make_curve(np.where(np.arange(N) < AT, 512.0, 2048.0), "seq_len", series_id=2)
    assert [f.onset_step for f in findings(make_signals([shifted(-0.3), length]))] == [AT + 1]
    assert not findings(make_signals([make_curve(fall()), length]))


def test_an_announced_stage_is_low() -> None:
    stage = make_curve((np.arange(N) >= AT).astype(float), "source", name="data/stage", series_id=2)
    assert [f.severity for f in findings(make_signals([shifted(-0.3), stage]))] == ["low"]


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.4])
def test_noise_and_overfitting_are_silent(noise: float) -> None:
    for seed in range(20):
        over = fall(N // EVERY, 0.01, seed) + np.linspace(0, 0.8, N // EVERY)
        for value in (fall(N // EVERY, noise / 3, seed), over):
            assert not findings(make_signals([make_curve(fall(N, noise, seed)), validation(value)]))


def curve_of(n: int, noise: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (1 + 2 * np.exp(-np.arange(n) / 60)) * np.exp(noise * rng.standard_normal(n))


def validated(loss: np.ndarray, evaluations: int, rises: float = 0.0, at: int = 0) -> Signals:
    every = len(loss) // evaluations
    validation = curve_of(len(loss), 0.0)[every - 1 :: every]
    validation[np.arange(every, len(loss) + 1, every) > at] += rises
    step = every * np.arange(1, len(validation) + 1)
    curves = [make_curve(loss, "train_loss", step=np.arange(1, len(loss) + 1))]
    return make_signals([*curves, make_curve(validation, "val_loss", step=step, series_id=1)])


@pytest.mark.parametrize("evaluations", [3, 8])
def test_a_step_upwards_that_falling_validation_does_not_share(evaluations: int) -> None:
    loss = curve_of(300, 0.02)
    loss[180:] += 0.6
    (found,) = findings(validated(loss, evaluations))
    assert abs((found.onset_step or 0) - 181) <= 1
    assert not findings(validated(loss, evaluations, rises=0.6, at=180))
    hurt = curve_of(300, 0.02)
    hurt[180:] += 0.6 * np.exp(-np.arange(120) / 10)
    assert not findings(validated(hurt, evaluations))


def test_blocks_of_sources_that_follow_each_other() -> None:
    rng = np.random.default_rng(3)
    blocks = np.repeat(np.tile([0.6, 1.0, 1.2, 0.6, 1.2], 12), rng.integers(4, 9, 60))[:300]
    (found,) = findings(validated(curve_of(300, 0.03) * blocks, 10))
    assert len(found.occurrences) >= 4
    assert not findings(validated(curve_of(300, 0.1), 10))


def test_sources_that_trade_places_are_told_once() -> None:
    share = np.where(np.arange(N) < AT, 1.0, 0.0)
    curves = [
        make_curve(value, "sampling_ratio", name=f"share of domain {name}", series_id=i, domain=name)
        for i, (name, value) in enumerate((("text", share), ("code", 1 - share)), 2)
    ]
    (found,) = findings(make_signals([shifted(0.5), *curves]))
    assert found.onset_step == AT + 1
    assert not findings(make_signals([make_curve(fall()), *curves]))


def test_a_stage_or_a_length_that_is_set_announces_the_shift() -> None:
    later = np.arange(N) >= AT
    for role, values in (("stage", later.astype(float)), ("seq_len", np.where(later, 1024.0, 512.0))):
        planned = make_curve(values, role, series_id=2)
        assert [f.severity for f in findings(make_signals([shifted(0.3), validation(), planned]))] == ["low"]
    measured = np.where(later, 1024.0, 512.0) + np.random.default_rng(0).normal(0, 20, N)
    found = findings(make_signals([shifted(0.3), validation(), make_curve(measured, "seq_len", series_id=2)]))
    assert [f.severity for f in found] == [None]


def test_a_length_that_the_gradient_feels() -> None:
    rng = np.random.default_rng(5)
    length = np.where(np.arange(N) < AT, 35, 7.5) + rng.standard_normal(N)
    norm = np.exp(0.1 * rng.standard_normal(N)) * np.where(np.arange(N) < AT, 1.4, 2.8)
    curves = {"train_loss": fall(), "seq_len": length}
    (found,) = findings(make_signals(curves | {"grad_norm": norm}))
    assert found.onset_step == AT + 1
    assert "gradient norm" in found.summary
    assert not findings(make_signals(curves | {"grad_norm": norm[::-1].copy()}))


@pytest.mark.parametrize("by", [0.15, 0.0])
def test_a_source_that_runs_dry(by: float) -> None:
    code = np.random.default_rng(6).integers(0, 7, N) / 12
    code[AT:] = 0
    loss = fall()
    loss[AT:] += by
    shares = [
        make_curve(v, None, name=n, series_id=i + 2)
        for i, (n, v) in enumerate({"mix_code": code, "mix_prose": 1 - code}.items())
    ]
    found = findings(make_signals([make_curve(loss), *shares]))
    assert [f.onset_step for f in found if "zero for good" in f.summary or "mix_" in f.summary] == (
        [AT + 1] if by else []
    )


def test_a_step_above_the_untrained_loss_is_no_change_of_data() -> None:
    told = []
    for height in (1.0, 4.0):
        value = fall()
        value[AT:] += height
        few = make_curve(np.linspace(2.4, 2.1, 4), "val_loss", step=np.array([100, 400, 700, 1000]), series_id=1)
        told.append(any("steps from" in f.summary for f in findings(make_signals([make_curve(value), few]))))
    assert told == [True, False]


def test_a_fall_across_a_gap_of_rows_is_time_that_passed() -> None:
    noise = 0.05 * np.random.default_rng(0).standard_normal(64)
    value, flat = np.where(np.arange(64) < 25, 6.0, 2.4) + noise, validation(np.full(40, 2.2) + 0.02 * noise[:40])
    for step, told in ((15 * np.arange(1, 65), 1), (np.append(np.arange(1, 26), 25 * np.arange(2, 41)), 0)):
        epoch = make_curve(step / 1001, "epoch", step=step, series_id=2)
        assert len(findings(make_signals([make_curve(value, step=step), flat, epoch]))) == told


def epochs(*curves: Curve) -> Signals:
    return replace(make_signals(curves), axis=Axis("epoch", "epoch"))


def test_an_epoch_mean_that_falls_at_once_while_no_evaluation_gains() -> None:
    loss, score = fall(30, 0.002) / 4, 0.8 - 0.1 * np.exp(-np.arange(30))
    score += 0.03 * np.sin(np.arange(30.0))
    loss[22:] -= 0.12
    rate = make_curve(np.full(30, 1e-4), "learning_rate", series_id=3)
    found = findings(epochs(make_curve(loss), make_curve(score, "val_metric", name="dice", series_id=2), rate))
    assert [finding.onset_step for finding in found] == [23]
    cut = make_curve(np.where(np.arange(30) < 22, 1e-4, 1e-5), "learning_rate", series_id=3)
    assert not findings(epochs(make_curve(loss), make_curve(score, "val_metric", name="dice", series_id=2), cut))
    score[22:] += 0.1
    assert not findings(epochs(make_curve(loss), make_curve(score, "val_metric", name="dice", series_id=2), rate))


def test_validation_that_ends_with_the_step_tells_nothing() -> None:
    every = np.array([100, 200, 300, 400, 500, 600, 700, 800, 850])
    level = make_curve(np.append(fall(N)[every[:-2]], [3.0, 3.4]), "val_loss", step=every, series_id=1)
    value = fall()
    value[790:] += 1.0
    assert not [f for f in findings(make_signals([make_curve(value), level])) if "does not follow" in f.summary]
