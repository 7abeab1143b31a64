"""Losses that stand where a model stands that has learnt nothing, and those that only look like it."""

from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.signals import Curve
from trainforensics.signals.chance import at_rest_from, ignorance

Floats = NDArray[np.float64]
N = 240
NEAR = 0.02


def noise(seed: int, size: float = 0.02, n: int = N) -> Floats:
    return size * np.random.default_rng(seed).standard_normal(n)


def settled(level: float, start: float, seed: int = 1) -> Floats:
    """A loss that reaches its level within a tenth of the log and stands there."""
    return level + (start - level) * np.exp(-np.arange(N) / 6) + noise(seed)


def logged(loss: Floats, *others: Curve) -> list[Curve]:
    return [make_curve(loss), *others]


def score(value: Floats, name: str, role: str | None = None) -> Curve:
    return make_curve(value, role, name=name, series_id=1)


def reason(curves: list[Curve]) -> str | None:
    found = ignorance(make_signals(curves), curves[0], NEAR)
    return found.reason if found is not None else None


def test_loss_and_accuracy_of_guessing_among_as_many_classes() -> None:
    chance = score(1 / 7 + noise(2, 0.01), "train_acc")
    said = reason(logged(settled(np.log(7), 2.1), chance))
    assert said is not None
    assert "guessing among 7 classes" in said
    assert reason(logged(settled(np.log(7), 2.1), score(0.3 + noise(2, 0.01), "train_acc"))) is None


@pytest.mark.parametrize(("name", "wrong"), [("top1_err", 97.0), ("error_rate", 0.97), ("eval_wer", 0.99)])
def test_hardly_a_sample_right(name: str, wrong: float) -> None:
    rates = wrong * (1 + noise(3, 0.004))
    assert "right" in (reason(logged(settled(5.86, 5.98), score(rates, name))) or "")
    assert reason(logged(settled(5.86, 5.98), score(rates / 2, name))) is None


def test_few_right_but_more_and_more_is_learning() -> None:
    rising = score(np.linspace(0.01, 0.09, N) + noise(4, 0.002), "acc")
    assert reason(logged(settled(5.86, 5.98), rising)) is None


def test_more_nats_per_token_than_counting_gives() -> None:
    assert "frequent" in (reason([make_curve(settled(11.5, 11.7), name="lm loss")]) or "")
    assert reason([make_curve(settled(6.5, 11.7), name="lm loss")]) is None
    assert reason([make_curve(settled(11.5, 11.7), name="reconstruction")]) is None


def test_evaluations_of_exactly_one_value_beside_a_loss_at_rest() -> None:
    rows = 30
    loss = 0.57 + 0.07 * np.exp(-np.arange(rows) / 2) + noise(5, 0.001, rows)
    alike = score(np.full(rows, 0.72414), "val_acc", "val_metric")
    assert "one answer for all" in (reason(logged(loss, alike)) or "")
    moving = score(0.72414 + noise(6, 0.01, rows), "val_acc", "val_metric")
    assert reason(logged(loss, moving)) is None
    nothing = score(np.zeros(rows), "val_acc", "val_metric")  # no answer is always wrong: that is no model's doing
    assert reason(logged(loss, nothing)) is None


def test_what_rises_or_still_falls_is_not_at_rest() -> None:
    assert at_rest_from(make_curve(settled(2.0, 3.0))) is not None
    assert at_rest_from(make_curve(np.linspace(7, 15, N) + noise(7))) is None
    assert at_rest_from(make_curve(np.linspace(3, 2, N) + noise(8))) is None


@pytest.mark.parametrize(
    ("fall", "size", "first", "told"),
    [(0.0, 0.001, 1, True), (0.03, 0.001, 1, False), (0.0, 0.02, 1, False), (0.0, 0.001, 5000, False)],
)
def test_steps_that_end_where_the_untrained_model_began(fall: float, size: float, first: int, told: bool) -> None:
    loss = 0.41 - fall * np.linspace(0, 1, N) + noise(4, size)
    curve = make_curve(loss, step=first + np.arange(N))
    assert (ignorance(make_signals([curve]), curve, NEAR) is not None) is told


def test_a_loss_without_noise_may_creep_and_has_come_to_rest() -> None:
    loss = 1.603 + 0.03 * np.exp(-np.arange(N) / 4) - 0.0005 * np.arange(N) / N
    found = reason(logged(loss, score(np.full(N, 0.21), "Train")))
    assert found is not None
    assert "guessing among 5 classes" in found


def test_evaluations_whose_loss_and_accuracy_are_those_of_guessing() -> None:
    loss = make_curve(np.linspace(1.1, 0.99, 13))

    def signals(tested: Floats, right: Floats) -> list[Curve]:
        return [loss, score(tested, "val_loss", "val_loss"), score(right, "val_acc", "val_metric")]

    guessed, right = np.log(3) + noise(6, 0.005, 10), 1 / 3 + noise(7, 0.01, 10)
    assert "guessing among 3 classes in all 10 evaluations" in (reason(signals(guessed, right)) or "")
    assert reason(signals(guessed, right + 0.2)) is None
    assert reason(signals(guessed + np.linspace(0, 0.3, 10), right)) is None
    assert reason(signals(guessed + 800, right)) is None
    assert reason(signals(guessed, np.full(10, np.nan))) is None


