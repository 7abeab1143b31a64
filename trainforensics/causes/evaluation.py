"""What training and evaluation say of one another: a harmed model is worse in both, a changed measure in one."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np

from trainforensics.causes.case import Case
from trainforensics.causes.evidence import reason
from trainforensics.causes.movement import CREPT_POINTS, MOVED, STILL, Movement, movement
from trainforensics.causes.weight import Reason
from trainforensics.signals import Curve

_TRAINING_LOSS = re.compile(r"train.*loss|loss.*train", re.IGNORECASE)


class Training(NamedTuple):
    """What the training loss did between the last evaluation on the old level and shortly after the onset."""

    state: Literal["moved", "still", "unclear", "unseen"]
    text: str


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


def trained(case: Case, moved: float = 0.0, still: float = 0.0, unseen: float = 0.0) -> list[Reason]:
    """The training loss around an incident of an evaluation."""
    found = training(case)
    points = {"moved": moved, "still": still, "unseen": unseen, "unclear": 0.0}[found.state]
    return reason(points, found.text)


def validated(case: Case, harmed: float = 0.0, unharmed: float = 0.0) -> list[Reason]:
    """An evaluation made while the training loss was up: as high as that, or as if nothing had been."""
    if case.validated is None:
        return []
    state, text = case.validated
    return reason(harmed if state == "harmed" else unharmed, text)
