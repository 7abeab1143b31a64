"""Validation loss that rises for good while the training loss goes on falling.

What it detects:
    A U-shape: the validation loss (where no loss is logged, the logarithm of the perplexity, or the wrong answers of an
    accuracy that training has too) passes a minimum, then rises steadily and stays up, while the training loss falls on
    (or has settled low); or a log ends in four evaluations each of which is worse than the one before. The onset is the
    first evaluation of the sustained rise, at the latest the one after which none comes back to the minimum. Or none of
    seven evaluations and more comes near the first, which is no longer of the untrained model.

Why it matters:
    Every step after the minimum makes the model worse on data it has not seen. The best checkpoint lies behind.

Evidence:
    The level around the minimum against the level of the last evaluations, in standard errors of the curve's own
    point-to-point noise (from second differences); a Mann-Kendall test of the evaluations since the minimum, or
    the chance that the last evaluations lie above so many of the lowest; the training loss over the same span; a
    validation metric that got worse as well.

False positives:
    A flat end, a noisy or wandering curve (the rise must be twice the largest rise that the run undid before), a rise
    of two or three per cent (reported as low unless it is beyond doubt and training falls on by a tenth), a rise in
    which training rises too (a loss event), one single jump (val-jump), a second descent (double-descent).

Example:
    Fine-tuning for too many epochs: the validation loss falls to 3.03 at step 150 and climbs to 4.13 at 900 while the
    training loss goes from 2.1 to 0.4.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Precursor, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import (
    FEW,
    Condensed,
    Course,
    best_step,
    condense,
    course_between,
    last_level_steps,
    level_steps,
    level_up_to,
    log_perplexities,
    median_of,
    oriented,
    point_noise,
    validation_curves,
)
from trainforensics.signals.jumps import MAX_JUMP_POINTS, level_jump
from trainforensics.signals.rises import (
    Rise,
    earlier_wobble,
    first_in_order,
    never_again,
    never_back,
    rise_in_order,
    second_descent,
    sustained_rise,
)
from trainforensics.signals.scores import is_accuracy, wrong_answers

META = Meta(
    kind=KINDS["val-divergence"],
    needs=("val_loss|val_metric",),
    uses=("train_loss", "val_metric", "reward", "*"),
    params=(
        Param("z", 6.0, "rise in standard errors; under 1 in 100 flat curves with white noise reach it (simulated)"),
        Param("trend_p", 0.01, "Mann-Kendall level of the evaluations since the minimum; convention"),
        Param("short_p", 0.05, "the same where the rise is large: 4 evaluations in order can reach it"),
        Param("short_rise", 0.2, "such a rise against the level; a small validation set repeats within a tenth"),
        Param("alarm", 0.03, "rise against the level; below it, little more than runs differ by seed: low severity"),
        Param("remark", 0.02, "rise against the level below which nothing is said: less than runs differ by seed"),
        Param("fine", 0.01, "a rise that counts beyond doubt alone: runs on much text differ by a third of it by seed"),
        Param("fine_z", 8.0, "standard errors that it must have, beside a trend of one in 1,000"),
        Param("fine_fall", 0.1, "share of its loss that training must lose meanwhile"),
        Param("wobble", 2.0, "times the largest rise that the run made and undid before its minimum"),
        Param("jump_z", 7.0, "a step that val-jump names"),
        Param("memorised", 5 / 6, "share of its loss that training keeps: with a sixth gone, validation should gain"),
        Param("memorised_z", 3.0, "standard errors that are enough then; up to 5 in 100 flat curves reach all three"),
        Param("memorised_p", 0.2, "and the Mann-Kendall level: 3 evaluations out of order by one"),
        Param("memorised_rise", 0.05, "and the rise against the level: noise of small sets reaches less by itself"),
        Param("trending_z", 2.0, "standard errors that are enough where the trend itself is beyond doubt (`trend_p`)"),
        Param("never_p", 0.02, "chance that the last evaluations lie above so many of the lowest: noise of any shape"),
        Param("surely_never_p", 1e-3, "the same where training keeps more of its loss: one false alarm in 1,000 runs"),
        Param("clear_z", 4.0, "standard errors that are enough beside a trend of one in 1,000 and `never_p`"),
        Param("unknown_rise", 1.0, "rise of a few evaluations that needs no fall of the training loss: twice the best"),
        Param("lost", 0.05, "share of the right answers that is lost for good, where no loss is logged"),
        Param(
            "first", 1.15, "times the first evaluation that all later ones are; learning begins with the worst of all"
        ),
        Param("first_few", 8.0, "evaluations that show it"),
        Param("undone", 0.5, "share of the rise that a later fall must undo for the event to be another kind's"),
    ),
)
_PARTS = re.compile(r"(?:^|[^a-z])(?:kl|kld|beta|recon\w*|adv\w*|gan|elbo|disc\w*|generator)(?:[^a-z]|$)")
FEWEST = 3  # evaluations: the best and two worse ones
LAST = 4  # evaluations in order at the end


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge every validation curve; domains speak only where the whole does not."""
    losses = validation_curves(signals) or log_perplexities(signals)
    curves = [curve for curve in losses if len(curve) >= FEWEST]
    if not losses and (answers := wrong_answers(signals)) is not None:
        found = _of_answers(*answers, signals, params)
        return Fired((found,)) if found is not None else Clear()
    if not curves:
        return NotApplicable(f"fewer than {FEWEST} evaluations with a finite validation loss", "evaluate more often")
    train = signals.curve("train_loss")
    whole = [f for c in curves if c.series.domain is None and (f := _judge(c, train, signals, params)) is not None]
    if whole:
        return Fired((max(whole, key=lambda finding: finding.confidence),))
    for curve in (c for c in curves if c.series.domain is None and c.series.role == "val_loss"):
        if (found := _never_as_first(curve, train, signals, params)) is not None:
            return Fired((found,))
    parts = [f for c in curves if c.series.domain is not None and (f := _judge(c, train, signals, params)) is not None]
    return Fired(tuple(parts)) if parts else Clear()


