from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.resume import resume_discontinuity
from trainforensics.model import Event, Finding, Fired
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in resume_discontinuity.META.params}
N, BORDER = 1000, 600
Floats = NDArray[np.float64]


def loss(seed: int = 0, noise: float = 0.05) -> Floats:
    at = np.arange(1, N + 1)
    return 2 + 4 * at**-0.4 + noise * np.random.default_rng(seed).standard_normal(N)


def lives(value: Floats, role: str = "train_loss", overlap: int = 0, old: Floats | None = None, **k: Any) -> Curve:
    """Steps 1..N with a second life from BORDER + 1 on; the first life had logged `overlap` steps more."""
    segment = (np.arange(N) >= BORDER).astype(int)
    superseded = None
    if overlap and old is not None:
        steps = np.arange(BORDER + 1, BORDER + 1 + overlap)
        superseded = make_curve(old[BORDER : BORDER + overlap], role, step=steps, name=k.get("name"))
    return make_curve(value, role, segment=segment, superseded=superseded, **k)


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = resume_discontinuity.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def test_a_loss_that_starts_higher_and_never_comes_back() -> None:
    value = loss()
    value[BORDER:] += 0.5
    found = findings(make_signals([lives(value)]))
    assert [(f.onset_step, f.onset_interval, f.recovery, f.severity) for f in found] == [
        (BORDER + 1, (BORDER, BORDER + 1), "unrecovered", "high")
    ]


def test_a_bump_that_is_worked_off_tells_when() -> None:
    value = loss()
    value[BORDER:] += 0.8 * np.exp(-np.arange(N - BORDER) / 40)
    found = findings(make_signals([lives(value)]))[0]
    assert found.recovery == "recovered"
    assert found.end_step is not None
    assert BORDER + 20 < found.end_step < BORDER + 200


def test_it_is_worked_off_when_what_remains_is_within_the_noise() -> None:
    value = loss(noise=0.02)
    value[BORDER:] += np.exp(-np.arange(N - BORDER) / 20)
    (found,) = findings(make_signals([lives(value)]))
    assert found.end_step is not None
    assert found.end_step - BORDER > 2 * 20  # a fifth of it would remain for 32 steps


def test_replayed_data_lowers_the_loss() -> None:
    value = loss()
    value[BORDER : BORDER + 250] -= 0.3
    assert [f.onset_step for f in findings(make_signals([lives(value)]))] == [BORDER + 1]


def test_an_overlap_that_disagrees_counts_the_repeated_steps() -> None:
    old = loss()
    new = old.copy()
    new[BORDER:] = loss(seed=1)[BORDER:] + 0.3
    found = findings(make_signals([lives(new, overlap=40, old=old)]))[0]
    assert "40 steps logged again" in found.summary


def test_learning_rate_that_warms_up_again_and_a_lost_scale() -> None:
    rate = np.linspace(1e-3, 1e-4, N)
    again = rate.copy()
    again[BORDER : BORDER + 50] = np.linspace(0, rate[BORDER + 50], 50)
    scale, lost = np.full(N, 1024.0), np.full(N, 1024.0)
    lost[BORDER : BORDER + 20] = 65536.0
    base = [lives(loss()), lives(rate, "learning_rate", series_id=1), lives(scale, "loss_scale", series_id=2)]
    assert not findings(make_signals(base))
    assert findings(make_signals([base[0], lives(again, "learning_rate", series_id=1)]))[0].role == "learning_rate"
    assert findings(make_signals([base[0], lives(lost, "loss_scale", series_id=2)]))[0].role == "loss_scale"


def test_a_message_or_a_pause_marks_a_restart_too() -> None:
    value = loss()
    value[BORDER:] += 0.5
    time = np.arange(N, dtype=float)
    time[BORDER:] += 7200
    told = make_signals([make_curve(value)], events=[Event("resume", text="loaded checkpoint step_600.pt")])
    paused = make_signals([make_curve(value, time=time)])
    clocked = make_signals([make_curve(value, time=time)], events=[Event("resume", wall_time=5000.0)])
    assert [f.onset_step for s in (told, paused, clocked) for f in findings(s)] == [BORDER + 1] * 3
    assert not findings(make_signals([make_curve(value)]))


@pytest.mark.parametrize("overlap", [0, 40])
def test_a_clean_resume_is_silent(overlap: int) -> None:
    for seed in range(40):
        old, new = loss(seed), loss(seed + 100)
        new[:BORDER] = old[:BORDER]
        norm = np.exp(0.3 * np.random.default_rng(seed).standard_normal(N))
        curves = [lives(new, overlap=overlap, old=old), lives(norm, "grad_norm", series_id=1)]
        assert not findings(make_signals(curves)), seed


def test_an_early_restart_on_the_steep_part_is_silent() -> None:
    for seed in range(40):
        value = loss(seed)
        assert not findings(make_signals([make_curve(value, segment=(np.arange(N) >= 30).astype(int))])), seed


def test_an_event_that_was_rolled_back_is_not_compared() -> None:
    old, new = loss(0), loss(1)
    new[:BORDER] = old[:BORDER]
    old[BORDER + 2 :] += 3
    assert not findings(make_signals([lives(new, overlap=100, old=old)]))


@pytest.mark.parametrize("config", [{"fork_from": "parent?_step=600"}, {"_wandb.fork_from": "parent?_step=600"}])
def test_a_declared_fork_is_silent(config: Mapping[str, Any]) -> None:
    value = loss()
    value[BORDER:] += 0.5
    assert not findings(make_signals([lives(value)], config=config))


def test_a_bump_of_a_few_points_after_the_restart() -> None:
    value = loss()
    value[BORDER + 1 : BORDER + 5] += [1.5, 0.8, 0.4, 0.2]
    (found,) = findings(make_signals([lives(value)]))
    assert found.recovery == "recovered"
    assert not findings(make_signals([lives(loss())]))


@pytest.mark.parametrize(("since", "told"), [(0.0, 0), (2e-5, 1)])
def test_a_rate_that_is_zero_after_a_pause_tells_of_no_restart(since: float, told: int) -> None:
    time = np.arange(N) * 2.0
    time[BORDER:] += 300
    rate = np.where(np.arange(N) < BORDER, 2e-3, since)
    signals = make_signals([make_curve(loss(), time=time), make_curve(rate, "learning_rate", time=time)])
    assert len(findings(signals)) == told
    again = make_signals([lives(loss()), lives(rate, "learning_rate")])
    assert len(findings(again)) == 1
