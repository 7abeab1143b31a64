from __future__ import annotations

import numpy as np
from cases import case, noise
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.facts.evaluation import training


def test_too_few_points_of_training_are_not_called_none() -> None:
    signals = make_signals({"train_loss": noise(2.0)[:50], "val_loss": noise(2.0)[:50]}, step=np.arange(1, 51))
    found = training(case(make_incident("val-jump", 6, role="val_loss"), signals))
    assert found.text.startswith("only 5 points of train_loss precede it")
