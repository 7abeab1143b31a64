"""Validation that changes its level between two evaluations while training does not move.

What it detects:
    One step in the validation loss (or, where no loss is logged, a validation metric), up or down, that is done between
    two neighbouring evaluations, stays, and has no counterpart in the training loss; or one that training takes as
    well while no score moves, as where the loss itself is changed. Or single evaluations that stand far above: one or
    two above all others, one twice as far as any other, or three and more above calm ones; that are worse than the
    first one of the run in a loss and a score; a last one that lies apart in two series; a score that is lost for once;
    a rate of wrong words that is a quarter higher for once, though its loss is not.
    Or quantised or averaged weights that evaluate far worse, after training, than those that were trained.

Why it matters:
    Models do not change like that; evaluations do. A new evaluation set, tokeniser, prompt or preprocessing makes
    values before and after incomparable; a drop may mean that test data got into training.

Evidence:
    The step against the curve's point-to-point noise and against its next largest step; the levels on both sides;
    the training loss over the same evaluations.

False positives:
    A part of a loss may be noisy: its single evaluations count only where no whole is evaluated. Learning-rate steps,
    restarts and data switches move training too. A noisy set is noisy throughout, not calm between outliers, and has
    dips as deep as its peaks are high. The steep start of a curve is compared with its own neighbouring steps, and
    before a step for the better something must have been learnt: else learning sets in there.

Example:
    Validation loss 2.12 at step 550 and 2.64 at 600, training loss 2.09 throughout.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.generalisation.exported_weights import exported
from trainforensics.detectors.generalisation.lone_evaluations import lone
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import (
    Condensed,
    condense,
    higher_is_better,
    level_up_to,
    point_noise,
    validation_curves,
)
from trainforensics.signals.jumps import MAX_JUMP_POINTS, Jump, level_jump, set_back
from trainforensics.signals.trend import spans_decades

META = Meta(
    kind=KINDS["val-jump"],
    needs=("val_loss|val_metric",),
    uses=("train_loss",),
    params=(
        Param(
            "z",
            7.0,
            "step in units of noise and unrest; 1 in 400 healthy curves reached it (simulated)",
        ),
        Param("z_step", 5.0, "a smaller step counts where parallel lines through both sides lie far enough apart"),
        Param(
            "z_kept",
            4.0,
            "so many standard errors; both together added no alarm in the healthy curves it was simulated on",
        ),
        Param(
            "large",
            0.5,
            "step for the worse for which less is asked; no evaluation set is as noisy as half its level",
        ),
        Param("z_large", 4.0, "such a step in units of noise and unrest: still a third above the largest other move"),
        Param("size", 0.02, "step against the level; smaller ones do not change a decision"),
        Param("z_otherwise", 10.0, "noise widths of a step that training may take as well, where no score moves"),
        Param("begun", 0.25, "of a step for the better: what was learnt before it; else learning begins there"),
        Param("uneven", 1.5, "times the moves before one for the better: the largest of a few is exceeded by as much"),
        Param("lone", 2.0, "times the next highest evaluation above its neighbours; tails do not leave such gaps"),
        Param("lone_size", 1.5, "height of a lone evaluation against the level; smaller ones may be a noisy set"),
        Param("calm_size", 0.5, "the same where no dip is half as deep; a smaller one changes no decision"),
        Param("spike", 2.0, "height against the level of three or more evaluations that stand alone; trebled"),
        Param("lone_points", 12.0, "evaluations that show how high they ordinarily stand out"),
        Param("worse", 0.25, "height above those around of a loss that is worse than at the first evaluation"),
        Param("lost", 0.25, "share by which a second series is worse than at the first evaluation as well"),
        Param("gap", 4.0, "times every other rise of a setback, and of the last evaluation every later move"),
        Param("peak", 1.5, "times any other place, in logarithms, of one that is highest in two series"),
        Param("kept", 0.125, "share of a score that is lost for one evaluation; as for eval-regression"),
        Param("astray", 1.25, "times those beside it, of a rate of wrong words; healthy public logs reach 1.06"),
        Param("exported", 0.1, "share by which quantised or averaged weights are worse; rounding costs a hundredth"),
        Param("train_share", 0.25, "training may move by this share of the validation step"),
        Param("train_z", 4.0, "or by this many of its own standard errors"),
        Param("learnt_z", 2.0, "standard errors of a fall of the training loss with which evaluation may get better"),
        Param("apart", 2.5, "standard errors between the two steps; 1 in 160 equal ones lie so far apart by chance"),
    ),
)
SIDE, STILL = 5, 0.02  # evaluations of a score on each side of a step; share of its range that is no move
ALIKE = 0.5  # of the logarithm of the step
FEWEST = 3  # evaluations: the last one out of line with two before it, in two series
KEPT = 0.4  # of a setback, after three evaluations more


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge the losses first; a domain speaks only where the whole does not."""
    made = exported(signals, params)
    if made is not None:
        return Fired((made,))
    curves = [c for c in validation_curves(signals) or validation_curves(signals, "val_metric") if len(c) >= FEWEST]
    if not curves:
        return NotApplicable(f"fewer than {FEWEST} evaluations", "evaluate more often")
    train = signals.curve("train_loss")
    told = (_step(signals, c, train, params) or lone(signals, c, train, params) for c in curves)
    found = [finding for finding in told if finding is not None]
    whole = [f for f in found if f.scope.domain is None]
    if whole:
        return Fired((max(whole, key=lambda finding: finding.confidence),))
    return Fired(tuple(found)) if found else Clear()


