from __future__ import annotations

import numpy as np
import pytest
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.facts import rate

N = 400


def around(values: np.ndarray, onset: int = 300) -> rate.Rate:
    incident = make_incident(onset=onset)
    signals = make_signals({"train_loss": np.full(N, 2.5), "learning_rate": values}, step=np.arange(N))
    found = rate.around(Case(incident, signals, (incident,)))
    assert found is not None
    return found


def test_a_jump_of_the_rate() -> None:
    values = np.full(N, 1e-3)
    values[300] = 6e-2
    assert around(values).jump == pytest.approx(60)


def test_warm_up_is_no_jump() -> None:
    values = np.minimum(np.arange(1, N + 1) / 100, 1.0) * 1e-3
    for onset in (2, 5, 50):
        found = around(values, onset)
        assert found.jump == 1.0
        assert found.warming


def test_a_rate_that_runs_away_is_no_warm_up() -> None:
    step = np.arange(1, N + 1)
    away = around(0.05 * (1 + (step / 60.0) ** 3), onset=200)
    assert not away.warming
    assert away.ramp > 10
    for shape in (step / 400, np.sin(step / 400 * np.pi / 2), (1 - np.cos(step / 400 * np.pi)) / 2):
        assert around(1e-3 * shape, onset=399).ramp == 1.0


def test_a_rate_below_zero_is_none() -> None:
    incident = make_incident(onset=300)
    signals = make_signals({"train_loss": np.full(N, 2.5), "learning_rate": np.full(N, -1.0)}, step=np.arange(N))
    assert rate.around(Case(incident, signals, (incident,))) is None
