"""From findings to incidents: merged, identified, costed, ordered, chained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainforensics.incidents.chain import chain
from trainforensics.incidents.cost import cost_of, with_effects
from trainforensics.incidents.merge import merge
from trainforensics.kinds import KINDS, Kind
from trainforensics.model import Finding, Incident
from trainforensics.signals import Signals

SLACK_POINTS = 2  # an effect may be logged this many points before its cause: series have cadences of their own
MERGE_POINTS = 4  # logged points within which two findings speak of one jump
REACH_POINTS = 20  # and come up to this many points after the cause is over


def build(findings: Sequence[Finding], signals: Signals) -> tuple[Incident, ...]:
    """Every finding as an incident, by onset, effects linked to their root. Ids are stable across re-runs."""
    cadence = _cadence(signals)
    told_once = merge(findings, MERGE_POINTS * cadence)
    ordered = sorted(told_once, key=lambda f: (f.onset_step is None, f.onset_step or 0, f.kind, f.series))
    used: dict[str, int] = {}
    incidents = [_incident(finding, signals, _identity(finding, used)) for finding in ordered]
    return with_effects(chain(incidents, SLACK_POINTS * cadence, REACH_POINTS * cadence))


def _identity(finding: Finding, used: dict[str, int]) -> str:
    """Code and onset, numbered where two share both."""
    base = f"{_kind(finding).code}-{'run' if finding.onset_step is None else finding.onset_step}"
    used[base] = used.get(base, 0) + 1
    return base if used[base] == 1 else f"{base}-{used[base]}"


def _kind(finding: Finding) -> Kind:
    return KINDS.get(finding.kind) or Kind(finding.kind, finding.kind.upper(), "plugin", "medium")


def _incident(finding: Finding, signals: Signals, id_: str) -> Incident:
    kind = _kind(finding)
    return Incident(
        id=id_,
        code=kind.code,
        kind=finding.kind,
        severity=finding.severity or kind.severity,
        confidence=round(float(np.clip(finding.confidence, 0.0, 1.0)), 3),
        caused_by=None,
        onset_step=finding.onset_step,
        onset_interval=finding.onset_interval,
        occurrences=finding.occurrences or (() if finding.onset_step is None else (finding.onset_step,)),
        segment=finding.segment,
        peak_step=finding.peak_step,
        end_step=finding.end_step,
        recovery=finding.recovery,
        cost=cost_of(finding, signals),
        series=finding.series,
        role=finding.role,
        scope=finding.scope,
        summary=finding.summary,
        evidence=finding.evidence,
        precursors=finding.precursors,
    )


def _cadence(signals: Signals) -> int:
    curve = signals.curve("train_loss") or max(signals.every_curve(), key=len, default=None)
    return curve.cadence if curve is not None else 1
