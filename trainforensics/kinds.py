"""The vocabulary: every incident kind with its code, family and usual severity. Codes are never reused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
FAMILIES = (
    "loss", "numerics", "gradients", "generalisation", "schedule", "resume", "data", "cluster", "monitoring",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """One incident kind. `name` is what the CLI prints and what result.json carries."""

    name: str
    code: str
    family: str
    severity: Severity


def severity_rank(severity: Severity) -> int:
    """Position on the scale low=0 ... critical=3."""
    return SEVERITIES.index(severity)


def is_alarm(severity: Severity) -> bool:
    """Alarms are medium and above."""
    return severity_rank(severity) >= 1


_TABLE: tuple[tuple[str, str, str, Severity], ...] = (
    ("instant-burst", "LOS101", "loss", "medium"),
    ("gradual-rise", "LOS102", "loss", "medium"),
    ("divergence", "LOS103", "loss", "high"),
    ("plateau", "LOS104", "loss", "medium"),
    ("oscillation", "LOS105", "loss", "medium"),
    ("bad-start", "LOS106", "loss", "medium"),
    ("suspicious-low-loss", "LOS107", "loss", "medium"),
    ("loss-zero", "LOS108", "loss", "high"),
    ("periodic-data-order", "LOS109", "loss", "medium"),
    ("nan-onset", "NUM101", "numerics", "critical"),
    ("transient-nan", "NUM102", "numerics", "medium"),
    ("grad-nan", "NUM103", "numerics", "medium"),
    ("scale-decay", "NUM104", "numerics", "high"),
    ("skipped-steps", "NUM105", "numerics", "medium"),
    ("underflow", "NUM106", "numerics", "medium"),
    ("gradient-explosion", "GRD101", "gradients", "medium"),
    ("vanishing-gradient", "GRD102", "gradients", "medium"),
    ("clip-saturation", "GRD103", "gradients", "low"),
    ("update-ratio", "GRD104", "gradients", "medium"),
    ("activation-outlier", "GRD105", "gradients", "medium"),
    ("attention-collapse", "GRD106", "gradients", "high"),
    ("val-divergence", "GEN101", "generalisation", "medium"),
    ("val-jump", "GEN102", "generalisation", "medium"),
    ("double-descent", "GEN103", "generalisation", "medium"),
    ("eval-regression", "GEN104", "generalisation", "medium"),
    ("eval-invalid", "GEN105", "generalisation", "medium"),
    ("lr-anomaly", "SCH101", "schedule", "medium"),
    ("batch-size-change", "SCH102", "schedule", "medium"),
    ("resume-discontinuity", "RES101", "resume", "medium"),
    ("scale-mismatch", "RES102", "resume", "medium"),
    ("import-integrity", "RES103", "resume", "low"),
    ("checkpoint-failure", "RES104", "resume", "high"),
    ("data-shift", "DAT101", "data", "medium"),
    ("suspect-shard", "DAT102", "data", "low"),
    ("rank-divergence", "CLU101", "cluster", "high"),
    ("straggler", "CLU102", "cluster", "medium"),
    ("throughput-drop", "CLU103", "cluster", "medium"),
    ("memory-growth", "CLU104", "cluster", "high"),
    ("hang", "CLU105", "cluster", "medium"),
    ("hardware-fault", "CLU106", "cluster", "high"),
    ("clock-skew", "CLU107", "cluster", "low"),
    ("expert-collapse", "CLU108", "cluster", "high"),
    ("rl-collapse", "CLU109", "cluster", "high"),
    ("nondeterminism", "CLU110", "cluster", "medium"),
    ("coverage-gap", "MON101", "monitoring", "low"),
)

KINDS: dict[str, Kind] = {name: Kind(name, code, family, severity) for name, code, family, severity in _TABLE}
CODES: dict[str, str] = {kind.code: name for name, kind in KINDS.items()}
