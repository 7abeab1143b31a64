from __future__ import annotations

import numpy as np
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.facts import restarts
from trainforensics.model import Event

STEP = np.arange(400)


def test_a_restart_near_the_onset() -> None:
    signals = make_signals({"train_loss": np.full(len(STEP), 2.5)}, step=STEP, events=[Event("restart", 298)])
    assert restarts.near(Case(make_incident(onset=300), signals, ())) == 298
    assert restarts.near(Case(make_incident(onset=200), signals, ())) is None


def test_a_sum_over_micro_batches_is_a_whole_multiple() -> None:
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal(len(STEP))
    for factor, found in ((8.0, 8), (0.25, 4), (2.5, 0), (1.0, 0)):
        loss = noise * np.where(STEP < 300, 2.5, 2.5 * factor)
        case = Case(make_incident("resume-discontinuity", 300), make_signals({"train_loss": loss}, step=STEP), ())
        assert restarts.multiple(case) == found