def _judge(curve: Curve, train: Curve | None, signals: Signals, params: Params) -> Finding | None:
    points = condense(curve)
    few, rise = rise_in_order(points) if len(points) < FEW else None, sustained_rise(points)
    if few is not None and (rise is None or few.trend_p <= params["short_p"]) and _is_large(points, few, train, params):
        training = course_between(train, points, few.best, len(points) - 1)
        return _finding(curve, points, few, training, train, signals, params)
    if rise is None:
        return None
    training = course_between(train, points, rise.best, len(points) - 1)
    if training.way == "rises" or _is_another_shape(curve, points, rise, train, params):
        return None
    sure = (
        _stands_out(points, rise, params)
        or _beyond_doubt(points, rise, training, params)
        or _beside_memorised(points, rise, training, params)
        or _never_again(points, rise, training, params)
        or _ends_in_it(points, rise, training, params)
    )
    return _finding(curve, points, rise, training, train, signals, params) if sure else None


def _never_as_first(curve: Curve, train: Curve | None, signals: Signals, params: Params) -> Finding | None:
    """Evaluations all of which are far worse than the first: whatever was learnt before it, training only harms. A loss
    that is made of parts with weights of their own, or one side of a game, may be planned to grow."""
    value, names = curve.value, " ".join(c.name.lower() for c in signals.every_curve())
    first, rest = float(value[0]), value[1:]
    few = len(value) < params["first_few"] or int(curve.step[0]) <= 0
    if few or not 0 < params["first"] * first <= float(rest.min()) or _PARTS.search(names) or signals.has("reward"):
        return None
    points, second = condense(curve), int(curve.step[1])
    course = course_between(train, points, 0, len(points) - 1)
    level = float(np.median(rest[-3:]))
    after = f"none of the {len(rest)} later ones is below {float(rest.min()):.4g}"
    text = f"validation loss was {first:.4g} at its first evaluation, at {int(curve.step[0])}; {after}"
    rows = [Evidence(curve.name, int(curve.step[-1]), level, first, "median of the last three, against the first")]
    if course.way != "unknown" and train is not None:
        told = f"training loss {course.text}"
        rows.append(Evidence(train.name, int(curve.step[-1]), course.after, course.before, told))
    return Finding(
        kind="val-divergence",
        series=curve.name,
        role=curve.series.role,
        onset_step=second,
        onset_interval=(int(curve.step[0]), second),
        occurrences=(second,),
        peak_step=int(curve.step[int(np.argmax(value))]),
        recovery="unrecovered",
        severity="medium",
        confidence=0.7,
        summary=f"{text}, {_training_text(course, 'training loss', train is not None)}",
        evidence=tuple(rows),
    )


