from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.model import Event
from trainforensics.signals.load import join_lives
from trainforensics.signals.restarts import bump, join, noise_ratio, restarts, schedule_step

RNG = np.random.default_rng(2)


def test_one_restart_is_known_in_several_ways() -> None:
    time = np.arange(200.0)
    time[100:] += 3600
    curve = make_curve(RNG.standard_normal(200), time=time, segment=(np.arange(200) >= 100).astype(int))
    found = restarts(make_signals([curve], events=[Event("resume", step=100, text="resuming")]))
    assert [(r.step, r.before, r.sure, len(r.how)) for r in found] == [(101, 100, True, 3)]
    assert found[0].pause == 3601


def test_a_message_is_placed_by_its_time_only_where_the_clocks_are_alike() -> None:
    said = Event("resume", wall_time=99.5, text="resuming from step 40")
    for naive, step in ((False, 101), (True, 41)):
        curve = make_curve(RNG.standard_normal(200), time=np.arange(200.0), naive_time=naive)
        assert [r.step for r in restarts(make_signals([curve], events=[said]))] == [step]


def test_regular_pauses_are_evaluations() -> None:
    time = np.arange(200.0)
    for at in range(20, 200, 20):
        time[at:] += 300
    assert restarts(make_signals([make_curve(RNG.standard_normal(200), time=time)])) == ()


def test_repeated_steps_are_counted() -> None:
    old = make_curve(np.ones(30), step=np.arange(101, 131))
    curve = make_curve(np.ones(200), segment=(np.arange(200) >= 100).astype(int), superseded=old)
    assert [r.repeated for r in restarts(make_signals([curve]))] == [30]


def test_a_join_tells_a_jump_from_slope_and_noise() -> None:
    slope = np.linspace(5, 2, 400) + 0.05 * RNG.standard_normal(400)
    jump = slope + 0.4 * (np.arange(400) >= 250)
    quiet, loud = join(slope, 250), join(jump, 250)
    assert quiet is not None
    assert abs(quiet.z) < 6
    assert loud is not None
    assert loud.z > 6
    assert loud.change == pytest.approx(0.4, abs=0.1)


def test_a_join_needs_three_points_a_side() -> None:
    assert join(np.ones(10), 2) is None
    assert join(np.ones(10), 8) is None


def test_noise_that_changes_at_the_border() -> None:
    value = RNG.standard_normal(1000)
    assert noise_ratio(value, 500) == 1.0
    value[500:] *= 4
    assert noise_ratio(value, 500) == pytest.approx(4, rel=0.5)


def test_a_schedule_goes_on_or_does_not() -> None:
    rate = 1e-3 * np.cos(np.linspace(0, 1.5, 300))
    lives = (np.arange(300) >= 200).astype(int)
    goes_on = make_curve(rate, "learning_rate", segment=lives)
    restart = restarts(make_signals([make_curve(rate, segment=lives)]))[0]
    assert schedule_step(goes_on, restart) is None
    rate[200:] = 1e-3
    assert schedule_step(make_curve(rate, "learning_rate", segment=lives), restart) is not None


def test_a_rate_that_was_itself_rolled_back_is_no_break_of_the_schedule() -> None:
    step = np.append(np.arange(230), np.arange(200, 400))
    lives = np.repeat([0, 1], [230, 200])
    rate = np.full(430, 1e-3)
    rate[208:230] = 5e-2
    curve = join_lives(make_curve(rate, "learning_rate", step=step, segment=lives))
    restart = restarts(make_signals([curve]))[0]
    assert restart.repeated == 30
    assert schedule_step(curve, restart) is None


@pytest.mark.parametrize("decay", [2.0, 5.0])
def test_a_bump_of_a_few_points(decay: float) -> None:
    value = np.random.default_rng(4).normal(2, 0.1, 300)
    assert bump(value, 200) is None
    value[200:] += 3 * np.exp(-np.arange(100) / decay)
    found = bump(value, 200)
    assert found is not None
    assert found.z > 6


def test_one_outlier_is_no_bump() -> None:
    value = np.random.default_rng(4).normal(2, 0.1, 300)
    value[202] = 50
    assert bump(value, 200) is None


def test_a_bump_as_the_old_life_had_before() -> None:
    value = np.random.default_rng(4).normal(2, 0.1, 300)
    for at in (120, 200):
        value[at : at + 5] += [5, 4, 3, 2, 1]
    assert bump(value, 200) is None


def test_a_message_that_names_the_step_of_the_next_row() -> None:
    curve = make_curve(np.full(100, 2.0), step=np.arange(0, 1000, 10), time=np.arange(100.0))
    for seconds, first in ((49.5, 500), (50.5, 510)):
        event = Event("checkpoint-loaded", step=500, wall_time=seconds, text="restored weights, continuing at 500")
        (found,) = restarts(make_signals([curve], events=[event]))
        assert found.step == first


@pytest.mark.parametrize("border", [170, 185, 200, 215, 260])
def test_a_steep_stretch_is_no_jump_wherever_the_border_lies(border: int) -> None:
    fall = 8 / (1 + np.exp((np.arange(400) - 200) / 20)) + np.random.default_rng(5).normal(2, 0.05, 400)
    smooth, jump = join(fall, border), join(fall + 2.0 * (np.arange(400) >= border), border)
    assert smooth is not None
    assert abs(smooth.z) < 6
    assert jump is not None
    assert jump.z > 6


def test_noise_that_is_louder_for_one_block_is_chance() -> None:
    value = np.random.default_rng(6).standard_normal(1000)
    value[500:548] *= 4
    assert noise_ratio(value, 500) == 1.0


def test_a_straight_course_that_bends_at_the_border() -> None:
    noise = np.random.default_rng(7).normal(0, 0.02, 400)
    for bend, broken in ((200, True), (260, False), (170, False)):
        found = join(0.7 - 0.65 * np.clip((np.arange(400) - bend) / 12, 0, 1) + noise, 200)
        assert found is not None
        assert bool(abs(found.z) > 6) == broken


def test_a_schedule_in_stairs_that_begins_anew() -> None:
    step = np.concatenate([37 * epoch + np.array([0, 6, 12, 18, 24, 30, 36]) for epoch in range(40)])
    epoch = step // 37
    rate = 0.04 * (1 + np.cos(np.pi * epoch / 40))
    rate[epoch >= 26] = 0.04 * (1 + np.cos(np.pi * (epoch[epoch >= 26] - 26) / 40))
    lives = (epoch >= 26).astype(int)
    restart = restarts(make_signals([make_curve(np.ones(len(step)), step=step, segment=lives)]))[0]
    anew = schedule_step(make_curve(rate, "learning_rate", step=step, segment=lives), restart)
    assert anew is not None
    assert anew[1] == pytest.approx(0.08)
    on = 0.04 * (1 + np.cos(np.pi * epoch / 40))
    assert schedule_step(make_curve(on, "learning_rate", step=step, segment=lives), restart) is None
