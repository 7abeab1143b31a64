"""The numeric precision, and the loss scale."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason


def precision(case: Case, half: float = 0.0, wide: float = 0.0) -> list[Reason]:
    """The numeric precision of the run."""
    name = facts.precision.of_run(case)
    if name in ("fp16", "fp8"):
        how = "a dynamic loss scale is logged" if facts.precision.scale_moves(case) else "the configuration says so"
        limit = " (largest number 65,504)" if name == "fp16" else ""
        return reason(half, f"the run computes in {name}{limit}: {how}")
    if name in ("bf16", "fp32"):
        return reason(wide, f"the run computes in {name}, whose range does not overflow easily")
    return []


def scale(case: Case, points: float) -> list[Reason]:
    """A loss scale that only falls."""
    falls = facts.precision.scale_falls(case)
    if falls is None:
        return []
    count, before, after = falls
    told = case.told("loss_scale") if case.kind == "scale-decay" else None
    if told is not None:
        return reason(points, f"the loss scale fell from {told.expected:g} to {told.value:g} without growing")
    return reason(points, f"the loss scale fell {count} times without growing, from {before:g} to {after:g}")
