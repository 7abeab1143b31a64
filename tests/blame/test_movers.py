from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.blame.movers import departed, first_mover
from trainforensics.signals import Signals


def per_rank(values: np.ndarray) -> Signals:
    return make_signals([make_curve(row, rank=r, name=f"loss_rank{r}", series_id=r) for r, row in enumerate(values)])


def noise(ranks: int = 4, n: int = 200) -> np.ndarray:
    return 2.5 + 0.05 * np.random.default_rng(0).standard_normal((ranks, n))


def test_the_rank_that_jumps_alone() -> None:
    values = noise()
    values[2, 149] += 4
    move = first_mover(per_rank(values), 149, 150)
    assert move is not None
    assert (move.rank, move.step) == (2, 150)


def test_ranks_that_jump_together_name_none() -> None:
    values = noise()
    values[:, 149] += 4
    assert first_mover(per_rank(values), 149, 150) is None


def test_a_quiet_window_names_none() -> None:
    assert first_mover(per_rank(noise()), 140, 150) is None


def test_the_first_nan_beats_the_later_ones() -> None:
    values = noise()
    values[1, 149:] = np.nan
    values[:, 150:] = np.nan
    move = first_mover(per_rank(values), 149, 151)
    assert move is not None
    assert (move.rank, move.step) == (1, 150)


def test_a_rank_that_leaves_for_good() -> None:
    values = noise()
    values[3, 120:] += 0.3
    assert departed(per_rank(values).ranks("train_loss"), 121) == 3
    assert departed(per_rank(noise()).ranks("train_loss"), 121) is None
    values[:, 120:] += 1.0
    assert departed(per_rank(values).ranks("train_loss"), 121) == 3


def test_a_constant_offset_of_a_rank_is_its_habit() -> None:
    values = noise()
    values[3] += 1.0
    assert first_mover(per_rank(values), 100, 150) is None
