"""What blame says of the data that fed the incident."""

from __future__ import annotations

from trainforensics.causes.case import Case
from trainforensics.causes.facts import timing
from trainforensics.model import Suspect


def suspect(case: Case, *types: str) -> Suspect | None:
    """The likeliest suspect of some types, None without blame."""
    if case.incident.blame is None:
        return None
    return next((s for s in case.incident.blame.suspects if s.type in types), None)


def manifest_quiet(case: Case) -> bool:
    """Whether a manifest fed three events or more and names no shard or document more likely guilty than not."""
    blame, likeliest = case.incident.blame, suspect(case, "shard", "doc")
    if blame is None or not blame.batches or timing.times(case) < 3:
        return False
    return likeliest is None or likeliest.confidence < 0.5