def _of_answers(wrong: Curve, own: Curve, signals: Signals, params: Params) -> Finding | None:
    """Judge the wrong answers of an accuracy beside those of the training. They come in whole answers of sets that may
    be small, so that a part of the right ones must be lost, and nothing weaker than a plain rise is enough."""
    points = condense(wrong)
    rise = sustained_rise(points)
    if rise is None or not _stands_out(points, rise, params):
        return None
    training = course_between(own, points, rise.best, len(points) - 1)
    lost = (rise.level - rise.low) / (1 - rise.low) >= params["lost"]
    if training.way != "falls" or not lost or _is_another_shape(wrong, points, rise, own, params):
        return None
    return _finding(wrong, points, rise, training, own, signals, params)


def _is_large(points: Condensed, rise: Rise, train: Curve | None, params: Params) -> bool:
    """Whether a few evaluations, each worse than the one before, tell enough: by their size beside a training loss that
    fell, or in a curve that bends upwards throughout; without such a loss by both size and number."""
    before, after = level_up_to(train, points.step)[[rise.best, -1]]
    ordered = rise.trend_p <= params["short_p"]
    if 0 < after <= params["memorised"] * before:
        bowl = ordered and bool(np.all(np.diff(points.value, 2) > 0))
        return rise.relative >= params["alarm" if bowl else "short_rise"]
    apart = not after > before or np.log(after / before) < np.log1p(rise.relative) / 2
    return ordered and rise.relative >= params["unknown_rise"] and bool(apart)


def _stands_out(points: Condensed, rise: Rise, params: Params) -> bool:
    return (
        rise.z >= params["z"]
        and rise.trend_p <= (params["short_p"] if rise.relative >= params["short_rise"] else params["trend_p"])
        and rise.relative >= params["remark"]
        and rise.level - rise.low >= params["wobble"] * earlier_wobble(points, rise.best)
    )


def _beyond_doubt(points: Condensed, rise: Rise, training: Course, params: Params) -> bool:
    """Whether a small rise is far out of its noise and in order, while training goes on to fall by a tenth."""
    return (
        training.way == "falls"
        and rise.relative >= params["fine"]
        and 1 - training.kept >= params["fine_fall"]
        and rise.z >= params["fine_z"]
        and rise.trend_p <= params["surely_never_p"]
        and rise.level - rise.low >= params["wobble"] * earlier_wobble(points, rise.best)
    )


def _lost(points: Condensed, rise: Rise) -> float:
    """What early stopping would have gained, against the level: up to the last evaluation where the last three are in
    order, else up to their median."""
    last = points.value[-3:]
    end = float(last[-1]) if np.all(np.diff(last) > 0) else rise.level
    return rise.relative * (end - rise.low) / (rise.level - rise.low)


