"""Numerics and gradient detectors on input that no log should hold: an outcome, never an exception or a warning."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given, settings
from hypothesis import strategies as st

from trainforensics.detectors.gradients import (
    activation_outlier,
    attention_collapse,
    clip_saturation,
    gradient_explosion,
    update_ratio,
    vanishing_gradient,
)
from trainforensics.detectors.loss import loss_zero
from trainforensics.detectors.numerics import (
    grad_nan,
    nan_onset,
    scale_decay,
    skipped_steps,
    transient_nan,
    underflow,
)
from trainforensics.model import Clear, Fired, NotApplicable
from trainforensics.signals import Signals

DETECTORS: tuple[ModuleType, ...] = (
    nan_onset,
    transient_nan,
    grad_nan,
    scale_decay,
    skipped_steps,
    underflow,
    gradient_explosion,
    vanishing_gradient,
    clip_saturation,
    update_ratio,
    activation_outlier,
    attention_collapse,
    loss_zero,
)
ROLES = (
    "train_loss", "grad_norm", "learning_rate", "loss_scale", "overflow", "skipped_steps", "update_ratio", "val_loss",
    "attention_entropy", "activation_norm", "dead_fraction", "clip_ratio",
)  # fmt: skip
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 0.0, 1.0, -1.0, 1e300, -1e300, 5e-324, 65536.0, 1e-5])


def run_all(signals: Signals) -> None:
    for module in DETECTORS:
        with np.errstate(all="ignore"):  # as the engine does
            outcome = module.detect(signals, {p.name: p.default for p in module.META.params})
        assert isinstance(outcome, Fired | Clear | NotApplicable)
        if isinstance(outcome, Fired):
            for finding in outcome.findings:
                assert finding.kind == module.META.kind.name
                assert finding.summary.endswith(".")
                assert 0 < finding.confidence < 1
                assert finding.onset_step is not None
                assert finding.evidence


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([1, 2, 3, 12, 40, 200]), special=st.floats(0, 1))
def test_any_values_on_any_steps(seed: int, n: int, special: float) -> None:
    rng = np.random.default_rng(seed)
    curves = []
    for i, role in enumerate(rng.choice(ROLES, 6)):
        size = int(rng.integers(1, n + 1))
        value = np.where(rng.random(size) < special, rng.choice(SPECIAL, size), np.exp(rng.normal(0, 0.3, size)))
        value[int(rng.integers(0, size)) :] = rng.choice(SPECIAL) if rng.random() < 0.5 else value[-1]
        step = rng.choice([-5, 0, 2**53 + 1]) + np.cumsum(rng.choice([0, 1, 1, 1, 10, 2**40], size))
        segment = np.sort(rng.integers(0, 3, size))
        rank = rng.choice([None, None, 0, 1])
        curves.append(
            make_curve(value, str(role), name=f"{role}{i}", step=step, segment=segment, series_id=i, rank=rank)
        )
    run_all(make_signals(curves))


@pytest.mark.parametrize("n", [1, 3, 300])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 1.0, 1e300, -1e300, 1e-300])
def test_constants(value: float, n: int) -> None:
    run_all(make_signals({role: np.full(n, value) for role in ROLES}))


def test_huge_swings() -> None:
    rng = np.random.default_rng(0)
    run_all(make_signals({role: rng.choice([-1e300, 1e300, 0.0, 1e-300], 500) for role in ROLES}))


def test_a_healthy_run_is_silent() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = 2000
        step = np.arange(n)
        values = {
            "train_loss": 2 + 3 * np.exp(-step / 200) + 0.08 * rng.standard_normal(n),
            "grad_norm": (1 + 3 * np.exp(-step / 50)) * np.exp(0.3 * rng.standard_normal(n)),
            "learning_rate": 1e-3 * np.minimum(step / 100, 1 - step / n),
            "loss_scale": np.where((step // 250) % 2 == 0, 32768.0, 65536.0),
            "overflow": (step % 500 == 499).astype(float),
            "update_ratio": 1e-3 * np.exp(0.2 * rng.standard_normal(n)),
            "attention_entropy": 1 + 2 * np.exp(-step / 300) + 0.05 * rng.standard_normal(n),
            "activation_norm": (5 + step / 400) * np.exp(0.05 * rng.standard_normal(n)),
        }
        signals = make_signals([make_curve(v, r, series_id=i) for i, (r, v) in enumerate(values.items())])
        for module in DETECTORS:
            outcome = module.detect(signals, {p.name: p.default for p in module.META.params})
            assert not isinstance(outcome, Fired), (seed, outcome.findings)
