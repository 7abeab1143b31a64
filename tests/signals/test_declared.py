from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_signals

from trainforensics.signals import Signals
from trainforensics.signals.declared import DECAY, PLATEAU, decay_end, declared, single_decay


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
    ],
)
def test_whether_the_decay_comes_once(config: dict[str, Any], single: bool) -> None:
    assert single_decay(_with(**config)) is single


def test_a_decay_ends_at_its_own_length_before_that_of_the_run() -> None:
    assert decay_end(_with(train_iters=500, lr_decay_iters=400)) == 400
    assert decay_end(_with(train_iters=500)) == 500
    assert decay_end(_with()) is None
