import numpy as np
import pytest

from trainforensics.signals.few import burst_among_few, burst_at_start, step_among_few


@pytest.mark.parametrize(("height", "seen"), [(4.3, True), (1.2, False)])
def test_one_point_far_above_a_handful(height: float, seen: bool) -> None:
    values = np.array([0.66, 0.80, height, 0.77, 0.56, 0.82])
    found = burst_among_few(values)
    assert (found is not None) is seen
    if found is not None:
        assert (found.onset, found.end, found.returned) == (2, 3, True)
        assert found.before == pytest.approx(0.73)


def test_a_handful_of_noise_shows_no_point_more_often_than_said() -> None:
    rng = np.random.default_rng(0)
    assert sum(burst_among_few(1 + rng.exponential(size=8)) is not None for _ in range(2000)) < 20
    assert sum(step_among_few(2 + 0.1 * rng.standard_normal(8)) is not None for _ in range(2000)) < 10
    walks = 5 + 0.5 * np.cumsum(rng.standard_normal((2000, 8)), axis=1)
    assert sum(step_among_few(walk) is not None for walk in walks) < 20


def test_a_start_that_overshoots_counts_where_validation_shares_it() -> None:
    values = np.array([1.85, 2.98, 1.92, 1.96, 1.88, 1.80, 1.77, 1.73, 1.71])
    shared = np.array([2.20, 5.11, 2.22, 2.24, 2.10, 2.04, 2.01, 1.97, 1.96])
    found = burst_at_start(values, shared)
    assert found is not None
    assert found.onset == 1
    assert burst_at_start(values, np.where(shared > 5, 2.2, shared)) is None
    assert burst_at_start(values, np.full(9, np.nan)) is None
    assert burst_among_few(values) is None


@pytest.mark.parametrize(
    ("values", "at"),
    [
        ([10.652, 10.646, 12.675, 13.401, 12.55], 2),
        ([10.652, 10.646, 11.675, 13.401, 12.55], None),  # half as far apart as the later ones among themselves
        ([0.69, 0.69, 0.70, 0.70, 0.70], None),  # one step of the last printed digit
        ([2.301, 2.302, 2.351, 2.352, 2.353], None),  # plain, and a fiftieth
        ([38.2, 64.5, 103.4, 140.2, 182.6, 230.2], None),
    ],
)
def test_a_level_that_stays_among_few(values: list[float], at: int | None) -> None:
    found = step_among_few(np.array(values))
    assert (found and found.onset) == at
    if found is not None:
        assert not found.returned
