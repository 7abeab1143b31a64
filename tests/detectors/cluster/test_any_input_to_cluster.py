"""Cluster detectors on input that no log should hold: an outcome, never an exception or a warning."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from factories import make_curve, make_signals
from hypothesis import given, settings
from hypothesis import strategies as st

from trainforensics.detectors.cluster import (
    clock_skew,
    expert_collapse,
    hang,
    hardware_fault,
    memory_growth,
    rank_divergence,
    rl_collapse,
    straggler,
    throughput_drop,
)
from trainforensics.detectors.loss import periodic_data_order
from trainforensics.detectors.resume import checkpoint_failure
from trainforensics.model import Checkpoint, Clear, Event, Fired, NotApplicable
from trainforensics.signals import Signals

DETECTORS: tuple[ModuleType, ...] = (
    rank_divergence,
    straggler,
    throughput_drop,
    memory_growth,
    hang,
    hardware_fault,
    clock_skew,
    expert_collapse,
    rl_collapse,
    checkpoint_failure,
    periodic_data_order,
)
ROLES = (
    "train_loss", "grad_norm", "param_norm", "step_time", "tokens_per_sec", "gpu_memory", "host_memory", "gpu_util",
    "gpu_temperature", "gpu_clock", "ecc_errors", "expert_load", "router_entropy", "load_balance_loss", "kl", "reward",
    "entropy", "reward_std", "barrier_wait", "batch_size", "learning_rate", "epoch", "checksum",
)  # fmt: skip
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 0.0, 1.0, -1.0, 1e300, -1e300, 5e-324, 1e-5])
EVENTS = (
    Event("checkpoint-failed"),
    Event("error", text="Xid 79"),
    Event("error", text="\n\nECC uncorrectable error at step 99999999999999999999"),
    Event("checkpoint-saved", step=2**60),
    Event("checkpoint-saved", step=-3),
    Event("nccl-timeout", step=5),
    Event("restart"),
)


def run_all(signals: Signals) -> None:
    for module in DETECTORS:
        with np.errstate(all="ignore"):  # as the engine does
            outcome = module.detect(signals, {p.name: p.default for p in module.META.params})
        assert isinstance(outcome, Fired | Clear | NotApplicable)
        for finding in outcome.findings if isinstance(outcome, Fired) else ():
            assert finding.kind == module.META.kind.name
            assert finding.summary.endswith(".")
            assert 0 < finding.confidence < 1
            assert finding.evidence
            if finding.onset_interval is not None and finding.onset_step is not None:
                assert finding.onset_interval[0] <= finding.onset_step == finding.onset_interval[1]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([1, 2, 3, 30, 60, 200]), special=st.floats(0, 1))
def test_any_values_on_any_steps(seed: int, n: int, special: float) -> None:
    rng = np.random.default_rng(seed)
    curves = []
    for i, role in enumerate(rng.choice(ROLES, 8)):
        for row in range(int(rng.integers(1, 5))):
            size = int(rng.integers(max(1, n // 2), n + 1))
            value = np.where(rng.random(size) < special, rng.choice(SPECIAL, size), np.exp(rng.normal(0, 0.3, size)))
            value[int(rng.integers(0, size)) :] *= rng.choice([1.0, 5.0, 0.1])
            step = rng.choice([-5, 0, 2**53 + 1]) + np.cumsum(rng.choice([0, 1, 1, 1, 10, 2**40], size))
            curve = make_curve(
                value,
                str(role),
                name=f"{role}{i}",
                step=np.arange(size) if rng.random() < 0.5 else step,
                time=np.cumsum(rng.choice([1.0, 1.0, 1e5, -30.0, np.nan if rng.random() < 0.3 else 1.0], size)),
                segment=np.sort(rng.integers(0, 3, size)),
                series_id=len(curves),
                rank=None if role == "expert_load" else rng.choice([None, row]),
                expert=row if role == "expert_load" else None,
            )
            curves.append(curve)
    events = [EVENTS[i] for i in rng.integers(0, len(EVENTS), int(rng.integers(0, 4)))]
    run_all(make_signals(curves, events=events, checkpoints=[Checkpoint(7, "x")], config={"gpu_memory_limit": "80"}))


@pytest.mark.parametrize("n", [1, 3, 300])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 1.0, 1e300, -1e300, 1e-300])
def test_constants(value: float, n: int) -> None:
    curves = [make_curve(np.full(n, value), role, rank=rank) for role in ROLES for rank in (0, 1, 2)]
    curves += [make_curve(np.full(n, value), "expert_load", expert=expert) for expert in (0, 1, 2)]
    run_all(make_signals(curves))


def test_huge_swings() -> None:
    rng = np.random.default_rng(0)
    swings = rng.choice([-1e300, 1e300, 0.0, 1e-300], (3, 500))
    run_all(make_signals([make_curve(row, role, rank=rank) for role in ROLES for rank, row in enumerate(swings)]))


def test_nothing_at_all() -> None:
    run_all(make_signals({}))
