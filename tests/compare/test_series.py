from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trainforensics.compare.series import compare_curves
from trainforensics.model import SeriesDifference

N = 1000
STEP = np.arange(1, N + 1)
Floats = NDArray[np.float64]


def loss(seed: int, noise: float = 0.05) -> Floats:
    """A falling loss with noise of its own."""
    return 2 + 3 * np.exp(-STEP / 150) + np.random.default_rng(seed).normal(0, noise, N)


def compared(a: Floats, b: Floats, role: str = "train_loss", step: Floats | None = None) -> SeriesDifference:
    found = compare_curves(make_curve(a, role, step=step), make_curve(b, role, step=step))
    assert found is not None
    return found


def test_equal_series_are_identical() -> None:
    found = compared(loss(1), loss(1))
    assert (found.relation, found.equal_until, found.unequal_from, found.partings) == ("identical", N, None, ())


@pytest.mark.parametrize("seed", range(20))
def test_two_seeds_of_one_training_stay_together(seed: int) -> None:
    assert compared(loss(seed), loss(seed + 1000)).relation == "together"


def test_a_descent_a_few_steps_ahead_is_together() -> None:
    ahead = 2 + 3 * np.exp(-STEP * 1.05 / 150) + np.random.default_rng(3).normal(0, 0.05, N)
    assert compared(loss(1), ahead).relation == "together"


def test_twins_part_at_the_first_unequal_value() -> None:
    other = loss(1)
    other[499:] = loss(7)[499:] + 0.3
    found = compared(loss(1), other)
    assert (found.relation, found.equal_until, found.unequal_from) == ("parted", 499, 500)
    assert found.parted is not None
    assert (found.parted.step, found.parted.interval, found.parted.until) == (500, (499, 500), None)
    assert (found.parted.a, found.parted.b) == (loss(1)[499], other[499])


def test_twins_that_differ_in_the_last_digits_say_when_it_grows_to_a_noise_width() -> None:
    growth = 1e-7 * np.exp(np.clip(STEP - 100, 0, 560) / 40) * (STEP > 100)
    found = compared(loss(1), loss(1) + growth * np.random.default_rng(4).normal(0, 1, N))
    assert found.equal_until is not None
    assert found.equal_until < 300
    assert found.parted is not None
    assert found.parted.beyond is not None
    assert 400 < found.parted.beyond < 700


def test_twins_whose_difference_never_grows_are_together() -> None:
    found = compared(loss(1), loss(1) + 1e-4 * (STEP > 100))
    assert (found.relation, found.equal_until, found.partings) == ("together", 100, ())


@pytest.mark.parametrize("decimals", [2, 3])
def test_values_equal_by_rounding_make_no_twins(decimals: int) -> None:
    a, b = loss(1).round(decimals), loss(2).round(decimals)
    b[0] = a[0]
    assert compared(a, b).equal_until is None


def test_independent_runs_part_where_the_level_of_their_difference_leaves_its_noise() -> None:
    other = loss(2)
    other[599:] += 0.5
    found = compared(loss(1), other)
    assert found.relation == "parted"
    assert found.parted is not None
    assert abs(found.parted.step - 600) <= 3
    assert found.parted.until is None
    assert found.parted.size == pytest.approx(0.5 / 0.0707, rel=0.3)


def test_a_stretch_apart_ends_where_they_are_together_again() -> None:
    other = loss(2)
    other[399:460] += 1
    parting = compared(loss(1), other).parted
    assert parting is not None
    assert parting.until is not None
    assert abs(parting.step - 400) <= 3
    assert abs(parting.until - 461) <= 10


def test_a_spike_of_one_alone_is_named_and_parts_nothing_for_good() -> None:
    other = loss(2)
    other[399] += 2
    found = compared(loss(1), other)
    assert found.relation == "together"
    assert [parting.step for parting in found.partings] == [400]


@pytest.mark.parametrize("factor", [8.0, 0.25])
def test_a_whole_factor_is_scale_not_learning(factor: float) -> None:
    found = compared(factor * loss(1), loss(2))
    assert found.relation == "scaled"
    assert found.amount == pytest.approx(factor, rel=0.01)
    assert "scale, not learning" in found.text


def test_a_large_factor_is_near_a_whole_one_by_chance() -> None:
    noise = np.random.default_rng(3).normal(0, 1, (2, N))
    learnt, stuck = 2 + 3 * np.exp(-STEP / 30) + 0.05 * noise[0], 68 + noise[1]
    assert compared(learnt, stuck).relation == "parted"
    assert "near 34" in compared(34.2 * loss(1), loss(2)).text


@pytest.mark.parametrize("n", [300, N])
def test_curves_that_begin_equal_are_no_multiples(n: int) -> None:
    other = 20 * loss(2)
    other[0] = loss(1)[0]
    found = compared(loss(1)[:n], other[:n], step=STEP[:n])
    assert (found.relation, found.equal_until, found.unequal_from) == ("parted", 1, 2)


def test_zeros_at_the_start_make_no_twins() -> None:
    a, b = loss(1), loss(2)
    a[:5] = b[:5] = 0
    assert compared(a, b, "dropped_tokens").equal_until is None


def test_a_scaled_series_may_part_beside_its_factor() -> None:
    other = loss(2)
    other[799:] += 0.7
    found = compared(4 * loss(1), other)
    assert found.relation == "scaled"
    assert found.parted is not None
    assert abs(found.parted.step - 800) <= 3


def test_a_constant_offset() -> None:
    found = compared(loss(1), loss(2) + 0.8)
    assert found.relation == "offset"
    assert found.amount == pytest.approx(-0.8, abs=0.02)


