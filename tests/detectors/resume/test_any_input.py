"""Detectors of four families on input that no log should hold: an outcome, never an exception."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given, settings
from hypothesis import strategies as st

from trainforensics.detectors.data import data_shift
from trainforensics.detectors.generalisation import (
    double_descent,
    eval_invalid,
    eval_regression,
    val_divergence,
    val_jump,
)
from trainforensics.detectors.monitoring import coverage_gap
from trainforensics.detectors.resume import import_integrity, resume_discontinuity, scale_mismatch
from trainforensics.detectors.schedule import batch_size_change, lr_anomaly
from trainforensics.model import Clear, Event, Fired, NotApplicable
from trainforensics.signals import Signals

DETECTORS: tuple[ModuleType, ...] = (
    val_divergence,
    val_jump,
    double_descent,
    eval_regression,
    eval_invalid,
    resume_discontinuity,
    import_integrity,
    scale_mismatch,
    data_shift,
    lr_anomaly,
    batch_size_change,
    coverage_gap,
)
ROLES = (
    "train_loss",
    "val_loss",
    "val_metric",
    "grad_norm",
    "learning_rate",
    "loss_scale",
    "activation_norm",
    "batch_size",
    "seq_len",
    "source",
    "epoch",
)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 1e300, -1e300, 5e-324, 1e99, -1e99])


def run_all(signals: Signals) -> None:
    for module in DETECTORS:
        with np.errstate(all="ignore"):  # as the engine does
            outcome = module.detect(signals, {p.name: p.default for p in module.META.params})
        assert isinstance(outcome, Fired | Clear | NotApplicable)
        for finding in outcome.findings if isinstance(outcome, Fired) else ():
            assert finding.kind == module.META.kind.name
            assert 0 < finding.confidence < 1
            assert finding.evidence
            assert "nan" not in finding.summary or "not finite" in finding.summary
            if finding.onset_interval is not None and finding.onset_step is not None:
                assert finding.onset_interval[0] <= finding.onset_step == finding.onset_interval[1]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([1, 2, 3, 8, 30, 250]), special=st.floats(0, 1))
def test_any_values_on_any_steps(seed: int, n: int, special: float) -> None:
    rng = np.random.default_rng(seed)
    curves = []
    for i, role in enumerate(rng.choice(ROLES, 6)):
        size = int(rng.integers(1, n + 1))
        value = np.where(rng.random(size) < special, rng.choice(SPECIAL, size), np.exp(rng.normal(0, 0.3, size)))
        value[int(rng.integers(0, size)) :] = rng.choice(SPECIAL) if rng.random() < 0.5 else value[-1]
        step = rng.choice([-5, 0, 2**53 + 1]) + np.cumsum(rng.choice([0, 1, 1, 1, 10, 2**40], size))
        segment = np.sort(rng.integers(0, 3, size))
        time = np.cumsum(rng.choice([1.0, 1.0, 1e5, np.nan], size))
        old = make_curve(value[::2], str(role), step=step[::2], segment=np.maximum(segment[::2] - 1, 0))
        curves.append(
            make_curve(
                value, str(role), name=f"{role}{i}", step=step, time=time, segment=segment, series_id=i, superseded=old
            )
        )
    events = [Event("resume", step=int(rng.integers(-5, 300))), Event("restart", text="step_3"), Event("resume")]
    run_all(make_signals(curves, events=events))


@pytest.mark.parametrize("n", [1, 3, 300])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 1.0, 1e300, -1e300, 1e-300])
def test_constants(value: float, n: int) -> None:
    segment = (np.arange(n) >= n // 2).astype(int)
    run_all(make_signals([make_curve(np.full(n, value), role, segment=segment) for role in ROLES]))


def test_nothing_at_all() -> None:
    run_all(make_signals({}))
    run_all(make_signals({"train_loss": [], "val_loss": []}))
