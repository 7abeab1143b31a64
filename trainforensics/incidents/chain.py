"""Which incident is the effect of which: one page per thing that happened.

An effect is a kind that the cause can bring about and whose onset lies within the cause's span. Where several causes
offer themselves, the one that stands first in `PRECEDENCE` wins, and among equals the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainforensics.kinds import severity_rank
from trainforensics.model import Incident

_LOSS = frozenset({"instant-burst", "gradual-rise", "divergence", "plateau", "oscillation"})
_BLOW_UP = frozenset({"instant-burst", "gradual-rise", "divergence", "oscillation", "gradient-explosion"})
_NON_FINITE = frozenset({"nan-onset", "transient-nan", "grad-nan", "loss-zero"})
_SCALER = frozenset({"scale-decay", "skipped-steps", "underflow"})
_EVAL = frozenset({"val-divergence", "val-jump", "eval-regression", "eval-invalid", "double-descent"})
_GRADIENTS = frozenset(
    {"gradient-explosion", "vanishing-gradient", "clip-saturation", "update-ratio", "activation-outlier"}
)
_PACE = frozenset({"straggler", "throughput-drop", "hang"})
_DYNAMICS = _LOSS | _NON_FINITE | _SCALER | _EVAL | _GRADIENTS

# cause -> what it can bring about; the order is the precedence among causes of one effect
EFFECTS: dict[str, frozenset[str]] = {
    "hardware-fault": _DYNAMICS | _PACE | {"rank-divergence", "checkpoint-failure", "clock-skew"},
    "scale-mismatch": _LOSS | _GRADIENTS | _EVAL | {"data-shift", "resume-discontinuity"},
    "resume-discontinuity": _DYNAMICS | _PACE | {
        "data-shift", "lr-anomaly", "rank-divergence", "rl-collapse", "expert-collapse",
    },
    "lr-anomaly": _DYNAMICS | {"expert-collapse", "attention-collapse", "rl-collapse"},
    "batch-size-change": _LOSS | _GRADIENTS | {"throughput-drop", "memory-growth"},
    "data-shift": _LOSS | _GRADIENTS | _EVAL | {"periodic-data-order", "expert-collapse"},
    "rank-divergence": _DYNAMICS | {"straggler"},
    "expert-collapse": _LOSS | _GRADIENTS | _EVAL | {"throughput-drop"},
    "attention-collapse": _LOSS | _GRADIENTS | _EVAL | _NON_FINITE,
    "rl-collapse": _LOSS | _GRADIENTS | _EVAL | {"throughput-drop"},
    "memory-growth": _PACE | {"checkpoint-failure"},
    "straggler": frozenset({"throughput-drop"}),
    "instant-burst": _NON_FINITE | _SCALER | _EVAL | _GRADIENTS | {"divergence", "plateau", "oscillation"},
    "gradual-rise": _NON_FINITE | _SCALER | _EVAL | _GRADIENTS | {
        "divergence", "plateau", "instant-burst", "oscillation",
    },
    "divergence": _NON_FINITE | _SCALER | _EVAL | _GRADIENTS | {"plateau", "oscillation"},
    "gradient-explosion": _LOSS | _NON_FINITE | _SCALER | _EVAL | {"clip-saturation"},
    "scale-decay": _NON_FINITE | _EVAL | _LOSS | {"skipped-steps", "underflow", "vanishing-gradient", "lr-anomaly"},
    "nan-onset": _EVAL | _GRADIENTS | _SCALER | {"loss-zero", "grad-nan", "transient-nan", "plateau"},
    "transient-nan": frozenset({"grad-nan", "skipped-steps", "eval-invalid"}),
    "grad-nan": frozenset({"nan-onset", "transient-nan", "skipped-steps", "plateau", "loss-zero", "lr-anomaly"}),
    "activation-outlier": _LOSS | _NON_FINITE | {"gradient-explosion", "vanishing-gradient"},
    "update-ratio": frozenset({"plateau", "oscillation"}),
    "vanishing-gradient": frozenset({"plateau", "underflow"}),
    "underflow": frozenset({"plateau", "vanishing-gradient", "update-ratio"}),
    "oscillation": frozenset({"instant-burst", "gradual-rise", "gradient-explosion", "val-jump"}),
    "periodic-data-order": _BLOW_UP | {"plateau"},
    "bad-start": frozenset({"nan-onset", "loss-zero", "gradient-explosion", "plateau"}),
    "val-divergence": frozenset({"eval-regression", "val-jump", "suspicious-low-loss"}),
    "val-jump": frozenset({"eval-regression", "val-divergence"}),
    "suspicious-low-loss": frozenset({"loss-zero", "vanishing-gradient", "val-divergence", "val-jump"}),
    "loss-zero": frozenset({"vanishing-gradient", "underflow", "plateau", "suspicious-low-loss"}),
}  # fmt: skip
# A rate that stands at zero because the scaler skips every step is the effect, whichever is logged first.
YIELDS: dict[str, frozenset[str]] = {"lr-anomaly": frozenset({"scale-decay", "grad-nan", "skipped-steps"})}
PRECEDENCE = {kind: rank for rank, kind in enumerate(EFFECTS)}


def chain(incidents: Sequence[Incident], slack: int, reach: int) -> tuple[Incident, ...]:
    """Set `caused_by`, and give every root the highest severity of its chain.

    `slack`: steps by which logging may show an effect before its cause; `reach`: steps after the end of a cause in
    which an effect still counts as its own.
    """
    parents = {i.id: _cause_of(i, incidents, slack, reach) for i in incidents}
    roots = {id_: _root(id_, parents) for id_ in parents}
    severity = {i.id: i.severity for i in incidents}
    linked = []
    for incident in incidents:
        members = [severity[id_] for id_, root in roots.items() if root == incident.id]
        worst = max((*members, incident.severity), key=severity_rank)
        parent = parents[incident.id] if roots[incident.id] != incident.id else None
        linked.append(replace(incident, caused_by=parent, severity=incident.severity if parent else worst))
    return tuple(linked)


def _cause_of(effect: Incident, incidents: Sequence[Incident], slack: int, reach: int) -> str | None:
    candidates = [
        cause
        for cause in incidents
        if cause.id != effect.id
        and effect.kind in EFFECTS.get(cause.kind, ())
        and _within(cause, effect, slack, reach)
        and not _mutual_and_later(cause, effect)
    ]
    if not candidates:
        return None
    return min(candidates, key=lambda c: (PRECEDENCE[c.kind], -(c.onset_step or 0))).id


def _within(cause: Incident, effect: Incident, slack: int, reach: int) -> bool:
    if cause.onset_step is None or effect.onset_step is None:
        return False
    for start in {cause.onset_step, *cause.occurrences}:
        last = None if cause.end_step is None else max(start, cause.end_step) + reach
        if start - slack <= effect.onset_step and (last is None or effect.onset_step <= last):
            return True
    return False


def _mutual_and_later(cause: Incident, effect: Incident) -> bool:
    """Of kinds that can cause each other the earlier is the cause, at the same step the one of higher precedence."""
    if cause.kind not in EFFECTS.get(effect.kind, ()):
        return False
    if effect.kind in YIELDS.get(cause.kind, ()):
        return True
    if cause.kind in YIELDS.get(effect.kind, ()):
        return False
    earlier, later = cause.onset_step or 0, effect.onset_step or 0
    return earlier > later or (earlier == later and PRECEDENCE[cause.kind] > PRECEDENCE[effect.kind])


def _root(id_: str, parents: dict[str, str | None]) -> str:
    """The end of a chain; a circle is cut at the incident where it was entered."""
    seen = {id_}
    here = id_
    while (parent := parents[here]) is not None:
        if parent in seen:
            return id_
        seen.add(parent)
        here = parent
    return here
