from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import throughput_drop
from trainforensics.model import Axis, Clear, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in throughput_drop.META.params}
N = 500


def noise(seed: int = 0, width: float = 0.03) -> np.ndarray:
    return np.exp(width * np.random.default_rng(seed).standard_normal(N))


def judge(signals: Signals) -> Outcome:
    return throughput_drop.detect(signals, PARAMS)


def alarms(outcome: Outcome) -> list[Finding]:
    return [f for f in outcome.findings if f.severity != "low"] if isinstance(outcome, Fired) else []


@pytest.mark.parametrize(("role", "sign"), [("tokens_per_sec", -1), ("mfu", -1), ("step_time", 1)])
@pytest.mark.parametrize("factor", [1.4, 3.0])
def test_a_step(role: str, sign: int, factor: float) -> None:
    pace = 0.5 * noise()
    pace[300:] *= factor**sign
    (found,) = alarms(judge(make_signals({role: pace})))
    assert abs((found.onset_step or 0) - 301) <= 1
    assert found.recovery == "unrecovered"


def test_a_slope() -> None:
    pace = 5e4 * noise()
    pace[300:] /= np.linspace(1, 2, 200)
    (found,) = alarms(judge(make_signals({"tokens_per_sec": pace})))
    assert 280 <= (found.onset_step or 0) <= 340


def test_a_slow_stretch_that_ended() -> None:
    pace = 5e4 * noise()
    pace[200:320] /= 2
    (found,) = alarms(judge(make_signals({"tokens_per_sec": pace})))
    assert found.recovery == "recovered"
    assert abs((found.end_step or 0) - 320) <= 5


def test_the_wall_clock_tells_it() -> None:
    seconds = 0.4 * noise()
    seconds[300:] *= 3
    signals = make_signals([make_curve(2 + noise(), time=1.7e9 + np.cumsum(seconds))])
    (found,) = alarms(judge(signals))
    assert abs((found.onset_step or 0) - 301) <= 2
    assert found.series == "wall time per step"


def test_short_steps_by_the_clock_are_a_remark() -> None:
    seconds = 0.01 * noise()
    seconds[300:] *= 3
    outcome = judge(make_signals([make_curve(2 + noise(), time=1.7e9 + np.cumsum(seconds))]))
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].severity == "low"


def test_others_that_moved_are_evidence() -> None:
    pace, util = 5e4 * noise(), np.full(N, 95.0)
    pace[300:] /= 2
    util[300:] = 40
    (found,) = alarms(judge(make_signals({"tokens_per_sec": pace, "gpu_util": util})))
    assert any(row.signal == "gpu_util" and row.value == 40 for row in found.evidence)


QUIET = {
    "noise": noise,
    "warm-up": lambda s: noise(s) * (1 - np.exp(-np.arange(1, N + 1) / 5)),
    "evaluation pauses": lambda s: noise(s) * np.where(np.arange(N) % 50 == 0, 0.2, 1),
    "heavy tails": lambda s: 1 / (1 + 0.05 * np.abs(np.random.default_rng(s).standard_t(1.5, N))),
    "a few percent": lambda s: noise(s) * np.linspace(1, 0.93, N),
    "sequence lengths": lambda s: noise(s) * np.random.default_rng(s).choice([1, 0.7, 0.5], N),
    "average so far": lambda s: np.cumsum(noise(s)) / np.arange(1, N + 1),
}


@pytest.mark.parametrize("nature", QUIET)
def test_ordinary_pace_is_quiet(nature: str) -> None:
    for seed in range(10):
        assert not alarms(judge(make_signals({"tokens_per_sec": 5e4 * QUIET[nature](seed)}))), seed


def test_larger_batches_take_longer() -> None:
    size = np.where(np.arange(N) < 300, 64, 256)
    assert not alarms(judge(make_signals({"step_time": 0.4 * noise() * size / 64, "batch_size": size})))


def test_fewer_nodes_are_told_low() -> None:
    world = np.where(np.arange(N) < 300, 64, 32)
    outcome = judge(make_signals({"tokens_per_sec": 1e3 * noise() * world, "world_size": world}))
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].severity == "low"
    assert "world_size" in outcome.findings[0].summary


