from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.generalisation import eval_invalid
from trainforensics.model import Finding, Fired, NotApplicable
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in eval_invalid.META.params}
N, EVERY = 20, 20
RNG = np.random.default_rng(3)
Floats = NDArray[np.float64]


def evaluation(value: Floats, role: str = "val_loss", **origin: object) -> Curve:
    return make_curve(value, role, step=EVERY * np.arange(1, len(value) + 1), series_id=1, **origin)


def training() -> Curve:
    fall = 1 + 2 * np.exp(-np.linspace(0, 4, EVERY * N))
    return make_curve(fall + 0.03 * RNG.standard_normal(EVERY * N), "train_loss")


def falling() -> Floats:
    return 1.5 + 2 * np.exp(-np.linspace(0, 4, N)) + 0.02 * RNG.standard_normal(N)


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = eval_invalid.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def test_evaluations_that_are_not_finite() -> None:
    value = falling()
    value[[5, 6, 12]] = np.nan
    found = findings(make_signals([evaluation(value), training()]))
    assert [(f.onset_step, f.occurrences, f.recovery) for f in found] == [(120, (120, 260), "recovered")]


def test_frozen_zero_and_negative_evaluations() -> None:
    frozen, zero, negative = falling(), falling(), falling()
    frozen[4:] = frozen[4]
    zero[3:] = 0.0
    negative[7:9] = -0.5
    onsets = [findings(make_signals([evaluation(v), training()]))[0].onset_step for v in (frozen, zero, negative)]
    assert onsets == [100, 80, 160]


def test_evaluations_far_off_that_swing() -> None:
    wild = 3000 * np.exp(0.5 * RNG.standard_normal(N))
    found = findings(make_signals([evaluation(wild), training()]))
    assert [finding.onset_step for finding in found] == [EVERY]


def test_one_domain_without_labels_is_named() -> None:
    empty = evaluation(np.full(N, np.nan), domain="code", name="val/code")
    found = findings(make_signals([evaluation(falling()), empty, training()]))
    assert [finding.scope.domain for finding in found] == ["code"]


def test_a_consequence_of_nan_in_training_is_none() -> None:
    value, train = falling(), training().value
    value[10:] = np.nan
    train[10 * EVERY - 5 :] = np.nan
    assert not findings(make_signals([evaluation(value), make_curve(train, "train_loss")]))
    late = training().value
    late[10 * EVERY + 15 :] = np.nan  # logged before it reaches the training log
    assert not findings(make_signals([evaluation(value), make_curve(late, "train_loss")]))


def test_hidden_nan_in_training_is_none() -> None:
    value, norm = falling(), np.ones(EVERY * N)
    value[10:] = np.nan
    norm[10 * EVERY - 5 :] = np.nan
    assert not findings(make_signals([evaluation(value), training(), make_curve(norm, "grad_norm", series_id=2)]))


def test_a_scale_a_noisy_set_and_a_rounded_plateau_are_none() -> None:
    scaled = 16 * falling()
    noisy = falling() * np.exp(0.1 * RNG.standard_normal(N))
    rounded = np.round(1.5 + 2 * np.exp(-np.linspace(0, 12, N)), 2)
    negative = -falling()
    for value in (falling(), scaled, noisy, rounded):
        assert not findings(make_signals([evaluation(value), training()]))
    assert not findings(make_signals([evaluation(negative), make_curve(-training().value, "train_loss")]))


