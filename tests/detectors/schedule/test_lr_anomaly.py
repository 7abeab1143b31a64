from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trainforensics.detectors.schedule import lr_anomaly
from trainforensics.model import Axis, AxisUnit, Finding, Fired, NotApplicable
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in lr_anomaly.META.params}
N = 400
AT = np.arange(1, N + 1)
Floats = NDArray[np.float64]
COSINE = 1e-3 * np.minimum(AT / 20, 0.5 * (1 + np.cos(np.pi * AT / N)))


def rate(value: Floats, **k: Any) -> Curve:
    return make_curve(value, "learning_rate", name="lr", **k)


def findings(*curves: Curve, config: Mapping[str, Any] | None = None, unit: AxisUnit = "step") -> tuple[Finding, ...]:
    signals = replace(make_signals(curves, config=config), axis=Axis(unit, unit))
    outcome = lr_anomaly.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def quiet_loss() -> Floats:
    return 2 + np.exp(-AT / 80) + 0.03 * np.random.default_rng(0).standard_normal(N)


def test_a_rate_of_zero() -> None:
    never, ended = np.zeros(N), COSINE.copy()
    ended[200:] = 0
    assert [f.onset_step for value in (never, ended) for f in findings(rate(value))] == [1, 201]


def test_a_scheduler_that_starts_again() -> None:
    value = COSINE.copy()
    value[180:] = COSINE[: N - 180]
    assert [f.onset_step for f in findings(rate(value))] == [181]


def test_a_jump_in_mid_course() -> None:
    value = COSINE.copy()
    value[200:] *= 1.4
    assert [f.onset_step for f in findings(rate(value))] == [201]


def test_a_climb_that_the_loss_follows_is_high() -> None:
    value, loss = np.full(N, 1e-3), quiet_loss()
    value[200:] *= np.minimum(50, 1.03 ** np.arange(N - 200))
    loss[260:] += np.linspace(0, 2, N - 260)
    found = findings(rate(value), make_curve(loss))
    assert [(f.onset_step, f.severity) for f in found] == [(202, "high")]
    assert [f.severity for f in findings(rate(value), make_curve(quiet_loss()))] == ["medium"]


def test_a_declared_decay_that_never_comes() -> None:
    config = {"lr_scheduler_type": "cosine", "max_steps": N}
    flat = np.full(N, 1e-3)
    assert len(findings(rate(flat), config=config)) == 1
    assert not findings(rate(flat))
    assert not findings(rate(COSINE), config=config)
    assert not findings(rate(flat[:100]), config=config)


