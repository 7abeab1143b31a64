from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve

from trainforensics.signals import Curve
from trainforensics.signals.schedule import schedule_faults, warmed_up
from trainforensics.signals.steps import lasting_steps


@pytest.mark.parametrize("warm", [1, 5, 40])
def test_the_warm_up_ends_where_the_rate_falls_or_rests(warm: int) -> None:
    ramp = np.minimum(np.arange(1, 301) / warm, 1.0)
    assert warmed_up(ramp) == warm - 1 or warm == 1
    assert warmed_up(ramp * np.linspace(1, 0.1, 300)) <= warm


def test_a_rest_before_a_rise_is_no_warm_up() -> None:
    value = np.append(np.full(100, 1e-3), np.linspace(1e-3, 1e-2, 100))
    assert warmed_up(value) == 0
    assert [fault.what for fault in schedule_faults(make_curve(value, "learning_rate"))] == ["climb"]


def test_a_fall_logged_in_two_parts_is_a_reset_too() -> None:
    value = np.append(np.linspace(1e-3, 6e-4, 100), [3e-4, *np.linspace(1e-5, 9e-4, 100)])
    faults = schedule_faults(make_curve(value, "learning_rate"))
    assert [(fault.what, fault.onset) for fault in faults] == [("reset", 101)]


def test_lasting_steps_are_sharp_and_stay() -> None:
    value = np.random.default_rng(0).standard_normal(300)
    spike, ramp, step = value.copy(), value.copy(), value.copy()
    spike[100:103] += 50
    ramp[100:] += np.linspace(0, 50, 200)
    step[100:] += 30
    step[200:] -= 15
    assert lasting_steps(spike) == lasting_steps(ramp) == lasting_steps(value) == []
    assert lasting_steps(step) == [100, 200]
    assert lasting_steps(value[:10]) == []


def _printed(rate: np.ndarray, decimals: int) -> Curve:
    return make_curve(np.round(rate, decimals), "learning_rate")


@pytest.mark.parametrize("decimals", [4, 5, 9])
@pytest.mark.parametrize("warm", [6, 20, 80])
@pytest.mark.parametrize("n", [200, 320, 1000])
def test_few_decimals_make_stairs_of_a_warm_up_and_zeros_of_a_decay(n: int, warm: int, decimals: int) -> None:
    at = np.arange(n)
    decay = 0.5 * (1 + np.cos(np.pi * (at - warm) / (n - warm)))
    assert not schedule_faults(_printed(5e-4 * np.where(at < warm, (at + 1) / warm, decay), decimals))
    assert not schedule_faults(_printed(5e-4 * np.minimum(1, (at + 1) / (4 * warm)), decimals))


@pytest.mark.parametrize("decimals", [4, 5, 9])
def test_zero_and_reset_are_seen_with_few_decimals(decimals: int) -> None:
    at = np.arange(1000)
    held = 5e-4 * np.where(at < 600, 1.0, np.where(at < 800, 0.2, 0.0))
    assert [fault.what for fault in schedule_faults(_printed(held, decimals))] == ["zero"]
    once = 5e-4 * np.minimum((at + 1) / 50, 0.5 * (1 + np.cos(np.pi * at / 1000)))
    again = np.where(at < 500, once, np.roll(once, 500))
    (fault,) = schedule_faults(_printed(again, decimals))
    assert (fault.what, fault.onset) == ("reset", 500)


def test_a_decay_that_is_over_before_the_log_is() -> None:
    rate = 5e-5 * np.clip(1 - np.arange(300) / 200, 0, 1)
    assert [fault.what for fault in schedule_faults(_printed(rate, 6))] == ["zero"]


@pytest.mark.parametrize("epochs", [3, 6, 11])
@pytest.mark.parametrize("n", [66, 300, 1200])
def test_a_warm_up_that_begins_anew_each_epoch_is_no_cycle(n: int, epochs: int) -> None:
    turn = np.arange(n) * epochs / n % 1
    (fault,) = schedule_faults(_printed(1e-6 + 6e-6 * turn, 6 if n < 100 else 9))
    assert fault.what == "anew"
    assert abs(fault.onset - n / epochs) <= 1
    for cycle in (1 - np.abs(2 * turn - 1), np.cos(np.pi * turn / 2), np.where(turn < 0.1, 10 * turn, 1 - turn)):
        assert not schedule_faults(_printed(1e-6 + 6e-6 * cycle, 9))


@pytest.mark.parametrize(("after", "told"), [(np.full(120, 3e-3), ["zero"]), (np.linspace(1e-4, 3e-3, 120), [])])
def test_zero_before_a_leap_to_the_top(after: np.ndarray, told: list[str]) -> None:
    value = np.append(np.zeros(15), after)
    assert [fault.what for fault in schedule_faults(make_curve(value, "learning_rate"))] == told
