from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.generalisation import val_jump
from trainforensics.model import Finding, Fired
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in val_jump.META.params}
EVERY = 20
Floats = NDArray[np.float64]


def fall(n: int, noise: float = 0.02, seed: int = 0) -> Floats:
    return 2 + 2 * np.exp(-np.linspace(0, 5, n)) + noise * np.random.default_rng(seed).standard_normal(n)


def validation(value: Floats, role: str = "val_loss", **origin: object) -> Curve:
    return make_curve(value, role, step=EVERY * np.arange(1, len(value) + 1), series_id=1, **origin)


def training(n: int) -> Curve:
    return make_curve(fall(EVERY * n, 0.1, seed=9), "train_loss")


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = val_jump.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


@pytest.mark.parametrize("n", [20, 60, 300])
@pytest.mark.parametrize("change", [0.5, -0.5])
def test_another_evaluation_set(n: int, change: float) -> None:
    value = fall(n)
    value[n // 2 :] += change
    found = findings(make_signals([validation(value), training(n)]))
    assert [finding.onset_step for finding in found] == [EVERY * (n // 2 + 1)]


def test_one_domain_that_jumps_is_named() -> None:
    value = fall(20)
    value[12:] += 0.5
    whole, part = validation(fall(20, seed=4)), validation(value, domain="code", name="val/code")
    assert [f.scope.domain for f in findings(make_signals([whole, part, training(20)]))] == ["code"]


def test_a_change_that_training_shares_is_none() -> None:
    value, train = fall(20), training(20).value
    value[10:] -= 0.5
    train[10 * EVERY + 3 :] -= 0.5
    assert not findings(make_signals([validation(value), make_curve(train, "train_loss")]))


def test_training_that_gets_better_does_not_make_evaluation_worse() -> None:
    value, train = fall(20), training(20).value
    value[10:] += 0.5
    train[10 * EVERY + 3 :] -= 0.3
    found = findings(make_signals([validation(value), make_curve(train, "train_loss")]))
    assert [finding.onset_step for finding in found] == [EVERY * 11]


@pytest.mark.parametrize("n", [6, 15, 40, 200])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.3])
def test_noise_is_none(n: int, noise: float) -> None:
    for seed in range(25):
        assert not findings(make_signals([validation(fall(n, noise, seed)), training(n)]))


@pytest.mark.parametrize("n", [20, 60, 300])
def test_one_or_two_evaluations_far_above_all_others(n: int) -> None:
    value = fall(n)
    value[n // 2] += 10
    assert [f.onset_step for f in findings(make_signals([validation(value), training(n)]))] == [EVERY * (n // 2 + 1)]
    value[n // 2 + 2] += 8
    assert len(findings(make_signals([validation(value), training(n)]))[0].occurrences) == 2
    value[[4, n // 2 - 3, n // 2 + 5]] += 6
    more = findings(make_signals([validation(value), training(n)]))
    assert [len(f.occurrences) for f in more] == ([] if n == 20 else [4])  # five of twenty are a noisy set


def test_an_outlier_of_a_part_is_told_only_without_the_whole() -> None:
    value = fall(60)
    value[30] += 10
    part = validation(value, domain="energy", name="val/loss_energy")
    assert len(findings(make_signals([part, training(60)]))) == 1
    assert not findings(make_signals([validation(fall(60, seed=4)), part, training(60)]))


def test_an_outlier_that_training_shares_is_none() -> None:
    value, train = fall(20), training(20).value
    value[10] += 10
    train[10 * EVERY : 11 * EVERY] += 8
    assert not findings(make_signals([validation(value), make_curve(train, "train_loss")]))


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6])
def test_a_noisy_set_is_none(noise: float) -> None:
    for seed in range(25):
        value = fall(60, 0.0) * np.exp(noise * np.random.default_rng(seed).standard_normal(60))
        assert not findings(make_signals([validation(value), training(60)]))


def test_a_small_outlier_and_a_ramp_are_none() -> None:
    outlier, ramp = fall(20), fall(20)
    outlier[10] += 1
    ramp[8:] += np.linspace(0, 1, 12)
    for value in (outlier, ramp):
        assert not findings(make_signals([validation(value), training(20)]))


def test_a_step_that_a_noisy_training_loss_would_show_is_told() -> None:
    """The level of training is known to 0.06: a step of 0.3 there would stand out, one of 0.1 would not."""
    told = {0.3: 0, 0.1: 0}
    for height in told:
        for seed in range(10):
            value = fall(25, 0.01, seed)
            value[15:] += height
            noisy = make_curve(fall(25 * EVERY, 0.25, seed + 50), "train_loss")
            told[height] += len(findings(make_signals([validation(value), noisy])))
    assert told[0.3] >= 6
    assert told[0.1] <= 2


@pytest.mark.parametrize("factor", [1.5, 6])
def test_single_evaluations_far_above_calm_ones(factor: float) -> None:
    value = fall(60)
    value[[20, 33, 34, 47, 55]] *= factor * np.array([1, 0.8, 1.1, 1.6, 1.3])
    found = findings(make_signals([validation(value), training(60)]))
    if factor < 3:
        assert not found
        return
    assert found[0].occurrences == tuple(EVERY * (at + 1) for at in (20, 33, 34, 47, 55))
    restless = fall(60) * np.exp(0.5 * np.random.default_rng(1).standard_t(3, 60))
    assert not findings(make_signals([validation(restless), training(60)]))


def test_a_lone_evaluation_far_out_of_a_calm_set_is_told() -> None:
    outlier = fall(20)
    outlier[10] *= 1.7
    (found,) = findings(make_signals([validation(outlier), training(20)]))
    assert found.onset_step == 11 * EVERY


def score(value: Floats, name: str = "val/accuracy") -> Curve:
    return make_curve(value, "val_metric", step=EVERY * np.arange(1, len(value) + 1), name=name, series_id=2)


def test_an_evaluation_worse_than_the_first_in_a_loss_and_a_score() -> None:
    value, correct = fall(14, 0.1), np.linspace(0.4, 0.7, 14)
    value[1] = 9.0
    assert not findings(make_signals([validation(value), score(correct), training(14)]))
    correct[1] = 0.2
    (found,) = findings(make_signals([validation(value), score(correct), training(14)]))
    assert (found.onset_step, found.recovery) == (2 * EVERY, "recovered")


def test_the_last_evaluation_apart_in_two_series() -> None:
    value, error = fall(20), np.linspace(0.3, 0.25, 20)
    value[-1], error[-1] = 0.5, 0.06
    wrong = score(error, "val/wer")
    (found,) = findings(make_signals([validation(value), wrong, training(20)]))
    assert (found.onset_step, found.recovery) == (20 * EVERY, "ongoing")
    assert not findings(make_signals([validation(value), score(np.linspace(0.3, 0.25, 20), "val/wer"), training(20)]))


def test_a_score_lost_for_one_evaluation() -> None:
    correct = np.linspace(0.4, 0.7, 30)
    correct[16] = 0.004
    (found,) = findings(make_signals([score(correct), training(30)]))
    assert (found.onset_step, found.role) == (17 * EVERY, "val_metric")


def test_validation_that_begins_to_learn_has_not_jumped() -> None:
    value = np.append(np.full(5, 4.6), 1 + 2.6 * np.exp(-np.arange(25) / 6))
    train = 1 + 3 * np.exp(-np.linspace(0, 3, 30 * EVERY))
    assert not findings(make_signals([validation(value), make_curve(train, "train_loss")]))


def test_exported_weights_that_evaluate_far_worse() -> None:
    trained = make_curve([4.0, 2.5, 2.4], "val_loss", name="val_loss", step=[0, 50, 100], series_id=1)
    for value, name, count in (
        (2.41, "int8_roundtrip", 0),
        (3.1, "int8_roundtrip", 1),
        (3.1, "diagnostic pre-quantization post-ema", 1),
        (3.1, "wikitext", 0),
    ):
        made = make_curve([value], "val_loss", name=f"{name}/val_loss", step=[100], series_id=2, domain=name)
        assert len(findings(make_signals([trained, made, training(5)]))) == count


@pytest.mark.parametrize(("value", "told"), [(4.1, 1), (3.32, 0)])
def test_averaged_weights_beside_those_from_before(value: float, told: int) -> None:
    names = ("Final_pre-EMA", "Final_post-EMA")
    made = [
        make_curve([v], "val_loss", name=f"{name}/val_loss", step=[50], series_id=2 + i, domain=name)
        for i, (name, v) in enumerate(zip(names, (3.31, value), strict=True))
    ]
    assert [f.series for f in findings(make_signals([*made, training(5)]))] == ["Final_post-EMA/val_loss"] * told


def test_one_evaluation_highest_in_two_error_rates() -> None:
    words, letters = (np.linspace(high, high / 3, 20) for high in (0.3, 0.2))
    words[12], letters[12] = 0.3, 0.21
    curves = [validation(fall(20)), score(words, "val/wer"), score(letters, "val/cer")]
    (found,) = findings(make_signals([*curves, training(20)]))
    assert (found.series, found.onset_step, found.recovery) == ("val/wer", 13 * EVERY, "recovered")
    train = training(20).value
    train[12 * EVERY : 13 * EVERY] *= 2
    assert not findings(make_signals([*curves, make_curve(train, "train_loss")]))


def test_a_distance_alone_that_is_set_back_at_the_end() -> None:
    distance = np.array([261, 327, 148, 117, 94, 87, 74, 72, 59, 58, 56, 55, 49, 49.5, 84, 77.0])
    found = findings(make_signals([validation(distance, "val_metric", name="val/fid50k_full")]))
    assert [f.onset_step for f in found] == [EVERY * 15]
    assert not findings(make_signals([validation(np.sort(distance)[::-1], "val_metric", name="val/fid50k_full")]))


@pytest.mark.parametrize(("after", "told"), [((0.733, 0.731, 0.73, 0.729), True), ((0.733, 0.716, 0.7, 0.692), False)])
def test_a_setback_that_is_made_up_for_is_none(after: tuple[float, ...], told: bool) -> None:
    value = np.array([0.747, 0.711, 0.685, 0.691, 0.67, 0.679, 0.671, *after, after[-1]])
    train = np.array([0.44, 0.31, 0.24, 0.18, 0.15, 0.15, 0.1, 0.095, 0.088, 0.081, 0.074, 0.072])
    signals = make_signals([validation(value), make_curve(train, "train_loss", step=EVERY * np.arange(1, 13))])
    assert bool(findings(signals)) is told


def test_a_peak_twice_as_high_as_all_others_in_an_unsteady_set() -> None:
    value = fall(60, 0.08)
    value[[20, 30]] += 0.8
    value[40] *= 1.9
    signals = make_signals([validation(value), training(60)])
    assert [finding.onset_step for finding in findings(signals)] == [EVERY * 41]
    value[50] /= 1.7  # a set that is as far below at times is a small one
    assert not findings(make_signals([validation(value), training(60)]))


def test_a_fall_over_decades_that_training_shares_is_none() -> None:
    """The losses of an equation fall as fast as each other, and by steps once another optimiser takes over."""
    n = 150
    both = np.exp(-np.minimum(np.arange(n), 60) / 8.0) * np.where(np.arange(n) < 14, 1, 0.5) + 1e-4
    both[140:] *= 1e-2
    train = make_curve(both, "train_loss", step=EVERY * np.arange(1, n + 1))
    assert not findings(make_signals([validation(1.02 * both), train]))
    still = make_curve(np.exp(-np.minimum(np.arange(n), 60) / 8.0) + 1e-4, step=EVERY * np.arange(1, n + 1))
    value = fall(n, 0.005)
    value[75:] -= 0.8
    assert len(findings(make_signals([validation(value), still]))) == 1


@pytest.mark.parametrize(("gain", "told"), [(0.0, True), (0.05, False)])
def test_a_step_of_both_losses_while_no_score_moves_is_another_measure(gain: float, told: bool) -> None:
    rng = np.random.default_rng(2)
    value = 0.67 + 0.4 * np.exp(-np.arange(60) / 5) + 0.004 * rng.normal(size=60)
    train = 0.9 + 0.01 * rng.normal(size=60 * EVERY)
    iou = 0.83 - 0.2 * np.exp(-np.arange(60) / 5) + 0.002 * rng.normal(size=60)
    value[39:] *= 0.2
    train[39 * EVERY :] *= 0.3
    iou[39:] += gain
    curves = [validation(value), score(iou, "val/iou"), make_curve(train, "train_loss")]
    assert [f.onset_step for f in findings(make_signals(curves))] == [40 * EVERY] * told


def test_what_improves_as_unevenly_as_before_does_not_jump() -> None:
    after = [3.31, 3.30, 3.36, 3.2, 3.15, 3.12, 3.08]
    train = make_curve(np.linspace(3.5, 2.7, 12 * EVERY), "train_loss")
    uneven, even = [6.1, 5.72, 6.46, 5.03, 5.1], [5.9, 5.7, 5.5, 5.3, 5.1]
    told = [findings(make_signals([validation(np.array(before + after)), train])) for before in (uneven, even)]
    assert [len(found) for found in told] == [0, 1]


@pytest.mark.parametrize(("times", "along", "onsets"), [(1.4, 1.0, (160, 260)), (1.1, 1.0, ()), (1.4, 1.5, ())])
def test_a_rate_of_wrong_words_that_leaves_its_loss_alone(times: float, along: float, onsets: tuple[int, ...]) -> None:
    rate, loss = 9 + 30 * np.exp(-np.arange(16) / 2), 0.01 + 0.1 * np.exp(-np.arange(16) / 3)
    rate[[7, 12]] *= times
    loss[[7, 12]] *= along
    score = make_curve(rate, "val_metric", step=EVERY * np.arange(1, 17), name="eval_wer", series_id=2)
    signals = make_signals([validation(loss), score, training(16)])
    assert tuple(step for finding in findings(signals) for step in finding.occurrences) == onsets


def test_a_rate_of_few_wrong_words_that_wanders_stands_nowhere() -> None:
    wrong = np.array([40, 31, 24, 19, 15, 17, 13, 11, 9, 10, 8, 7, 9, 7, 6, 7, 6])
    rate = make_curve(wrong / 40, "val_metric", step=EVERY * np.arange(1, 18), name="eval_wer", series_id=2)
    assert not findings(make_signals([validation(0.1 + np.exp(-np.arange(17) / 4)), rate, training(17)]))
