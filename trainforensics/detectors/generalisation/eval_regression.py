"""A downstream metric that falls while the losses stay healthy.

What it detects:
    An evaluation metric (accuracy, BLEU, a benchmark score; or an error that rises) that leaves its best level for
    good while neither the training nor the validation loss gets worse.

Why it matters:
    The losses say all is well, the task says it is not. Suspect the evaluation set, its prompt or scoring, or a shift
    of the training data before the model.

Evidence:
    Best level against the level of the last evaluations in standard errors of the metric's own noise; Mann-Kendall
    test since the best evaluation, or all evaluations after the onset below all before it; courses of both losses over
    the same steps.

False positives:
    Small evaluation sets swing (the fall must be twice the largest fall that the run undid before). A loss that gets
    worse as well, or is no number over much of the fall, makes it an effect of that event, which another kind names.

Example:
    Accuracy falls from 0.80 to 0.41 in 1,500 steps while training loss goes from 1.1 to 1.0.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.chance import ignorance
from trainforensics.signals.evaluations import (
    Condensed,
    Course,
    best_step,
    condense,
    course_between,
    higher_is_better,
    last_level_steps,
    level_steps,
    median_of,
    oriented,
    validation_curves,
)
from trainforensics.signals.rises import Rise, apart, earlier_wobble, second_descent, sustained_rise

META = Meta(
    kind=KINDS["eval-regression"],
    needs=("val_metric",),
    uses=("train_loss", "val_loss"),
    params=(
        Param("z", 6.0, "fall in standard errors, as for val-divergence"),
        Param("trend_p", 0.01, "Mann-Kendall level of the evaluations since the best; convention"),
        Param("short_p", 0.05, "the same where the fall is large: 4 evaluations in order can reach it"),
        Param("short_fall", 0.2, "such a fall against the best level; as for val-divergence"),
        Param("apart_p", 1e-3, "chance that all evaluations after the onset lie below up to 8 before: a fall at once"),
        Param("size", 0.05, "fall against the best level; as for val-divergence"),
        Param("wobble", 2.0, "times the largest fall that the run made and undid before"),
        Param(
            "lost", 0.25, "of the worst value before: a score falls so far by no noise, however few evaluations follow"
        ),
        Param("near", 0.02, "relative distance from the loss of guessing, as for plateau"),
        Param("not_finite", 0.25, "share of a loss since the best evaluation; one stray NaN is no illness"),
    ),
)

LEAST_BEFORE, LEAST_SINCE = 3, 2  # evaluations of a score, and those in which it is lost
LEVEL = 3  # evaluations whose median is a level
MOST_SURE = 15.0  # noise widths that so few can prove


def detect(signals: Signals, params: Params) -> Outcome:
    """The clearest regression over all metrics, while both losses are healthy or at least one is and none is ill."""
    metrics = [curve for curve in validation_curves(signals, "val_metric") if len(curve) >= 5]
    if not metrics:
        return NotApplicable("fewer than 5 evaluations of a downstream metric", "log a downstream metric more often")
    if not signals.has("train_loss") and not signals.has("val_loss"):
        return NotApplicable("no loss is logged beside the metric", "log the training loss")
    loss = signals.curve("train_loss")
    finite = loss.only_finite() if loss is not None else None
    if finite is not None and len(finite) >= len(metrics[0]) and ignorance(signals, finite, params["near"]) is not None:
        return NotApplicable("nothing was learnt that could be lost (see plateau)", "")
    found = [finding for curve in metrics if (finding := _judge(curve, signals, params)) is not None]
    return Fired((max(found, key=lambda finding: finding.confidence),)) if found else Clear()


def _judge(curve: Curve, signals: Signals, params: Params) -> Finding | None:
    points = condense(oriented(curve))
    fall = sustained_rise(points)
    if fall is None or not _stands_out(points, fall, params):
        fall = _lost(points, params["lost"]) if higher_is_better(curve) else None
    if fall is None:
        return None
    hump = second_descent(points)
    if hump is not None and hump.z >= params["z"] and hump.top - hump.end >= 0.5 * (hump.top - hump.low):
        return None
    courses = {
        role: course_between(loss, points, fall.best, len(points) - 1)
        for role, loss in (("train_loss", signals.curve("train_loss")), ("val_loss", signals.curve("val_loss")))
        if loss is not None
    }
    ways = {course.way for course in courses.values()}
    if "rises" in ways or not ways & {"falls", "flat"}:
        return None
    since = int(points.step[fall.best])
    if any(_not_finite(signals.curve(role), since) > params["not_finite"] for role in courses):
        return None
    return _finding(curve, points, fall, courses)


def _lost(points: Condensed, share: float) -> Rise | None:
    """The fall of a score, turned upside down, that was above zero and is all but lost in its last evaluations."""
    value = points.value
    kept = np.flatnonzero(value <= value[0])
    if value[0] >= 0 or not len(kept):
        return None
    onset = int(kept[-1]) + 1
    worst, since = float(value[:onset].max()), value[onset:]
    if onset < LEAST_BEFORE or len(since) < LEAST_SINCE or worst >= 0 or since.min() < share * worst:
        return None
    best = int(np.argmin(value[:onset]))
    low, level = float(value[best]), float(np.median(since))
    z = (level - low) / max(points.noise, 1e-9 * abs(low))
    return Rise(best, onset, onset, low, level, min(z, MOST_SURE), 1.0, (level - low) / abs(low))


def _not_finite(loss: Curve | None, since: int) -> float:
    """Share of a loss after a step that is NaN or infinite."""
    late = loss.finite[loss.step > since] if loss is not None else np.empty(0, np.bool_)
    return 1.0 - float(np.mean(late)) if len(late) else 0.0


def _stands_out(points: Condensed, fall: Rise, params: Params) -> bool:
    height = fall.level - fall.low
    scale = abs(fall.low) or abs(fall.level)
    trend_p = params["short_p"] if height >= params["short_fall"] * scale else params["trend_p"]
    return (
        fall.z >= params["z"]
        and (fall.trend_p <= trend_p or apart(points.value, fall.onset) <= params["apart_p"])
        and height >= params["size"] * scale
        and height >= params["wobble"] * earlier_wobble(points, fall.best)
    )


def _finding(curve: Curve, points: Condensed, fall: Rise, courses: dict[str, Course]) -> Finding:
    sign = -1.0 if higher_is_better(curve) else 1.0
    best = best_step(oriented(curve), points, fall.best)
    onset, last = int(points.step[fall.onset]), int(curve.step[-1])
    low, level = sign * fall.low, sign * fall.level
    few = len(points) - fall.onset < LEVEL
    latest = f"steps {onset}-{last}" if few else last_level_steps(points, curve)
    highest = level_steps(curve, points, fall.best)
    evidence = [
        Evidence(curve.name, best, low, None, f"best level, {median_of(highest, curve, best)}"),
        Evidence(curve.name, last, level, low, f"{median_of(latest, curve, last)}, {fall.z:.0f} standard errors worse"),
    ]
    evidence += [
        Evidence(role, last, course.after, course.before, f"{role} {course.text}")
        for role, course in courses.items()
        if course.way != "unknown"
    ]
    return Finding(
        kind="eval-regression",
        series=curve.name,
        role="val_metric",
        onset_step=onset,
        onset_interval=(min(best, int(points.step[fall.onset - 1])), onset),
        occurrences=(onset,),
        peak_step=int(points.step[fall.peak]),
        recovery="unrecovered",
        confidence=round(min(0.92, 0.6 + 0.02 * (fall.z - 6)), 2),
        scope=Scope(domain=curve.series.domain),
        summary=f"{curve.name} went from {low:.4g} ({highest}) to {level:.4g} ({latest}), onset at {onset}, "
        "while no loss got worse",
        evidence=tuple(evidence),
    )