def _beside_memorised(points: Condensed, rise: Rise, training: Course, params: Params) -> bool:
    """Whether training lost so much of its loss since the minimum that a weaker rise is overfitting as well."""
    clear = rise.z >= params["memorised_z"] and rise.trend_p <= params["memorised_p"]
    trending = rise.z >= params["trending_z"] and rise.trend_p <= params["trend_p"]
    return (
        training.kept <= params["memorised"]
        and _lost(points, rise) >= params["memorised_rise"]
        and (clear or trending or never_again(points.value) <= params["never_p"])
        and rise.level - rise.low >= earlier_wobble(points, rise.best)
    )


def _never_again(points: Condensed, rise: Rise, training: Course, params: Params) -> bool:
    """Whether training falls on while no evaluation comes near the lowest any more, as noise of no shape explains; or
    hardly explains beside a rise that is as clear by its height and by its order."""
    never = never_again(points.value)
    all_three = never <= params["never_p"] and rise.z >= params["clear_z"] and rise.trend_p <= params["surely_never_p"]
    return (
        training.way == "falls"
        and _lost(points, rise) >= params["memorised_rise"]
        and rise.trend_p <= params["trend_p"]
        and (never <= params["surely_never_p"] or all_three)
        and rise.level - rise.low >= params["wobble"] * earlier_wobble(points, rise.best)
    )


def _ends_in_it(points: Condensed, rise: Rise, training: Course, params: Params) -> bool:
    """Whether the log ends in a rise that has begun: its last evaluations in order, while training falls by a tenth."""
    return (
        len(points) >= FEW
        and training.way == "falls"
        and 1 - training.kept >= params["fine_fall"]
        and bool(np.all(np.diff(points.value[-LAST:]) > 0))
        and _lost(points, rise) >= params["alarm"]
        and rise.z >= params["memorised_z"]
        and rise.trend_p <= params["short_p"]
        and rise.level - rise.low >= params["wobble"] * earlier_wobble(points, rise.best)
    )


def _is_another_shape(curve: Curve, points: Condensed, rise: Rise, train: Curve | None, params: Params) -> bool:
    """A single jump that training has no part in, or a hump that a second descent has mostly undone."""
    height = rise.level - rise.low
    fine = condense(curve, MAX_JUMP_POINTS)
    jump = level_jump(fine)
    if jump is not None and jump.z >= params["jump_z"] and jump.after - jump.before >= 0.6 * height:
        level = level_up_to(train, fine.step)
        before, after = level[jump.at - 1 : jump.at + 1]
        known = level[np.isfinite(level) & (level > 0)]
        fell = 0 < after <= params["memorised"] * before and float(np.log(before / after)) > 2 * _unsteadiness(known)
        return not fell
    hump = second_descent(points)
    if hump is None or hump.z < params["z"]:
        return False
    return hump.top - hump.end >= params["undone"] * (hump.top - hump.low)


def _unsteadiness(level: NDArray[np.float64]) -> float:
    """Standard deviation, in logarithms, of the difference of two levels next to each other."""
    return math.sqrt(2) * point_noise(np.log(level))


