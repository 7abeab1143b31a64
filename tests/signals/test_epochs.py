"""How often the data were gone through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from factories import make_signals

from trainforensics.model import Axis
from trainforensics.signals.epochs import epoch_length, passes


def test_as_logged_or_as_the_axis_counts() -> None:
    plain = make_signals({"train_loss": np.ones(10)})
    assert passes(plain, 5) is None
    assert epoch_length(plain) is None
    counted = replace(plain, axis=Axis("epoch x 400 + iteration", "step"))
    assert epoch_length(counted) == 400
    assert passes(counted, 100) == 0.25
    logged = make_signals({"train_loss": np.ones(10), "epoch": np.linspace(0.1, 1, 10)})
    assert passes(logged, 5) == 0.5
