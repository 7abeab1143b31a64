from __future__ import annotations

import numpy as np
import pytest

from trainforensics.signals.blocks import blocks
from trainforensics.signals.curve import Floats

N = 1200
FALL = 2 + 2 * np.exp(-np.arange(N) / 150)


def sorted_data(points: int, leap: float, seed: int = 0, learnt: float = 0.1) -> Floats:
    """Each block has a level of its own and is learnt while it lasts."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(0, leap, N // points + 1), points)[:N]
    return np.asarray(FALL + level - learnt * (np.arange(N) % points) / points + 0.02 * rng.normal(size=N))


@pytest.mark.parametrize(("points", "learnt"), [(5, 0.1), (12, 0.1), (40, 0.0)])
def test_levels_of_their_own_are_blocks(points: int, learnt: float) -> None:
    found = blocks(sorted_data(points, 0.3, learnt=learnt))
    assert found is not None
    assert found.points == points


@pytest.mark.parametrize("seed", range(8))
def test_noise_of_any_kind_has_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wander = np.convolve(rng.normal(size=N + 19), np.ones(20) / 5, "valid")
    for noise in (rng.normal(size=N), rng.standard_t(3, size=N), rng.exponential(size=N), wander):
        assert blocks(FALL + 0.3 * noise) is None


def test_stairs_and_single_high_points_are_none() -> None:
    rng = np.random.default_rng(1)
    stairs = 2 + 2 * np.exp(-(np.arange(N) // 40) / 8) + 0.003 * rng.normal(size=N)
    single = FALL + 0.5 * (np.arange(N) % 40 == 0) + 0.02 * rng.normal(size=N)
    assert blocks(stairs) is None
    assert blocks(single) is None


@pytest.mark.parametrize(("points", "expected"), [(4, False), (8, False), (12, False), (40, True)])
def test_short_blocks_must_be_learnt_while_they_last(points: int, expected: bool) -> None:
    assert (blocks(sorted_data(points, 0.3, learnt=0.0)) is not None) == expected
