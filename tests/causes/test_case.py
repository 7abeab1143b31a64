from __future__ import annotations

import numpy as np
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case, once
from trainforensics.model import Evidence

N = 400


def case(**fields: object) -> Case:
    incident = make_incident(onset=300, **fields)
    return Case(incident, make_signals({"train_loss": np.full(N, 2.5)}, step=np.arange(N)), (incident,))


def test_a_fact_is_found_once_per_case() -> None:
    asked: list[Case] = []

    @once
    def absent(case: Case) -> None:
        asked.append(case)

    first, second = case(), case()
    for each in (first, first, second, first):
        absent(each)
    assert [each is first for each in asked] == [True, False]


def test_levels_are_told_as_the_incident_tells_them() -> None:
    row = Evidence("train_loss", 300, 7.5, 1.25, "6 times the level before")
    assert case(evidence=(row,)).levels("train_loss", 2.0, 3.0) == (1.25, 7.5)
    assert case(evidence=(row,)).levels("grad_norm", 2.0, 3.0) == (2.0, 3.0)


def test_what_begins_long_after_is_not_beside() -> None:
    here, near, far = case().incident, make_incident("hang", 310), make_incident("plateau", 311)
    found = Case(here, case().signals, (here, near, far))
    assert found.beside("hang") is near
    assert found.beside("hang", after=11) is None
    assert found.beside("plateau") is None