def _step(signals: Signals, curve: Curve, train: Curve | None, params: Params) -> Finding | None:
    points = condense(curve, MAX_JUMP_POINTS)
    jump = level_jump(points)
    if jump is None or not _stands_out(curve, points, jump, params):
        error = curve.series.role == "val_loss" or not higher_is_better(curve)
        jump = set_back(points, params["gap"]) if error else None
        if jump is None or jump.relative < params["size"] or jump.z < params["z"] or not _kept(points, jump):
            return None
    move = _training_move(train, points, jump)
    if jump.z >= params["z_otherwise"] and (score := _unmoved_score(signals, points, jump)) is not None:
        found = _finding(curve, points, jump, move)
        return replace(found, summary=f"{found.summary}; {score.name} did not move: the loss is measured otherwise")
    if _falls_alike(train, points, jump):
        return None
    if move is not None:
        change = jump.after - jump.before if curve.series.role == "val_loss" else 0.0
        along = move[0] if change > 0 else abs(move[0])  # training that gets better does not make evaluation worse
        if along > max(params["train_share"] * abs(change), params["train_z"] * move[1]):
            return None
        if _better(curve, jump) and move[0] < -params["learnt_z"] * move[1]:
            return None  # both learnt something
        if change and abs(change - move[0]) < params["apart"] * move[1]:
            return None  # training is too noisy to say that it did not take the same step
    return _finding(curve, points, jump, move)


def _unmoved_score(signals: Signals, points: Condensed, jump: Jump) -> Curve | None:
    """A score at rest over a step of the loss, as all others are: the model is the same. None where none is known."""
    last, onset = points.step[jump.at - 1], points.step[jump.at]
    scores = [c for c in validation_curves(signals, "val_metric") if higher_is_better(c)]
    for score in scores:
        before, since = score.value[score.step <= last][-SIDE:], score.value[score.step >= onset][:SIDE]
        if min(len(before), len(since)) < SIDE:
            return None
        noise = max(point_noise(before), point_noise(since), STILL * float(np.ptp(score.value)))
        if abs(float(np.median(since) - np.median(before))) > noise:
            return None
    return scores[0] if scores else None


def _stands_out(curve: Curve, points: Condensed, jump: Jump, params: Params) -> bool:
    if jump.relative < params["size"]:
        return False
    worse = jump.after > jump.before if curve.series.role == "val_loss" else not _better(curve, jump)
    learnt = (points.value[jump.at - 1] - points.value[0]) / (jump.after - jump.before)
    if not worse and (learnt < params["begun"] or _no_more_than_before(points.value, jump.at, params["uneven"])):
        return False  # where validation begins to learn, or goes on as unevenly as it did
    least = params["z_large" if worse and jump.relative >= params["large"] else "z_step"]
    return jump.z >= params["z"] or (jump.z >= least and jump.kept_z >= params["z_kept"])


