from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.evaluations import condense
from trainforensics.signals.rises import collapses, first_in_order, mann_kendall, never_again, sustained_rise


def test_mann_kendall_holds_its_level() -> None:
    rng = np.random.default_rng(1)
    p = np.array([mann_kendall(rng.standard_normal(15)) for _ in range(2000)])
    assert np.mean(p < 0.01) < 0.02
    assert mann_kendall(np.arange(8.0)) < 0.001
    assert mann_kendall(np.ones(8)) == 1.0


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=5, max_size=40), st.floats(0.01, 100))
def test_a_rise_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    plain = sustained_rise(condense(make_curve(values, "val_loss")))
    scaled = sustained_rise(condense(make_curve(np.array(values) * factor, "val_loss")))
    assert (plain is None) == (scaled is None)
    if plain is not None and scaled is not None:
        assert scaled.z == pytest.approx(plain.z, rel=1e-3)


def test_the_noise_of_a_rise_is_that_since_the_lowest_evaluation() -> None:
    """A steep and wild start says nothing of how well later evaluations are known."""
    rng = np.random.default_rng(2)
    start = 1.7 - 1.4 * np.linspace(0, 1, 14) ** 2 + 0.05 * rng.standard_normal(14)
    late = 0.30 + np.linspace(0, 0.09, 14) + 0.008 * rng.standard_normal(14)
    rise = sustained_rise(condense(make_curve(np.append(start, late), "val_loss")))
    assert rise is not None
    assert rise.z > 6


def test_the_chance_that_the_last_evaluations_lie_so_high_is_held_by_noise() -> None:
    rng = np.random.default_rng(2)
    noise = [never_again(np.exp(rng.standard_normal(30))) for _ in range(500)]
    assert np.mean(np.array(noise) <= 0.02) < 0.1  # the least of many ends
    risen = np.append(np.exp(rng.standard_normal(20)), 20 + rng.standard_normal(6))
    assert never_again(risen) < 1e-4
    assert never_again(np.arange(5.0)) == 1.0


def test_a_score_collapses_for_two_evaluations_or_halves_for_three() -> None:
    score = np.array([0.3, 0.5, 0.6, 0.55, 0.62, 0.58, 0.6, 0.61])
    lost = np.concatenate([score, [0.05, 0.02], score, [0.28, 0.2, 0.25], score])
    assert collapses(lost) == ((8, 10), (18, 21))
    assert not collapses(np.concatenate([score, [0.02], score, [0.28, 0.2], score]))
    assert not collapses(np.concatenate([0.1 * score, [0.002, 0.001], score]))  # it has only begun to learn


def test_a_rise_from_the_best_in_order_begins_after_it() -> None:
    value = np.concatenate([np.linspace(3, 2, 6), 2 + 0.02 * np.arange(1, 4) ** 2, 2.2 + 0.1 * np.arange(1, 12)])
    points = condense(make_curve(value, "val_loss"))
    rise = sustained_rise(points)
    assert rise is not None
    assert first_in_order(points, rise) == 6


def test_a_slow_even_rise_begins_where_its_ramp_does() -> None:
    noise = 0.08 * np.random.default_rng(4).standard_normal(60)
    value = np.concatenate([np.linspace(5, 3, 15), np.full(5, 3.0), np.linspace(3, 4, 40)]) + noise
    rise = sustained_rise(condense(make_curve(value, "val_loss")))
    assert rise is not None
    assert 17 <= rise.onset <= 27


def test_an_evaluation_as_good_as_the_best_is_not_where_a_rise_begins() -> None:
    value = np.concatenate([np.linspace(3, 2, 6), [2.001, 2.1, 2.2], 2.3 + 0.1 * np.arange(1, 12)])
    points = condense(make_curve(value, "val_loss"))
    rise = sustained_rise(points)
    assert rise is not None
    assert first_in_order(points, rise) == 7


def test_a_rise_far_noisier_than_its_minimum_begins_where_that_calm_is_left() -> None:
    rng = np.random.default_rng(4)
    n, low, begins = 70, 30, 38
    value = 0.04 + 0.4 * np.maximum(1 - np.arange(n) / low, 0) + 0.005 * rng.standard_normal(n)
    value[begins:] += np.linspace(0.03, 0.1, n - begins) * rng.choice([0.2, 3.0], n - begins) + 0.02
    rise = sustained_rise(condense(make_curve(value, "val_loss")))
    assert rise is not None
    assert abs(rise.onset - begins) <= 2


def test_values_whose_differences_overflow_raise_nothing() -> None:
    with np.errstate(all="ignore"):
        for seed in range(3):
            value = np.where(np.random.default_rng(seed).random(400) < 0.7, 1.7e308, -1.7e308)
            sustained_rise(condense(make_curve(value, "train_loss")), 8)
