from __future__ import annotations

import numpy as np
from factories import make_curve

from trainforensics.signals.evaluations import condense
from trainforensics.signals.jumps import (
    last_apart,
    level_jump,
    lone_peak,
    lost_for_one,
    set_back,
    turns,
    worse_than_at_first,
)


def test_turns_count_changes_of_direction_of_a_height() -> None:
    assert turns(np.array([0, 3, 1, 4, 0, 0.5, 0.1]), 2.0) == 4
    assert turns(np.array([0, 1, 2, 3, 4.0]), 2.0) == 1
    assert turns(np.array([0, 1, 0, 1, 0.0]), 2.0) == 0


def test_a_setback_undoes_evaluations_and_is_not_made_up_for() -> None:
    fall = 3 - 0.05 * np.arange(30.0) + 0.005 * np.random.default_rng(0).standard_normal(30)
    back = fall + 0.4 * (np.arange(30) >= 18)
    found = set_back(condense(make_curve(back, "val_loss")), 4.0)
    assert found is not None
    assert found.at == 18
    lone = fall + 0.4 * (np.arange(30) == 18)
    assert set_back(condense(make_curve(fall, "val_loss")), 4.0) is None
    assert set_back(condense(make_curve(lone, "val_loss")), 4.0) is None


def test_a_setback_with_few_evaluations_after_it_undoes_more() -> None:
    fall = np.array([261, 327, 148, 117, 94, 87, 74, 72, 59, 58, 56, 55, 49, 49.5, 84, 77.0])
    found = set_back(condense(make_curve(fall, "val_loss")), 4.0)
    assert found is not None
    assert (found.at, found.before) == (14, 49.5)
    assert set_back(condense(make_curve(fall[:-1], "val_loss")), 4.0) is None
    fall[-2:] = 73, 72  # half as many evaluations are undone
    assert set_back(condense(make_curve(fall, "val_loss")), 4.0) is None


def test_worse_than_at_first_in_both_of_two_errors() -> None:
    loss, error = np.linspace(2, 1, 12), np.linspace(0.6, 0.2, 12)
    assert not len(worse_than_at_first(loss, error, 0.25, 0.25))
    loss[6] = 4.0
    assert not len(worse_than_at_first(loss, error, 0.25, 0.25))  # the other one does not say so
    error[6] = 0.9
    assert worse_than_at_first(loss, error, 0.25, 0.25).tolist() == [6]
    loss[7:], error[7:] = 4.0, 0.9
    assert not len(worse_than_at_first(loss, error, 0.25, 0.25))  # it stays


def test_the_last_value_apart_from_the_later_ones() -> None:
    value = np.array([3, 2, 1.5, 1.2, 1.0, 1.02, 0.99, 1.01, 1.0, 0.25])
    assert np.isclose(last_apart(value, 4.0), np.log(0.25 / 1.0), atol=0.02)
    assert last_apart(value[:-1], 4.0) == 0.0


def test_a_score_lost_for_one_evaluation() -> None:
    score = np.linspace(0.5, 0.7, 14)
    score[6] = 0.01
    assert lost_for_one(score, 0.125).tolist() == [6]
    score[7] = 0.02
    assert not len(lost_for_one(score, 0.125))


def test_a_lone_peak_is_far_above_both_neighbours_and_all_others() -> None:
    value = np.linspace(3, 1, 20)
    value[9] *= 3
    assert lone_peak(value, 0.5, 1.5) == 9
    value[15] *= 2.5
    assert lone_peak(value, 0.5, 1.5) is None


def test_a_drift_that_noise_makes_does_not_set_levels_apart() -> None:
    early = [2.53, 2.37, 2.31, 3.5, 2.19, 1.78, 1.7, 2.43, 1.99, 1.75, 1.48, 1.86, 1.5, 1.35, 1.4, 1.89, 1.55, 1.22]
    late = [1.08, 1.42, 1.16, 1.22, 0.99, 1.73, 1.38, 1.18, 1.19, 0.91, 1.1, 0.95, 1.18, 0.93, 0.9, 0.87, 1.0, 0.86]
    noisy = np.array([*early, *late])
    assert level_jump(condense(make_curve(noisy, "val_loss"))) is None
    steady = 2 - 0.04 * np.arange(37.0) + 0.01 * np.random.default_rng(0).standard_normal(37)
    found = level_jump(condense(make_curve(steady + 0.3 * (np.arange(37) >= 20), "val_loss")))
    assert found is not None
    assert found.at == 20
