from __future__ import annotations

import numpy as np
from factories import make_curve

from trainforensics.causes.movement import movement

N = 400


def test_a_falling_loss_is_no_movement() -> None:
    falling = make_curve(5 * np.exp(-np.arange(N) / 100) + 0.01 * np.random.default_rng(0).standard_normal(N))
    move = movement(falling, 300)
    assert move is not None
    assert move.widths < 5