def test_a_column_that_repeats_the_last_evaluation_is_not_frozen() -> None:
    held = np.repeat(falling()[:5], EVERY * N // 5)
    assert not findings(make_signals([make_curve(held, "val_loss", series_id=1), training()]))
    held[EVERY * N // 5 :] = held[EVERY * N // 5]
    held[: EVERY * N // 5] = np.repeat(falling()[:10], EVERY * N // 50)
    assert findings(make_signals([make_curve(held, "val_loss", series_id=1), training()]))


def test_a_best_value_so_far_starts_at_infinity() -> None:
    value = falling()
    value[0] = np.inf
    assert not findings(make_signals([evaluation(value), training()]))
    value[5] = np.inf
    assert findings(make_signals([evaluation(value), training()]))[0].occurrences == (120,)


def metric(value: float, n: int = N, name: str = "val/acc") -> Curve:
    return evaluation(np.full(n, value), "val_metric", name=name)


@pytest.mark.parametrize(("value", "name"), [(0.1, "val/acc"), (0.6838, "val/acc"), (1.0, "val/error_rate")])
def test_a_metric_that_never_moves_while_the_loss_falls(value: float, name: str) -> None:
    (found,) = findings(make_signals([metric(value, name=name), training()]))
    assert found.series == name and found.onset_step == EVERY and found.recovery == "ongoing"


@pytest.mark.parametrize(
    ("value", "n", "name"),
    [
        (1.0, N, "val/acc"),
        (100.0, N, "val/acc"),
        (0.0, N, "val/error_rate"),
        (0.0, 6, "val/mAP"),
        (0.5, 3, "val/acc"),
        (0.7, N, "val/best_acc"),
    ],
)
def test_a_metric_that_has_reason_to_stand_is_none(value: float, n: int, name: str) -> None:
    assert not findings(make_signals([metric(value, n, name), training()]))


def test_a_metric_beside_one_that_moves_or_a_loss_at_rest_is_none() -> None:
    moving = evaluation(0.5 + 0.02 * RNG.standard_normal(N), "val_metric", name="val/f1")
    assert not findings(make_signals([metric(0.1), moving, training()]))
    at_rest = make_curve(1 + 2 * np.exp(-np.arange(EVERY * N) / 10) + 0.03 * RNG.standard_normal(EVERY * N))
    assert not findings(make_signals([metric(0.1), at_rest]))


def test_a_loss_logged_against_its_own_start_may_be_negative() -> None:
    relative = falling() - falling()[0]
    relative[0] = 0.0
    assert not findings(make_signals([evaluation(relative), training()]))


@pytest.mark.parametrize(("end", "told"), [(0.12, True), (0.55, False)])
def test_one_accuracy_for_ever_beside_a_training_set_that_is_told_apart(end: float, told: bool) -> None:
    """The loss came to rest early; at 0.57 right, a model that prefers one class has a loss of 0.68 or more."""
    fall = (
        end + 0.5 * np.exp(-np.linspace(0, 30, EVERY * N)) + 0.01 * np.random.default_rng(1).standard_normal(EVERY * N)
    )
    found = findings(make_signals([evaluation(np.full(N, 0.5676), "val_metric"), make_curve(fall, "train_loss")]))
    assert len(found) == told


def test_evaluations_that_are_not_finite_without_a_training_loss() -> None:
    found = findings(make_signals([evaluation(np.array([0.98, 0.95, np.nan]))]))
    assert [f.onset_step for f in found] == [60]
    assert isinstance(eval_invalid.detect(make_signals([evaluation(falling())]), PARAMS), NotApplicable)


@pytest.mark.parametrize(("name", "value"), [("mAP50", 3e-4), ("eval_wer", 1.001), ("val/f1", 0.0)])
def test_nothing_found_in_any_evaluation_while_training_goes_on(name: str, value: float) -> None:
    score = value + 1e-5 * RNG.random(N)
    found = findings(make_signals([evaluation(score, "val_metric", name=name), training()]))
    assert [finding.onset_step for finding in found] == [EVERY]
    assert not findings(make_signals([evaluation(score[:9], "val_metric", name=name), training()]))
    better = np.append(score[:-1], 0.3)
    assert not findings(make_signals([evaluation(better, "val_metric", name=name), training()]))
    rest = make_curve(2 + 0.03 * RNG.standard_normal(EVERY * N), "train_loss")
    assert not findings(make_signals([evaluation(score, "val_metric", name=name), rest]))


def test_all_right_and_nothing_recalled_is_a_set_without_what_is_to_be_found() -> None:
    def signals(right: float, recalled: float) -> Signals:
        both = [evaluation(np.full(10, right), "val_metric", name="val_accuracy")]
        both.append(evaluation(np.full(10, recalled), "val_metric", name="val_recall"))
        return make_signals([*both, training()])

    assert "nothing is to be found" in findings(signals(1.0, 0.0))[0].summary
    assert findings(signals(100.0, 0.0))
    assert not findings(signals(1.0, 1.0))
    assert all("to be found" not in finding.summary for finding in findings(signals(0.9, 0.0)))


def test_evaluations_that_stay_aloof_while_training_learns() -> None:
    at = np.arange(N)
    assert len(findings(make_signals([evaluation(900 + 5 * np.exp(-at / 5)), training()]))) == 1
    assert not findings(make_signals([evaluation(900 * np.exp(-at / 5)), training()]))  # a scale lies between them


def test_swings_that_are_now_and_then_sound_are_not_invalid() -> None:
    value = np.where(np.arange(N) % 4 == 3, 1.5, 30.0) * np.exp(0.5 * np.random.default_rng(0).standard_normal(N))
    assert not findings(make_signals([evaluation(value), training()]))


def test_a_loss_that_comes_to_rest_on_its_last_printed_digit_is_not_frozen() -> None:
    rest = np.round(1.29142 - 0.2 * np.exp(-np.arange(80) / 7), 4)
    memorised = make_curve(2 * np.exp(-np.linspace(0, 20, EVERY * 80)), "train_loss")
    assert len(np.unique(rest[-10:])) == 1
    assert not findings(make_signals([evaluation(rest), memorised]))
    assert findings(make_signals([evaluation(np.append(rest[:20], np.full(60, rest[0]))), memorised]))


def test_one_side_of_a_game_may_be_negative() -> None:
    swings = np.where(np.arange(N) % 3 == 0, -0.2, 0.4)
    assert findings(make_signals([evaluation(swings), training()]))
    assert not findings(make_signals([evaluation(swings, name="val/avg_loss_gen"), training()]))


@pytest.mark.parametrize(("others", "told"), [(1, True), (5, False)])
def test_a_lone_other_value_among_many_evaluations_changes_nothing(others: int, told: bool) -> None:
    value = np.full(N, 0.1)
    value[3 : 3 + others] = 0.24
    falls = make_curve(np.linspace(3, 1, EVERY * N), "train_loss")
    found = findings(make_signals([evaluation(value, "val_metric", name="val/acc"), falls]))
    assert bool(found) is told
    assert not found or f"{N - others} of {N} evaluations" in found[0].summary


@pytest.mark.parametrize(("lost", "told"), [([3, 7, 12], False), ([12, 13, 14, 15, 16, 17, 18, 19], True)])
def test_a_class_that_is_absent_now_and_then_is_none(lost: list[int], told: bool) -> None:
    scores = [0.6 + 0.01 * RNG.standard_normal(N) for _ in range(2)]
    scores[1][lost] = np.nan
    parts = [evaluation(value, "val_metric", name=f"Pseudo dice/{i}", domain=str(i)) for i, value in enumerate(scores)]
    curves = [parts[0], replace(parts[1], series=replace(parts[1].series, id=7)), training()]
    assert bool(findings(make_signals(curves))) is told


def test_a_metric_that_learning_moved_and_then_stands_is_a_small_set() -> None:
    value = np.full(N, 0.9)
    value[0] = 0.5
    falls = make_curve(np.linspace(3, 1, EVERY * N), "train_loss")
    assert not findings(make_signals([evaluation(value, "val_metric", name="val/acc"), falls]))


def test_a_part_that_is_nothing_in_training_as_well_is_none() -> None:
    none = evaluation(np.zeros(N), domain="cls", name="val/cls_loss")
    own = [make_curve(v, "train_loss", name="train/cls_loss", domain="cls") for v in (np.zeros(100), np.ones(100))]
    told = [len(findings(make_signals([evaluation(falling()), none, training(), part]))) for part in own]
    assert told == [0, 1]


def test_an_error_that_stands_in_training_as_well_is_none() -> None:
    stands = evaluation(np.full(N, 1.44), name="rmse_e_val")
    for level, told in ((1.44, 0), (1.45, 1)):
        own = make_curve(np.full(N, level), None, step=stands.step, name="rmse_e_trn", series_id=7)
        assert len(findings(make_signals([stands, training(), own]))) == told


@pytest.mark.parametrize(("name", "told"), [("penalty", 1), ("train_loss_total", 1), ("train/energy_loss", 0)])
def test_a_zero_beside_any_other_zero_is_still_invalid(name: str, told: int) -> None:
    none = evaluation(np.zeros(N), name="val/energy_loss")
    own = make_curve(np.zeros(N), None, step=none.step, name=name, series_id=7)
    assert len(findings(make_signals([none, training(), own]))) == told


@pytest.mark.parametrize(("name", "told"), [("dice", 1), ("iou", 0)])
def test_a_score_of_training_that_is_never_a_number(name: str, told: int) -> None:
    known = evaluation(np.linspace(0.3, 0.6, N), "val_metric", name="val_dice")
    never = make_curve(np.full(N, np.nan), None, name=name, step=EVERY * np.arange(1, N + 1), series_id=2)
    assert len(findings(make_signals([known, never, training()]))) == told


@pytest.mark.parametrize(("sign", "told"), [(-1, 0), (1, 1)])
def test_a_part_that_is_negative_in_training_as_well_is_none(sign: int, told: int) -> None:
    part = evaluation(-falling(), name="val/avg_loss_spk")
    same = make_curve(sign * falling(), None, name="loss_spk (current)", step=EVERY * np.arange(1, N + 1), series_id=2)
    assert len(findings(make_signals([part, same, training()]))) == told
