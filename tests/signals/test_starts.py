import numpy as np
import pytest

from trainforensics.signals.starts import above_start, leap_at_start, overshoot_at_start, surge_at_start


def test_a_loss_that_swings_far_above_its_start_to_the_end() -> None:
    rng = np.random.default_rng(3)
    wild = np.concatenate([7 + 0.05 * rng.standard_normal(60), 7 + 25 * rng.random(440)])
    left = above_start(wild)
    assert left is not None
    assert abs(left.onset - 60) < 5
    assert not left.returned
    assert above_start(7 + 6 * rng.random(500)) is None  # below twice its start
    queue = np.minimum(0.5 + np.arange(500) / 10, 9) - np.maximum(np.arange(500) - 150, 0) / 200
    assert above_start(queue + 0.05 * rng.standard_normal(500)) is None  # momentum contrast: it rises, then learns
    assert above_start(np.append(wild[:60], 7 + 0.05 * rng.standard_normal(440))) is None


def test_a_surge_within_the_first_points() -> None:
    surge = np.array([480.0, 45_000, 23_000, 7_700, 800, 24, 16, 21, 12, 22, 1, 8, 3, 9, 2, 4, 3, 5, 2, 4])
    found = surge_at_start(surge)
    assert found is not None
    assert (found.onset, found.peak, found.end) == (1, 1, 5)
    assert surge_at_start(np.where(surge == 480, 9_000.0, surge)) is None  # five times its first value
    tail = np.random.default_rng(0).standard_normal(200) ** 2 + 1e-3
    assert surge_at_start(tail) is None


@pytest.mark.parametrize(("lowest", "told"), [(1.9, True), (1.6, False)])
def test_a_leap_after_which_a_loss_is_never_as_good_again(lowest: float, told: bool) -> None:
    values = np.append(1.77, lowest + 4.2 * np.exp(-np.arange(200) / 30))
    found = leap_at_start(values)
    assert (found is not None) is told
    assert leap_at_start(values[:3]) is None


@pytest.mark.parametrize(("stays", "told"), [(0.140, True), (0.105, False)])
def test_a_leap_from_a_low_that_the_log_has_just_reached(stays: float, told: bool) -> None:
    values = np.append([3.49, 0.213, 0.215, 0.085, 0.074, 0.074, 0.31, 0.295, 0.268, 0.239], np.full(30, stays))
    found = leap_at_start(values)
    assert (found and found.onset) == (6 if told else None)


def test_an_overshoot_falls_back_point_after_point() -> None:
    values = np.array([6.93, 23.9, 21.1, 18.0, 15.0, 12.4, 10.1, 8.7, 7.6, 6.8, 3.8])
    found = overshoot_at_start(values)
    assert found is not None
    assert (found.onset, found.peak, found.end, found.before) == (1, 1, 9, 6.93)
    noisy = values.copy()
    noisy[4] = 19.0
    assert overshoot_at_start(noisy) is None
    assert overshoot_at_start(np.where(values > 13, 13.0 - np.arange(11) / 100, values)) is None  # by less than twice
    assert overshoot_at_start(values[1:]) is None
    assert overshoot_at_start(values[[0, 1, 9, 10]]) is None


def test_what_swings_widely_from_the_first_point_on_leaves_no_start() -> None:
    for seed in range(20):
        above_start(np.random.default_rng(seed).random(30))  # of which some never leave the noise of their start
    assert above_start(np.random.default_rng(0).random(30)) is None
