from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trainforensics.store.assembly.kinship import are_two_trainings

Floats = NDArray[np.float64]
N = 1000
STEP = np.arange(1, N + 1)


def loss(seed: int, last: float = 2.0, noise: float = 0.05) -> Floats:
    return last + 2 * np.exp(-STEP / 200) + np.random.default_rng(seed).normal(0, noise, N)


def every(values: Floats, stride: int) -> tuple[NDArray[np.int64], Floats]:
    return STEP[stride - 1 :: stride], values[stride - 1 :: stride]


def smoothed(values: Floats, decay: float) -> Floats:
    result = values.copy()
    for i in range(1, len(values)):
        result[i] = decay * result[i - 1] + (1 - decay) * values[i]
    return result


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [1.0, 1.3, 8.0])
def test_smoothed_averaged_and_scaled_are_one_training(seed: int, factor: float) -> None:
    raw = loss(seed)
    window = raw.reshape(-1, 10).mean(axis=1)
    versions = [
        every(factor * smoothed(raw, 0.9), 10),
        (STEP[9::10], factor * window),
        every(np.round(factor * raw, 2), 10),
        every(factor * np.cumsum(raw) / STEP, 1),
    ]
    for version in versions:
        assert not are_two_trainings((STEP, raw), version)
        assert not are_two_trainings(version, (STEP, raw))


@pytest.mark.parametrize("seed", range(5))
def test_a_mean_beside_a_table_that_lacks_what_it_was_taken_from(seed: int) -> None:
    raw = loss(seed)
    assert not are_two_trainings(every(raw, 10), (STEP[9::10], raw.reshape(-1, 10).mean(axis=1)))


@pytest.mark.parametrize("seed", range(5))
def test_another_level_with_noise_of_its_own_is_another_training(seed: int) -> None:
    for stride in (1, 10):
        assert are_two_trainings(every(loss(seed), 1), every(loss(seed + 100, last=1.4), stride))


def test_two_smooth_falls_share_no_noise() -> None:
    a, b = 1 + 2 * np.exp(-STEP / 200), 0.3 + 2 * np.exp(-STEP / 300)
    assert are_two_trainings(every(a, 10), every(b, 10))


def test_one_that_ends_without_numbers_while_the_other_goes_on() -> None:
    dead = loss(1)
    dead[600:] = np.nan
    assert are_two_trainings((STEP, loss(1)), (STEP, dead))
    assert not are_two_trainings((STEP, dead), (STEP, dead.round(2)))
    stuck = np.where(np.isnan(dead), 0.0, dead)
    assert not are_two_trainings((STEP, stuck), (STEP, dead)), "a logger that hides what is not finite"


def test_epochs_and_steps_are_not_held_against_each_other() -> None:
    epochs = (np.arange(1, 31), loss(1)[::33][:30])
    assert not are_two_trainings((STEP, loss(1)), epochs)