def test_nothing_right_in_one_task_beside_another_that_is_easier_to_guess() -> None:
    easy = score(0.51 + noise(8, 0.005), "SOP_acc")
    assert "MLM_acc" in (reason(logged(settled(11.17, 11.4), score(np.zeros(N), "MLM_acc"), easy)) or "")
    assert reason(logged(settled(11.17, 11.4), score(np.full(N, 0.05), "MLM_acc"), easy)) is None


def test_a_negative_loss_that_never_moves() -> None:
    still = make_curve(-0.4986 + noise(9, 0.001))
    assert "where it began" in (reason([still]) or "")
    assert reason([make_curve(-0.4986 + noise(9, 0.001) - np.linspace(0, 0.05, N))]) is None


@pytest.mark.parametrize(("constant", "margin", "told"), [(0.6931, None, True), (0.5, 0.5, True), (0.5, None, False)])
def test_embeddings_that_are_all_the_same(constant: float, margin: float | None, told: bool) -> None:
    t, rng = np.arange(400), np.random.default_rng(4)
    value = constant + 0.3 * np.exp(-t / 25) * (1 + 0.1 * rng.normal(size=400)) + 1e-5 * rng.normal(size=400)
    signals = make_signals({"train_loss": value}, config={} if margin is None else {"loss": {"margin": margin}})
    found = ignorance(signals, signals.curves("train_loss")[0], 0.02)
    assert (found is not None) == told
    assert found is None or 50 < found.start < 120


@pytest.mark.parametrize(("margin", "told"), [(0.3, True), (0.4, False), (None, False)])
def test_a_loss_that_stands_about_a_stated_margin(margin: float | None, told: bool) -> None:
    t, rng = np.arange(300), np.random.default_rng(4)
    value = 0.3 * np.exp(0.01 * rng.standard_normal(300)) + 0.3 * np.exp(-t / 20)
    config = {} if margin is None else {"margin": margin}
    found = ignorance(signals := make_signals({"train_loss": value}, config=config), signals.curves("train_loss")[0], 0)
    assert (found is not None and "the same to the model" in found.reason) == told


@pytest.mark.parametrize(("back", "told"), [(30, True), (80, False)])
def test_one_of_two_answers_after_a_launch_anew(back: int, told: bool) -> None:
    value = 0.6931 + 0.0005 * np.random.default_rng(4).standard_normal(120)
    value[:3] = value[back : back + 2] = 0.7006
    signals = make_signals({"train_loss": value})
    found = ignorance(signals, signals.curves("train_loss")[0], 0.02)
    assert (found is not None and found.start == back + 2 and "guessing" in found.reason) == told


def test_a_loss_that_passes_ln_2_on_its_way_is_none_of_equals() -> None:
    t = np.arange(400)
    signals = make_signals({"train_loss": 0.6 + 0.6 * np.exp(-t / 100)})
    assert ignorance(signals, signals.curves("train_loss")[0], 0.02) is None


@pytest.mark.parametrize(
    ("level", "gain", "end", "told"),
    [(0.066, 0.0002, 9.3, True), (0.066, 0.01, 9.3, False), (0.4, 0.0002, 9.3, False), (0.066, 0.0002, 4.0, False)],
)
def test_an_accuracy_that_stays_low_while_the_loss_creeps(level: float, gain: float, end: float, told: bool) -> None:
    curves = [
        make_curve(np.linspace(11, end, 20), step=np.arange(20)),
        make_curve(
            level + np.linspace(0, gain, 20), "val_metric", name="val/token_acc", step=np.arange(20), series_id=1
        ),
        make_curve(np.zeros(20), "val_metric", name="val/seq_acc", step=np.arange(20), series_id=2),
    ]
    found = ignorance(make_signals(curves), curves[0], NEAR)
    assert (found is not None and "one answer" in found.reason) is told


@pytest.mark.parametrize(("grows", "told"), [(2.3, True), (0.0, False)])
def test_gradients_that_add_up_make_no_update(grows: float, told: bool) -> None:
    loss, norm = 5.6 + noise(3, 0.1), np.abs(2.4 + grows * np.arange(N) + noise(4))
    found = reason([make_curve(loss), make_curve(norm, "grad_norm", series_id=5)])
    assert ("add up" in (found or "")) == told


@pytest.mark.parametrize(("slope", "told"), [(0.0, True), (0.012, False)])
def test_a_loss_that_passes_its_margin_does_not_stand_there(slope: float, told: bool) -> None:
    t, rng = np.arange(300), np.random.default_rng(4)
    value = 0.5 * (1 + 0.6 * np.exp(-t / 20) + np.linspace(3 * slope, -slope, 300) + 0.002 * rng.standard_normal(300))
    signals = make_signals({"train_loss": value}, config={"margin": 0.5})
    found = ignorance(signals, signals.curves("train_loss")[0], 0)
    assert (found is not None and "the same to the model" in found.reason) == told
