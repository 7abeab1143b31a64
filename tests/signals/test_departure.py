from __future__ import annotations

import numpy as np
from factories import make_curve

from trainforensics.signals.departure import departure, knee, layer_order

RNG = np.random.default_rng(9)


def test_knee_of_two_lines() -> None:
    y = np.r_[0.01 * np.arange(60), 0.6 + 0.5 * np.arange(40)] + 0.01 * RNG.standard_normal(100)
    assert abs(knee(y) - 60) <= 2
    assert knee(np.arange(3.0)) == 2


def test_a_fall_for_good_and_its_beginning() -> None:
    value = 3 * np.exp(-np.maximum(0, np.arange(500) - 200) / 30) * np.exp(0.02 * RNG.standard_normal(500))
    found = departure(make_curve(value), 0.15)
    assert found is not None
    assert abs(found.step - 201) <= 12
    assert departure(make_curve(value), 10.0) is None


def test_a_fall_that_comes_back_is_none() -> None:
    value = np.full(500, 3.0)
    value[200:300] = 0.01
    assert departure(make_curve(value), 0.15) is None


def test_layers_by_depth() -> None:
    layers = [make_curve([1.0], layer=name).series for name in ("layer_10", "layer_2", "head")]
    assert [series.layer for series in sorted(layers, key=layer_order)] == ["layer_2", "layer_10", "head"]


def test_the_knee_of_a_course_that_was_bent_before() -> None:
    x = np.arange(280)
    value = 0.45 + 0.55 * np.exp(-x / 50)
    value[140:] *= np.maximum(np.exp(-(x[140:] - 140) / 40), 0.03)
    value *= np.exp(0.01 * np.random.default_rng(0).standard_normal(280))
    found = departure(make_curve(value, "attention_entropy", step=x), 0.15)
    assert found is not None
    assert abs(found.onset - 140) <= 4


def test_a_straight_fall_to_nothing_begins_where_it_leaves_its_noise() -> None:
    x = np.arange(300)
    value = 2.2 * np.clip(1 - (x - 140) / 130, 0.04, 1) + 0.03 * RNG.standard_normal(300)
    found = departure(make_curve(np.abs(value), "attention_entropy", step=x), 0.15)
    assert found is not None
    assert 138 <= found.onset <= 155


def test_what_leaps_to_nothing_begins_at_its_leap() -> None:
    rng, at = np.random.default_rng(2), np.arange(200)
    alive = np.where(at < 150, 0.98, 0.0)
    norm = np.where(at < 150, 5 + 0.05 * rng.standard_normal(200), 0.0)
    found = [departure(make_curve(value, "activation_norm"), 0.1) for value in (alive, norm)]
    assert [departed.onset for departed in found if departed is not None] == [150, 150]


def test_a_fall_within_two_points_begins_with_the_first() -> None:
    alive = 0.9 + 0.02 * np.random.default_rng(1).standard_normal(200)
    alive[120:] = 0.02
    alive[120] = 0.5
    found = departure(make_curve(alive, "dead_fraction"), 0.5)
    assert found is not None
    assert (found.onset, found.first) == (120, 121)