@pytest.mark.parametrize("lag", [-5, 1, 20])
def test_a_shift_in_steps(lag: int) -> None:
    found = compare_curves(make_curve(loss(1), step=STEP + lag), make_curve(loss(1)))
    assert found is not None
    assert (found.relation, found.amount, found.partings) == ("shifted", lag, ())


def test_a_shift_of_shared_noise_is_found_under_noise_of_its_own() -> None:
    own = [np.random.default_rng(seed).normal(0, 0.01, N) for seed in (5, 6)]
    found = compare_curves(make_curve(loss(1) + own[0], step=STEP + 3), make_curve(loss(1) + own[1]))
    assert found is not None
    assert (found.relation, found.amount) == ("shifted", 3)


def test_nan_in_one_alone_parts_them() -> None:
    other = loss(2)
    other[700:] = np.nan
    parting = compared(loss(1), other).parted
    assert parting is not None
    assert (parting.step, parting.until, parting.size) == (701, None, None)


def test_nan_in_both_is_no_difference() -> None:
    broken = loss(1)
    broken[700:] = np.nan
    assert compared(broken, broken.copy()).relation == "identical"


def test_a_schedule_has_no_noise() -> None:
    rate = 3e-4 * np.minimum(1, STEP / 100)
    later = rate.copy()
    later[500:] *= 0.99
    found = compared(rate, later, "learning_rate")
    assert found.parted is not None
    assert (found.relation, found.parted.step, found.parted.size) == ("parted", 501, None)
    scaled = compared(rate, 3 * rate, "learning_rate")
    assert scaled.text == "B is 3 times A"


def test_few_points_are_not_judged_unless_they_must_be_equal() -> None:
    assert compared(loss(1)[:3], loss(2)[:3]).relation == "unjudged"
    assert compared(loss(1)[:3], loss(1)[:3]).relation == "identical"
    assert compared(loss(1)[:1], loss(2)[:1]).text == "not judged: 1 common point is too few"
    assert compared(loss(1)[:1], loss(1)[:1]).text == "equal on the one common step"


def test_without_a_common_step_there_is_nothing_to_say() -> None:
    assert compare_curves(make_curve(loss(1)), make_curve(loss(1), step=STEP + 5000)) is None


def test_only_common_steps_count() -> None:
    found = compare_curves(make_curve(loss(1)), make_curve(loss(1)[9::10], step=STEP[9::10]))
    assert found is not None
    assert (found.relation, found.common) == ("identical", 100)


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=60))
def test_any_numbers_are_compared_without_an_exception(values: list[tuple[float, float]]) -> None:
    a, b = np.array(values).T
    found = compared(a, b)
    assert found.text
    assert all(parting.step >= 1 for parting in found.partings)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(-(10**6), 10**6))
def test_shifting_both_runs_shifts_the_parting(seed: int, shift: int) -> None:
    other = loss(seed + 2000)
    other[499:] += 1
    plain = compared(loss(seed), other).parted
    moved = compared(loss(seed), other, step=STEP + shift).parted
    assert plain is not None
    assert moved is not None
    assert moved.step == plain.step + shift


@pytest.mark.parametrize("seed", range(5))
def test_curves_that_each_go_their_own_way_are_no_multiples(seed: int) -> None:
    stuck = 1.5 + np.random.default_rng(seed).normal(0, 0.15, N)
    falling = 0.5 + np.exp(-STEP / 60) + np.random.default_rng(seed + 9).normal(0, 0.15, N)
    found = compared(falling, stuck)
    assert found.relation == "parted"
    assert "times" not in found.text


def test_values_are_given_as_they_are_logged() -> None:
    a, b = loss(1), 2.7 * loss(2)
    b[849:] += 3
    found = compared(a, b)
    assert found.relation == "scaled"
    assert found.parted is not None
    assert found.parted.b == b[np.searchsorted(STEP, found.parted.step)]


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_a_curve_and_its_print_with_fewer_decimals_are_equal(decimals: int) -> None:
    for a, b in ((loss(1), np.round(loss(1), decimals)), (np.round(loss(1), decimals), loss(1))):
        found = compared(a, b)
        assert (found.relation, found.partings) == ("identical", ())
        assert found.text == f"equal on all {N} common steps, but for rounding"


def test_a_schedule_printed_with_few_digits_is_equal() -> None:
    rate = 1e-3 / 3 * (1 - STEP / (N + 1))
    found = compared(rate, np.array([float(f"{value:.2e}") for value in rate]), "learning_rate")
    assert found.relation == "identical"


def test_rounding_does_not_hide_where_twins_part() -> None:
    other = loss(1)
    other[499:] = loss(7)[499:] + 0.3
    found = compared(loss(1), np.round(other, 3))
    assert (found.relation, found.equal_until, found.unequal_from) == ("parted", 499, 500)
    assert found.parted is not None
    assert found.parted.a == loss(1)[499]
    assert not found.text.endswith("rounding")


def test_a_plain_setting_is_no_rounding_of_another() -> None:
    assert compared(np.full(N, 0.001), np.full(N, 0.0012), "learning_rate").relation != "identical"
    climbing = 0.001 * np.minimum(STEP, 3)
    assert compared(climbing, climbing * 1.1, "learning_rate").relation != "identical"


@pytest.mark.parametrize("seed", range(10))
def test_seeds_of_one_training_are_not_equal_for_being_printed_short(seed: int) -> None:
    found = compared(loss(seed), np.round(loss(seed + 1000), 1))
    assert (found.relation, found.equal_until) == ("together", None)
