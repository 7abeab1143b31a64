import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.tails import chance_height, rare_height


@pytest.mark.parametrize(("name", "limit"), [("normal", 0.01), ("heavy", 0.03), ("skewed", 0.03), ("lognormal", 0.05)])
def test_a_healthy_tail_seldom_stands_out_of_itself(name: str, limit: float) -> None:
    rng = np.random.default_rng(3)
    draw = {
        "normal": lambda: rng.normal(size=1000),
        "heavy": lambda: rng.standard_t(3, size=1000),
        "skewed": lambda: rng.exponential(size=1000) - 1,
        "lognormal": lambda: np.exp(0.7 * rng.normal(size=1000)) - 1,
    }[name]
    fired = 0
    for _ in range(200):
        z = draw()
        fired += bool(np.isfinite(chance_height(z / robust_sigma(z), 5.0, 3.0, 0.01)))
    assert fired / 200 <= limit


@pytest.mark.parametrize("count", [1, 3, 13, 40])
def test_bursts_do_not_hide_one_another(count: int) -> None:
    z = np.random.default_rng(4).normal(size=1500)
    bursts = 12 + np.random.default_rng(5).random(count)
    z[np.arange(count) * 30 + 100] = bursts
    assert chance_height(z, 6.0, 4.0, 0.01) == bursts.min()


@given(st.lists(st.floats(0, 1e12), max_size=60))
def test_chance_height_is_one_of_the_heights_or_infinite(values: list[float]) -> None:
    z = np.array(values, dtype=np.float64)
    height = chance_height(z, 6.0, 4.0, 0.01)
    assert np.isinf(height) or (height >= 4.0 and height in z)


def test_a_giant_does_not_hide_a_lower_burst() -> None:
    z = np.random.default_rng(6).normal(size=1500)
    z[[100, 300]] = 1e3, 20.0
    assert chance_height(z, 6.0, 4.0, 0.01) == 20.0


def test_a_giant_beyond_squares_stands_out() -> None:
    z = np.random.default_rng(6).normal(size=1500)
    z[100] = 1e300
    assert chance_height(z, 6.0, 4.0, 0.01) == 1e300


@pytest.mark.parametrize("degrees", [3, 30])
def test_the_same_height_stands_out_of_light_tails_alone(degrees: int) -> None:
    z = np.clip(np.random.default_rng(7).standard_t(degrees, size=2000), -7, 7)
    z[900] = 8.0
    assert bool(np.isfinite(chance_height(z, 5.0, 3.0, 0.01))) is (degrees == 30)


def test_a_giant_among_few_points_stands_out() -> None:
    z = np.random.default_rng(8).normal(size=30)
    z[12] = 15.0
    assert chance_height(z, 6.0, 4.0, 0.01) == 15.0


def test_few_peaks_far_out_of_fine_noise_are_told_down_to_half_of_the_highest() -> None:
    peaks = np.array([17.0, 14.0, 9.0, 8.0, 6.0, 5.0])
    assert rare_height(peaks, 4.0, 2_000) == 9.0
    assert rare_height(peaks, 8.6, 2_000) == np.inf  # dips as deep: both tails are heavy
    assert rare_height(peaks / 2.5, 1.0, 2_000) == np.inf  # none far out


def test_many_peaks_far_out_are_the_nature_of_the_data() -> None:
    peaks = np.full(4, 12.0)
    assert rare_height(peaks, 1.0, 2_000) == 12.0
    assert rare_height(peaks, 1.0, 1_999) == np.inf
    assert rare_height(peaks[:3], 1.0, 100) == 12.0
