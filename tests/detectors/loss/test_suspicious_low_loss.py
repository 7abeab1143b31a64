"""Losses that are solved too soon, or fall because their features vanish; and the healthy ones that look like them."""

from __future__ import annotations

import numpy as np
import pytest
from curves import Floats
from factories import make_curve, make_signals

from trainforensics.detectors.loss import suspicious_low_loss
from trainforensics.model import Finding, Fired
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in suspicious_low_loss.META.params}

N = 300


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = suspicious_low_loss.detect(signals, {p.name: p.default for p in suspicious_low_loss.META.params})
    return outcome.findings if isinstance(outcome, Fired) else ()


def solved(rate: float, seed: int, left: float = 1e-3) -> tuple[Curve, Curve]:
    """A loss that falls to `left` at a rate, and the training accuracy in per cent."""
    at, rng = np.arange(N), np.random.default_rng(seed)
    loss = (left + 1.5 * np.exp(-rate * at)) * np.exp(0.1 * rng.standard_normal(N))
    return make_curve(loss), make_curve(100 * np.minimum(1, np.exp(-0.1 * (loss - 0.01))), None, name="acc_seg")


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_a_task_solved_within_the_warm_up_or_the_first_steps(rate: float) -> None:
    warm_up = np.minimum(1, np.arange(1, N + 1) / 150)
    for seed in range(10):
        loss, accuracy = solved(rate, seed)
        warm = make_curve(warm_up, "learning_rate", series_id=2)
        assert len(findings(make_signals([loss, accuracy, warm]))) == 1
        assert len(findings(make_signals([loss, accuracy], config={"max_steps": 100_000}))) == 1


def test_a_task_solved_late_again_or_by_heart_is_none() -> None:
    rate = make_curve(np.minimum(1, np.arange(1, N + 1) / 5), "learning_rate", series_id=2)
    for seed in range(20):
        slow, fast = solved(0.05, seed), solved(1.0, seed)
        assert not findings(make_signals([*slow, rate], config={"max_steps": 1000}))
        again = make_curve(np.arange(N) / 3, "epoch", series_id=3)
        assert not findings(make_signals([*fast, again], config={"max_steps": 100_000}))
        by_heart = make_curve(np.full(5, 2.0), "val_loss", step=60 * np.arange(1, 6), series_id=3)
        assert not findings(make_signals([*fast, by_heart], config={"max_steps": 100_000}))
        assert not findings(make_signals([*slow], config={"max_steps": N}))


def test_a_converged_model_trained_on_is_none() -> None:
    rng = np.random.default_rng(1)
    loss = make_curve(0.002 * np.exp(0.2 * rng.standard_normal(N)))
    accuracy = make_curve(np.full(N, 1.0), None, name="accuracy")
    assert not findings(make_signals([loss, accuracy], config={"max_steps": 100_000}))


def falling(at: int, depth: float, seed: int) -> Floats:
    step, rng = np.arange(N), np.random.default_rng(seed)
    level = 4 + 2 * np.exp(-step / 20)
    level = np.where(step < at, level, level[at] * (depth + (1 - depth) * np.exp(-(step - at) / 6)))
    return np.asarray(level * np.exp(0.03 * rng.standard_normal(N)))


@pytest.mark.parametrize(
    ("name", "before", "after"), [("code_perplexity", 60, 2), ("ssl/feature_std", 0.14, 0.01), ("embedding_std", 1, 0)]
)
@pytest.mark.parametrize("depth", [0.1, 0.02])
def test_a_loss_that_falls_with_its_features(name: str, before: float, after: float, depth: float) -> None:
    for seed in range(5):
        witness = np.where(np.arange(N) < 150, before, after + (before - after) * np.exp(-(np.arange(N) - 150) / 6))
        signals = make_signals([make_curve(falling(150, depth, seed)), make_curve(witness, None, name=name)])
        (found,) = findings(signals)
        assert found.onset_step is not None
        assert abs(found.onset_step - 150) <= 10


@pytest.mark.parametrize("name", ["code_perplexity", "feature_std", "posterior_std", "action_std"])
def test_features_that_live_or_are_meant_to_narrow_are_none(name: str) -> None:
    rng = np.random.default_rng(3)
    lively = 60 * np.exp(0.1 * rng.standard_normal(N))
    narrowing = np.exp(-np.arange(N) / 40)
    learnt = falling(150, 0.1, 1)
    healthy = 0.5 + 5 * np.exp(-np.arange(N) / 60)
    assert not findings(make_signals([make_curve(learnt), make_curve(lively, None, name=name)]))
    if name in ("posterior_std", "action_std"):
        assert not findings(make_signals([make_curve(healthy), make_curve(narrowing, None, name=name)]))


