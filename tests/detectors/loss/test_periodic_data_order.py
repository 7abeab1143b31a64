from __future__ import annotations

import numpy as np
import pytest
from curves import burst, healthy
from factories import make_curve, make_signals

from trainforensics.detectors.loss import periodic_data_order
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in periodic_data_order.META.params}
N = 1200


def judge(loss: np.ndarray, **more: np.ndarray) -> Outcome:
    return periodic_data_order.detect(make_signals({"train_loss": loss, **more}), PARAMS)


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


def with_bursts(at: list[int], noise: str = "normal", seed: int = 0) -> np.ndarray:
    loss = healthy(N, seed, noise)
    for place in at:
        loss = burst(loss, place, 4.0 if noise == "heavy" else 2.0)
    return loss


@pytest.mark.parametrize("noise", ["normal", "heavy", "skewed"])
def test_bursts_like_clockwork(noise: str) -> None:
    found = one(judge(with_bursts(list(range(150, N, 150)), noise, seed=3)))
    assert abs((found.evidence[0].value or 0) - 150) < 3
    assert len(found.occurrences) >= 6
    assert abs((found.onset_step or 0) - 151) <= 2


def test_one_may_be_missing() -> None:
    assert len(one(judge(with_bursts([150, 300, 600, 750, 900, 1050]))).occurrences) == 6


def test_at_a_coarse_cadence() -> None:
    curve = make_curve(with_bursts(list(range(200, N, 200))), step=10 * np.arange(N))
    found = one(periodic_data_order.detect(make_signals([curve]), PARAMS))
    assert abs((found.evidence[0].value or 0) - 2000) < 30


@pytest.mark.parametrize("at", [[300], [300, 600], [300, 600, 900], [190, 420, 530, 800, 1010, 1100]])
def test_few_or_irregular_bursts_are_quiet(at: list[int]) -> None:
    assert isinstance(judge(with_bursts(at)), Clear)


def test_random_bursts_are_quiet() -> None:
    for seed in range(20):
        at = np.random.default_rng(seed).integers(100, N, 6)
        assert isinstance(judge(with_bursts(sorted(at.tolist()), seed=seed)), Clear), seed


def test_stairs_are_quiet() -> None:
    epoch = np.arange(N) // 150
    assert isinstance(judge(healthy(N) - 0.3 * epoch), Clear)
    assert isinstance(judge(healthy(N) - 0.3 * epoch + 0.2 * (np.arange(N) % 150) / 150), Clear)


def test_warm_restarts_are_quiet() -> None:
    phase = (np.arange(N) % 150) / 150
    rate = 1e-3 * (0.5 + 0.5 * np.cos(np.pi * phase))
    loss = healthy(N) + 2 * np.exp(-phase * 60) * (np.arange(N) >= 150)
    assert isinstance(judge(loss, learning_rate=rate), Clear)


SHAPES = {
    "sources": lambda phase: 0.4 * ((phase > 0.3) & (phase < 0.55)),
    "sorted": lambda phase: 0.4 * phase,
    "swing": lambda phase: 0.3 * np.sin(2 * np.pi * phase),
}
RATE = 1e-3 * np.linspace(1, 0.1, N)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("period", [30, 120])
def test_levels_that_repeat(shape: str, period: int) -> None:
    loss = healthy(N) + SHAPES[shape]((np.arange(N) % period) / period)
    found = one(judge(loss, learning_rate=RATE))
    assert abs((found.evidence[0].value or 0) - period) <= 0.04 * period
    assert found.severity is None


def test_levels_are_a_remark_where_the_rate_is_not_known() -> None:
    loss = healthy(N) + SHAPES["sources"]((np.arange(N) % 120) / 120)
    assert one(judge(loss)).severity == "low"
    twice = healthy(N) + 0.4 * (((np.arange(N) % 120) / 120 > 0.6) - ((np.arange(N) % 120) < 20) / 2)
    twice += 0.4 * (np.abs((np.arange(N) % 120) - 35) < 8)
    assert one(judge(twice)).severity is None  # a schedule has one hump


