"""The skip list: what a restarted training should leave out, or set aside for a look (docs/skip-lists.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainforensics.model import Incident, Suspect

SCHEMA = "trainforensics/skip/1"
SKIP = 0.5  # more likely guilty than not
QUARANTINE = 0.2
SKIPPABLE = ("shard", "doc", "batch")


def skip(run: str, incidents: Iterable[Incident]) -> dict[str, Any]:
    """Content of skip.json: `entries` (shards, documents) and `batches` (manifest rows that hold one of those to skip).

    An entry's `action` is "skip" from 0.5 and "quarantine" from 0.2; less likely suspects are left out.
    """
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    batches: list[dict[str, Any]] = []
    for incident in incidents:
        if incident.blame is None:
            continue
        for suspect in incident.blame.suspects:
            if suspect.type in SKIPPABLE and suspect.confidence >= QUARANTINE:
                _add(entries, suspect, incident)
        batches += [{**row, "incident": incident.id} for row in incident.blame.batches if _holds(row, entries)]
    ordered = sorted(entries.values(), key=lambda e: -e["confidence"])
    return {"schema": SCHEMA, "run": run, "entries": ordered, "batches": batches}


def _add(entries: dict[tuple[str, str], dict[str, Any]], suspect: Suspect, incident: Incident) -> None:
    key = (suspect.type, suspect.id)
    known = entries.get(key)
    if known is None or suspect.confidence > known["confidence"]:
        entries[key] = {
            "type": suspect.type,
            "id": suspect.id,
            "action": "skip" if suspect.confidence >= SKIP else "quarantine",
            "confidence": suspect.confidence,
            "reason": suspect.why,
            "steps": list(suspect.steps),
            "incidents": [] if known is None else known["incidents"],
        }
    entries[key]["incidents"].append(incident.id)


def _holds(row: dict[str, Any], entries: dict[tuple[str, str], dict[str, Any]]) -> bool:
    named = [("shard", row.get("shard")), ("batch", row.get("batch_id")), *(("doc", d) for d in row.get("doc") or ())]
    return any(entries[key]["action"] == "skip" for key in named if key in entries)
