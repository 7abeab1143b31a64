import numpy as np
import pytest
from curves import healthy
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.extremes import absurd_falls, surges_beyond


@given(st.integers(0, 30), st.sampled_from([-1e9, -1e34, -3.4e38, -1e300]), st.integers(15, 590))
def test_a_value_far_below_all_sense_is_one(seed: int, value: float, at: int) -> None:
    values = healthy(600, seed, "heavy")
    assert absurd_falls(values) == ()
    values[at : at + 2] = value
    (event,) = absurd_falls(values)
    assert (event.onset, event.peak, event.end, event.recovery) == (at, at, at + 2, "recovered")
    assert event.height == pytest.approx(-value)
    assert len(event.widths) < 8


def test_a_loss_that_falls_far_for_good_is_no_absurd_fall() -> None:
    falls = -np.geomspace(1, 1e9, 600)
    assert absurd_falls(falls) == ()
    often = healthy(600)
    often[::20] = -1e34
    assert absurd_falls(often) == ()


@pytest.mark.parametrize(("after", "returned"), [([270, 180, 120, 60, 31], False), ([270, 12, 4.5, 4.4, 4.3], True)])
def test_a_leap_beyond_all_before_needs_no_noise_to_be_seen(after: list[float], returned: bool) -> None:
    value = np.array([10.9, 9.9, 9.0, 7.8, 6.6, 6.1, 5.3, 4.8, *after])
    (found,) = surges_beyond(value)
    assert (found.onset, found.peak, found.returned) == (8, 8, returned)
    assert surges_beyond(np.where(value > 100, 60.0, value)) == ()
    assert [e.onset for e in surges_beyond(np.append(value, value))] == [8, 8 + len(value)]
