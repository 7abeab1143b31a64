from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.regimes import high_stretches, lasting_step_up, steady_climb

Random = np.random.Generator
SEEDS = range(20)


def wander(random: Random, n: int, memory: float, width: float) -> np.ndarray:
    """A series that forgets where it was with time, and comes back to zero."""
    pushes, found = random.standard_normal(n), np.zeros(n)
    for i in range(1, n):
        found[i] = memory * found[i - 1] + np.sqrt(1 - memory**2) * pushes[i]
    return width * found


NOISE: dict[str, Callable[[Random, int], np.ndarray]] = {
    "even": lambda r, n: 0.05 * r.standard_normal(n),
    "wandering": lambda r, n: wander(r, n, 0.9, 0.1),
    "pauses": lambda r, n: 0.05 * r.standard_normal(n) + np.where(r.random(n) < 0.03, 1.5, 0),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [14, 40, 100, 1000])
def test_a_step_is_found_where_it_is(noise: str, n: int) -> None:
    found = []
    for seed in SEEDS:
        value, at = NOISE[noise](np.random.default_rng(seed), n), n // 2 + seed % 3
        value[at:] += 0.9
        step = lasting_step_up(value)
        found.append(step is not None and abs(step - at) <= 1)
    assert np.mean(found) >= 0.8


@given(st.integers(0, 1000), st.floats(-5, 5), st.floats(0.01, 100))
def test_a_step_moves_with_the_series(seed: int, shift: float, unit: float) -> None:
    value = NOISE["even"](np.random.default_rng(seed), 60)
    value[35:] += 0.6
    assert lasting_step_up(shift + unit * value) == lasting_step_up(value) == 35


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [14, 40, 100, 1000])
def test_without_a_step(noise: str, n: int) -> None:
    values = [NOISE[noise](np.random.default_rng(seed), n) for seed in SEEDS]
    steps = [(v, at) for v in values if (at := lasting_step_up(v)) is not None]
    assert all(np.median(v[at:]) - np.median(v[:at]) < np.log(1.4) for v, at in steps)
    assert len(steps) <= 2
    falls = [v - np.where(np.arange(n) < n // 2, 0, 1) for v in values]
    assert not any(lasting_step_up(v) is not None for v in falls)


@pytest.mark.parametrize("n", [14, 40, 100, 1000])
def test_a_drift_is_no_step(n: int) -> None:
    drifts = [NOISE["even"](np.random.default_rng(seed), n) + np.linspace(0, 1, n) for seed in SEEDS]
    assert sum(lasting_step_up(v) is not None for v in drifts) <= 2


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [40, 200, 3000])
def test_stretches_far_above_all_else(noise: str, n: int) -> None:
    found = []
    for seed in SEEDS:
        value = NOISE[noise](np.random.default_rng(seed), n)
        spans = [(n // 4, n // 4 + max(4, n // 20)), (3 * n // 5, 3 * n // 5 + max(4, n // 25))]
        for first, stop in spans:
            value[first:stop] += 1.2
        seen = high_stretches(value, 0.25)
        close = [abs(a - first) <= 2 and abs(b - stop) <= 2 for (a, b), (first, stop) in zip(seen, spans, strict=False)]
        found.append(len(seen) == 2 and all(close))
    assert np.mean(found) >= 0.8


@pytest.mark.parametrize("n", [40, 200, 3000])
def test_what_comes_and_goes_is_no_stretch(n: int) -> None:
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        value = NOISE["even"](random, n)
        often, to_end, single = value.copy(), value.copy(), value.copy()
        often[np.arange(n) % 10 < 4] += 1
        to_end[n // 2 :] += 1
        single[:: n // 8] += 2
        faster = value - np.where(np.arange(n) < 2 * n // 5, 0, 1)
        for series in (value, often, to_end, single, faster):
            assert high_stretches(series, 0.25) == [], seed


@pytest.mark.parametrize(("n", "width"), [(12, 0.02), (30, 0.05), (200, 0.1), (2000, 0.3)])
def test_a_floor_that_climbs(n: int, width: float) -> None:
    found = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        bursts = np.where(random.random(n) < 0.05, 1.8, 1)
        value = np.linspace(1, 2, n) * np.exp(width * random.standard_normal(n)) * (bursts if n > 100 else 1)
        found.append(steady_climb(value) is not None)
    assert np.mean(found) >= 0.9


@pytest.mark.parametrize("n", [12, 30, 200, 2000])
def test_what_fills_or_wanders_is_no_climb(n: int) -> None:
    found = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        noise = np.exp(0.03 * random.standard_normal(n))
        found.append(steady_climb((2 - np.exp(-np.arange(n) / (n / 12))) * noise))
        found.append(steady_climb(noise))
        found.append(steady_climb(np.where(np.arange(n) < n // 2, 1, 2) * noise))
    assert sum(at is not None for at in found) <= 1


def test_a_late_climb_begins_where_it_bends() -> None:
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal(800))
    at = steady_climb((1 + 2 * np.clip((np.arange(800) - 150) / 650, 0, 1)) * noise)
    assert at is not None
    assert 100 <= at <= 200


def test_a_climb_without_a_bend_begins_within_its_noise() -> None:
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(140))
    at = steady_climb((1 + 0.6 * np.clip((np.arange(140) - 18) / 120, 0, 1)) * noise)
    assert at is not None
    assert at <= 36


@pytest.mark.parametrize(("strays", "told"), [(1, True), (2, False)])
def test_one_of_few_points_may_stray(strays: int, told: bool) -> None:
    value = 0.05 * np.random.default_rng(3).standard_normal(26)
    value[18:] += 0.6
    value[[23, 20][:strays]] -= 0.6
    assert (lasting_step_up(value) == 18) == told
