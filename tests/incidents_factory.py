"""Incidents for tests of what comes after detection."""

from __future__ import annotations

from typing import Any

from trainforensics.model import Cost, Incident, Scope


def make_incident(kind: str = "instant-burst", onset: int | None = 100, **fields: Any) -> Incident:
    """An incident of a kind at a step; every other field has a plain default."""
    plain: dict[str, Any] = {
        "id": f"{kind}-{onset}",
        "code": "",
        "severity": "medium",
        "confidence": 0.9,
        "caused_by": None,
        "onset_interval": None,
        "occurrences": () if onset is None else (onset,),
        "segment": 0,
        "peak_step": onset,
        "end_step": onset,
        "recovery": None,
        "cost": Cost(),
        "series": "train/loss",
        "role": "train_loss",
        "scope": Scope(),
        "summary": f"{kind} at {onset}",
    }
    return Incident(kind=kind, onset_step=onset, **(plain | fields))
