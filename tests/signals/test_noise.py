import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.noise import (
    local_sigma,
    median,
    medians,
    medians_of,
    resolution,
    robust_sigma,
)


def test_robust_sigma_is_the_standard_deviation_of_normal_noise() -> None:
    values = np.random.default_rng(0).normal(3, 2, 20_000)
    assert robust_sigma(values) == pytest.approx(2, rel=0.03)


def test_robust_sigma_survives_a_third_of_outliers() -> None:
    values = np.random.default_rng(0).normal(0, 1, 900)
    values[::3] = 1e6
    assert robust_sigma(values) < 3


def test_resolution_finds_the_grid_of_a_rounded_log() -> None:
    values = np.round(np.random.default_rng(0).normal(2, 0.1, 500), 2)
    assert resolution(values) == pytest.approx(0.01)


def test_local_sigma_follows_noise_that_grows() -> None:
    rng = np.random.default_rng(1)
    sigma = local_sigma(rng.normal(size=2000) * np.repeat([1.0, 5.0], 1000), 1e-9)
    assert sigma[300] == pytest.approx(1, rel=0.35)
    assert sigma[1700] == pytest.approx(5, rel=0.35)


def test_local_sigma_of_a_quiet_stretch_keeps_a_quarter_of_the_usual() -> None:
    residual = np.random.default_rng(2).normal(size=2000)
    residual[900:1100] = 0
    assert local_sigma(residual, 0.0).min() >= 0.2


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40))
def test_the_median_is_numpys(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(median(array), np.median(array))


@given(st.data(), st.integers(1, 20), st.integers(0, 5), st.sampled_from([1, 500]))
def test_medians_of_rows_are_those_of_numpy(data: st.DataObject, width: int, rows: int, times: int) -> None:
    number = st.sampled_from([-2.5, 0.0, 1.0, 1e300, np.inf, -np.inf, np.nan])
    values = np.array(data.draw(st.lists(number, min_size=rows * width, max_size=rows * width))).reshape(-1, width)
    values = np.tile(values, (times, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(medians(values), np.median(values, axis=1))


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0])
@pytest.mark.parametrize("n", [2_000, 2_001, 5_000, 5_001])
def test_the_median_of_many_values_is_that_of_numpy(n: int, odd: float) -> None:
    values = np.random.default_rng(n).normal(size=n)
    values[n // 3] = odd
    np.testing.assert_array_equal(median(values), np.median(values))


def test_medians_of_stretches_are_unknown_where_nothing_lies_between() -> None:
    values = np.array([5.0, 1.0, 3.0, 9.0])
    found = medians_of(values, np.array([0, 1, 1, 0]), np.array([3, 1, 2, 4]))
    np.testing.assert_array_equal(found, [3.0, np.nan, 1.0, 4.0])
