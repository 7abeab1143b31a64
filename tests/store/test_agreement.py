from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.store.agreement import share_alike

DECAY = 3.0 * np.exp(-np.arange(200) / 40)


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_a_number_printed_with_fewer_digits_is_the_same(decimals: int) -> None:
    printed = np.round(DECAY, decimals)
    assert share_alike(DECAY, printed) == share_alike(printed, DECAY) == 1.0


@pytest.mark.parametrize("form", ["{:.1e}", "{:.2e}", "{:.3g}"])
def test_so_is_one_of_few_significant_digits(form: str) -> None:
    rates = 3e-4 * np.exp(-np.arange(200) / 20)
    assert share_alike(rates, np.array([float(form.format(rate)) for rate in rates])) == 1.0


def test_other_numbers_are_not_the_same() -> None:
    assert share_alike(DECAY, DECAY * 1.1) == 0.0
    assert share_alike(DECAY, np.round(DECAY * 1.1, 3)) < 0.2
    noise = np.random.default_rng(0).normal(3.0, 0.1, (2, 500))
    assert share_alike(noise[0], np.round(noise[1], 2)) < 0.1


def test_values_without_a_number() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 0.0])
    assert share_alike(odd, odd) == 1.0
    assert share_alike(odd, np.array([1.0, 1.0, 1.0, 0.0])) == 0.25


@given(st.lists(st.floats(), min_size=1, max_size=20), st.lists(st.floats(), min_size=20, max_size=20))
def test_the_order_does_not_matter_and_equals_agree(a: list[float], b: list[float]) -> None:
    left, right = np.array(a), np.array(b[: len(a)])
    assert share_alike(left, left) == 1.0
    assert 0.0 <= share_alike(left, right) <= 1.0
