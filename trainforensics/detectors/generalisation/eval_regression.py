"""A downstream metric that falls while the losses stay healthy.

What it detects:
    An evaluation metric (accuracy, BLEU, a benchmark score; or an error that rises) that leaves its best level for
    good while neither the training nor the validation loss gets worse. Or a score of which next to nothing is kept for
    two evaluations, or less than half for three, whether it comes back or not.

Why it matters:
    The losses say all is well, the task says it is not. Suspect the evaluation set, its prompt or scoring, or a shift
    of the training data before the model.

Evidence:
    Best level against the level of the last evaluations in standard errors of the metric's own noise; Mann-Kendall
    test since the best evaluation, or all evaluations after the onset below all before it, or the last ones below so
    many of the best; courses of both losses over the same steps.

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
from trainforensics.signals.jumps import MAX_JUMP_POINTS
from trainforensics.signals.rises import (
    Rise,
    apart,
    collapses,
    earlier_wobble,
    never_again,
    second_descent,
    sustained_rise,
)

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
        Param("little", 1.1, "factor of a loss that explains no score of which a half or more is lost"),
        Param("never_p", 0.02, "chance that the last evaluations are worse than so many of the best"),
        Param("never_z", 2.0, "standard errors that are enough then, where the fall is large"),
        Param("near", 0.02, "relative distance from the loss of guessing, as for plateau"),
        Param("not_finite", 0.25, "share of a loss since the best evaluation; one stray NaN is no illness"),
    ),
)

COLLAPSE_SURE = 0.75  # confidence: few evaluations, but none of them near


def detect(signals: Signals, params: Params) -> Outcome:
    """The clearest regression over all metrics, of equals the first, unless a loss is ill or none is healthy."""
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
    return Fired((min(found, key=lambda finding: (-finding.confidence, finding.occurrences)),)) if found else Clear()


def _judge(curve: Curve, signals: Signals, params: Params) -> Finding | None:
    points = condense(oriented(curve))
    fall, stretches = sustained_rise(points), tuple[tuple[int, int], ...]()
    if fall is None or not _stands_out(points, fall, params) or _comes_back(points, params):
        points = condense(oriented(curve), MAX_JUMP_POINTS)
        stretches = collapses(-points.value) if higher_is_better(curve) else ()
        if not stretches:
            return None
        fall = _collapsed(points, *stretches[0])
    until = stretches[0][1] if stretches else len(points)
    courses = {
        role: course_between(loss, points, fall.best, until - 1)
        for role, loss in (("train_loss", signals.curve("train_loss")), ("val_loss", signals.curve("val_loss")))
        if loss is not None
    }
    ways = {course.way for course in courses.values()}
    worse = [course for course in courses.values() if course.way == "rises"]
    if stretches:  # what is all but lost is not explained by so little
        worse = [course for course in worse if not course.kept <= params["little"]]
    if worse or ways == {"unknown"}:
        return None
    since = int(points.step[fall.best])
    if any(_not_finite(signals.curve(role), since) > params["not_finite"] for role in courses):
        return None
    if any(_not_finite(signals.curve(role), int(points.step[fall.onset]) - 1) == 1.0 for role in courses):
        return None
    return _finding(curve, points, fall, stretches, courses)


def _comes_back(points: Condensed, params: Params) -> bool:
    hump = second_descent(points)
    return hump is not None and hump.z >= params["z"] and hump.top - hump.end >= 0.5 * (hump.top - hump.low)


def _collapsed(points: Condensed, first: int, end: int) -> Rise:
    """The fall of a score, turned upside down, into a stretch in which it is all but lost."""
    value = points.value
    best = int(np.argmin(value[:first]))
    low, level = float(value[best]), float(np.median(value[first:end]))
    z = (level - low) / max(points.noise, 1e-9 * abs(low))
    return Rise(best, first, first, low, level, z, 1.0, (level - low) / abs(low))


def _not_finite(loss: Curve | None, since: int) -> float:
    """Share of a loss after a step that is NaN or infinite."""
    late = loss.finite[loss.step > since] if loss is not None else np.empty(0, np.bool_)
    return 1.0 - float(np.mean(late)) if len(late) else 0.0


def _stands_out(points: Condensed, fall: Rise, params: Params) -> bool:
    height = fall.level - fall.low
    scale = abs(fall.low) or abs(fall.level)
    trend_p = params["short_p"] if height >= params["short_fall"] * scale else params["trend_p"]
    wobble = earlier_wobble(points, fall.best)
    if height >= max(params["short_fall"] * scale, wobble) and never_again(points.value) <= params["never_p"]:
        return fall.z >= params["never_z"]
    return (
        fall.z >= params["z"]
        and (fall.trend_p <= trend_p or apart(points.value, fall.onset) <= params["apart_p"])
        and height >= params["size"] * scale
        and height >= params["wobble"] * wobble
    )


def _finding(
    curve: Curve, points: Condensed, fall: Rise, stretches: tuple[tuple[int, int], ...], courses: dict[str, Course]
) -> Finding:
    sign = -1.0 if higher_is_better(curve) else 1.0
    best = best_step(oriented(curve), points, fall.best)
    onset, last = int(points.step[fall.onset]), int(curve.step[-1])
    if stretches:
        last = int(points.step[stretches[0][1] - 1])
    low, level = sign * fall.low + 0.0, sign * fall.level + 0.0  # no negative zero
    latest = f"steps {onset}-{last}" if stretches else last_level_steps(points, curve)
    highest = level_steps(curve, points, fall.best)
    back = next((int(points.step[end]) for _, end in stretches[-1:] if end < len(points)), None)
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
        occurrences=tuple(int(points.step[first]) for first, _ in stretches) or (onset,),
        peak_step=int(points.step[fall.peak]),
        end_step=back,
        recovery="unrecovered" if back is None else "recovered",
        confidence=COLLAPSE_SURE if stretches else round(min(0.92, 0.6 + 0.02 * (fall.z - 6)), 2),
        scope=Scope(domain=curve.series.domain),
        summary=f"{curve.name} went from {low:.4g} ({highest}) to {level:.4g} ({latest}), onset at {onset}, "
        "while no loss got worse" + _text_of_return(points, stretches),
        evidence=tuple(evidence),
    )


def _text_of_return(points: Condensed, stretches: tuple[tuple[int, int], ...]) -> str:
    if not stretches or stretches[0][1] == len(points):
        return ""
    again = ", ".join(str(int(points.step[first])) for first, _ in stretches[1:])
    return f"; it came back at {points.step[stretches[0][1]]}" + (f" and fell again at {again}" if again else "")
