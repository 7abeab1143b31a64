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
