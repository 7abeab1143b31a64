"""Suspects that stand out of chance become incidents of their own: low, and the companions of what they fed."""

from __future__ import annotations

from collections.abc import Sequence

from trainforensics.kinds import KINDS
from trainforensics.model import Cost, Evidence, Incident, Scope, Suspect

SURE = 0.5  # confidence from which a suspect is more likely guilty than not
NAMED = ("shard", "doc", "domain")


def accuse(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """The incidents, and one `suspect-shard` for every shard, document or domain that is likely guilty of one.

    A suspect of several incidents is raised once, beside the incident that speaks most clearly against it.
    """
    clearest: dict[tuple[str, str], tuple[Incident, Suspect]] = {}
    for incident in incidents:
        for suspect in incident.blame.suspects if incident.blame else ():
            key = (suspect.type, suspect.id)
            if suspect.type not in NAMED or suspect.confidence < SURE or suspect.p_value is None:
                continue
            if key not in clearest or suspect.confidence > clearest[key][1].confidence:
                clearest[key] = (incident, suspect)
    return (*incidents, *(_raised(*pair) for pair in clearest.values()))


def _raised(fed: Incident, suspect: Suspect) -> Incident:
    kind = KINDS["suspect-shard"]
    name = f"{suspect.type} {suspect.id}"
    onset = min(suspect.steps, default=fed.onset_step)
    return Incident(
        id=f"{kind.code}-{suspect.type}-{suspect.id}",
        code=kind.code,
        kind=kind.name,
        severity=kind.severity,
        confidence=suspect.confidence,
        caused_by=fed.id,
        onset_step=onset,
        onset_interval=None,
        occurrences=suspect.steps,
        segment=fed.segment,
        peak_step=None,
        end_step=None,
        recovery=None,
        cost=Cost(),
        series=fed.series,
        role=None,
        scope=Scope(domain=suspect.id if suspect.type == "domain" else None),
        summary=f"{name} turns up in {fed.kind} more often than chance: {suspect.why}",
        evidence=(Evidence(name, onset, suspect.p_value, None, "probability by chance, corrected"),),
    )
