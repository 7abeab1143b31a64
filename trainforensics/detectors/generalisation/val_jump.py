"""Validation that changes its level between two evaluations while training does not move.

What it detects:
    One step in the validation loss (or, where no loss is logged, a validation metric), up or down, that is done between
    two neighbouring evaluations, stays, and has no counterpart in the training loss.

Why it matters:
    Models do not change like that; evaluations do. A new evaluation set, tokeniser, prompt or preprocessing makes
    values before and after incomparable; a drop may mean that test data got into training.

Evidence:
    The step against the curve's point-to-point noise and against its next largest step; the levels on both sides;
    the training loss over the same evaluations.

False positives:
    Learning-rate steps, restarts and data switches move training too. A lone outlier does not stay. The steep start of
    a curve is compared with its own neighbouring steps.

Example:
    Validation loss 2.12 at step 550 and 2.64 at 600, training loss 2.09 throughout.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import (
    MAX_JUMP_POINTS,
    Condensed,
    Jump,
    condense,
    level_jump,
    level_up_to,
    point_noise,
    validation_curves,
)

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
        Param("size", 0.02, "step against the level; smaller ones do not change a decision"),
        Param("train_share", 0.25, "training may move by this share of the validation step"),
        Param("train_z", 4.0, "or by this many of its own standard errors"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge the losses first; a domain speaks only where the whole does not."""
    curves = [c for c in validation_curves(signals) or validation_curves(signals, "val_metric") if len(c) >= 6]
    if not curves:
        return NotApplicable("fewer than 6 evaluations", "evaluate more often")
    train = signals.curve("train_loss")
    found = [f for curve in curves if (f := _judge(curve, train, params)) is not None]
    whole = [f for f in found if f.scope.domain is None]
    if whole:
        return Fired((max(whole, key=lambda finding: finding.confidence),))
    return Fired(tuple(found)) if found else Clear()


def _judge(curve: Curve, train: Curve | None, params: Params) -> Finding | None:
    points = condense(curve, MAX_JUMP_POINTS)
    jump = level_jump(points)
    if jump is None or jump.z < params["z"] or jump.relative < params["size"]:
        return None
    move = _training_move(train, points, jump)
    if move is not None:
        change = jump.after - jump.before if curve.series.role == "val_loss" else 0.0
        if abs(move[0]) > max(params["train_share"] * abs(change), params["train_z"] * move[1]):
            return None
        if change and abs(change - move[0]) < params["train_z"] * move[1]:
            return None  # training is too noisy to say that it did not take the same step
    return _finding(curve, points, jump, move)


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
        confidence=round(min(0.95, 0.6 + 0.02 * (jump.z - 7)) * (1.0 if move is not None else 0.7), 2),
        scope=Scope(domain=curve.series.domain),
        summary=f"{curve.name} changed by {change:+.3g} between steps {last} and {onset} "
        f"({jump.before:.4g} -> {jump.after:.4g}) and stayed; {quiet}",
        evidence=tuple(evidence),
    )
