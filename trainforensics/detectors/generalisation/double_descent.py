"""Validation that gets worse, then clearly better again, while training keeps improving.

What it detects:
    A hump in the validation error (or loss): a first minimum, a broad peak, a second fall that undoes at least half of
    the rise and lasts to the end of the log. Where an error or a score is logged it is preferred to the loss.

Why it matters:
    It is a hint, not a fault: stopping early at the first minimum would have given up the second one. The summary says
    what that would have cost.

Evidence:
    Rise and second fall in standard errors of the curve's point-to-point noise; the training loss at the first
    minimum, the peak and the end.

False positives:
    A burst or a learning-rate restart lifts training and validation together: training must not rise. Wandering curves:
    no second hump may be half as high. Start-up: the first minimum needs its own fall. A score that is all but lost
    for a while is a collapse (eval-regression).

Example:
    Random-feature models with label noise, epoch-wise: the error falls to 0.49, climbs to 0.53 and ends at 0.31.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import (
    Condensed,
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
from trainforensics.signals.ringing import rings
from trainforensics.signals.rises import SecondDescent, collapses, mann_kendall, second_descent
from trainforensics.signals.structure import announced

FIRST = 2  # evaluations of a model that has learnt nothing yet

META = Meta(
    kind=KINDS["double-descent"],
    needs=("val_loss|val_metric",),
    uses=("train_loss", "stage", "learning_rate", "momentum", "reward", "epoch"),
    params=(
        Param("z", 8.0, "rise and fall in standard errors; 2 in 1,000 healthy curves that wander reach it (simulated)"),
        Param("z_memorised", 4.0, "the same where training lost a sixth of its loss up to the peak; as val-divergence"),
        Param("memorised", 5 / 6, "share of its loss that training keeps then"),
        Param("large", 0.1, "height of the hump then: small sets repeat within a tenth"),
        Param(
            "sure_p", 1e-3, "and the level at which the one side of the hump is beyond doubt, the other at `trend_p`"
        ),
        Param("trend_p", 0.05, "Mann-Kendall level of rise and fall: 4 evaluations in order can reach it"),
        Param("rise", 0.05, "height of the hump against the level; as for val-divergence"),
        Param(
            "fell", 0.3, "share of the hump's height by which the curve fell before it; else it starts with the rise"
        ),
        Param("undone", 0.5, "share of the rise that the second fall must undo"),
        Param("rival", 0.3, "another hump of this share of the height makes it an oscillation"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """The clearest hump over all validation errors and losses; errors go first."""
    metrics = [curve for curve in validation_curves(signals, "val_metric") if curve.series.domain is None]
    metrics = [curve for curve in metrics if not higher_is_better(curve) or not collapses(curve.value)]
    losses = [curve for curve in validation_curves(signals) if curve.series.domain is None]
    curves = [curve for curve in (*metrics, *losses) if len(curve) >= 9]
    if not curves:
        return NotApplicable("fewer than 9 evaluations", "evaluate more often")
    train = signals.curve("train_loss")
    for curve in curves:
        points = condense(oriented(curve))
        hump = second_descent(points)
        if hump is None or rings(signals, curve) is not None:
            continue
        if announced(signals, int(points.step[hump.first]), int(points.step[hump.peak])):
            continue
        fell = float(oriented(curve).value[:FIRST].max()) - hump.low >= params["fell"] * (hump.top - hump.low)
        stands_out = _stands_out(points, hump, train, params)
        if fell and stands_out and _training_improves(train, points, hump):
            return Fired((_finding(curve, points, hump, train),))
    return Clear()


def _stands_out(points: Condensed, hump: SecondDescent, train: Curve | None, params: Params) -> bool:
    up, down = points.value[hump.first : hump.peak + 1], points.value[hump.peak : hump.second + 1]
    trends = (mann_kendall(up), mann_kendall(-down))
    memorised = (
        course_between(train, points, hump.first, hump.peak).kept <= params["memorised"]
        and hump.relative >= params["large"]
        and min(trends) <= params["sure_p"]
    )
    return (
        hump.z >= params["z_memorised" if memorised else "z"]
        and hump.relative >= params["rise"]
        and hump.top - hump.end >= params["undone"] * (hump.top - hump.low)
        and max(trends) <= params["trend_p"]
        and _rival(points, hump) < params["rival"] * (hump.top - hump.low)
    )


def _rival(points: Condensed, hump: SecondDescent) -> float:
    """Height of the largest other rise: before the first minimum (start-up aside) or after the second."""
    before = points.smooth[len(points) // 10 : hump.first + 1]
    after = points.smooth[hump.second :]
    return max((float((s - np.minimum.accumulate(s)).max()) for s in (before, after) if len(s)), default=0.0)


def _training_improves(train: Curve | None, points: Condensed, hump: SecondDescent) -> bool:
    """Training must not rise with the hump, and must have fallen by the end; unknown training is no objection."""
    rise = course_between(train, points, hump.first, hump.peak)
    whole = course_between(train, points, hump.first, len(points) - 1)
    return rise.way != "rises" and whole.way in ("falls", "unknown")


def _finding(curve: Curve, points: Condensed, hump: SecondDescent, train: Curve | None) -> Finding:
    sign = -1.0 if higher_is_better(curve) and curve.series.role == "val_metric" else 1.0
    low, top, end = sign * hump.low, sign * hump.top, sign * hump.end
    first = best_step(oriented(curve), points, hump.first)
    onset, peak, last = int(points.step[hump.onset]), int(points.step[hump.peak]), int(curve.step[-1])
    at_low, at_top = (level_steps(curve, points, position) for position in (hump.first, hump.peak))
    at_end = last_level_steps(points, curve)
    gain = hump.low - hump.end
    lesson = (
        f"stopping early at step {first} would have given up {gain:.3g}"
        if gain > 0
        else f"the first minimum is still better by {-gain:.3g}, but the curve is falling again"
    )
    training = course_between(train, points, hump.first, len(points) - 1)
    evidence = [
        Evidence(curve.name, first, low, None, f"first minimum, {median_of(at_low, curve, first)}"),
        Evidence(
            curve.name,
            peak,
            top,
            low,
            f"peak, {median_of(at_top, curve, peak)}, {hump.z:.0f} standard errors out (noise {hump.noise:.2g})",
        ),
        Evidence(curve.name, last, end, top, median_of(at_end, curve, last)),
    ]
    if training.way != "unknown":
        name = train.name if train is not None else "train_loss"
        evidence.append(Evidence(name, last, training.after, training.before, f"training loss {training.text}"))
    known = 1.0 if training.way == "falls" else 0.7
    return Finding(
        kind="double-descent",
        series=curve.name,
        role=curve.series.role,
        onset_step=onset,
        onset_interval=(int(points.step[max(0, hump.onset - 1)]), onset),
        occurrences=(onset,),
        peak_step=peak,
        end_step=int(points.step[hump.second]),
        recovery="recovered" if gain >= 0 else "partial",
        confidence=round(min(0.95, 0.6 + 0.02 * (hump.z - 8)) * known, 2),
        scope=Scope(domain=curve.series.domain),
        summary=f"{curve.name} went {low:.4g} ({at_low}) -> {top:.4g} ({at_top}) -> {end:.4g} ({at_end}) "
        f"while training kept improving; {lesson}",
        evidence=tuple(evidence),
    )
