from dataclasses import replace

from factories import make_signals
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.incidents import build
from trainforensics.incidents.chain import EFFECTS
from trainforensics.kinds import KINDS, severity_rank
from trainforensics.model import Finding


def finding(kind: str, onset: int, end: int | None = None) -> Finding:
    return Finding(kind, "loss", "train_loss", onset, 0.9, f"{kind} at {onset}", end_step=end, occurrences=(onset,))


def build_all(*findings: Finding) -> dict[str, tuple[str | None, str]]:
    signals = make_signals({"train_loss": [3.0, 2.0, 1.0] * 400})
    made = build(findings, signals)
    kind_of = {i.id: i.kind for i in made}
    return {i.kind: (kind_of.get(i.caused_by or ""), i.severity) for i in made}


def test_nan_after_a_burst_is_its_effect_and_lends_it_its_severity() -> None:
    chained = build_all(finding("instant-burst", 400, 410), finding("nan-onset", 415))
    assert chained["nan-onset"] == ("instant-burst", "critical")
    assert chained["instant-burst"] == (None, "critical")


def test_nan_long_after_a_burst_is_its_own() -> None:
    chained = build_all(finding("instant-burst", 100, 110), finding("nan-onset", 900))
    assert chained["nan-onset"][0] is None
    assert chained["instant-burst"] == (None, "medium")


def test_a_wrong_learning_rate_is_the_root_of_the_loss_that_follows() -> None:
    chained = build_all(finding("lr-anomaly", 500), finding("gradual-rise", 520, 700), finding("divergence", 610))
    assert chained["gradual-rise"][0] == "lr-anomaly"
    assert chained["divergence"][0] == "lr-anomaly"
    assert chained["lr-anomaly"] == (None, "high")


def test_what_comes_before_a_cause_is_no_effect() -> None:
    assert build_all(finding("nan-onset", 300), finding("instant-burst", 500, 505))["nan-onset"][0] is None


def test_ids_are_unique_and_stable() -> None:
    signals = make_signals({"train_loss": [3.0, 2.0, 1.0] * 400})
    two = (finding("gradual-rise", 200, 250), replace(finding("gradual-rise", 200, 250), series="other"))
    first, second = build(two, signals), build(tuple(reversed(two)), signals)
    assert len({i.id for i in first}) == 2
    assert [(i.id, i.series) for i in first] == [(i.id, i.series) for i in second]


def test_the_table_speaks_of_known_kinds_only() -> None:
    assert set(EFFECTS) | {kind for effects in EFFECTS.values() for kind in effects} <= set(KINDS)


@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 1200), st.booleans()), max_size=12))
def test_chains_end_in_a_root_of_the_highest_severity(drawn: list[tuple[str, int, bool]]) -> None:
    findings = [finding(kind, onset, onset + 50 if ends else None) for kind, onset, ends in drawn]
    made = {i.id: i for i in build(findings, make_signals({"train_loss": [3.0, 2.0, 1.0] * 400}))}
    assert len(made) <= len(findings)  # some are taken in by others
    for incident in made.values():
        here, seen = incident, {incident.id}
        while here.caused_by is not None:
            here = made[here.caused_by]
            assert here.id not in seen
            seen.add(here.id)
        assert severity_rank(here.severity) >= severity_rank(incident.severity)
