from __future__ import annotations

import numpy as np
import pytest
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.facts import loss

N, ONSET = 400, 300


@pytest.mark.parametrize(("dip", "known"), [(0.0, True), (-1.0, False)])
def test_only_a_loss_that_stays_positive_starts_at_the_level_of_an_untrained_model(dip: float, known: bool) -> None:
    values = np.where(np.arange(N) < ONSET, np.linspace(2.0, 0.5, N), 9.0)
    values[100] += dip * 3
    incident = make_incident(onset=ONSET)
    case = Case(incident, make_signals({"train_loss": values}, step=np.arange(N)), (incident,))
    assert (loss.beyond_start(case) == (9.0, 2.0)) is known
    assert known or loss.beyond_start(case) is None
