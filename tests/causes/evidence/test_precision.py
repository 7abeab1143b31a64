from __future__ import annotations

import numpy as np
from cases import ONSET, STEP, case, noise, said
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.evidence.precision import scale
from trainforensics.model import Evidence


def test_a_scale_that_fell_is_told_as_the_incident_tells_it() -> None:
    value = np.where(STEP < 5, 131072.0, np.where(STEP < ONSET, 65536.0, 1.0))
    row = Evidence("loss_scale", ONSET, 1.0, 65536.0, "lowest scale, against the one before")
    signals = make_signals({"train_loss": noise(2.0), "loss_scale": value}, step=STEP)
    found = case(make_incident("scale-decay", ONSET, role="loss_scale", evidence=(row,)), signals)
    assert said(scale(found, 1.0)) == "the loss scale fell from 65536 to 1 without growing"
