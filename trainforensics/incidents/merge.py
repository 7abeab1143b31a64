"""Findings that describe one and the same observation: the kind that explains it stays, the others are taken in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median_low

from trainforensics.model import Finding

# A curve that sits at a multiple of itself, data of another level, a level that a restart left behind, or a constant is
# not the loss misbehaving: the same jump in the curve is told once, by the kind that knows better.
ABSORBS: dict[str, frozenset[str]] = {
    "scale-mismatch": frozenset({"divergence", "gradual-rise", "instant-burst", "data-shift", "gradient-explosion"}),
    "resume-discontinuity": frozenset({"divergence", "gradual-rise"}),
    "data-shift": frozenset({"divergence", "gradual-rise"}),
    "loss-zero": frozenset({"divergence", "gradual-rise"}),
}

CYCLES, UNEVEN = 3, 0.2  # rises that make a habit; share of their distance by which they may miss it


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
    """Without the rises that come back at even distances where the level is known to swing by a period: it tells them,
    with a row of evidence of each."""
    cycle = next((f for f in findings if f.kind == "periodic-data-order"), None)
    rises = [f for f in findings if f.kind == "gradual-rise" and f.recovery == "recovered"]
    if cycle is None or not _even([f.onset_step for f in rises if f.onset_step is not None]):
        return list(findings)
    rows = tuple(row for f in rises for row in f.evidence[:1])
    told = replace(cycle, evidence=cycle.evidence + rows)
    return [told if f is cycle else f for f in findings if f not in rises]


def _even(steps: Sequence[int]) -> bool:
    """Whether steps are whole numbers of one distance apart, as nearly as a slow rise can be dated."""
    gaps = [later - earlier for earlier, later in pairwise(sorted(steps))]
    if len(steps) < CYCLES or min(gaps) <= 0:
        return False
    usual = median_low(gaps)
    return all(round(gap / usual) >= 1 and abs(gap / usual - round(gap / usual)) <= UNEVEN for gap in gaps)


def _same_observation(explaining: Finding, other: Finding, slack: int) -> bool:
    if other.kind not in ABSORBS.get(explaining.kind, ()) or explaining.onset_step is None or other.onset_step is None:
        return False
    return abs(other.onset_step - explaining.onset_step) <= slack and other.recovery not in ("diverging", "ongoing")
