"""The gradient norm beside the incident."""

from __future__ import annotations

import math

from trainforensics.causes import facts
from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason, reason

LED = {"rl-collapse": "the reward"}  # what a precursor leads, where it is not the loss


def gradient(case: Case, led: float = 0.0, same: float = 0.0, quiet: float = 0.0) -> list[Reason]:
    """Whether the gradient norm moved before the loss, in the same logged point, or not at all."""
    move, order = case.movement("grad_norm"), facts.gradient.order(case)
    if order == "led":
        return reason(led, _led(case))
    if move is None or order is None or not math.isfinite(move.at):
        return []
    before, at = case.levels("grad_norm", move.before, move.at)
    if order == "same":
        calm = "" if facts.gradient.precursor(case) else ", quiet before"
        return reason(same, f"the gradient norm jumped in the same logged point, from {before:.3g} to {at:.3g}{calm}")
    return reason(quiet, f"the gradient norm stayed normal ({at:.3g}, usual {before:.3g})")


def _led(case: Case) -> str:
    """When the gradient norm moved, and how long before the incident or what its precursor names."""
    named, move = facts.gradient.precursor(case), case.movement("grad_norm")
    if named is not None:
        step, lead = named.step, named.lead
    else:
        step = move.lead_step if move is not None else case.onset
        lead = case.onset - step
    return f"the gradient norm left its noise at {step}, {lead} steps before {LED.get(case.kind, 'the loss')}"


def rescaled(case: Case, points: float) -> list[Reason]:
    """A gradient norm that is the same as before but for a factor, with a loss that takes no notice."""
    levels = facts.gradient.rescaled(case)
    if levels is None:
        return []
    before, after = levels
    return reason(
        points,
        f"the gradient norm went from {before:.3g} to {after:.3g} in one logged point and has kept that level and its "
        "spread, with the loss unmoved: a factor on it, as of a sum in place of a mean",
    )


def no_gradient(case: Case, points: float) -> list[Reason]:
    """A norm over all parameters that not even the last layer adds to."""
    levels = facts.gradient.negligible(case) if case.kind == "vanishing-gradient" else None
    if levels is None:
        return []
    norm, loss = levels
    return reason(
        points,
        f"the norm over all parameters is {norm:.2g} with a loss of {loss:.4g}: even the last layer gets nothing, "
        "which no initial weights bring about",
    )
