"""Sentences about steps, said in the unit that the run counts in."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

from trainforensics.model import Incident

TEXTS = frozenset({"summary", "text", "for_", "against", "test", "action", "why", "confirm", "note"})
_STEP = re.compile(r"\bstep(s?)(?= -?\d)|(?<=\d )step(s?)\b|(?<=\bwithin one )step\b")


def in_units(incidents: tuple[Incident, ...], unit: str) -> tuple[Incident, ...]:
    """The incidents with `step 12` and `3 steps` as `epoch 12` and `3 epochs`, where `unit` is the epoch."""
    return incidents if unit == "step" else tuple(_told(incident, unit) for incident in incidents)


def _told(part: Any, unit: str) -> Any:
    """A part of an incident with its sentences in the unit; names, files and rows of batches stay as they are."""
    changes = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if field.name in TEXTS:
            changes[field.name] = _say(value, unit) if isinstance(value, str) else tuple(_say(v, unit) for v in value)
        elif is_dataclass(value):
            changes[field.name] = _told(value, unit)
        elif isinstance(value, tuple) and value and all(is_dataclass(v) for v in value):
            changes[field.name] = tuple(_told(v, unit) for v in value)
    return replace(part, **changes)


def _say(text: str, unit: str) -> str:
    return _STEP.sub(lambda found: unit + (found[1] or found[2] or ""), text)
