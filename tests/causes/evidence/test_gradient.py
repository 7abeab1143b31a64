from __future__ import annotations

from cases import ONSET, STEP, burst, case, noise, said
from factories import make_signals
from incidents_factory import make_incident

from trainforensics.causes.evidence.gradient import gradient
from trainforensics.model import Evidence, Precursor

JUMP = make_signals({"train_loss": burst(noise(2.0), 3), "grad_norm": burst(noise(), 6)}, step=STEP)


def test_levels_are_those_of_the_evidence() -> None:
    row = Evidence("grad_norm", ONSET, 7.5, 1.25, "6 times the level before")
    found = case(make_incident("instant-burst", ONSET, evidence=(row,)), JUMP)
    assert said(gradient(found, same=1.0)).endswith("from 1.25 to 7.5, quiet before")


def test_what_a_precursor_names_was_not_quiet_before() -> None:
    sign = Precursor("grad_norm", ONSET - 40, 40, "grad_norm left its level")
    found = case(make_incident("instant-burst", ONSET, precursors=(sign,)), JUMP)
    assert "quiet" not in said(gradient(found, same=1.0))


def test_a_lead_is_told_as_its_precursor_tells_it() -> None:
    sign = Precursor("grad_norm", ONSET + 2, 6, "moved 6 steps before the reward")
    signals = make_signals({"reward": noise(), "grad_norm": noise()}, step=STEP)
    found = case(make_incident("rl-collapse", ONSET, precursors=(sign,), role="kl"), signals)
    assert said(gradient(found, led=1.0)) == "the gradient norm left its noise at 302, 6 steps before the reward"
