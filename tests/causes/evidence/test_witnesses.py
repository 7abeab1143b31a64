from __future__ import annotations

from cases import ONSET, STEP, noise, said
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.witnesses import rooted


def test_a_quoted_summary_ends_within_the_sentence() -> None:
    root = make_incident("scale-decay", ONSET - 1, summary="The scale falls.")
    incident = make_incident("nan-onset", ONSET)
    found = Case(incident, make_signals({"train_loss": noise(2.0)}, step=STEP), (root, incident))
    assert said(rooted(found, 1.0, "scale-decay")) == "scale-decay at 299: The scale falls"
