from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.facts import gradient
from trainforensics.model import Precursor

N = 400


def noise(level: float, spread: float = 0.05, seed: int = 0, n: int = N) -> np.ndarray:
    return level * (1 + spread * np.random.default_rng(seed).standard_normal(n))


def case(onset: int = 300, **roles: np.ndarray) -> Case:
    incident = make_incident(onset=onset)
    return Case(incident, make_signals({"train_loss": noise(2.5), **roles}, step=np.arange(N)), (incident,))


def test_a_jump_in_the_same_point() -> None:
    norm = noise(1.0, seed=1)
    norm[300] = 8
    assert gradient.order(case(grad_norm=norm)) == "same"


def test_a_climb_before() -> None:
    norm = noise(1.0, seed=1)
    norm[280:] *= np.exp(np.linspace(0, 2, N - 280))
    assert gradient.order(case(grad_norm=norm)) == "led"


def test_a_precursor_named_by_detection_counts_as_a_climb() -> None:
    incident = make_incident(onset=300, precursors=(Precursor("grad_norm", 270, 30, ""),))
    sparse = make_curve([1.0, 1.5, 3.0], "grad_norm", step=[250, 270, 290])
    signals = make_signals({"train_loss": make_curve(noise(2.5)), "grad_norm": sparse})
    assert gradient.order(Case(incident, signals, ())) == "led"


def test_a_norm_that_stays_quiet() -> None:
    assert gradient.order(case(grad_norm=noise(1.0, seed=1))) == "quiet"


def test_no_norm_is_unknown() -> None:
    assert gradient.order(case()) is None


def test_the_incident_s_own_life_is_looked_at() -> None:
    """A spike that a rollback replaced lies in the superseded points."""
    norm = noise(1.0, seed=1)
    old = make_curve(np.r_[noise(1.0, seed=2, n=50), noise(9.0, seed=2, n=50)], "grad_norm", step=np.arange(250, 350))
    segment = (np.arange(N) >= 250).astype(int)
    curve = make_curve(norm, "grad_norm", step=np.arange(N), segment=segment, superseded=old)
    incident = make_incident(onset=300, segment=0)
    found = Case(incident, make_signals([make_curve(noise(2.5), step=np.arange(N)), curve]), (incident,))
    assert gradient.order(found) == "same"
    later = Case(make_incident(onset=300, segment=1), found.signals, ())
    assert gradient.order(later) == "quiet"