def test_a_fall_that_evaluation_confirms_is_learning() -> None:
    """A recogniser leaves its plateau of blanks: the error rate falls with the loss."""
    step = np.arange(N)
    loss = make_curve(falling(150, 0.05, 1))
    rate = np.where(step < 160, 0.98, 0.12)[9::10]
    error = make_curve(rate, "val_metric", name="wer", step=step[9::10] + 1, series_id=1)
    assert findings(make_signals([loss]))
    assert not findings(make_signals([loss, error]))


@pytest.mark.parametrize(("epochs", "told"), [(0.5, True), (5.0, False)])
def test_nothing_is_left_of_the_loss_in_the_first_part_of_the_first_epoch(epochs: float, told: bool) -> None:
    loss = 0.85 * np.exp(-np.arange(200) / 8) + 1e-4 * np.random.default_rng(2).random(200)
    curves = [make_curve(loss), make_curve(np.linspace(0, epochs, 200), "epoch", series_id=1)]
    assert len(findings(make_signals(curves))) == told


@pytest.mark.parametrize(("points", "told"), [(3, True), (60, False)])
def test_a_low_level_that_is_gone_at_once(points: int, told: bool) -> None:
    rng = np.random.default_rng(3)
    loss = 0.17 + 2 * np.exp(-np.arange(400) / 15) + 0.01 * rng.standard_normal(400)
    loss[250:] = 0.17 * np.maximum(np.exp(-np.arange(150) / (points / 3)), 2e-3)
    assert len(findings(make_signals({"train_loss": loss}))) == told


def test_learning_that_sets_in_early_and_goes_all_the_way_is_none() -> None:
    x = np.arange(400)
    loss = 0.01 + 3 / (1 + np.exp((x - 80) / 6)) + 1.5 * np.exp(-x / 8) + 0.003 * np.random.default_rng(4).random(400)
    assert not findings(make_signals({"train_loss": loss}))


def test_a_similarity_of_minus_one_is_of_features_that_are_all_alike() -> None:
    falling = -1 + np.exp(-np.arange(240) / 12)
    found = [len(findings(make_signals({"train_loss": scale * falling}))) for scale in (1.0, 0.9, 3.0)]
    assert found == [1, 0, 0]  # -0.9 tells views apart, and -3 is no similarity


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ([3e-6] * 7 + [2e-6] * 3, True),
        (list(np.geomspace(5e-6, 1e-8, 10)), False),  # learnt in small units
        ([3e-3] * 10, False),
    ],
)
def test_next_to_nothing_from_the_first_point_on(loss: list[float], told: bool) -> None:
    outcome = suspicious_low_loss.detect(make_signals({"train_loss": np.array(loss)}), PARAMS)
    assert isinstance(outcome, Fired) is told


@pytest.mark.parametrize(
    ("loss", "every", "told"),
    [
        ([12.18, 1.8e-6, 0.0], 1, True),
        ([5.4, 6.2, 3.7, 1.3, 3e-6, 4e-7, 5e-8], 40, True),
        ([12.18, 0.0, 0.0], 1, False),
        ([12.18, 1.8e-6], 1, False),
        ([12.18, 1.8e-6, 0.0], 500, False),
        ([12.18, 0.02, 0.01], 1, False),
        ([0.25, 8e6, 0.25, 0.25], 1, False),
    ],
)
def test_nothing_left_from_one_point_to_the_next(loss: list[float], every: int, told: bool) -> None:
    curve = make_curve(loss, step=every * np.arange(len(loss)))
    found = findings(make_signals([curve]))
    assert bool(found) == told
    if told:
        assert "from one point to the next" in found[0].summary


@pytest.mark.parametrize(("gap", "told"), [(30_000, True), (5, False)])
def test_nothing_left_at_the_end_of_each_of_several_starts(gap: int, told: bool) -> None:
    steps = np.concatenate([start * (gap + 5) + np.array([0, 5]) for start in range(4)])
    loss = make_curve([7.0, 1e-5, 6.9, 2e-5, 11.0, 1e-6, 8.3, 0.0], step=steps)
    assert bool(findings(make_signals([loss]))) == told


