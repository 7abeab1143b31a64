"""What an incident cost: steps, tokens and seconds in which training did worse than it would have, or nothing at all.

What only the log, the pace or the memory shows costs no steps; nor does a norm that moves while the results stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trainforensics.model import Cost, Finding, Incident
from trainforensics.signals import Curve, Signals

TASK = frozenset({"train_loss", "val_loss", "val_metric", "reward"})  # what the training is for
# Harm to the weights or updates, whatever series shows it; of other kinds only what moves a loss or result costs steps.
HARMFUL = frozenset(
    {"nan-onset", "transient-nan", "grad-nan", "scale-decay", "skipped-steps", "vanishing-gradient", "hang"}
    | {"attention-collapse", "expert-collapse", "rl-collapse", "rank-divergence"}
)
HARMLESS = frozenset({"scale-mismatch", "eval-invalid", "import-integrity", "nondeterminism", "checkpoint-failure"})
TO_THE_END = frozenset({"unrecovered", "diverging", "ongoing"})
QUICKEST = 1e-4  # seconds a step; wall times that go by faster are of the writing, not of the training


Span = tuple[int, int]  # first step, and the step after the last


def cost_of(finding: Finding, signals: Signals) -> Cost:
    """Steps, tokens and seconds from the onset to the end of the incident, or of the log where it never ended.

    One that recurs costs the event whose end is known, and where that is the last, a logged point for each before it.
    """
    curve = signals.curve("train_loss") or max(signals.every_curve(), key=len, default=None)
    harmful = finding.kind in HARMFUL or (finding.role in TASK and finding.kind not in HARMLESS)
    if finding.onset_step is None or curve is None or not len(curve) or not harmful:
        return Cost()
    log_end = max(int(other.step[-1]) for other in signals.every_curve() if len(other))
    spans = _spans(finding, finding.onset_step, log_end, curve.cadence)
    counted = signals.curve("tokens_seen")  # the role also takes samples
    tokens = _gain(counted, counted.value, spans) if counted is not None and "tok" in counted.name.lower() else None
    seconds = _gain(curve, curve.time, spans)
    steps = sum(end - start for start, end in spans)
    credible = seconds is not None and seconds >= QUICKEST * steps
    return Cost(steps, None if tokens is None else int(tokens), seconds if credible else None)


def _spans(finding: Finding, onset: int, log_end: int, point: int) -> list[Span]:
    """The steps of each event; `point`: steps between two logged points, the least that an event takes."""
    onsets = sorted({*finding.occurrences, onset})
    if finding.end_step is None or finding.recovery in TO_THE_END:
        return [*((start, start + point) for start in onsets[:-1]), (onsets[-1], log_end + point)]
    known = max((start for start in onsets if start <= finding.end_step), default=onsets[0])
    spans = [(known, max(finding.end_step, known + point))]
    return spans if known != onsets[-1] else [*((start, start + point) for start in onsets[:-1]), *spans]


def with_effects(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """The incidents, a root that costs nothing by itself with what its costliest effect did."""
    return tuple(replace(i, cost=_of_effects(i, incidents)) if i.cost == Cost() else i for i in incidents)


def _of_effects(root: Incident, incidents: Sequence[Incident]) -> Cost:
    costs = [i.cost for i in incidents if i.caused_by == root.id and root.caused_by is None]
    return max(costs, key=lambda cost: cost.steps or 0, default=Cost())


def _gain(curve: Curve, values: np.ndarray, spans: Sequence[Span]) -> float | None:
    """Increase of a cumulative quantity over spans of steps; None where it is not known or runs backwards."""
    gains = [values[curve.at(end)] - values[max(curve.at(start), 0)] for start, end in spans]
    gain = float(np.sum(gains))
    return gain if np.isfinite(gain) and gain > 0 else None
