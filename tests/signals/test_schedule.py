from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve

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
