from __future__ import annotations

from cases import STEP, case, noise, said
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.evidence.timing import start


def test_the_first_point_is_called_that() -> None:
    found = case(make_incident("nan-onset", 0), make_signals({"train_loss": noise(2.0)}, step=STEP))
    assert said(start(found, early=1.0)) == "it begins with the first logged point"
