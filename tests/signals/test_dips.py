from __future__ import annotations

import numpy as np
import pytest
from curves import Floats, healthy

from trainforensics.signals.dips import dips

N = 1200


def dipped(points: int, depth: float, at: int = 700) -> Floats:
    loss = healthy(N, 1)
    loss[at : at + points] *= depth
    return loss


def test_a_stretch_far_below_both_sides() -> None:
    (found,) = dips(dipped(25, 0.1))
    assert (found.first, found.last) == (700, 724)


@pytest.mark.parametrize(("points", "depth"), [(3, 0.1), (25, 0.7), (500, 0.1)])
def test_what_is_short_or_shallow_or_stays_is_none(points: int, depth: float) -> None:
    assert dips(dipped(points, depth)) == ()


def test_slopes_are_none() -> None:
    loss = healthy(N, 1)
    loss[600:700] *= 1 - 0.9 * np.sin(np.linspace(0, np.pi, 100))
    assert dips(loss) == ()


def test_samples_that_are_easy_by_nature_are_none() -> None:
    loss = dipped(25, 0.1)
    loss[np.random.default_rng(2).random(N) < 0.05] *= 0.1
    assert dips(loss) == ()


def test_values_that_are_held_for_several_rows_tell_no_noise() -> None:
    held = np.repeat(1 + 0.02 * np.random.default_rng(0).normal(size=100), 10)
    held[700:710] = 0.1
    assert not dips(held)


def test_what_lies_between_two_bursts_is_no_dip() -> None:
    loss = healthy(N, 1)
    for at in (600, 640):
        loss[at : at + 10] *= 3
    assert dips(loss) == ()