STAIRS = 1e-3 * 0.1 ** (AT // 130)
CYCLES = 1e-3 * 0.5 * (1 + np.cos(np.pi * (AT % 100) / 100))
ONE_RESTART = 1e-3 * 0.5 * (1 + np.cos(np.pi * np.where(AT < 150, AT / 150, (AT - 150) / 250))) + 1e-5
TRIANGLES = 1e-3 * (0.1 + np.abs((AT / 60) % 2 - 1))
ONE_CYCLE = 1e-3 * np.minimum(AT / 160, np.maximum(0, (400 - AT) / 240))
STEPWISE_WARM_UP = 1e-3 * np.minimum(1, 0.2 * (1 + AT // 25)) * np.where(AT > 300, 0.1, 1)
SCALER_SEARCH = np.where(AT <= 8, 0, COSINE)
RANGE_TEST = 1e-6 * 1.03**AT
GROUPS = np.where(AT % 2, 1e-3, 1e-4)
SHAPES = {
    "cosine": COSINE, "constant": np.full(N, 1e-3), "stairs": STAIRS, "cycles": CYCLES, "one restart": ONE_RESTART,
    "triangles": TRIANGLES, "one cycle": ONE_CYCLE, "stepwise warm-up": STEPWISE_WARM_UP, "search": SCALER_SEARCH,
    "range test": RANGE_TEST, "wide range test": 1e-7 * 1.047**AT, "groups in turn": GROUPS,
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("decimals", [None, 3])
def test_schedules_are_silent(shape: str, every: int, decimals: int | None) -> None:
    value = SHAPES[shape][::every]
    if decimals is not None:
        value = np.array([float(f"{v:.{decimals}g}") for v in value])
    assert not findings(rate(value, step=AT[::every]))


def test_a_break_at_a_restart_is_another_kind() -> None:
    value = COSINE.copy()
    value[180:] = COSINE[: N - 180]
    lives = (AT > 180).astype(int)
    assert not findings(rate(value, segment=lives), make_curve(quiet_loss(), segment=lives))


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_rate_that_follows_the_batch_is_silent(power: float) -> None:
    """A declared batch ramp; without the batch in the log the climb is told."""
    batch = 4.0 * 2.0 ** np.minimum(AT // 100, 2)
    value = 1e-4 * np.minimum(AT / 20, 1) * (batch / 4) ** power
    assert findings(rate(value))
    assert findings(rate(value), make_curve(batch, "batch_size", name="batch")) == ()


def test_a_batch_known_by_its_running_count_is_followed_too() -> None:
    batch = 4.0 * 2.0 ** np.minimum(AT // 100, 2)
    value = 1e-4 * np.minimum(AT / 20, 1) * np.sqrt(batch / 4)
    assert findings(rate(value), make_curve(np.cumsum(24 * batch), "batch_size", name="tokens")) == ()


def test_few_points_are_not_judged() -> None:
    signals: Signals = make_signals([rate(COSINE[:5])])
    assert isinstance(lr_anomaly.detect(signals, PARAMS), NotApplicable)


def test_a_declared_cosine_that_climbs_back_up() -> None:
    twice = 1e-3 * np.minimum(AT / 20, 0.5 * (1 + np.cos(2 * np.pi * AT / N)))
    found = findings(rate(twice), config={"lr_scheduler_type": "cosine"})
    assert len(found) == 1
    assert found[0].onset_step == pytest.approx(201, abs=3)
    for declared in ("cosine_with_restarts", "constant", "cyclic"):
        assert not findings(rate(twice), config={"lr_scheduler_type": declared})
    at_once = np.concatenate((COSINE[::2], COSINE[40::2]))  # a warm restart
    assert not findings(rate(at_once), config={"lr_scheduler_type": "cosine"})


def cut(every: int, factor: float, epochs: int = 80) -> Curve:
    return rate(1e-3 * factor ** (np.arange(epochs) // every), step=np.arange(epochs))


PLATEAU = {"scheduler": "ReduceLROnPlateau"}


def test_cuts_while_the_loss_improves() -> None:
    epochs = np.arange(80)
    falls = [
        make_curve(level + 3 * np.exp(-epochs / 6), role, step=epochs, series_id=i)
        for i, (role, level) in enumerate((("train_loss", 0.6), ("val_loss", 0.7)), start=1)
    ]
    found = findings(cut(3, 0.2), *falls)
    assert [f.onset_step for f in found] == [3]
    assert len(findings(cut(3, 0.7**2), *falls, config=PLATEAU)) == 1
    assert not findings(cut(25, 0.1), *falls)  # a step decay
    assert not findings(cut(3, 0.9), *falls)


def test_cuts_from_the_first_while_every_epoch_is_the_best() -> None:
    """A scheduler that takes a rising score for a worse one: nothing moves once the rate is gone."""
    epochs, rng = np.arange(60), np.random.default_rng(4)
    value = np.maximum(1e-9, 1e-3 * 0.1 ** np.maximum((epochs - 1) // 5, 0.0))
    stuck = 0.43 + 0.06 * np.maximum(0, 5 - epochs) + 0.005 * rng.standard_normal(60)
    loss = make_curve(stuck, step=epochs, series_id=1)
    assert [f.onset_step for f in findings(rate(value, step=epochs), loss)] == [6]
    rested = make_curve(0.43 + 0.005 * rng.standard_normal(60), step=epochs, series_id=1)
    assert not findings(rate(value, step=epochs), rested)


def test_cuts_on_a_plateau_are_what_they_are_for() -> None:
    epochs = np.arange(80)
    rested = 0.6 + 3 * np.exp(-epochs / 2) + 0.01 * np.random.default_rng(3).standard_normal(80)
    held = np.where(epochs < 30, 1e-3, 1e-3 * 0.1 ** ((epochs - 27) // 3))
    loss = make_curve(rested, step=epochs, series_id=1)
    assert not findings(rate(held, step=epochs), loss, config=PLATEAU)


STEPS = np.arange(4000.0)
CUT_SHORT = {
    "exponential": 0.985**STEPS,
    "fast exponential": 0.9**STEPS,
    "steps": 0.1 ** (STEPS // 40),
    "milestones": 0.1 ** ((STEPS >= 60) * 1.0 + (STEPS >= 90)),
    "cosine": 0.5 * (1 + np.cos(np.pi * STEPS / 30)),
}


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("shape", CUT_SHORT)
def test_a_schedule_of_epochs_that_is_stepped_with_every_batch(shape: str, every: int) -> None:
    value, step = 3e-3 * CUT_SHORT[shape][::every], STEPS[::every]
    flat = make_curve(2 + 0.05 * np.random.default_rng(1).standard_normal(len(step)), step=step, series_id=1)
    found = findings(rate(value, step=step), flat)
    assert len(found) == 1
    assert (found[0].onset_step or 0) <= 200


def test_it_is_told_where_the_decay_would_end_by_epochs() -> None:
    value, epoch = 3e-3 * 0.985**STEPS, STEPS / 200
    (found,) = findings(rate(value, step=STEPS), make_curve(epoch, "epoch", step=STEPS, series_id=1))
    assert "x0.985 a step; once an epoch it would end at 0.00222" in found.summary


EPOCH = STEPS // 200
BY_PLAN = {
    "exponential to 1e-4": 1e-4 ** (STEPS / 4000),
    "exponential by epochs": 0.4**EPOCH,
    "three cuts": 0.1 ** (STEPS // 1000),
    "triangles": 0.01 + np.abs((STEPS / 50) % 2 - 1),
    "six waves": 0.5 * (1 + np.cos(12 * np.pi * STEPS / 4000)),
    "restarts": 0.5 * (1 + np.cos(np.pi * (STEPS % 100) / 100)) + 1e-3,
    "rate finder first": np.where(STEPS < 150, 1e-6 * 1.1 ** np.minimum(STEPS, 150), 1e-3),
    "decay to a floor": np.maximum(0.5 * (1 + np.cos(np.pi * np.minimum(STEPS / 2000, 1))), 1e-2),
}


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("shape", BY_PLAN)
def test_long_decays_and_cycles_are_silent(shape: str, every: int) -> None:
    assert not findings(rate(1e-3 * BY_PLAN[shape][::every], step=STEPS[::every]))


def test_a_loss_that_does_not_mind_the_decay_is_silent() -> None:
    """The rate may be that of a part of the model."""
    falling = make_curve(1 + 3 * np.exp(-STEPS / 1500), step=STEPS, series_id=1)
    assert not findings(rate(3e-3 * 0.985**STEPS, step=STEPS), falling)


def test_a_peak_after_half_of_the_log_is_no_early_decay() -> None:
    value = np.full(N, 1e-9)
    value[-10:-5] = 1e-3
    assert all("planned in epochs" not in f.summary for f in findings(rate(value)))


@given(
    st.lists(st.floats(0, 1e308, allow_subnormal=True), min_size=10, max_size=60),
    st.integers(1, 50),
)
def test_any_rate_is_judged_without_failing(value: list[float], every: int) -> None:
    step = every * np.arange(len(value))
    for found in findings(rate(np.array(value), step=step)):
        assert found.onset_step in step


def test_a_rate_printed_as_zero_while_the_model_learns_was_rounded() -> None:
    nothing = rate(np.zeros(N))
    flat = make_curve(2 + 0.03 * np.random.default_rng(0).standard_normal(N))
    assert not findings(nothing, make_curve(quiet_loss()))
    assert not findings(nothing, make_curve(np.linspace(0, 1, N), "reward", name="score"))
    assert [f.onset_step for f in findings(nothing, flat)] == [1]


def test_a_decay_that_stands_still_before_its_declared_end() -> None:
    standing, declared = COSINE.copy(), {"lr_decay_style": "cosine", "train_iters": 500}
    standing[220:] = standing[220]
    assert [f.onset_step for f in findings(rate(standing), config=declared)] == [222]
    assert not findings(rate(standing), config={"train_iters": 500})  # a plan that was not written down
    assert not findings(rate(np.maximum(COSINE, 1e-4)), config=declared)  # its floor
    ended = declared | {"lr_decay_iters": 220}  # a decay that ends high, before the run does
    assert not findings(rate(standing), config=ended)
    assert findings(rate(standing), config={"lr_decay_style": "cosine", "train_iters": 300})  # and the run went on


LINEAR = 1e-3 * np.minimum(AT / 20, 1 - AT / (N + 1))


@pytest.mark.parametrize("shape", ["linear", "cosine"])
@pytest.mark.parametrize("epochs", [3, 4, 8])
def test_a_declared_decay_that_comes_again_with_each_epoch(shape: str, epochs: int) -> None:
    each = N // epochs
    turn = np.arange(each) / each
    decay = 1 - turn if shape == "linear" else 0.5 * (1 + np.cos(np.pi * turn))
    value = np.tile(1e-3 * np.minimum((np.arange(each) + 1) / 5, decay), epochs)
    again = rate(value, step=np.arange(1, len(value) + 1))
    assert [f.onset_step for f in findings(again, config={"lr_scheduler_type": shape})] == [each + 1]
    assert not findings(again)
    assert not findings(again, config={"lr_scheduler": shape, "T_0": each})
    assert not findings(again, config={"lr_scheduler_type": f"{shape}_with_restarts"})


def test_a_warm_up_that_is_cut() -> None:
    value = np.where(AT < 130, 1e-5 * AT, 2e-3 * (1 - (AT - 130) / 500))
    config = {"run.warmup_steps": 200}
    assert [f.onset_step for f in findings(rate(value), config=config)] == [130]
    assert not findings(rate(value))  # nothing says that it was to last
    assert not findings(rate(value), config={"warmup_steps": 130})
    assert not findings(rate(value), config=config, unit="row")
    assert not findings(rate(value), config={"warmup_steps": 5000})  # steps of another kind
    new_life = np.where(AT < 130, 0, 1)
    loss = make_curve(quiet_loss(), segment=new_life)
    assert not findings(rate(value, segment=new_life), loss, config=config)


def test_declared_cuts_that_never_come() -> None:
    still = rate(np.full(N, 0.1), step=10 * AT)
    steps = {"lr_scheduler": "StepLR", "lr_scheduler_interval": "step", "lr_step_size": 1000, "gamma": 0.1}
    assert [f.onset_step for f in findings(still, config=steps)] == [1010]
    assert not findings(still, config=steps | {"lr_step_size": 3000})  # it may yet come
    assert not findings(still, config=steps | {"gamma": 0.99})
    assert not findings(still, config=steps, unit="epoch")
    assert not findings(still, config={key: value for key, value in steps.items() if key != "gamma"})
    assert not findings(rate(np.where(AT > 150, 0.01, 0.1), step=10 * AT), config=steps)
    epochs = {"lr_scheduler": "MultiStepLR", "milestones": [5, 8], "gamma": 0.1}
    assert not findings(still, config=epochs)
    found = findings(still, make_curve(AT / 20, "epoch", step=10 * AT), config=epochs)
    assert [f.onset_step for f in found] == [1210]


def test_a_fall_at_once_in_a_smooth_decay() -> None:
    value = LINEAR.copy()
    value[150:] *= 0.1
    config = {"lr_scheduler_type": "linear"}
    assert [f.onset_step for f in findings(rate(value), config=config)] == [151]
    assert not findings(rate(value))
    assert not findings(rate(LINEAR), config=config)
    by_epoch = 1e-3 * (1 - np.arange(N) // 80 / 5)
    assert not findings(rate(by_epoch), config=config)
    batch = np.where(AT > 150, 8.0, 80.0)
    assert not findings(rate(value), make_curve(batch, "batch_size"), config=config)


def test_a_rate_below_zero() -> None:
    assert [f.onset_step for f in findings(rate(1e-3 * (1 - AT / 300.5)))] == [301]
    assert not findings(rate(np.log10(COSINE + 1e-9)))  # its logarithm


def test_a_warm_up_that_is_never_seen() -> None:
    config = {"lr_scheduler_type": "linear", "warmup_steps": 100}
    never = np.where(AT <= 100, 1e-3, 1e-3 * (1 - (AT - 100) / N))
    assert [f.onset_step for f in findings(rate(never), config=config)] == [1]
    assert not findings(rate(never), config=config | {"lr_scheduler_type": "constant"})
    assert not findings(rate(never), config={"warmup_steps": 100})
    assert not findings(rate(never), config=config, unit="epoch")  # 100 steps are no 100 epochs
    assert not findings(rate(never, step=AT + 50), config=config)  # the log begins later


def test_a_decay_by_epochs_within_a_warm_up_is_no_end_of_it() -> None:
    value = 1e-2 * np.minimum(1, AT / 60) * (1 - (AT - 1) // 20 / 20)
    assert not findings(rate(value), config={"warmup_epochs": 3})


def test_an_adaptive_rate_that_is_let_loose() -> None:
    rng = np.random.default_rng(0)
    drift = 0.1 * (1 - 0.5 * np.exp(-AT / 80)) * (1 + 0.002 * rng.standard_normal(N))
    loose = np.where(AT > 250, np.clip(drift + 0.15 * rng.standard_normal(N), 1e-3, None), drift)
    (found,) = findings(rate(loose))
    assert found.onset_step == pytest.approx(255, abs=5)
    assert not findings(rate(drift))


@pytest.mark.parametrize("points", [3, 4, 5])
def test_cycles_of_a_few_points_are_no_resets(points: int) -> None:
    length = points * 2 ** np.arange(6)
    value = np.concatenate([0.5 * (1 + np.cos(np.pi * np.arange(n) / n)) for n in length])
    assert not findings(rate(1e-3 * value, step=np.arange(len(value))))


def test_a_rate_that_follows_a_measured_kl_is_no_schedule() -> None:
    rng = np.random.default_rng(0)
    adaptive = 1e-3 * np.exp(0.5 * rng.standard_normal(400))
    signals = make_signals([rate(adaptive), make_curve(quiet_loss(), series_id=7)])
    assert isinstance(lr_anomaly.detect(signals, PARAMS), NotApplicable)


def test_a_rate_that_leaps_over_decades_follows_no_schedule() -> None:
    leaping = np.exp(np.random.default_rng(1).uniform(np.log(3e-7), np.log(2e-4), 16))
    found = findings(rate(leaping), unit="epoch")
    assert [finding.onset_step for finding in found] == [3]
    cycle = np.tile(1e-3 * np.array([1.0, 0.5, 0.1, 1e-3]), 8)
    assert not findings(rate(cycle), unit="epoch")
    groups = np.ravel(np.outer(np.geomspace(1e-3, 1e-6, 16), [1.0, 0.05]))  # logged in turn
    assert not findings(rate(groups), unit="epoch")


def test_a_climb_out_of_a_decay_begins_where_the_rate_turns() -> None:
    value = COSINE.copy()
    value[200:] = value[200] * 1.03 ** np.arange(N - 200)
    assert [f.onset_step for f in findings(rate(value))] == [202]


def test_a_decay_to_a_small_floor_that_is_over_in_the_first_tenth() -> None:
    early = np.maximum(5e-8, 1e-5 * np.minimum(AT / 10, 0.5 * (1 + np.cos(np.pi * np.minimum(AT, 22) / 22))))
    whole = np.maximum(5e-8, 1e-5 * np.minimum(AT / 10, 0.5 * (1 + np.cos(np.pi * AT / N))))
    assert [len(findings(rate(value))) for value in (early, whole)] == [1, 0]


def test_a_warm_up_longer_than_the_run() -> None:
    step = np.array([10, 20, 30])
    climbing = rate(4e-7 * (step - 1), step=step)
    (found,) = findings(climbing, config={"max_steps": 30})
    assert "all 30 planned steps" in found.summary
    assert findings(climbing, config={"max_steps": 60}) == ()
    assert findings(climbing, config={"total_iters": 10}) == ()  # of an epoch
    assert findings(climbing, config={"max_steps": 30, "scheduler": {"type": "LRRangeTest"}}) == ()
    assert findings(climbing) == ()
    assert findings(rate(np.array([4e-7, 5e-7, 5e-7]), step=step), config={"max_steps": 30}) == ()
    assert findings(rate(1e-5 + 4e-7 * step, step=step), config={"max_steps": 30}) == ()
    assert findings(rate(np.linspace(0.01, 1, 100), step=np.arange(1, 101)), config={"max_steps": 100}) == ()
