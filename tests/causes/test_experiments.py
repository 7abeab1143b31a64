from __future__ import annotations

import numpy as np
from cases import ONSET, STEP, noise
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes import rank


def experiments(kind: str, **roles: np.ndarray) -> dict[str, str]:
    signals = make_signals({"train_loss": noise(2.0), **roles}, step=STEP)
    (ranked,) = rank((make_incident(kind, ONSET),), signals)
    return {cause.cause: cause.test for cause in ranked.causes}


def test_the_experiment_fits_the_kind() -> None:
    slow, restarted = experiments("throughput-drop"), experiments("resume-discontinuity")
    assert "sample ids" in restarted["dataloader"]
    assert "kept in memory" in slow["dataloader"]
    assert "seconds a step spends" in slow["unknown"]
    assert "replay" in experiments("gradual-rise")["learning-rate"]
    assert "three times and at a third" in experiments("plateau")["learning-rate"]
    halved = np.where(STEP < ONSET, 65536.0, 65536.0 / 2.0 ** np.minimum(STEP - ONSET, 16))
    assert experiments("scale-decay", loss_scale=halved)["loss-scaling"].startswith("hold the loss scale")


def test_fresh_moments_settle_nothing_where_they_may_be_what_was_loaded() -> None:
    assert "checked to be loaded, and once with fresh moments" in experiments("resume-discontinuity")["optimizer-state"]
    assert "a difference confirms it" in experiments("gradual-rise")["optimizer-state"]
