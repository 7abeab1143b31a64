import numpy as np
import pytest
from factories import make_curve

from trainforensics.signals.few import (
    burst_among_few,
    burst_at_start,
    bursts_of_means,
    climb_to_end,
    leap_at_end,
    setback,
    step_among_few,
)


@pytest.mark.parametrize(("height", "seen"), [(4.3, True), (1.2, False)])
def test_one_point_far_above_a_handful(height: float, seen: bool) -> None:
    values = np.array([0.66, 0.80, height, 0.77, 0.56, 0.82])
    found = burst_among_few(values)
    assert (found is not None) is seen
    if found is not None:
        assert (found.onset, found.end, found.returned) == (2, 3, True)
        assert found.before == pytest.approx(0.73)


def test_a_handful_of_noise_shows_no_point_more_often_than_said() -> None:
    rng = np.random.default_rng(0)
    assert sum(burst_among_few(1 + rng.exponential(size=8)) is not None for _ in range(2000)) < 20
    assert sum(step_among_few(2 + 0.1 * rng.standard_normal(8)) is not None for _ in range(2000)) < 10
    walks = 5 + 0.5 * np.cumsum(rng.standard_normal((2000, 8)), axis=1)
    assert sum(step_among_few(walk) is not None for walk in walks) < 20


def test_a_start_that_overshoots_counts_where_validation_shares_it() -> None:
    values = np.array([1.85, 2.98, 1.92, 1.96, 1.88, 1.80, 1.77, 1.73, 1.71])
    shared = np.array([2.20, 5.11, 2.22, 2.24, 2.10, 2.04, 2.01, 1.97, 1.96])
    found = burst_at_start(values, shared)
    assert found is not None
    assert found.onset == 1
    assert burst_at_start(values, np.where(shared > 5, 2.2, shared)) is None
    assert burst_at_start(values, np.full(9, np.nan)) is None
    assert burst_among_few(values) is None


@pytest.mark.parametrize(
    ("values", "at"),
    [
        ([10.652, 10.646, 12.675, 13.401, 12.55], 2),
        ([10.652, 10.646, 11.675, 13.401, 12.55], None),  # half as far apart as the later ones among themselves
        ([0.69, 0.69, 0.70, 0.70, 0.70], None),  # one step of the last printed digit
        ([2.301, 2.302, 2.351, 2.352, 2.353], None),  # plain, and a fiftieth
        ([38.2, 64.5, 103.4, 140.2, 182.6, 230.2], None),
    ],
)
def test_a_level_that_stays_among_few(values: list[float], at: int | None) -> None:
    found = step_among_few(np.array(values))
    assert (found and found.onset) == at
    if found is not None:
        assert not found.returned


def test_means_over_epochs_far_above_those_around() -> None:
    rng = np.random.default_rng(1)
    means = 0.002 + 0.001 * np.exp(-np.arange(120) / 30) + 0.00008 * rng.standard_normal(120)
    assert not bursts_of_means(means)
    means[40] *= 2.6
    means[80:83] *= [1.9, 3.5, 1.6]
    assert [(e.onset, e.peak, e.returned) for e in bursts_of_means(means)] == [(40, 40, True), (80, 81, True)]
    assert not bursts_of_means(np.where(np.arange(120) > 79, means.max(), means)[41:])  # a level that stays
    assert not bursts_of_means(means - 1.0)


def test_noise_of_means_shows_no_burst_more_often_than_said() -> None:
    rng = np.random.default_rng(2)
    assert sum(bool(bursts_of_means(1 + rng.exponential(size=100))) for _ in range(500)) < 10
    assert not any(bursts_of_means(1 + 0.2 * rng.standard_normal(100)) for _ in range(200))


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ([3.06, 3.11, 7.71], True),
        ([3.06, 3.11, 5.71], False),
        ([2.06, 3.11, 7.71], False),  # what is not steady may leap
        ([3.11, 7.71], False),
    ],
)
def test_a_leap_of_the_last_point(values: list[float], seen: bool) -> None:
    found = leap_at_end(np.array(values))
    assert (found is not None) is seen
    if found is not None:
        assert (found.onset, found.recovery) == (2, "ongoing")


@pytest.mark.parametrize(
    ("values", "onset"),
    [
        ([6.37, 6.60, 7.31, 9.12, 10.24], 3),
        ([6.37, 6.60, 7.31, 7.12, 10.24], None),
        ([6.37, 6.60, 7.31, 8.12, 8.24], None),  # by a third
        ([6.37, 7.31, 9.12, 10.24], None),
    ],
)
def test_a_climb_without_a_break_to_the_end(values: list[float], onset: int | None) -> None:
    found = climb_to_end(np.array(values))
    assert (found and found.onset) == onset
    if found is not None:
        assert found.recovery == "diverging"


def test_a_rise_that_undoes_several_points() -> None:
    fall = [3.29, 2.58, 2.04, 1.81, 1.6, 1.38, 1.18, 0.86, 0.58, 0.4, 0.22, 0.18, 0.13, 0.08, 0.07, 0.05, 0.07, 0.07]
    values = np.array([*fall, 0.04, 0.04, 0.05, 0.04, 0.02, 0.02, 0.01, 0.02, 0.14, 0.09, 0.09, 0.06, 0.04, 0.05])
    found = setback(make_curve(values))
    assert found is not None
    assert (found.onset, found.half, found.recovery) == (26, 29, "partial")
    assert setback(make_curve(np.append(values[:26], fall))) is None  # trained anew
    lone = values.copy()
    lone[27:] = 0.02
    assert setback(make_curve(lone)) is None
    lasting = setback(make_curve(np.append(values[:26], np.full(6, 0.14))))
    assert lasting is not None
    assert not lasting.returned


def test_noise_sets_nothing_back() -> None:
    rng = np.random.default_rng(3)
    for noise in (rng.standard_normal, rng.standard_cauchy, rng.standard_exponential):
        assert sum(setback(make_curve(20 + noise(60))) is not None for _ in range(300)) < 3


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ([3.88, 3.03, 2.76, 2.49, 2.20, 1.89, 3.97], True),
        ([3.88, 3.03, 2.76, 2.49, 2.20, 1.89, 3.5], False),  # not all that was learnt
        ([3.88, 3.03, 2.76, 2.80, 2.20, 1.89, 3.97], False),  # not the first rise
        ([3.88, 3.03, 2.76, 3.97], False),
    ],
)
def test_a_last_point_in_which_all_that_was_learnt_is_lost(values: list[float], seen: bool) -> None:
    found = leap_at_end(np.array(values))
    assert (found is not None) is seen
    assert found is None or found.onset == len(values) - 1
