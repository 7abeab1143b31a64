from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import hang
from trainforensics.model import Checkpoint, Clear, Event, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in hang.META.params}
N = 900


def seconds(seed: int = 0) -> np.ndarray:
    return 0.4 * np.exp(0.05 * np.random.default_rng(seed).standard_normal(N))


def judge(gaps: np.ndarray, **more: object) -> Outcome:
    segment = more.pop("segment", None)
    curve = make_curve(np.full(N, 2.0), step=np.arange(N), time=1.7e9 + np.cumsum(gaps), segment=segment)
    return hang.detect(make_signals([curve], **more), PARAMS)  # type: ignore[arg-type]


@pytest.mark.parametrize("evaluations", [False, True])
def test_a_lone_pause(evaluations: bool) -> None:
    gaps = seconds()
    gaps[50::50] += 20 if evaluations else 0
    gaps[617] += 1500
    outcome = judge(gaps)
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert (found.onset_step, found.onset_interval) == (617, (616, 617))
    assert "25 min" in found.summary


def test_a_time_out_that_the_log_tells_of() -> None:
    event = Event("nccl-timeout", step=333, text="Watchdog caught collective operation timeout", rank=7)
    outcome = judge(seconds(), events=[event])
    assert isinstance(outcome, Fired)
    assert (outcome.findings[0].onset_step, outcome.findings[0].scope.rank) == (333, 7)


def test_regular_pauses_are_quiet() -> None:
    gaps = seconds()
    gaps[50::50] += 30
    gaps[200::200] += 300
    assert isinstance(judge(gaps), Clear)


def test_compilation_is_quiet() -> None:
    gaps = seconds()
    gaps[1] += 400
    assert isinstance(judge(gaps), Clear)


@pytest.mark.parametrize("told_by", ["segment", "message", "checkpoint", "round step"])
def test_a_restart_is_quiet(told_by: str) -> None:
    gaps = seconds()
    at = 600 if told_by == "round step" else 617
    gaps[at] += 1500
    more: dict[str, object] = {}
    if told_by == "segment":
        more["segment"] = (np.arange(N) >= at).astype(int)
    elif told_by == "message":
        more["events"] = [Event("restart", step=at - 1, text="resuming")]
    elif told_by == "checkpoint":
        more["checkpoints"] = [Checkpoint(at - 1, "checkpoints")]
    assert isinstance(judge(gaps, **more), Clear)


def test_heavy_tailed_steps_are_quiet() -> None:
    for seed in range(10):
        assert isinstance(judge(0.05 * (1 + np.random.default_rng(seed).pareto(1.5, N))), Clear), seed


def test_without_times() -> None:
    untimed = make_curve(np.full(N, 2.0), step=np.arange(N))
    assert hang.detect(make_signals([untimed]), PARAMS) == NotApplicable(
        "the log has no wall times", "a time stamp with every logged step"
    )
    some = make_curve(np.ones(9), "skipped_steps", step=np.arange(9), time=1.7e9 + np.arange(9.0))
    outcome = hang.detect(make_signals([untimed, some]), PARAMS)
    assert isinstance(outcome, NotApplicable)
    assert outcome.reason == "most rows carry no wall times"


def test_silence_until_the_process_was_killed() -> None:
    time = 1e9 + 9.5 * np.arange(60)
    curve = replace(make_curve(np.linspace(3, 2, 60)), time=time)
    for silent, told in ((11_000.0, True), (200.0, False)):
        kill = Event("preemption", step=60, wall_time=float(time[-1]) + silent, text="SIGTERM received")
        outcome = hang.detect(make_signals([curve], events=[kill]), PARAMS)
        assert isinstance(outcome, Fired) == told
    assert isinstance(outcome, Clear)
    late = Event("preemption", step=60, wall_time=float(time[-1]) + 11_000, text="SIGTERM received")
    done = Event("finish", step=60, text="Training completed")
    assert isinstance(hang.detect(make_signals([curve], events=[done, late]), PARAMS), Clear)
    assert isinstance(hang.detect(make_signals([curve], events=[late], config={"max_steps": 60}), PARAMS), Clear)


