from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_signals

from trainforensics.signals import Signals
from trainforensics.signals.declared import (
    DECAY,
    PLATEAU,
    StepDecay,
    decay_end,
    declared,
    single_decay,
    step_decay,
    warmup_steps,
)


def _with(**config: Any) -> Signals:
    return replace(make_signals({"train_loss": np.ones(20)}), config=config)


def test_the_shape_that_a_schedule_key_names() -> None:
    assert declared(_with(lr_scheduler_type="cosine"), DECAY) == "cosine"
    assert declared(_with(lr_scheduler="ReduceLROnPlateau"), PLATEAU) == "ReduceLROnPlateau"
    assert declared(_with(model="linear"), DECAY) is None


@pytest.mark.parametrize(
    ("config", "single"),
    [
        ({"lr_scheduler_type": "cosine"}, True),
        ({"lr_scheduler_type": "cosine_with_restarts"}, False),
        ({"lr_scheduler_type": "cosine", "num_cycles": 0.5}, True),
        ({"lr_scheduler_type": "cosine", "num_cycles": 3}, False),
        ({"scheduler": "cosine", "scheduler_args.T_mult": 2}, False),
        ({"scheduler": "cosine", "restart_periods": [10, 20]}, False),
        ({"scheduler": "cosine", "lr_cycle_limit": 1}, True),
        ({"scheduler": "cosine", "cycle_momentum": True}, True),
    ],
)
def test_whether_the_decay_comes_once(config: dict[str, Any], single: bool) -> None:
    assert single_decay(_with(**config)) is single


def test_a_decay_ends_at_its_own_length_before_that_of_the_run() -> None:
    assert decay_end(_with(train_iters=500, lr_decay_iters=400)) == 400
    assert decay_end(_with(train_iters=500)) == 500
    assert decay_end(_with()) is None


@pytest.mark.parametrize(
    ("config", "plan"),
    [
        ({"lr_scheduler": "StepLR", "step_size": 30, "gamma": 0.1}, StepDecay("StepLR", 0.1, 30, True)),
        ({"sched": "multistep", "milestones": [60, 80], "lr_gamma": 0.2}, StepDecay("multistep", 0.2, 60, True)),
        (
            {"lr_scheduler": "StepLR", "step_size": 500, "gamma": 0.5, "lr_scheduler_interval": "steps"},
            StepDecay("StepLR", 0.5, 500, False),
        ),
        ({"lr_scheduler": "StepLR", "step_size": 1, "gamma": 0.97}, None),
        ({"lr_scheduler": "cosine", "step_size": 30, "gamma": 0.1}, None),
        ({"step_size": 30, "gamma": 0.1}, None),
    ],
)
def test_a_decay_by_cuts(config: dict[str, Any], plan: StepDecay | None) -> None:
    assert step_decay(_with(**config)) == plan


def test_the_steps_of_a_warm_up() -> None:
    assert warmup_steps(_with(**{"run.warmup_steps": 500})) == 500
    assert warmup_steps(_with(warmup_steps=0, lr_warmup_iters=20)) == 20
    assert warmup_steps(_with(warmup_ratio=0.1, ema_warmup_steps=10)) is None
