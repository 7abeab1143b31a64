"""Findings that describe one and the same observation: the kind that explains it stays, the others are taken in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainforensics.model import Finding

# A curve that sits at a multiple of itself, data of another level, a level that a restart left behind, or a constant is
# not the loss misbehaving: the same jump in the curve is told once, by the kind that knows better.
ABSORBS: dict[str, frozenset[str]] = {
    "scale-mismatch": frozenset({"divergence", "gradual-rise", "instant-burst", "data-shift", "gradient-explosion"}),
    "resume-discontinuity": frozenset({"divergence", "gradual-rise"}),
    "data-shift": frozenset({"divergence", "gradual-rise"}),
    "loss-zero": frozenset({"divergence", "gradual-rise"}),
}

CYCLES = 3  # rises that make a habit


def merge(findings: Sequence[Finding], slack: int) -> tuple[Finding, ...]:
    """The findings without those that another one explains within `slack` steps; their evidence moves to it."""
    kept = _without_cycles(findings)
    for explaining in findings:
        taken = [f for f in kept if _same_observation(explaining, f, slack)]
        if not taken or explaining not in kept:
            continue
        kept = [f for f in kept if f not in taken]
        rows = tuple(row for f in taken for row in f.evidence if row not in explaining.evidence)
        kept[kept.index(explaining)] = replace(explaining, evidence=explaining.evidence + rows)
    return tuple(kept)


def _without_cycles(findings: Sequence[Finding]) -> list[Finding]:
    """Without the rises that come back time and again where the level is known to swing by a period: told once."""
    rises = [f for f in findings if f.kind == "gradual-rise" and f.recovery == "recovered"]
    periodic = any(f.kind == "periodic-data-order" for f in findings)
    return [f for f in findings if f not in rises] if periodic and len(rises) >= CYCLES else list(findings)


def _same_observation(explaining: Finding, other: Finding, slack: int) -> bool:
    if other.kind not in ABSORBS.get(explaining.kind, ()) or explaining.onset_step is None or other.onset_step is None:
        return False
    return abs(other.onset_step - explaining.onset_step) <= slack and other.recovery not in ("diverging", "ongoing")
