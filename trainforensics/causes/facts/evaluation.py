"""What training and evaluation say of one another: a harmed model is worse in both, a changed measure in one."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.movement import CREPT_POINTS, MOVED, STILL, Movement, movement
from trainforensics.signals import Curve

FEWEST_EVALUATIONS = 4  # before the onset, without which their usual change is not known
_TRAINING_LOSS = re.compile(r"train.*loss|loss.*train", re.IGNORECASE)


class Training(NamedTuple):
    """What the training loss did between the last evaluation on the old level and shortly after the onset."""

    state: Literal["moved", "still", "unclear", "unseen"]
    text: str


class Validation(NamedTuple):
    """What an evaluation tells of the weights that was made while the training loss was up."""

    state: Literal["harmed", "unharmed"]
    text: str


@once
def training(case: Case) -> Training:
    """Whether the training loss moved with an evaluation; parts of it are heard where no whole one is logged."""
    whole = case.loss
    curves = [whole] if whole is not None else [c for c in case.signals.unmapped if _TRAINING_LOSS.search(c.name)]
    moves = [(curve.name, move) for curve in curves if (move := _since_last(case, curve)) is not None]
    if not moves and curves and max(len(curve) for curve in curves) > 0:
        before = max(int(np.searchsorted(curve.step, case.onset)) for curve in curves)
        told = f"only {before} points of {curves[0].name} precede it, too few to tell its usual noise"
        return Training("unseen", f"{told}, so the model itself may have got worse")
    if not moves:
        return Training("unseen", "no training loss is logged there, so the model itself may have got worse")
    name, move = max(moves, key=lambda pair: max(abs(pair[1].median_widths), pair[1].widths / 2))
    told = f"{name} {{}} ({move.at:.4g}, usual {move.before:.4g})"
    if abs(move.median_widths) > MOVED or move.widths > 2 * MOVED:
        return Training("moved", told.format("moved with it"))
    return Training("still" if abs(move.median_widths) < STILL else "unclear", told.format("did not move"))


def _since_last(case: Case, curve: Curve) -> Movement | None:
    interval = case.incident.onset_interval
    since = interval[0] + 1 if interval is not None else case.onset
    until = np.searchsorted(curve.step, case.onset, side="right") + CREPT_POINTS
    return movement(curve, since, max(CREPT_POINTS, int(until - np.searchsorted(curve.step, since))))


@once
def validated(case: Case) -> Validation | None:
    """What an evaluation says that was made while the training loss was up; None where it does not tell."""
    loss, val = case.loss, case.curve("val_loss")
    if loss is None or val is None or case.incident.role != "train_loss":
        return None
    at = int(np.searchsorted(val.step, case.onset))
    move = case.movement("train_loss")
    if at < FEWEST_EVALUATIONS or at >= len(val) or move is None or not _still_up(case, int(val.step[at])):
        return None
    there = float(loss.value[max(0, loss.at(int(val.step[at])))])
    # the last evaluation before a dated onset may be of harmed weights already
    rise, before, after = there - move.before, float(np.median(val.value[at - 3 : at])), float(val.value[at])
    if not rise > 0 or not np.isfinite(before) or move.widths < MOVED:
        return None
    text = (
        f"with the training loss at {there:.4g} (usual {move.before:.4g}) validation at {int(val.step[at])} was "
        f"{after:.4g} after {before:.4g}"
    )
    usual = 3 * float(np.nanmedian(np.abs(np.diff(val.value[max(0, at - 2 * FEWEST_EVALUATIONS) : at]))))
    if not np.isfinite(after) or after - before > max(0.5 * rise, usual):
        return Validation("harmed", f"{text}: the weights were harmed")
    return Validation("unharmed", f"{text}: the weights took no harm") if after - before < 0.2 * rise else None


def _still_up(case: Case, step: int) -> bool:
    end = case.incident.end_step
    return case.incident.recovery != "recovered" or (end is not None and step < end)


@once
def not_finite(case: Case) -> bool:
    """Whether the series of the incident is NaN or infinite at its onset."""
    named = (curve for curve in case.signals.every_curve() if curve.name == case.incident.series)
    return any(not np.isfinite(curve.value[curve.step == case.onset]).all() for curve in named)
