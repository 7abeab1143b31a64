"""A restart, and how the two lives join."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason

JOINED = 4.0  # standard errors of a join below which two lives go on as one


def restart(case: Case, near: float) -> list[Reason]:
    """A restart at the onset or shortly before."""
    step = facts.restarts.near(case)
    return [] if step is None else reason(near, f"the run was restarted at {step}, {case.onset - step} steps before")


def joins(case: Case, role: str, higher: float = 0.0, lower: float = 0.0, smooth: float = 0.0) -> list[Reason]:
    """How a series joins across a restart: clearly higher, clearly lower, or smoothly."""
    found = facts.restarts.joint(case, role)
    if found is None:
        return []
    broken = case.kind == "resume-discontinuity" and case.told(role) is not None  # it tells of breaks only
    before, after = case.levels(role, found.before, found.after)
    numbers = f"from {before:.4g} to {after:.4g}"
    if not broken and abs(found.z) < JOINED:
        return reason(smooth, f"{role} joins smoothly across the restart ({numbers})")
    way, points = ("up", higher) if after > before else ("down", lower)
    return reason(points, f"{role} went {way} across the restart, {numbers}")


def counts_anew(case: Case, points: float) -> list[Reason]:
    """A restart that repeats steps with the weights of later ones."""
    levels = facts.restarts.counts_anew(case)
    if levels is None:
        return []
    there, here, end = levels
    return reason(
        points,
        f"the repeated steps stand at {here:.4g}, where the old life ended ({end:.4g}), not where it stood at the same "
        f"steps ({there:.4g}): the weights are the later ones, only the counter went back",
    )


def thrown_back(case: Case, far: float = 0.0, little: float = 0.0) -> list[Reason]:
    """How much of what had been learnt a restart lost."""
    share = facts.restarts.way_back(case)
    if share is None or share <= 0:
        return []
    text = f"the training loss went {share:.0%} of the way back to the first losses of the run"
    return reason(far, text) if share >= 0.5 else reason(little, text) if share < 0.2 else []
