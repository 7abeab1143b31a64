from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.numerics import scale_decay
from trainforensics.model import Clear, Event, Finding, Fired, NotApplicable
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in scale_decay.META.params}


def one(signals: Signals) -> Finding:
    outcome = scale_decay.detect(signals, PARAMS)
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


def quiet(signals: Signals) -> None:
    assert isinstance(scale_decay.detect(signals, PARAMS), Clear)


def sawtooth(n: int = 4000, window: int = 400, low: float = 1024.0) -> np.ndarray:
    return np.where((np.arange(n) // window) % 2 == 0, low, 2 * low)


def test_halvings_without_growth() -> None:
    scale = sawtooth()
    for i, at in enumerate(range(3000, 3300, 30)):
        scale[at:] = 1024.0 / 2 ** (i + 1)
    found = one(make_signals({"loss_scale": scale}))
    assert found.onset_step == 3001
    assert found.recovery == "unrecovered"
    assert "from 2048 to 1 in 11 halvings" in found.summary


def test_a_lonely_back_off_long_before_is_not_the_onset() -> None:
    scale = np.full(3000, 65536.0)
    scale[500:] = 32768.0
    for i, at in enumerate(range(2000, 2100, 10)):
        scale[at:] = 32768.0 / 2 ** (i + 1)
    assert one(make_signals({"loss_scale": scale})).onset_step == 2001


def test_a_slow_decay_at_a_coarse_cadence() -> None:
    step = np.arange(3600, 6600, 10)
    scale = 65536.0 / 2.0 ** np.clip((step - 4700) // 300 + 1, 0, 5)
    assert one(make_signals([make_curve(scale, "loss_scale", step=step)])).onset_step == 4700


def message(step: int, before: float, after: float, rank: int | None = None) -> Event:
    text = (
        f"[deepspeed] OVERFLOW! Rank {rank or 0} Skipping step. Attempted loss scale: {before:g}, reducing to {after:g}"
    )
    return Event("overflow", step=step, rank=rank, text=text)


def test_messages_of_several_ranks_count_once() -> None:
    events = [message(371 + i, 2.0 ** (16 - i), 2.0 ** (15 - i), rank) for i in range(12) for rank in range(4)]
    found = one(make_signals({"train_loss": np.full(400, 2.0)}, events=events))
    assert (found.onset_step, found.end_step) == (371, 382)
    assert "12 halvings" in found.summary


def test_overflows_on_the_floor_from_the_start() -> None:
    events = [message(i, 1, 1) for i in range(1, 150)]
    found = one(make_signals({"train_loss": np.full(150, 3.4)}, events=events))
    assert found.onset_step == 1
    assert "floor" in found.summary


def test_sawteeth_are_quiet() -> None:
    quiet(make_signals({"loss_scale": sawtooth()}))


def test_the_search_at_the_start_is_quiet() -> None:
    quiet(make_signals({"loss_scale": 2.0 ** np.maximum(32 - np.arange(2000), 22)}))
    events = [message(i + 1, 2.0 ** (16 - i), 2.0 ** (15 - i)) for i in range(7)]
    quiet(make_signals({"train_loss": np.full(300, 2.0)}, events=events))


def test_the_search_after_a_restart_is_quiet() -> None:
    scale = np.full(2000, 1024.0)
    scale[800:806] = 65536.0 / 2.0 ** np.arange(6)
    quiet(make_signals({"loss_scale": scale}))
    quiet(make_signals([make_curve(scale, "loss_scale", segment=np.repeat([0, 1], [799, 1201]))]))


def test_a_fixed_scale_and_growth_are_quiet() -> None:
    quiet(make_signals({"loss_scale": np.ones(500)}))
    quiet(make_signals({"loss_scale": 2.0 ** (16 + np.arange(3000) // 1000)}))


def test_two_back_offs_in_a_row_are_quiet() -> None:
    scale = sawtooth()
    scale[2500:2520] = 512.0
    quiet(make_signals({"loss_scale": scale}))


def test_hysteresis_messages_do_not_change_the_scale() -> None:
    text = "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1"
    signals = make_signals({"train_loss": np.ones(50)}, events=[Event("overflow", step=9, text=text)])
    assert isinstance(scale_decay.detect(signals, PARAMS), NotApplicable)
