from dataclasses import replace

from factories import make_signals

from trainforensics.blame.accuse import accuse
from trainforensics.incidents import build
from trainforensics.model import Blame, Finding, Incident, Suspect


def incident(*suspects: Suspect) -> Incident:
    finding = Finding("instant-burst", "loss", "train_loss", 40, 0.9, "burst", occurrences=(40, 80))
    (made,) = build((finding,), make_signals({"train_loss": [3.0] * 100}))
    return replace(made, blame=Blame((39, 40), "logged", suspects))


def test_a_proven_shard_is_raised_beside_its_incident() -> None:
    guilty = Suspect("shard", "shard-0007", 0.9, 1e-6, (40, 80), "fed 2 of 2")
    fed, raised = accuse([incident(guilty)])
    assert (raised.kind, raised.severity, raised.caused_by) == ("suspect-shard", "low", fed.id)
    assert raised.occurrences == (40, 80)
    assert "shard-0007" in raised.summary


def test_doubt_and_other_suspects_raise_nothing() -> None:
    weak = Suspect("shard", "a", 0.3, 0.2, (40,))
    unproven = Suspect("doc", "b", 0.6, None, (40,))
    rank = Suspect("rank", "3", 0.9, 1e-9, (40,))
    assert len(accuse([incident(weak, unproven, rank)])) == 1


def test_one_suspect_of_two_incidents_is_raised_once() -> None:
    first, second = (incident(Suspect("shard", "a", c, 1e-4, (40,))) for c in (0.7, 0.9))
    *_, raised = accuse([first, replace(second, id="other")])
    assert raised.caused_by == "other"
    assert raised.confidence == 0.9
