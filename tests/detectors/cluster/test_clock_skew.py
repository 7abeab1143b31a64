from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import clock_skew
from trainforensics.model import Clear, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve

PARAMS = {p.name: p.default for p in clock_skew.META.params}
N = 100


def judge(curves: list[Curve]) -> Outcome:
    return clock_skew.detect(make_signals(curves), PARAMS)


def ranks(offset: float, spread: float = 0.1) -> list[Curve]:
    rng = np.random.default_rng(0)
    times = 1.7e9 + np.arange(N) + spread * rng.standard_normal((4, N))
    times[3] += offset
    return [make_curve(np.full(N, 2.0), rank=rank, time=time) for rank, time in enumerate(times)]


def test_a_rank_that_is_late() -> None:
    outcome = judge(ranks(412))
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert found.scope.rank == 3
    assert "s later" in found.summary
    assert abs((found.evidence[0].value or 0) - 412) < 1


def test_ranks_within_some_steps_are_quiet() -> None:
    assert isinstance(judge(ranks(3)), Clear)


def test_lazy_writers_are_quiet() -> None:
    assert isinstance(judge(ranks(0, spread=5)), Clear)


def test_time_that_runs_backwards() -> None:
    time = 1.7e9 + np.arange(N) * 1.0
    time[60:] -= 3600
    outcome = judge([make_curve(np.full(N, 2.0), time=time)])
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 61


def test_a_restart_on_another_host_is_quiet() -> None:
    time = 1.7e9 + np.arange(N) * 1.0
    time[60:] -= 3600
    assert isinstance(judge([make_curve(np.full(N, 2.0), time=time, segment=np.arange(N) >= 60)]), Clear)


def test_without_times() -> None:
    assert isinstance(judge([make_curve(np.full(N, 2.0))]), NotApplicable)


def test_times_without_a_zone_are_not_held_against_each_other() -> None:
    naive = [replace(c, series=replace(c.series, naive_time=True)) for c in ranks(412)]
    outcome = judge(naive)
    assert isinstance(outcome, NotApplicable)
    assert "state no zone" in outcome.reason
    assert isinstance(judge([*ranks(412)[:3], *naive[3:]]), Clear)
    assert isinstance(judge([*naive[:1], *ranks(412)[1:]]), Fired)


@pytest.mark.parametrize(("back", "fires"), [(3600, False), (3600 + 200, True), (900, True)])
def test_a_local_clock_that_leaves_summer_time_is_quiet(back: float, fires: bool) -> None:
    time = 1.7e9 + np.arange(N) * 1.0
    time[60:] -= back
    assert isinstance(judge([make_curve(np.full(N, 2.0), time=time, naive_time=True)]), Fired) is fires


@pytest.mark.parametrize("naive", [False, True])
def test_a_clock_that_runs_backwards_at_every_row(naive: bool) -> None:
    curve = make_curve(np.full(N, 2.0), time=1.7e9 - 3600.0 * np.arange(N))
    outcome = judge([replace(curve, series=replace(curve.series, naive_time=naive))])
    assert isinstance(outcome, Fired)
    assert f"{N - 1} such jumps" in outcome.findings[0].summary


def test_the_clock_of_one_rank_that_is_put_back() -> None:
    curves = ranks(0)
    late = curves[1].step >= curves[1].step[len(curves[1]) // 2]
    curves[1] = replace(curves[1], time=curves[1].time - np.where(late, 37.0, 0.0))
    outcome = judge(curves)
    assert isinstance(outcome, Fired)
    assert [found.scope.rank for found in outcome.findings if "jumps back" in found.summary] == [1]


def test_the_clock_of_a_loss_over_all_ranks_beside_those_of_ranks() -> None:
    time = 1.7e9 + np.arange(N) - np.where(np.arange(N) >= 50, 37.0, 0.0)
    whole = make_curve(np.full(N, 3.0), time=time, series_id=9)
    norms = [replace(curve, series=replace(curve.series, role="grad_norm")) for curve in ranks(0)]
    outcome = judge([whole, *norms])
    assert isinstance(outcome, Fired)
    assert [found.scope.rank for found in outcome.findings if "jumps back" in found.summary] == [None]
