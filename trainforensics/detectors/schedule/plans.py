"""The learning rate against the declared plan: moves that it does not hold, and moves of it that never come."""

from __future__ import annotations

import re

from trainforensics.model import Evidence, Finding
from trainforensics.signals import Curve, Signals
from trainforensics.signals.batch import follows_scaling_rule
from trainforensics.signals.declared import (
    ANY,
    DECAY,
    StepDecay,
    decay_end,
    declared,
    single_decay,
    step_decay,
    warmup_steps,
)
from trainforensics.signals.plan import (
    climb_back,
    comes_again,
    drop,
    still_warming,
    stopped_decay,
    undecayed,
    unmoved,
    unwarmed,
    warmup_cut,
)
from trainforensics.signals.schedule import ScheduleFault
from trainforensics.signals.task import planned_steps, stated

_RANGE_TEST = re.compile(r"range_?test")


def unplanned(signals: Signals, points: Curve, borders: list[int]) -> ScheduleFault | None:
    """The first kind of move that the plan does not hold; moves at `borders`, where the run was restarted, are not."""
    found = (
        _climbs_back(signals, points, borders),
        _drops(signals, points, borders),
        _warmup_cut(signals, points, borders),
        _stands_still(signals, points, borders),
    )
    return next((fault for fault in found if fault is not None), None)


def unkept(signals: Signals, points: Curve, decayed: float) -> Finding | None:
    """A declared decay, cut or warm-up of which nothing is seen; a decay is seen from a share `decayed` on."""
    found = (_never_decays(signals, points, decayed), _never_cut(signals, points), _never_warms(signals, points))
    return next((finding for finding in found if finding is not None), None)


def never_warmed(signals: Signals, points: Curve) -> Finding | None:
    """A warm-up that is not over when all planned steps are: told by three points already."""
    planned = next(iter(planned_steps(signals)), None)
    if planned is None or signals.axis.unit != "step" or not still_warming(points, planned):
        return None
    if any(_RANGE_TEST.search(f"{key} {value}".lower()) for key, value in stated(signals) if value):
        return None
    return _unmoved(points, 0, len(points) - 1, f"climbs in a straight line over all {planned} planned steps")


def at_border(points: Curve, fault: ScheduleFault, borders: list[int]) -> bool:
    """Whether the run was restarted where a fault begins."""
    before, onset = int(points.step[max(0, fault.onset - 1)]), int(points.step[fault.onset])
    return any(before < border <= onset for border in borders)


def _climbs_back(signals: Signals, points: Curve, borders: list[int]) -> ScheduleFault | None:
    """A declared single decay that turns or comes again: it is stepped more often than planned, or made anew."""
    if declared(signals, DECAY) is None or not single_decay(signals):
        return None
    again = comes_again(points)
    if again is not None and at_border(points, again, borders):
        return None
    return again or climb_back(points)


def _drops(signals: Signals, points: Curve, borders: list[int]) -> ScheduleFault | None:
    """A fall at once in a declared single decay."""
    if declared(signals, DECAY) is None or not single_decay(signals):
        return None
    fault = drop(points)
    if fault is None or at_border(points, fault, borders):
        return None
    before, onset = int(points.step[fault.onset - 1]), int(points.step[fault.onset])
    return None if follows_scaling_rule(signals, before, onset, fault.after / fault.before) else fault


def _warmup_cut(signals: Signals, points: Curve, borders: list[int]) -> ScheduleFault | None:
    """A leap that ends a warm-up before its declared length."""
    planned = _warmup(signals)
    fault = warmup_cut(points, planned) if planned is not None else None
    return None if fault is None or at_border(points, fault, borders) else fault


def _warmup(signals: Signals) -> int | None:
    """The declared steps of the warm-up; None where the log does not count steps."""
    return warmup_steps(signals) if signals.axis.unit == "step" else None


def _stands_still(signals: Signals, points: Curve, borders: list[int]) -> ScheduleFault | None:
    """A decay that stops where the run was started again, or before the declared end."""
    fault = stopped_decay(points.value)
    if fault is None:
        return None
    step, reach = int(points.step[fault.onset]), 2 * points.cadence
    early = declared(signals, DECAY) is not None and (decay_end(signals) or 0) - step > reach
    return fault if early or any(abs(border - step) <= reach for border in borders) else None


def _never_decays(signals: Signals, points: Curve, decayed: float) -> Finding | None:
    """A declared cosine, linear or polynomial decay of which nothing is seen at half of the planned steps."""
    shape, planned = declared(signals, DECAY), decay_end(signals)
    warm = undecayed(points, planned, decayed) if shape is not None and planned is not None else None
    if warm is None:
        return None
    return _unmoved(points, warm, len(points) - 1, f"is declared as {shape} over {planned} steps")


def _never_cut(signals: Signals, points: Curve) -> Finding | None:
    """A declared decay by cuts of which nothing is seen long after the first was due."""
    plan = step_decay(signals)
    due = _step_of_cut(signals, plan) if plan is not None else None
    at = unmoved(points, due) if due is not None else None
    if plan is None or at is None:
        return None
    text = f"is declared as {plan.name} (x{plan.factor:g} after {plan.due} {'epochs' if plan.by_epoch else 'steps'})"
    return _unmoved(points, at, len(points) - 1, text)


def _step_of_cut(signals: Signals, plan: StepDecay) -> int | None:
    """The step at which the first cut is due; None where the log does not count what it is counted in."""
    if not plan.by_epoch:
        return plan.due if signals.axis.unit == "step" else None
    epoch = signals.curve("epoch")
    if epoch is None:
        return None
    passed = epoch.step[epoch.value >= plan.due + 1]  # some count from 1
    return int(passed[0]) if len(passed) else None


def _never_warms(signals: Signals, points: Curve) -> Finding | None:
    """A declared warm-up of which nothing is seen; a constant schedule may have none."""
    planned, shape = _warmup(signals), declared(signals, ANY)
    if planned is None or shape is None or "constant" in shape.lower() or not unwarmed(points, planned):
        return None
    return _unmoved(points, 0, max(points.at(planned), 0), f"is declared as {shape} after a warm-up of {planned} steps")


def _unmoved(points: Curve, at: int, until: int, declared_as: str) -> Finding:
    onset, last = int(points.step[at]), int(points.step[until])
    text = f"{declared_as} and still {points.value[until]:.3g} at step {last}"
    return Finding(
        kind="lr-anomaly",
        series=points.name,
        role="learning_rate",
        onset_step=onset,
        onset_interval=(onset, last),
        occurrences=(onset,),
        recovery="unrecovered",
        confidence=0.7,
        summary=f"{points.name} {text}",
        evidence=(Evidence(points.name, last, float(points.value[until]), None, text),),
    )