def _no_more_than_before(value: NDArray[np.float64], at: int, uneven: float) -> bool:
    """Whether a move is not `uneven` times the largest of those right before it."""
    moves = np.abs(np.diff(value[max(0, at - 1 - SIDE) : at + 1]))
    return bool(moves[-1] < uneven * moves[:-1].max(initial=0.0))


def _kept(points: Condensed, jump: Jump) -> bool:
    """Whether much of a setback is left after three evaluations more."""
    later = float(points.value[min(jump.at + 3, len(points) - 1)])
    return later - jump.before >= KEPT * (jump.after - jump.before)


def _better(curve: Curve, jump: Jump) -> bool:
    """Whether a metric got better; losses are held against the training loss itself."""
    return curve.series.role == "val_metric" and (jump.after > jump.before) == higher_is_better(curve)


def _falls_alike(train: Curve | None, points: Condensed, jump: Jump) -> bool:
    """Whether the training loss falls over the step by half the share or more, where evaluation falls over decades."""
    if not spans_decades(points.value):
        return False
    level = level_up_to(train, points.step)
    before, after = (level[max(0, jump.at - 3) : jump.at], level[jump.at + 1 : jump.at + 4])
    before, after = before[before > 0], after[after > 0]
    if not (len(before) and len(after) and jump.before > jump.after > 0):
        return False
    fallen = math.log(float(np.median(before)) / float(np.median(after)))
    return fallen >= ALIKE * math.log(jump.before / jump.after)


def _training_move(train: Curve | None, points: Condensed, jump: Jump) -> tuple[float, float] | None:
    """Level change of the training loss beyond its drift, and its standard error; None where it is not logged.

    The stretch that ends at the jump itself is left out: a change may fall anywhere in it.
    """
    level = level_up_to(train, points.step)
    before, after = level[max(0, jump.at - 3) : jump.at], level[jump.at + 1 : jump.at + 4]
    nearby = np.diff(level[max(0, jump.at - 8) : jump.at + 9])
    nearby = nearby[np.isfinite(nearby)]
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if not len(before) or not len(after) or not len(nearby):
        return None
    drift = float(np.median(nearby)) * (1 + (len(before) + len(after)) / 2)
    error = point_noise(level[np.isfinite(level)]) * math.sqrt(1 / len(before) + 1 / len(after))
    return float(np.median(after) - np.median(before)) - drift, error


def _finding(curve: Curve, points: Condensed, jump: Jump, move: tuple[float, float] | None) -> Finding:
    onset, last = int(points.step[jump.at]), int(points.step[jump.at - 1])
    change = jump.after - jump.before
    evidence = [
        Evidence(curve.name, last, float(points.value[jump.at - 1]), None, "last evaluation on the old level"),
        Evidence(
            curve.name,
            onset,
            float(points.value[jump.at]),
            jump.before,
            f"first evaluation on the new level, against the median before, {jump.z:.0f} noise widths off",
        ),
    ]
    quiet = "training loss not logged there"
    if move is not None:
        quiet = f"training loss moved by {move[0]:+.2g} (standard error {move[1]:.2g})"
        evidence.append(Evidence("train_loss", onset, None, None, quiet))
    return Finding(
        kind="val-jump",
        series=curve.name,
        role=curve.series.role,
        onset_step=onset,
        onset_interval=(last, onset),
        occurrences=(onset,),
        peak_step=onset,
        recovery="unrecovered",
        confidence=round(min(0.95, 0.6 + 0.02 * max(jump.z - 7, 0.0)) * (1.0 if move is not None else 0.7), 2),
        scope=Scope(domain=curve.series.domain),
        summary=f"{curve.name} changed by {change:+.3g} between steps {last} and {onset} "
        f"({jump.before:.4g} -> {jump.after:.4g}) and stayed; {quiet}",
        evidence=tuple(evidence),
    )
