"""What the step spends its time on."""

from __future__ import annotations

from trainforensics.causes.case import Case
from trainforensics.causes.movement import MOVED
from trainforensics.causes.weight import Reason, reason

LONGER = 6.0  # noise widths


def part_of_step(case: Case, role: str, what: str, longer: float, usual: float) -> list[Reason]:
    """A part of the step that takes longer or does not, and again where it makes up what the step takes longer."""
    move = case.movement(role)
    if move is None:
        return []
    text = f"{what} went from {move.before:.3g} to {move.at:.3g}"
    return [*reason(longer if move.widths > LONGER else usual, text), *_of_longer_step(case, role, longer)]


def _of_longer_step(case: Case, role: str, points: float) -> list[Reason]:
    """A part that takes up half or more of what the step takes longer."""
    step, part = case.movement("step_time"), case.movement(role)
    if step is None or part is None or step.at <= step.before or part.widths < MOVED:
        return []
    more, of_it = step.at - step.before, part.at - part.before
    if not 0.5 * more <= of_it <= 1.5 * more:
        return []
    return reason(points, f"{role} takes {of_it:.3g} of the {more:.3g} by which a step takes longer")
