from __future__ import annotations

import numpy as np
from factories import make_curve
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.stretches import at_steps, contained, lasting_start, middle, stretches


@given(st.lists(st.booleans()))
def test_stretches_cover_exactly_the_true_values(mask: list[bool]) -> None:
    first, last = stretches(np.array(mask, dtype=bool))
    covered = np.zeros(len(mask), dtype=bool)
    for a, b in zip(first, last, strict=True):
        assert not covered[a : b + 1].any()
        covered[a : b + 1] = True
    assert covered.tolist() == mask


@given(st.lists(st.booleans(), min_size=1))
def test_lasting_start_is_the_earliest(mask: list[bool]) -> None:
    start = lasting_start(np.array(mask), 0.8)
    good = [i for i in range(len(mask)) if mask[-1] and mask[i] and np.mean(mask[i:]) >= 0.8]
    assert start == (good[0] if good else None)


def test_at_steps_tells_unlogged_from_bad() -> None:
    curve = make_curve([1.0, np.nan, 3.0], step=[10, 20, 30])
    assert at_steps(curve, np.array([5, 10, 19, 20, 30, 45])).tolist()[1:5] == [1.0, 1.0, np.inf, 3.0]
    assert np.isnan(at_steps(curve, np.array([5, 45]))).all()


def test_contained_and_middle() -> None:
    assert contained(np.array([1, 5, 9]), np.array([5, 9, 11])).tolist() == [False, True, True]
    assert contained(np.array([1]), np.array([], dtype=np.int64)).tolist() == [False]
    assert middle(np.array([np.nan, 3.0, np.inf])) == 3.0
    assert np.isnan(middle(np.array([np.nan])))