def test_the_times_of_another_series_stand_in_for_those_of_the_loss() -> None:
    gaps = seconds()[:90] * 10
    gaps[63] += 4000
    rate = make_curve(np.linspace(1e-3, 1e-4, 90), "learning_rate", step=10 * np.arange(90), time=1e9 + np.cumsum(gaps))
    outcome = hang.detect(make_signals([make_curve(np.full(N, 2.0), step=np.arange(N)), rate]), PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_interval == (620, 630)


def test_durations_in_seconds_stand_in_for_wall_times() -> None:
    taken = np.full(90, 197.0) + np.random.default_rng(0).normal(0, 3, 90)
    taken[63] = 8123.0
    curves = [make_curve(np.linspace(3, 2, 90)), make_curve(taken, "step_time", name="time(s)", series_id=1)]
    outcome = hang.detect(make_signals(curves), PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 64
    unsaid = make_curve(taken, "step_time", name="time", series_id=1)
    assert isinstance(hang.detect(make_signals([curves[0], unsaid]), PARAMS), NotApplicable)


def test_a_pause_that_takes_a_fifth_of_a_short_log() -> None:
    time = np.cumsum(np.full(200, 0.3))
    for seconds, told in ((50.0, 1), (8.0, 0)):
        late = time + np.where(np.arange(200) >= 123, seconds, 0.0)
        outcome = hang.detect(make_signals([make_curve(np.ones(200), time=late)]), PARAMS)
        assert len(outcome.findings if isinstance(outcome, Fired) else ()) == told


def clock(pause: int | None, seconds: float = 380.0, n: int = 26, seed: int = 0, first: int = 31) -> object:
    """Iterations of 80 s by a logged clock, one of which takes longer."""
    gaps = 80 * np.exp(0.02 * np.random.default_rng(seed).standard_normal(n))
    if pause is not None:
        gaps[pause] = seconds
    step = 256 * np.arange(first, first + n)
    return make_signals([make_curve(2000 + np.cumsum(gaps), None, name="time/time_elapsed", step=step)])


@pytest.mark.parametrize("pause", [5, 11, 18])
def test_a_lone_pause_by_a_logged_clock(pause: int) -> None:
    outcome = hang.detect(clock(pause), PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 256 * (31 + pause)


def test_ordinary_iterations_by_a_logged_clock() -> None:
    for seed in range(20):
        assert isinstance(hang.detect(clock(None, seed=seed), PARAMS), Clear), seed
        assert isinstance(hang.detect(clock(18, seconds=200, seed=seed), PARAMS), Clear), seed


def test_what_may_recur_beyond_a_short_log_is_no_hang() -> None:
    """An evaluation every 50 iterations, of which the log holds one."""
    assert isinstance(hang.detect(clock(19), PARAMS), Clear)
    assert isinstance(hang.detect(clock(20), PARAMS), Clear)


def test_several_long_iterations_are_ordinary() -> None:
    gaps = np.full(40, 80.0)
    gaps[[7, 18, 31]] = [700, 230, 210]
    signals = make_signals([make_curve(np.cumsum(gaps), None, name="elapsed_time")])
    assert isinstance(hang.detect(signals, PARAMS), Clear)


@pytest.mark.parametrize(("at", "told"), [((173, 199, 352, 374), True), ((150, 200, 350), False)])
def test_a_few_long_steps_at_no_even_distances(at: tuple[int, ...], told: bool) -> None:
    gaps = 38 * np.exp(0.08 * np.random.default_rng(2).standard_normal(430))
    gaps[list(at)] = np.array([380.0, 1120.0, 1040.0, 250.0])[: len(at)]
    outcome = hang.detect(make_signals([make_curve(np.ones(430), step=np.arange(430), time=np.cumsum(gaps))]), PARAMS)
    found = outcome.findings if isinstance(outcome, Fired) else ()
    assert [f.occurrences for f in found] == ([at] if told else [])


@pytest.mark.parametrize(("evaluated", "told"), [((617,), False), ((217, 417, 617, 817), True), ((300,), True)])
def test_a_pause_at_the_only_evaluation_is_its_own(evaluated: tuple[int, ...], told: bool) -> None:
    gaps = seconds()
    gaps[617] += 200
    evaluation = make_curve(np.ones(len(evaluated)), "val_loss", step=evaluated, series_id=1)
    timed = make_curve(np.full(N, 2.0), step=np.arange(N), time=1.7e9 + np.cumsum(gaps))
    assert isinstance(hang.detect(make_signals([timed, evaluation]), PARAMS), Fired if told else Clear)


@pytest.mark.parametrize(("back", "told"), [(3.9, False), (2.2, True)])
def test_a_pause_after_which_the_loss_is_where_it_began_is_a_new_launch(back: float, told: bool) -> None:
    gaps = seconds()
    gaps[617] += 1500
    loss = 2 + 2 * np.exp(-np.arange(N) / 60)
    loss[617:] = 2 + (back - 2) * np.exp(-np.arange(N - 617) / 60)
    curve = make_curve(loss, step=np.arange(N), time=1.7e9 + np.cumsum(gaps))
    assert isinstance(hang.detect(make_signals([curve]), PARAMS), Fired) == told
