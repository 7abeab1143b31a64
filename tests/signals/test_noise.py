import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.noise import (
    local_sigma,
    median,
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