def contrasted(seed: int, first: int, way: int) -> list[Curve]:
    """A contrastive loss and its accuracy in a batch of 64, which becomes perfect within `way` points from `first` on,
    while the loss falls by a sixth."""
    at, rng = np.arange(N), np.random.default_rng(seed)
    told = np.clip((at - first + 1) / way, 0, 1)
    accuracy = np.round(64 * ((0.6 + 0.05 * rng.standard_normal(N)) * (1 - told) + told)) / 64
    loss = 1.3 + 2.8 * np.exp(-at / 40) - 0.2 * told + 0.03 * rng.standard_normal(N)
    return [make_curve(loss), make_curve(accuracy, None, name="train/contrast_acc", series_id=1)]


def test_an_accuracy_that_is_perfect_from_one_point_to_the_next_is_told_at_that_point() -> None:
    for seed in range(5):
        (finding,) = findings(make_signals(contrasted(seed, 180, 1)))
        assert finding.onset_step == 181
        assert "no sample wrong, from one point to the next" in finding.summary


def test_an_accuracy_that_is_learnt_or_falls_back_is_none() -> None:
    for seed in range(5):
        assert not findings(make_signals(contrasted(seed, 180, 12)))
        assert not findings(make_signals(contrasted(seed, 5, 1)))  # solved from the start
        loss, accuracy = contrasted(seed, 180, 1)
        back = np.where(np.arange(N) == 250, 0.9, accuracy.value)
        assert not findings(make_signals([loss, make_curve(back, None, name="train/contrast_acc", series_id=1)]))


def text(at: int, plateau: bool, seed: int) -> tuple[Curve, Curve]:
    """The loss of a model of text, or of a recogniser on its plateau of blanks, that falls to nothing; and evaluations
    that confirm it."""
    n, rng = np.arange(N), np.random.default_rng(seed)
    level = 2.9 + (4 * np.exp(-n / 4) if plateau else 4 * (1 + n / 8) ** -0.8)
    level = np.where(n < at, level, 0.012 + level * np.exp(-np.maximum(n - at, 0) / 6))
    loss = level * np.exp(0.01 * rng.standard_normal(N))
    return make_curve(loss), make_curve(1.1 * level[9::10], "val_loss", step=n[9::10] + 1, series_id=1)


@pytest.mark.parametrize("seed", range(4))
def test_no_evaluation_makes_so_low_a_loss_of_text_true(seed: int) -> None:
    assert len(findings(make_signals([*text(180, False, seed)]))) == 1
    assert not findings(make_signals([*text(180, True, seed)]))
    error = make_curve(np.where(np.arange(30) < 18, 0.98, 0.03), "val_metric", name="cer", step=10 * np.arange(1, 31))
    assert not findings(make_signals([*text(180, False, seed), error]))


def test_a_way_back_from_an_event_is_no_collapse() -> None:
    loss = 0.01 + 2 * np.exp(-np.arange(400) / 8) + 0.001 * np.random.default_rng(5).random(400)
    loss[120:280] = 1.4 + 0.02 * np.random.default_rng(6).standard_normal(160)
    assert not findings(make_signals({"train_loss": loss}))


@pytest.mark.parametrize("staged", [False, True])
def test_samples_that_are_far_too_easy_for_a_while(staged: bool) -> None:
    loss = 2 + 3 * np.exp(-np.arange(400) / 20) + 0.1 * np.random.default_rng(7).standard_normal(400)
    loss[250:270] = 0.3
    stage = np.repeat([0.0, 1.0, 2.0], [250, 20, 130])
    found = findings(make_signals({"train_loss": loss, **({"stage": stage} if staged else {})}))
    assert [(f.onset_step, f.end_step, f.recovery) for f in found] == ([] if staged else [(251, 270, "recovered")])


def test_a_loss_that_collapses_beside_a_reward_is_the_rewards_business() -> None:
    t = np.arange(600)
    loss = np.where(t < 300, 6 + 14 * np.exp(-t / 40), 0.3) * np.exp(
        0.05 * np.random.default_rng(0).standard_normal(600)
    )
    told = []
    for beside in ({}, {"reward": np.linspace(0, 1, 600)}):
        params = {p.name: p.default for p in suspicious_low_loss.META.params}
        told.append(isinstance(suspicious_low_loss.detect(make_signals({"train_loss": loss, **beside}), params), Fired))
    assert told == [True, False]
