from dataclasses import replace

import numpy as np
from factories import make_curve


def test_what_a_curve_is_without_its_odd_points_is_found_once() -> None:
    curve = make_curve([3.0, np.nan, 2.0, 1.0])
    finite = curve.only_finite()
    assert finite.value.tolist() == [3.0, 2.0, 1.0]
    assert curve.only_finite() is finite
    assert replace(curve, value=np.arange(4.0)).only_finite().value.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_taking_all_points_copies_none_and_drops_what_was_superseded() -> None:
    curve = make_curve([3.0, 2.0, 1.0], superseded=make_curve([4.0]))
    whole = curve.take(np.array([True, True, True]))
    assert np.shares_memory(whole.value, curve.value)
    assert whole.superseded is None
