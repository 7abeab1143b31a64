from collections.abc import Callable

import numpy as np
import pytest
from curves import SIGMA, Floats, burst, healthy, hump, ramp, step
from factories import make_curve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion


def found(values: Floats) -> tuple[Excursion, ...]:
    return excursions(make_curve(values))


@pytest.mark.parametrize("noise", ["normal", "heavy", "skewed", "running-mean", "wandering"])
@pytest.mark.parametrize("n", [30, 150, 600, 3000])
def test_healthy_noise_of_any_nature_is_silent(noise: str, n: int) -> None:
    loud = sum(bool(found(healthy(n, seed, noise))) for seed in range(8))
    assert loud <= 1


def test_epoch_stairs_are_silent() -> None:
    values = healthy(1000) - 0.8 * (np.arange(1000) // 250)
    assert found(values) == ()


@pytest.mark.parametrize("n", [150, 600, 3000])
def test_a_burst_is_found_at_its_onset(n: int) -> None:
    (event,) = found(burst(healthy(n), n // 2, 30 * SIGMA))
    assert (event.shape, event.onset, event.recovery) == ("burst", n // 2, "recovered")
    assert event.returned
    assert event.height == pytest.approx(30 * SIGMA, rel=0.25)


def test_a_recurring_burst_is_found_every_time() -> None:
    values = healthy(1500)
    onsets = list(range(100, 1400, 110))
    for at in onsets:
        values = burst(values, at, 12 * SIGMA, decay=2)
    found_at = [event.onset for event in found(values)]
    assert len(found_at) == len(onsets)
    assert np.abs(np.array(found_at) - onsets).max() <= 1


@settings(max_examples=50, deadline=None)
@given(st.floats(0.5, 2.0), st.integers(0, 20))
def test_a_lone_point_far_out_is_found_whatever_the_last_digits(factor: float, seed: int) -> None:
    values = healthy(600, seed)
    values[300] += 30 * SIGMA
    (event,) = found(values * factor)
    assert event.onset == event.peak == 300


def test_a_sharp_burst_in_the_aftermath_of_another_is_one_of_its_own() -> None:
    onsets = [200, 260, 300, 420]
    values = np.full(600, 0.02)
    for at in onsets:
        values[at : at + 3] = 5.0
        values[at + 3 :] += 0.4 * np.exp(-np.arange(597 - at) / 25)
    values *= np.exp(0.3 * np.random.default_rng(3).normal(size=600))
    events = found(values)
    assert [event.onset for event in events] == onsets
    assert all(event.end < later for event, later in zip(events, onsets[1:], strict=False))


def test_scattered_zeros_are_no_ground_to_rise_from() -> None:
    """A batch without an active triplet has a loss of exactly zero."""
    rng = np.random.default_rng(4)
    values = np.where(rng.random(600) < 0.7, 0.0, rng.uniform(0.03, 0.1, 600))
    assert found(values) == ()
    values[400] = 2.0
    (event,) = found(values)
    assert event.onset == event.peak == 400


def test_what_is_zero_from_a_step_on_is_not_scattered() -> None:
    values = burst(healthy(600), 200, 30 * SIGMA)
    values[350:] = 0.0
    assert [event.onset for event in found(values)] == [200]


def test_a_jump_with_a_low_foot_begins_at_the_jump() -> None:
    values = step(healthy(600), 300, 60 * SIGMA)
    values[294:300] += np.linspace(0.4, 0.5, 6)
    (event,) = found(values)
    assert (event.shape, event.onset) == ("burst", 300)


def test_a_start_up_is_no_burst() -> None:
    values = healthy(400)
    values[:8] = [2.0, 3.2, 3.6, 3.9, 4.1, 4.1, 3.8, 3.6]
    values[8:] = 3.5 - 0.004 * np.arange(392) + 0.05 * np.random.default_rng(1).normal(size=392)
    assert found(values) == ()


def queue(rows: int, *, climb: int) -> Floats:
    """A contrastive loss against a queue that fills within a dozen rows or so, and is learnt from there."""
    at = np.arange(rows)
    value = 6.5 + 2.5 * (1 - np.exp(-np.maximum(at - climb, 0) / 2.5)) - 0.012 * np.maximum(at - climb - 14, 0)
    return value + 0.05 * np.random.default_rng(2).normal(size=rows)


def test_a_climb_from_the_first_row_on_has_no_level_before_it() -> None:
    assert found(queue(210, climb=0)) == ()
    assert [event.shape for event in found(queue(210, climb=20))] == ["burst"]


def test_a_level_that_falls_after_the_next_burst_has_returned() -> None:
    values = healthy(600)
    values[250:320] += 5 * SIGMA
    values[320:324] += 80 * SIGMA
    assert [(event.onset, event.returned) for event in found(values)] == [(250, True), (320, True)]


@pytest.mark.parametrize("n", [600, 3000])
def test_a_recovered_rise_is_found_before_its_middle(n: int) -> None:
    at, width = n // 2, n // 8
    (event,) = found(hump(healthy(n), at, width, 8 * SIGMA))
    assert event.shape == "rise"
    assert at <= event.onset < at + width // 2
    assert event.recovery == "recovered"


@pytest.mark.parametrize("n", [150, 600, 3000])
def test_a_climb_to_the_end_never_returned(n: int) -> None:
    (event,) = found(ramp(healthy(n), n // 2, 15 * SIGMA))
    assert event.shape == "rise"
    assert not event.returned
    assert event.recovery in ("unrecovered", "diverging")
    assert n // 2 - n // 50 <= event.onset < n // 2 + n // 8


def test_a_lasting_jump_is_sudden_and_unrecovered() -> None:
    (event,) = found(step(healthy(600), 300, 20 * SIGMA))
    assert (event.shape, event.returned, event.recovery) == ("burst", False, "unrecovered")
    assert abs(event.onset - 300) <= 1


def test_a_slow_climb_that_turns_steep_has_a_knee() -> None:
    values = ramp(healthy(1000), 500, 6 * SIGMA)
    values[800:] += np.minimum(np.arange(200) / 10, 1) * 40 * SIGMA
    (event,) = found(values)
    assert event.onset < 700
    assert 780 <= event.knee <= 812


def test_a_burst_in_the_last_points_is_ongoing() -> None:
    values = healthy(600)
    values[-3:] += 30 * SIGMA
    (event,) = found(values)
    assert (event.onset, event.recovery) == (597, "ongoing")


def test_one_nan_blinds_nothing() -> None:
    values = burst(healthy(600), 300, 30 * SIGMA)
    values[290] = np.nan
    assert len(found(values)) == 1


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(0, 5))
def test_scale_of_the_loss_does_not_matter(factor: float, seed: int) -> None:
    values = hump(burst(healthy(600, seed), 150, 3), 350, 60, 1)
    plain, scaled = found(values), found(values * factor)
    assert [(e.onset, e.end, e.shape) for e in plain] == [(e.onset, e.end, e.shape) for e in scaled]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 50))
def test_thinning_adds_nothing(seed: int) -> None:
    whole = found(healthy(2000, seed))
    thinned = found(healthy(2000, seed)[::10])
    assert not whole
    assert not thinned


BAD: dict[str, Callable[[], Floats]] = {
    "empty": lambda: np.array([]),
    "three": lambda: np.array([3.0, 2.0, 1.0]),
    "all nan": lambda: np.full(100, np.nan),
    "constant": lambda: np.full(100, 2.5),
    "huge": lambda: np.where(np.arange(200) == 100, 1e300, 1.0),
    "tiny": lambda: np.full(200, 1e-300) * (1 + np.arange(200) % 3),
    "infinite": lambda: np.where(np.arange(200) % 7 == 0, np.inf, 1.0),
    "two values": lambda: (np.arange(300) % 2).astype(float),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_and_warns_nothing(name: str) -> None:
    assert isinstance(found(BAD[name]()), tuple)


def test_outliers_of_correlated_noise_seldom_stand_out() -> None:
    """Its bulk is near normal; its steps are not."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = lfilter([0.8], [1, -0.6], rng.standard_t(5, size=4200))[200:]
        alarms += bool(found(2.5 + 8 * (1 + np.arange(4000) / 20) ** -0.5 + 0.04 * noise))
    assert alarms <= 8


def test_a_height_reached_before_in_the_first_points_is_no_burst() -> None:
    """The noise of a start shrinks with the loss; what the later noise makes of it says nothing."""
    t = np.arange(1500)
    noise = 0.02 + 0.05 * np.exp(-t / 40)
    loss = 0.02 + 1.6 * np.exp(-np.maximum(t - 10, 0) / 40) + noise * np.random.default_rng(0).normal(size=1500)
    loss[:12] = (2.02, 1.95, 2.61, 2.03, 2.17, 2.55, 1.5, 2.01, 2.31, 1.44, 1.35, 1.58)
    assert found(loss) == ()
    loss[5] = 4.0
    assert [excursion.onset for excursion in found(loss)] == [5]


@pytest.mark.parametrize(("n", "seed"), [(60, 1614), (130, 2482), (200, 487)])
def test_a_climb_may_set_out_from_the_very_first_point(n: int, seed: int) -> None:
    """Huge values of both signs all over a log lead there: nothing precedes, and nothing fails."""
    rng = np.random.default_rng(seed)
    loss = 0.3 * rng.normal(size=n)
    wild = rng.random(n) < 0.25
    loss[wild] = rng.choice([-700.0, 700.0], wild.sum())
    assert all(0 <= excursion.onset <= excursion.peak <= excursion.end for excursion in found(loss))


@pytest.mark.parametrize("seed", range(5))
def test_bursts_on_a_descent_whose_noise_shrinks_with_the_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = (1.9 + 14 * np.exp(-np.arange(400) / 35)) * np.exp(0.1 * rng.standard_normal(400))
    value[[71, 81]] *= 3
    assert {e.onset for e in excursions(make_curve(value))} >= {71, 81}


def test_the_very_first_loss_hides_no_burst_of_a_short_log() -> None:
    rng = np.random.default_rng(0)
    value = 0.2 + 0.3 * np.exp(-np.arange(50) / 12) + 0.005 * rng.standard_normal(50)
    value[0], value[14] = 44.0, 3.2
    assert 14 in [e.onset for e in excursions(make_curve(value))]


def test_a_burst_on_a_steep_descent() -> None:
    """The descent before it is no storm, however wide its values are spread."""
    value = np.append([227.0, 50, 42, 33, 27, 22.6, 18.8, 16.9, 14.0, 12.2], 4 + 3 * np.exp(-np.arange(190) / 40))
    value += 0.05 * np.random.default_rng(0).standard_normal(200)
    assert not excursions(make_curve(value))
    value[10:16] = [32.7, 39.7, 31.0, 24.0, 15.0, 9.0]
    assert [e.onset for e in excursions(make_curve(value))] == [10]


@pytest.mark.parametrize(
    ("left", "falls", "recovery"), [(0.9, 0.0, "unrecovered"), (0.9, 0.6, "partial"), (0.15, 0.0, "partial")]
)
def test_what_comes_back_but_in_part_and_stays_there_is_lost(left: float, falls: float, recovery: str) -> None:
    """`left` of a burst of 2.8 stands above the level before, and falls by a share of it to the end."""
    value = np.full(140, 2.3)
    value[80:] = 2.3 + left * (1 - falls * np.arange(60) / 60)
    value[80:83] = [5.1, 4.4, 3.6]
    (found,) = excursions(make_curve(value + 0.02 * np.random.default_rng(1).standard_normal(140)))
    assert (found.onset, found.shape, found.returned, found.recovery) == (80, "burst", True, recovery)
    if recovery == "unrecovered":
        assert found.after == pytest.approx(2.3 + left, abs=0.02)


def test_the_level_before_a_burst_on_a_descent_is_that_of_its_last_points() -> None:
    value = 2 + 6 * np.exp(-np.arange(100) / 20) + 0.01 * np.random.default_rng(2).standard_normal(100)
    value[30] += 20
    (found,) = excursions(make_curve(value))
    assert found.before == pytest.approx(value[28], abs=0.1)


@pytest.mark.parametrize(
    ("climb", "recovery"), [(lambda t: t, "diverging"), (lambda t: 1 - np.exp(-5 * t), "unrecovered")]
)
def test_what_has_reached_its_new_level_runs_away_no_more(climb: Callable[[Floats], Floats], recovery: str) -> None:
    at = np.clip((np.arange(900) - 200) / 700, 0, None)
    value = 1 + climb(at) + 0.01 * np.random.default_rng(0).standard_normal(900)
    (lasting,) = [e for e in found(value) if not e.returned]
    assert lasting.recovery == recovery


@pytest.mark.parametrize(("rising", "gained", "begins"), [(4, 0.09, 36), (2, 0.09, 40), (4, 0.02, 40)])
def test_what_never_came_back_begins_where_it_climbed_without_a_break(rising: int, gained: float, begins: int) -> None:
    values = 2 + 0.2 * np.random.default_rng(4).standard_normal(80)
    values[20:40] = 2 + 0.04 * (np.arange(20) % 2)
    values[39 - rising] = 2.0
    values[40 - rising : 40] = 2.0 + gained * np.arange(1, rising + 1)
    values[40:] += 6
    (found,) = excursions(make_curve(values))
    assert not found.returned
    assert found.onset == begins


def test_odd_batches_in_fine_noise_are_told_whatever_the_lesser_ones_beside_them() -> None:
    rng = np.random.default_rng(2)
    tail = 0.5 * rng.pareto(4, size=6_000) * (rng.random(6_000) < 0.05)  # a power law above the bulk alone
    tail[[900, 930, 5_300]] = 1.2, 1.5, 1.3
    values = 3.5 + np.exp(-np.arange(6_000) / 500) + 0.08 * rng.normal(size=6_000) + np.minimum(tail, 1.5)
    assert {900, 930, 5_300} <= {event.onset for event in found(values)}
    assert not found(values - 3.0)  # the same noise is no fine one here: a loss of a few samples


def test_noise_that_leans_to_one_side_has_a_tail_of_its_own() -> None:
    rng = np.random.default_rng(4)
    values = 3.5 + 0.04 * (np.exp(0.7 * rng.normal(size=2_000)) - 1)
    values[700] = values.max() + 0.1
    assert not found(values)


def test_a_tail_to_both_sides_is_the_noise_itself() -> None:
    rng = np.random.default_rng(3)
    values = 3.5 + 0.05 * rng.standard_t(3, size=2_000)
    values[700] = values.max() + 0.1
    values[1_200] = 7.0 - values[700]  # as far below
    assert not found(values)


def test_a_step_of_the_printed_grid_is_no_burst_of_the_logarithm() -> None:
    fallen = np.maximum(0.3 * np.exp(-np.arange(220) / 25), 2e-4)
    printed = np.round(fallen, 4)
    printed[150:] = 1e-4
    printed[[190, 195]] = 2e-4
    assert not found(printed)
    printed[190] = 9e-4
    assert [event.onset for event in found(printed)] == [190]


def test_a_wobble_before_a_leap_makes_no_slow_rise() -> None:
    loss = healthy(1200, 3)
    loss[804:812] += np.linspace(0.5, 1.0, 8)
    loss[812:820] += 6 - 0.25 * np.arange(8)
    found = max(excursions(make_curve(loss)), key=lambda e: e.height)
    assert (found.shape, found.onset) == ("burst", 812)


def test_what_climbs_from_the_first_point_on_begins_there() -> None:
    (climb,) = found(8 + 1.6 * np.arange(50) + 0.3 * np.random.default_rng(0).standard_normal(50))
    assert climb.onset == 1


def test_a_point_far_above_its_forerunners_belongs_to_the_climb() -> None:
    """However wide the first descent of a short log makes the noise."""
    loss = 4.05 + 5.4 * np.exp(-np.arange(27) / 4.2) + 0.005 * np.random.default_rng(0).standard_normal(27)
    loss[24:] = 4.6, 5.7, 6.3
    assert [excursion.onset for excursion in found(loss)] == [24]
