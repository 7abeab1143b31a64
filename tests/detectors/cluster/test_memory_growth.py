from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import memory_growth
from trainforensics.model import Clear, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in memory_growth.META.params}
N = 600


def judge(value: np.ndarray, role: str = "gpu_memory", **config: float) -> Outcome:
    return memory_growth.detect(make_signals({role: value}, config=config), PARAMS)


def wobble(seed: int = 0, width: float = 0.1) -> np.ndarray:
    return width * np.random.default_rng(seed).standard_normal(N)


def leak(start: int, gained: float) -> np.ndarray:
    return 40 + gained * np.maximum(0, np.arange(N) - start) / (N - start) + wobble()


@pytest.mark.parametrize("start", [0, 120, 200, 400])
@pytest.mark.parametrize("gained", [6, 40])
def test_a_leak(start: int, gained: float) -> None:
    outcome = judge(leak(start, gained))
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert abs((found.onset_step or 0) - start - 1) <= 25


def test_a_leak_under_saw_teeth() -> None:
    assert isinstance(judge(leak(200, 30) + 8 * (np.arange(N) % 20) / 20), Fired)


def test_the_step_of_the_end_is_told() -> None:
    outcome = judge(40 + np.arange(N) * 0.05, total_gpu_memory_limit=80)
    assert isinstance(outcome, Fired)
    full = outcome.findings[0].evidence[1].step
    assert full is not None
    assert abs(full - 801) <= 10


def test_one_process_life_of_two() -> None:
    grown = np.concatenate([40 + np.linspace(0, 30, 300), np.full(300, 40.0)]) + wobble()
    curve = make_curve(grown, "gpu_memory", segment=np.repeat([0, 1], 300))
    outcome = memory_growth.detect(make_signals([curve]), PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].segment == 0


QUIET = {
    "flat": lambda rng: np.full(N, 41.27),
    "noise": lambda rng: 40 + 2 * rng.standard_normal(N),
    "warm-up": lambda rng: 60 - 20 * np.exp(-np.arange(N) / 40) + 0.1 * rng.standard_normal(N),
    "ever slower": lambda rng: 30 + 2 * np.log1p(np.arange(N)) + 0.05 * rng.standard_normal(N),
    "saw-teeth": lambda rng: 40 + 20 * (np.arange(N) % 97) / 97 + 0.2 * rng.standard_normal(N),
    "maximum so far": lambda rng: np.maximum.accumulate(40 + 2 * rng.standard_normal(N)),
    "a few new levels": lambda rng: 40 + 5 * np.searchsorted(np.sort(rng.integers(0, N, 4)), np.arange(N)),
    "falling": lambda rng: 60 - np.arange(N) * 0.02 + 0.1 * rng.standard_normal(N),
}


@pytest.mark.parametrize("nature", QUIET)
def test_bounded_memory_is_quiet(nature: str) -> None:
    for seed in range(10):
        assert isinstance(judge(QUIET[nature](np.random.default_rng(seed))), Clear), seed


def test_growth_that_follows_the_batch_is_quiet() -> None:
    size = 64 + np.arange(N) // 10
    signals = make_signals({"gpu_memory": 0.5 * size + wobble(), "batch_size": size})
    assert isinstance(memory_growth.detect(signals, PARAMS), Clear)


def test_too_short() -> None:
    assert isinstance(judge(np.arange(5.0)), NotApplicable)


def test_a_leak_in_whole_units() -> None:
    outcome = judge(np.floor(30.5 + np.clip(np.arange(N) - 100, 0, None) * 9 / (N - 100)))
    assert isinstance(outcome, Fired)
    assert 60 <= (outcome.findings[0].onset_step or 0) <= 180
    assert isinstance(judge(np.floor(30.5 + 9 * (1 - np.exp(-np.arange(N) / 80)))), Clear)


@pytest.mark.parametrize("decimals", [6, 0])
@pytest.mark.parametrize("seed", range(4))
def test_memory_that_fills_ever_slower_is_quiet(seed: int, decimals: int) -> None:
    filling = 40 + 20 * np.sqrt(np.arange(N) / N) + wobble(seed, 0.3 if decimals else 0.01)
    assert isinstance(judge(np.round(filling, decimals)), Clear)
    leaking = 40 + 20 * np.arange(N) / N + wobble(seed, 0.3 if decimals else 0.01)
    assert isinstance(judge(np.round(leaking, decimals)), Fired)


@pytest.mark.parametrize("n", [7, 10, 25])
def test_one_row_an_epoch(n: int) -> None:
    random = np.random.default_rng(n)
    grown = 700 + np.cumsum(6200 + 150 * random.standard_normal(n))
    outcome = memory_growth.detect(make_signals({"host_memory": grown}), PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 1


FEW = {
    "level": lambda r, n: 5000 + 20 * r.standard_normal(n),
    "peaks so far": lambda r, n: np.maximum.accumulate(5000 * np.exp(0.3 * r.standard_normal(n))),
    "fills": lambda r, n: 9000 - 8000 * np.exp(-np.arange(n) / (n / 6)) + 20 * r.standard_normal(n),
    "first epoch": lambda r, n: np.where(np.arange(n) == 0, 1100.0, 10387.0),
    "one jump": lambda r, n: np.where(np.arange(n) < n // 2, 3000.0, 9000.0) + np.arange(n),
    "a tenth": lambda r, n: np.linspace(5000, 5500, n) + r.standard_normal(n),
}


@pytest.mark.parametrize("nature", FEW)
def test_few_points_of_ordinary_memory(nature: str) -> None:
    for n in (6, 10, 25):
        for seed in range(20):
            value = FEW[nature](np.random.default_rng(seed), n)
            assert not isinstance(memory_growth.detect(make_signals({"host_memory": value}), PARAMS), Fired), (n, seed)


def test_a_leak_behind_the_allocators_crumbs() -> None:
    rss = 320 + 0.004 * (np.arange(150) // 8) + np.clip(np.arange(150) - 50, 0, None) * 4.2
    outcome = judge(rss, "host_memory")
    assert isinstance(outcome, Fired)
    assert abs((outcome.findings[0].onset_step or 0) - 51) <= 4
