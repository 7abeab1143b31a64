from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.incidents import build
from trainforensics.incidents.cost import cost_of
from trainforensics.model import Cost, Finding
from trainforensics.signals import Signals

STEP = np.arange(0, 1000, 2)


def signals(seconds: float = 0.5, **more: Any) -> Signals:
    loss = make_curve(np.full(len(STEP), 2.0), step=STEP, time=1e9 + seconds * STEP)
    return make_signals([loss, make_curve(STEP * 100.0, "tokens_seen", step=STEP), *more.get("curves", ())])


def finding(kind: str = "instant-burst", onset: int | None = 400, **fields: Any) -> Finding:
    return Finding(kind, "train/loss", fields.pop("role", "train_loss"), onset, 0.9, "", **fields)


def test_from_the_onset_to_the_end() -> None:
    assert cost_of(finding(end_step=440, recovery="recovered"), signals()) == Cost(40, 4000, 20.0)
    assert cost_of(finding(onset=None), signals()) == Cost()


@pytest.mark.parametrize("recovery", ["unrecovered", "diverging", "ongoing"])
def test_what_never_came_back_costs_the_rest_of_the_log(recovery: Any) -> None:
    assert cost_of(finding(end_step=500, recovery=recovery), signals()).steps == 600
    assert cost_of(finding(), signals()).steps == 600


def test_a_log_goes_on_where_its_loss_has_ended() -> None:
    norm = make_curve(np.full(20, np.nan), "grad_norm", step=np.arange(1000, 1040, 2))
    assert cost_of(finding("nan-onset", 1000), signals(curves=[norm])).steps == 40


def test_single_points_cost_themselves_and_not_what_lies_between_them() -> None:
    alone = finding("transient-nan", 400, occurrences=(400, 800), end_step=800, recovery="recovered")
    assert cost_of(alone, signals()) == Cost(4, 400, 2.0)
    first = finding(occurrences=(400, 800), end_step=410, recovery="recovered")
    assert cost_of(first, signals()).steps == 10
    last = finding(occurrences=(400, 800), end_step=830, recovery="recovered")
    assert cost_of(last, signals()).steps == 32


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("memory-growth", "gpu_memory"),
        ("checkpoint-failure", None),
        ("throughput-drop", "tokens_per_sec"),
        ("resume-discontinuity", "activation_norm"),
        ("scale-mismatch", "train_loss"),
    ],
)
def test_what_moves_no_result_costs_no_steps(kind: str, role: str | None) -> None:
    assert cost_of(finding(kind, role=role, end_step=500), signals()) == Cost()


def test_a_root_costs_what_its_effect_did() -> None:
    explosion = finding("gradient-explosion", 398, role="grad_norm", end_step=420)
    burst = finding(end_step=440, recovery="recovered")
    root, effect = build([explosion, burst], signals())
    assert effect.caused_by == root.id
    assert root.cost == effect.cost == Cost(40, 4000, 20.0)


def test_wall_times_of_the_writing_are_no_training_time() -> None:
    assert cost_of(finding(end_step=440, recovery="recovered"), signals(seconds=2e-5)) == Cost(40, 4000, None)