def test_evaluations_on_the_wall_clock_are_quiet() -> None:
    seconds = 0.4 * noise()
    seconds[::50] += 30
    assert not alarms(judge(make_signals([make_curve(2 + noise(), time=1.7e9 + np.cumsum(seconds))])))


def test_times_written_in_bulk_say_nothing() -> None:
    time = 1.7e9 + np.repeat(np.arange(N // 50) * 60.0, 50)
    assert isinstance(judge(make_signals([make_curve(2 + noise(), time=time)])), NotApplicable)


def test_an_idle_device_is_a_remark() -> None:
    outcome = judge(make_signals({"gpu_util": 12 * noise(width=0.2)}))
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].severity == "low"


def test_without_pace() -> None:
    assert isinstance(judge(make_signals({"train_loss": noise()})), NotApplicable)


def test_a_clock_is_no_duration() -> None:
    signals = make_signals({"step_time": np.cumsum(0.4 * noise())})
    assert not alarms(judge(signals))


def test_a_counter_is_no_duration() -> None:
    assert not alarms(judge(make_signals({"step_time": np.arange(49.0, 50 * N, 50)})))


def test_a_duration_beside_a_clock_speaks() -> None:
    pace = 0.5 * noise()
    pace[300:] *= 2
    curves = [
        make_curve(np.cumsum(pace), "step_time", name="time"),
        make_curve(pace, "step_time", name="time/step", series_id=1),
    ]
    (found,) = alarms(judge(make_signals(curves)))
    assert found.series == "time/step"


def test_a_logged_clock_tells_a_slow_stretch() -> None:
    seconds = 1.5 * noise()
    seconds[300:] *= 3
    (found,) = alarms(judge(make_signals([make_curve(np.cumsum(seconds), None, name="time/elapsed")])))
    assert abs((found.onset_step or 0) - 301) <= 2


@pytest.mark.parametrize("epochs", [2, 4, 7])
def test_each_epoch_begins_with_short_samples(epochs: int) -> None:
    tooth = np.tile(np.linspace(0.3, 1.0, N // epochs), epochs + 1)[:N]
    assert not alarms(judge(make_signals({"step_time": tooth * noise()})))


def test_two_slow_stretches_apart_are_no_saw() -> None:
    pace = 0.5 * noise()
    pace[100:170] *= 2
    pace[300:370] *= 2
    assert len(alarms(judge(make_signals({"step_time": pace})))) == 2


def test_samples_that_grow_longer_explain_a_slope() -> None:
    length = np.linspace(3, 9, N)
    curves = [
        make_curve((0.2 + 0.05 * length) * noise(), "step_time"),
        make_curve(length, None, name="audio_len_mean", series_id=1),
    ]
    assert not alarms(judge(make_signals(curves)))


@pytest.mark.parametrize("seed", range(3))
def test_a_slope_begins_where_it_bends(seed: int) -> None:
    noise = np.exp(0.02 * np.random.default_rng(seed).standard_normal(1000))
    slope = 1 - 0.5 * np.clip((np.arange(1000) - 300) / 600, 0, 1)
    outcome = throughput_drop.detect(make_signals({"tokens_per_sec": 9000 * slope * noise}), PARAMS)
    assert isinstance(outcome, Fired)
    assert abs((outcome.findings[0].onset_step or 0) - 301) <= 30


@pytest.mark.parametrize("seed", range(3))
def test_a_slope_from_the_first_point_on(seed: int) -> None:
    times = (0.9 + 0.6 * np.arange(400) / 400) * np.exp(0.02 * np.random.default_rng(seed).standard_normal(400))
    outcome = throughput_drop.detect(make_signals({"step_time": times}), PARAMS)
    assert isinstance(outcome, Fired)
    assert (outcome.findings[0].onset_step or 0) <= 10


@pytest.mark.parametrize("seed", range(3))
def test_stairs_begin_with_the_first(seed: int) -> None:
    noise = np.exp(0.1 * np.random.default_rng(seed).standard_normal(140))
    stairs = np.repeat([13.0, 10.0, 7.0, 4.2], [52, 27, 27, 34])
    outcome = throughput_drop.detect(make_signals({"tokens_per_sec": 1000 * stairs * noise}), PARAMS)
    assert isinstance(outcome, Fired)
    assert abs((outcome.findings[0].onset_step or 0) - 53) <= 3


@pytest.mark.parametrize(("factor", "told"), [(30, True), (2, False)])
def test_a_short_stretch_counts_by_the_time_it_costs(factor: int, told: bool) -> None:
    pace = 20 * noise()
    pace[300:308] /= factor
    found = alarms(judge(make_signals({"tokens_per_sec": pace})))
    assert [abs((f.onset_step or 0) - 301) <= 1 for f in found] == [True] * told


def test_padding_is_no_other_work() -> None:
    """Three times fewer tokens that count, at steps as long as before, as where packing was switched off."""
    pace, tokens, padding = 40_000 * noise(), np.full(N, 1000.0), np.full(N, 0.02)
    pace[200:] /= 3
    tokens[200:] /= 3
    curves = [make_curve(pace, "tokens_per_sec"), make_curve(tokens, None, name="nonpad_tokens", series_id=1)]
    assert not alarms(judge(make_signals(curves)))
    padding[200:] = 0.68
    assert len(alarms(judge(make_signals([*curves, make_curve(padding, "padding_fraction", series_id=2)])))) == 1


@pytest.mark.parametrize(("name", "told"), [("data_time_ms", 1), ("data_time_s", 0)])
def test_loading_that_begins_to_take_a_share_of_each_step(name: str, told: int) -> None:
    """On a machine whose pace wanders by half nothing else shows it; durations in other units are not compared."""
    step = 17 * np.exp(0.3 * np.random.default_rng(4).standard_normal(N))
    loading = np.where(np.arange(N) < 200, 0.5, 6.5) * noise(1)
    curves = [make_curve(step, "step_time", name="step_time_ms")]
    curves.append(make_curve(loading, "dataloader_time", name=name, series_id=1))
    assert len(alarms(judge(make_signals(curves)))) == told


def healthy(nature: str, random: np.random.Generator, n: int) -> np.ndarray:
    """Seconds per step, of about one, of a machine that nothing is wrong with."""
    at, noise = np.arange(n), np.exp(0.03 * random.standard_normal(n))
    swing = np.sin(2 * np.pi * (at / n * random.uniform(1.5, 5) + random.random()))
    return (
        noise
        * {
            "noise": lambda: 1.0,
            "shared machine": lambda: np.exp(0.25 * random.standard_normal(n)),
            "two loaders": lambda: np.where(random.random(n) < 0.3, 1.8, 1),
            "slower by a tenth": lambda: np.linspace(1, 1.1, n),
            "one of eight evaluates": lambda: np.where(at % 8 == 3, 2.5, 1),
            "first epoch compiles": lambda: 1 + 6 * np.exp(-at / max(0.6, n / 100)),
            "caches fill": lambda: 0.7 + 0.3 * np.exp(-at / (n / 8)),
            "day and night": lambda: 1 + 0.13 * (swing > 0),
            "rare pauses": lambda: np.where(random.random(n) < 0.02, random.uniform(2, 9, n), 1),
            "short spells": lambda: np.where(at // max(2, n // 60) % 47 == 11, 1.7, 1),
            "turns faster": lambda: np.where(at < random.integers(n // 4, 3 * n // 4), 1.6, 1),
        }[nature]()
    )


NATURES = (
    "noise, shared machine, two loaders, slower by a tenth, one of eight evaluates, first epoch compiles, caches fill, "
    "day and night, rare pauses, short spells, turns faster"
)


@pytest.mark.parametrize("nature", NATURES.split(", "))
def test_healthy_clocks(nature: str) -> None:
    """A log in fifty may be told, whatever its length and however it tells its pace."""
    told = []
    for n in (12, 30, 120):
        for seed in range(12):
            seconds = healthy(nature, np.random.default_rng([seed, n]), n)
            rate, duration = {"tokens_per_sec": 5e4 / seconds}, {"step_time": 2 * seconds}
            clock = [make_curve(np.cumsum(30 * seconds), None, name="elapsed_time")]
            told += [bool(alarms(judge(make_signals(curves)))) for curves in (rate, duration, clock)]
    assert np.mean(told) <= 0.02


@pytest.mark.parametrize("n", [12, 30, 60])
@pytest.mark.parametrize("factor", [1.5, 2.5])
def test_a_log_of_epochs_tells_a_step(n: int, factor: float) -> None:
    seconds = 300 * np.exp(0.03 * np.random.default_rng(n).standard_normal(n))
    seconds[n // 2 :] *= factor
    (found,) = alarms(judge(make_signals([make_curve(seconds, "step_time", name="epoch time")])))
    assert found.onset_step == n // 2 + 1


@pytest.mark.parametrize("seed", range(5))
def test_epochs_that_only_get_longer_are_no_clock(seed: int) -> None:
    seconds = np.linspace(31, 60, 30) + 0.2 * np.random.default_rng(seed).standard_normal(30)
    assert (np.diff(seconds) > 0).all()
    curve = make_curve(seconds, "step_time", name="epoch time")
    assert [f.recovery for f in alarms(judge(make_signals([curve])))] == ["unrecovered"]
    assert not alarms(judge(make_signals([replace(curve, series=replace(curve.series, name="time"))])))


def test_epochs_at_twice_their_time_by_a_logged_clock() -> None:
    seconds = 6 * np.exp(0.04 * np.random.default_rng(3).standard_normal(36))
    seconds[26:31] *= 2.2
    clock = make_curve(np.cumsum(seconds), None, name="elapsed_time", step=600 * np.arange(1, 37))
    (found,) = alarms(judge(make_signals([clock])))
    assert (found.onset_step, found.end_step, found.recovery) == (600 * 27, 600 * 31, "recovered")


def test_two_windows_of_a_long_log() -> None:
    pace = 56 * np.exp(0.02 * np.random.default_rng(5).standard_normal(3000))
    for first, stop in ((1000, 1200), (2100, 2250)):
        pace[first:stop] /= 4 * np.exp(0.3 * np.random.default_rng(6).standard_normal(stop - first))
    found = alarms(judge(make_signals({"tokens_per_sec": pace})))
    assert [(f.onset_step, f.end_step) for f in found] == [(1001, 1200), (2101, 2250)]


def test_a_step_above_a_wandering_pace() -> None:
    """Half of the range that it wandered through before."""
    random, n = np.random.default_rng(8), 100
    wander = np.repeat(random.uniform(0.7, 1.1, n // 10), 10)
    seconds = 12 * wander * np.exp(0.05 * random.standard_normal(n))
    seconds[61:] *= 2.4
    (found,) = alarms(judge(make_signals({"step_time": seconds})))
    assert found.onset_step == 62


def test_a_slope_from_the_first_step_on_under_bursts() -> None:
    random, n = np.random.default_rng(9), 200
    bursts = np.where(random.random(n) < 0.1, 1.6, 1)
    seconds = np.linspace(0.011, 0.019, n) * bursts * np.exp(0.06 * random.standard_normal(n))
    (found,) = alarms(judge(make_signals({"step_time": seconds})))
    assert (found.onset_step or 0) < 40


def test_rounded_rates_tell_no_small_change() -> None:
    """Three frames a second and two may be 3.0 and 2.9."""
    assert not alarms(judge(make_signals({"tokens_per_sec": np.where(np.arange(60) < 30, 3.0, 2.0)})))
    assert alarms(judge(make_signals({"tokens_per_sec": np.where(np.arange(60) < 30, 9.0, 4.0)})))


@pytest.mark.parametrize(("length", "told"), [(300, 0), (100, 1)])
def test_epochs_of_another_length_are_other_work(length: int, told: int) -> None:
    """An axis of epochs and iterations jumps where epochs turn longer: larger images come in smaller batches."""
    steps = np.concatenate([np.arange(0, 1000, 5), np.arange(10 * length, 15 * length, 5)])
    seconds = np.where(steps < 1000, 0.22, 0.3) * np.exp(0.02 * np.random.default_rng(2).standard_normal(len(steps)))
    signals = make_signals([make_curve(seconds, "step_time", step=steps)])
    signals = replace(signals, axis=Axis("epoch x 100 + iteration", "step"))
    assert len(alarms(judge(signals))) == told


def test_a_running_mean_of_utilisation_comes_last() -> None:
    taken = np.where(np.arange(60) < 25, 1.5, 4.5) * np.exp(0.02 * np.random.default_rng(1).standard_normal(60))
    mean = np.zeros(60)
    for at, now in enumerate(0.2 / taken):
        mean[at] = now if at == 0 else 0.9 * mean[at - 1] + 0.1 * now
    (found,) = alarms(judge(make_signals({"mfu": mean, "step_time": taken})))
    assert (found.series, found.onset_step) == ("step_time", 26)


@pytest.mark.parametrize(("factor", "told"), [(12.0, 1), (1.3, 0)])
def test_a_total_time_tells_a_late_step_that_costs_much(factor: float, told: int) -> None:
    rng = np.random.default_rng(0)
    taken = 5000 * (1 + 0.01 * np.linspace(-1, 1, 56)) * np.exp(0.002 * rng.standard_normal(56))
    taken[47:] *= factor
    step = 10 * np.arange(1, 57)
    total, mean = np.cumsum(taken), np.cumsum(taken) / step
    curves = [
        make_curve(total, None, step=step, name="train_time"),
        make_curve(mean, "step_time", step=step, name="step_avg"),
    ]
    found = alarms(judge(make_signals(curves)))
    assert len(found) == told
    assert all((f.onset_step, f.series) == (480, "train_time") for f in found)


@pytest.mark.parametrize(("begins", "told"), [(30, 0), (10, 1)])
def test_a_part_of_the_loss_that_begins_is_work(begins: int, told: int) -> None:
    rng = np.random.default_rng(1)
    step = np.arange(100)
    taken = 9.5 * np.exp(0.02 * rng.standard_normal(100))
    taken[30:] *= 1.4
    later = step[begins:]
    curves = [
        make_curve(taken, "step_time", step=step),
        make_curve(rng.normal(2, 0.1, 100), "train_loss", step=step),
        make_curve(rng.normal(2, 0.1, len(later)), None, step=later, name="cluster_loss"),
    ]
    assert len(alarms(judge(make_signals(curves)))) == told


def mean_since_start(seconds: np.ndarray, every: int, digits: int) -> Signals:
    step = every * np.arange(1, len(seconds) + 1)
    passed = np.cumsum(every * seconds)
    rate = make_curve(np.round(5e5 * step / passed), "tokens_per_sec", step=step)
    clock = make_curve(np.round(passed / 60, digits), "step_time", name="train_time", step=step, series_id=1)
    return make_signals([rate, clock])


@pytest.mark.parametrize(("every", "digits"), [(100, 1), (5, 1), (100, 4)])
def test_a_mean_rate_tells_the_pace_behind_it(every: int, digits: int) -> None:
    seconds = 0.1 * np.exp(0.02 * np.random.default_rng(0).standard_normal(400))
    assert not alarms(judge(mean_since_start(seconds, every, digits)))
    seconds[240:] *= 1.5
    (found,) = alarms(judge(mean_since_start(seconds, every, digits)))
    assert abs((found.onset_step or 0) - 241 * every) <= 2 * every
    assert "1.5 times" in found.summary and "time per step by tokens_per_sec" in found.summary


def test_a_rate_of_each_row_beside_a_clock_is_no_mean() -> None:
    signals = mean_since_start(0.1 * np.exp(0.02 * np.random.default_rng(0).standard_normal(400)), 100, 1)
    step = signals.by_role["tokens_per_sec"][0].step
    rate = np.where(step > 20_000, 1e6, 5e6)
    (clock,) = signals.by_role["step_time"]
    (found,) = alarms(judge(make_signals([make_curve(rate, "tokens_per_sec", step=step), clock])))
    assert "5 times" in found.summary


def test_the_last_few_points_above_all_others() -> None:
    pace = 0.1 * noise()[:24]
    pace[20:] *= (4, 6, 1.5, 1.5)
    (found,) = alarms(judge(make_signals({"step_time": pace})))
    assert (found.onset_step, found.recovery) == (21, "unrecovered")
    pace[5] = 0.16
    assert not alarms(judge(make_signals({"step_time": pace})))


def test_steps_that_hold_more_data_are_no_slowdown_where_the_rate_holds() -> None:
    longer = np.where(np.arange(N) < 250, 0.4, 1.6) * noise()
    rate = 4e4 * noise(1)
    assert isinstance(judge(make_signals({"step_time": longer, "tokens_per_sec": rate})), Clear)
    assert alarms(judge(make_signals({"step_time": longer})))


@pytest.mark.parametrize("name", ["image_size", "window", "total_points", "NFE-F", "max_frames"])
def test_a_setting_that_grows_explains_longer_steps(name: str) -> None:
    grown = np.where(np.arange(N) < 250, 1.0, 2.0)
    outcome = judge(make_signals([make_curve(grown * noise(), "step_time"), make_curve(128 * grown, None, name=name)]))
    assert isinstance(outcome, Fired)
    assert alarms(outcome) == []
    assert f"while {name} changes" in outcome.findings[0].summary


def test_the_shortest_answer_of_a_batch_explains_no_slope() -> None:
    pace, rng = 300 / np.linspace(1, 1.6, N) * noise(), np.random.default_rng(3)
    for name, told in (("response_length/min", "medium"), ("response_length/mean", "low")):
        length = make_curve(np.linspace(100, 170, N) * np.exp(0.02 * rng.standard_normal(N)), None, name=name)
        outcome = judge(make_signals([make_curve(pace, "tokens_per_sec"), length]))
        assert isinstance(outcome, Fired)
        assert (outcome.findings[0].severity or "medium") == told


def test_a_slope_that_a_short_log_begins_with_begins_with_it() -> None:
    seconds = (24 + 3 * np.arange(46)) * np.exp(0.04 * np.random.default_rng(2).standard_normal(46))
    (found,) = alarms(judge(make_signals({"step_time": seconds})))
    assert found.onset_step == 1


@pytest.mark.parametrize("drifts", [True, False])
def test_first_batches_of_epochs_hide_no_slowdown(*, drifts: bool) -> None:
    took = 0.1 * np.exp(0.02 * np.random.default_rng(0).standard_normal(240))
    took[100:] += np.minimum(np.arange(140) / 80, 1) * 0.3 if drifts else 0.0
    took[::12] += 0.9
    found = alarms(judge(make_signals({"step_time": took})))
    assert len(found) == drifts
    assert not drifts or 95 <= (found[0].onset_step or 0) <= 120


def test_a_slowdown_by_loading_is_one_finding() -> None:
    loading = np.where(np.arange(N) < 200, 0.01, 0.3) * noise(1)
    curves = [make_curve(0.1 * noise() + loading, "step_time"), make_curve(loading, "dataloader_time", series_id=1)]
    (found,) = alarms(judge(make_signals(curves)))
    assert "share of the step's time, against before" in {row.text for row in found.evidence}


@pytest.mark.parametrize("n", [12, 24, 60])
@pytest.mark.parametrize(("fast", "told"), [(2.0, True), (1.3, False), (0.5, False)])
def test_a_few_fast_points_before_all_others(n: int, fast: float, told: bool) -> None:
    times = 42.0 * noise(width=0.01)[:n]
    times[:3] /= fast
    found = alarms(judge(make_signals({"step_time": times})))
    assert [f.onset_step for f in found] == ([4] if told else [])


@pytest.mark.parametrize("at", [3, 10])
@pytest.mark.parametrize("told", ["count", "setting", "rate", "layers", None])
def test_a_model_of_which_more_is_trained_takes_longer(at: int, told: str | None) -> None:
    frozen = np.arange(24) < at
    times = make_curve(np.where(frozen, 21.0, 42.0) * noise(width=0.01)[:24], "step_time")
    count = make_curve(np.where(frozen, 5130.0, 2.3e7), None, name="trainable_params", series_id=1)
    rate = make_curve(np.where(frozen, 1e-3, 1e-5), "learning_rate", name="lr", series_id=2)
    curves = [times, *([count] if told == "count" else []), *([rate] if told == "rate" else [])]
    signals = make_signals(
        curves,
        config={"freeze_layers" if told == "layers" else "freeze_epochs": at if told in {"setting", "layers"} else 0},
    )
    assert len(alarms(judge(signals))) == (told in {"layers", None})