def test_an_epoch_tells_the_period_of_a_few_cycles() -> None:
    n, points = 160, 40
    phase = (np.arange(n) % points) / points
    loss = 0.4 + np.exp(-np.arange(n) / 60) + 0.05 * np.random.default_rng(3).standard_normal(n)
    loss += 0.4 * ((phase > 0.2) & (phase < 0.4)) + 0.3 * (phase > 0.7)
    assert isinstance(judge(loss, learning_rate=RATE[:n]), Clear)
    found = one(judge(loss, learning_rate=RATE[:n], epoch=np.arange(n) // points))
    assert found.onset_step == points + 1
    assert "as long as an epoch" in found.summary


def test_stairs_that_shrink_and_bursts_anywhere_are_quiet() -> None:
    n, points = 600, 100
    epoch, rng = np.arange(n) // points, np.random.default_rng(4)
    stairs = 0.16 * 0.25**epoch * np.exp(0.1 * rng.standard_normal(n))
    bursts = 1e-3 + np.exp(-np.arange(n) / 20) + 2e-4 * rng.standard_normal(n)
    for at in (40, 115, 270, 365, 410, 505):
        bursts[at : at + 6] += 1
    for loss in (stairs, bursts):
        assert isinstance(judge(loss, learning_rate=np.full(n, 1e-3), epoch=epoch), Clear)


def test_levels_that_follow_the_rate_are_quiet() -> None:
    phase = (np.arange(N) % 120) / 120
    rate = 1e-3 * (1 + 0.8 * np.sin(2 * np.pi * phase))
    assert isinstance(judge(healthy(N) + 300 * rate, learning_rate=rate), Clear)


@pytest.mark.parametrize("noise", ["normal", "heavy", "skewed", "running-mean", "wandering"])
def test_ordinary_noise_is_quiet(noise: str) -> None:
    for seed in range(10):
        assert isinstance(judge(healthy(N, seed, noise), learning_rate=RATE), Clear), seed


def test_one_side_of_a_game_is_not_judged() -> None:
    loss = healthy(N) + SHAPES["swing"]((np.arange(N) % 120) / 120)
    signals = make_signals([make_curve(loss, name="g_loss"), make_curve(RATE, "learning_rate")])
    assert isinstance(periodic_data_order.detect(signals, PARAMS), NotApplicable)


def test_too_short() -> None:
    assert isinstance(judge(healthy(50)), NotApplicable)


@pytest.mark.parametrize(("n", "points"), [(600, 12), (1500, 24)])
def test_a_cycle_that_begins_within_the_log(n: int, points: int) -> None:
    rng, at = np.random.default_rng(1), n // 2
    value = 1 + 2 * np.exp(-np.arange(n) / (0.2 * n)) + 0.3 * rng.standard_normal(n)
    order = np.repeat(rng.standard_normal(points // 4), 4) * 0.5
    value[at:] = 1 + 0.1 * rng.standard_normal(n - at) + np.tile(order, n // points)[: n - at]
    rate = make_curve(np.full(n, 1e-3), "learning_rate")
    outcome = periodic_data_order.detect(make_signals([make_curve(value, "train_loss"), rate]), PARAMS)
    assert isinstance(outcome, Fired)
    assert abs((outcome.findings[0].onset_step or 0) - at) <= 2 * points


def test_blocks_of_data_one_after_another() -> None:
    rng = np.random.default_rng(2)
    levels = healthy(N, 0) + np.repeat(rng.normal(0, 1.0, N // 10), 10)
    assert isinstance(judge(levels), Clear)  # tasks or lengths in turn, of which nothing is forgotten
    loss = levels - 0.05 * (np.arange(N) % 10)
    found = one(judge(loss))
    assert "every 10 steps" in found.summary
    rate = 1e-3 * (1 - np.arange(N) % 10 / 20)  # a schedule of the same period says why
    assert isinstance(judge(loss, learning_rate=rate), Clear)
