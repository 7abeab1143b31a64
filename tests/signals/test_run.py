from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals


@pytest.mark.parametrize(("points", "speaks"), [(5, "loss (mean of 2 ranks)"), (40, "loss")])
def test_what_torn_lines_leave_over_does_not_speak_for_all_ranks(points: int, speaks: str) -> None:
    ranks = [make_curve(np.ones(100), name="loss", rank=rank, series_id=rank) for rank in (0, 1)]
    whole = make_curve(np.ones(points), name="loss", series_id=2)
    curve = make_signals([*ranks, whole]).curve("train_loss")
    assert curve is not None
    assert curve.name == speaks


def test_ranks_that_log_a_role_twice_are_held_against_each_other_by_their_own_values() -> None:
    rng = np.random.default_rng(0)
    total = rng.random(50)
    curves = [
        make_curve(rng.random(50) if own else total, "grad_norm", name=name, rank=rank, series_id=2 * rank + own)
        for rank in (0, 1, 2)
        for name, own in (("grad_norm", False), ("local_grad_norm", True))
    ]
    signals = make_signals(curves)
    matrix, speaks = signals.ranks("grad_norm"), signals.curve("grad_norm")
    assert matrix is not None
    assert {series.name for series in matrix.rows} == {"local_grad_norm"}
    assert speaks is not None
    assert np.allclose(speaks.value, total)
