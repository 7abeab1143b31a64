"""How the series came back, if it did."""

from __future__ import annotations

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.movement import LASTING_POINTS
from trainforensics.causes.weight import Reason, reason

CALM_POINTS = 50  # logged points before the onset that a rate which is too high would hardly have let pass
FAST_POINTS, SLOW_POINTS = 3, 8  # logged points from onset to return
SUDDEN = frozenset({"instant-burst", "divergence", "gradient-explosion"})
OF_ROLE = {"grad_norm": "the gradient norm"}  # what comes back, where it is not the loss


def recovery(case: Case, fast: float = 0.0, slow: float = 0.0) -> list[Reason]:
    """A bad batch leaves the weights nearly as they were; a violent update must be learnt away again."""
    if case.kind not in SUDDEN or facts.recovery.turns_nan(case) or facts.gradient.rescaled(case):
        return []
    points, what = facts.recovery.points_back(case), OF_ROLE.get(case.incident.role or "", "the loss")
    quickly = facts.recovery.quickly_back(case)
    tells = case.incident.role == "train_loss" and facts.evaluation.validated(case) is None  # which would know better
    if points is not None and points <= FAST_POINTS:
        steps = max(1, points) * case.cadence
        within = f"{steps} steps" if steps > 1 else "one step"
        unharmed = ", so the weights took no harm" if tells and quickly else ""
        return reason(fast, f"{what} was back within {within}{unharmed}")
    if points is not None and points >= SLOW_POINTS:
        harmed = ": the weights were harmed" if tells and not quickly else ""
        return reason(slow, f"{what} took {points * case.cadence} steps to come back{harmed}")
    if case.incident.recovery in ("partial", "unrecovered", "diverging"):
        return reason(slow, f"{what} did not come back ({case.incident.recovery})")
    after = facts.timing.points_after(case)
    if case.incident.recovery == "ongoing" and after >= FAST_POINTS:
        return reason(slow, f"{what} had not come back after {after} logged points, where the log ends")
    return []


def after_jump(case: Case, alone: float, fast: float = 0.0, slow: float = 0.0) -> list[Reason]:
    """A jump of the gradient norm in one point alone, and how the series came back; after one a slow return is no sign.

    What the update of one batch harmed may take long to be learnt again, but is in the end.
    """
    lone = _lone_jump(case, alone)
    return [*lone, *recovery(case, fast, 0.0 if lone else slow)]


def _lone_jump(case: Case, points: float) -> list[Reason]:
    """A gradient norm that left a quiet level in one logged point alone, under a rate that had trained calmly.

    One batch does that. A rate that is too high would have shown in the points before.
    """
    jump, rate = facts.gradient.lone_jump(case), facts.rate.around(case)
    if case.kind not in SUDDEN or jump is None or facts.timing.period(case) is not None:
        return []
    if facts.recovery.points_back(case) is None or facts.timing.points_before(case) < CALM_POINTS:
        return []
    if rate is None or rate.jump > 1.0 or rate.ramp > 1.0 or rate.warming:
        return []
    before, here, after = jump
    return reason(
        points,
        f"the gradient norm stood out in one logged point alone ({here:.3g}, usual {before:.3g}, {after:.3g} in the "
        f"next), under a learning rate of {rate.now:.3g} that did not jump",
    )


def lasting(case: Case, points: float) -> list[Reason]:
    """A series that stays where it jumped to: no batch does that."""
    if not facts.recovery.lasting(case):
        return []
    return reason(points, f"{case.incident.series} stays away for at least {LASTING_POINTS} logged points")