def _finding(
    curve: Curve,
    points: Condensed,
    rise: Rise,
    training: Course,
    train: Curve | None,
    signals: Signals,
    params: Params,
) -> Finding:
    best = best_step(curve, points, rise.best)
    first = min(first_in_order(points, rise), never_back(points, rise))
    onset, last = int(points.step[first]), int(curve.step[-1])
    peak = int(points.step[rise.peak])
    # no rise begins before the best evaluation, the one that a reader goes back to
    onset = max(onset, _after_best(points, rise.peak))
    top = float(points.smooth[rise.peak])
    undone = (top - rise.level) / (top - rise.low) if top > rise.low else 0.0
    metric = _worsening_metric(signals, curve, points, rise)
    latest = last_level_steps(points, curve)
    value = float(curve.value[max(0, curve.at(best))])
    lowest = f"step {best}" if rise.low == value else level_steps(curve, points, rise.best)
    dip = f", lowest {value:.4g} at step {best}" if value < rise.low - points.noise else ""
    what = "validation loss" if curve.series.domain is None else f"validation loss on {curve.series.domain}"
    own = "training loss"
    if curve.series.role == "val_metric" and is_accuracy(curve.name):
        what, own = f"wrong answers by {curve.name}", "those of the training"
    elif curve.series.role == "val_metric":
        what = f"the logarithm of {curve.name}"
    evidence = [
        Evidence(curve.name, best, rise.low, None, f"lowest level, {median_of(lowest, curve, best)}"),
        Evidence(
            curve.name,
            last,
            rise.level,
            rise.low,
            f"{median_of(latest, curve, last)}, {rise.z:.0f} standard errors above the lowest "
            f"(noise {points.noise:.2g}, Mann-Kendall p = {rise.trend_p:.1g})",
        ),
    ]
    serious = _lost(points, rise) >= params["alarm"] or _beyond_doubt(points, rise, training, params)
    if training.way != "unknown":
        evidence.append(
            Evidence(
                train.name if train is not None else "train_loss",
                last,
                training.after,
                training.before,
                f"{own} {training.text}",
            )
        )
    if metric is not None:
        evidence.append(metric)
    return Finding(
        kind="val-divergence",
        series=curve.name,
        role=curve.series.role,
        onset_step=onset,
        onset_interval=(min(best, int(points.step[first - 1])), onset),
        occurrences=(onset,),
        peak_step=peak,
        recovery="partial" if undone > 0.25 else "unrecovered",
        severity="medium" if serious else "low",
        confidence=_confidence(rise, training, metric is not None),
        scope=Scope(domain=curve.series.domain),
        summary=f"{what} rose from {rise.low:.4g} ({lowest}{dip}) to {rise.level:.4g} ({latest}), onset at {onset}, "
        + _training_text(training, own, train is not None),
        evidence=tuple(evidence),
        precursors=_best(curve, best, onset),
    )


def _after_best(points: Condensed, peak: int) -> int:
    """Step of the evaluation after the lowest of those that led to the peak."""
    return int(points.step[min(int(np.argmin(points.value[: peak + 1])) + 1, len(points) - 1)])


def _best(curve: Curve, best: int, onset: int) -> tuple[Precursor, ...]:
    """The best evaluation, unless it is a dip within the rise."""
    if best >= onset:
        return ()
    text = f"the best evaluation, {float(curve.value[max(0, curve.at(best))]):.4g}"
    return (Precursor(curve.name, best, onset - best, text),)


def _training_text(training: Course, own: str, logged: bool) -> str:
    if not logged:
        return "no training loss is recognised in the log"
    if training.way == "unknown":
        return "training loss not logged over these steps"
    verb = {"falls": "fell", "flat": "stayed", "rises": "rose less"}[training.way]
    return f"while {own} {verb} ({training.before:.4g} -> {training.after:.4g})"


def _worsening_metric(signals: Signals, curve: Curve, points: Condensed, rise: Rise) -> Evidence | None:
    for metric in (other for other in validation_curves(signals, "val_metric") if other.series != curve.series):
        course = course_between(oriented(metric), points, rise.best, len(points) - 1)
        if course.way == "rises":
            return Evidence(metric.name, int(points.step[-1]), None, None, f"{metric.name} got worse as well")
    return None


def _confidence(rise: Rise, training: Course, corroborated: bool) -> float:
    """From clarity of the rise; training that falls and a metric that worsens add, unknown or flat training takes.

    Without a training loss a failing run looks the same, so that the rise alone is as likely as not to be overfitting.
    """
    clear = min(0.92, 0.6 + 0.02 * (rise.z - 6))
    weight = {"falls": 1.0, "flat": 0.8, "unknown": 0.5, "rises": 0.5}[training.way]
    return round(min(0.97, clear * weight + (0.05 if corroborated else 0.0)), 2)
