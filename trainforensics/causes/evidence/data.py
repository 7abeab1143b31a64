"""The data that fed the incident."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.movement import MOVED
from trainforensics.causes.weight import Reason, reason


def data(case: Case, proven: float = 0.0, nothing: float = 0.0) -> list[Reason]:
    """What the manifest says: a suspect more likely guilty than not, or nothing in common over three events or more."""
    suspect = facts.data.suspect(case, "shard", "doc")
    if suspect is not None and suspect.confidence >= 0.25:
        share = 1.0 if suspect.confidence >= 0.5 else 0.5
        return reason(
            share * proven, f"{suspect.type} {suspect.id}: {suspect.why} (confidence {suspect.confidence:.2f})"
        )
    if facts.data.manifest_quiet(case):
        times = facts.timing.times(case)
        return reason(nothing, f"the batches of {times} events have no shard or document in common beyond chance")
    return []


def documents(case: Case, few: float = 0.0, many: float = 0.0) -> list[Reason]:
    """With a convicted shard: whether one of its documents recurs by itself, or ever different ones do the harm."""
    shard, doc = facts.data.suspect(case, "shard"), facts.data.suspect(case, "doc")
    if shard is None or shard.confidence < 0.5:
        return []
    if doc is not None and doc.confidence >= 0.5:
        return reason(few, f"doc {doc.id} recurs by itself, {doc.why}: single documents, not the whole shard")
    if case.incident.blame is None or not any(batch.get("doc") for batch in case.incident.blame.batches):
        return []
    return reason(many, f"no document recurs beyond chance: different ones of shard {shard.id} do it")


def longer_samples(case: Case, points: float) -> list[Reason]:
    """Sequences that grew with it."""
    for role in ("seq_len", "seq_len_max"):
        move = case.movement(role)
        if move is not None and move.widths > MOVED and move.at > 1.1 * move.before:
            return reason(points, f"{role} grew from {move.before:.4g} to {move.at:.4g}")
    return []
