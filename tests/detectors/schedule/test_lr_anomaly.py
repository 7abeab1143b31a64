from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.schedule import lr_anomaly
from trainforensics.model import Finding, Fired, NotApplicable
from trainforensics.signals import Curve, Signals

PARAMS = {p.name: p.default for p in lr_anomaly.META.params}
N = 400
AT = np.arange(1, N + 1)
Floats = NDArray[np.float64]
COSINE = 1e-3 * np.minimum(AT / 20, 0.5 * (1 + np.cos(np.pi * AT / N)))


def rate(value: Floats, **k: Any) -> Curve:
    return make_curve(value, "learning_rate", name="lr", **k)


def findings(*curves: Curve, config: Mapping[str, Any] | None = None) -> tuple[Finding, ...]:
    outcome = lr_anomaly.detect(make_signals(curves, config=config), PARAMS)
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
    "range test": RANGE_TEST, "groups in turn": GROUPS,
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


def test_few_points_are_not_judged() -> None:
    signals: Signals = make_signals([rate(COSINE[:5])])
    assert isinstance(lr_anomaly.detect(signals, PARAMS), NotApplicable)
