"""Levels of the training loss that tell of other data by themselves: changes which validation does not share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Params, change_at
from trainforensics.kinds import KINDS
from trainforensics.model import Evidence, Finding
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import oriented, validation_curves
from trainforensics.signals.levels import (
    LevelChange,
    best_after,
    comes_back,
    explained,
    fall_for_good,
    goes_on,
    level_change,
    levels_at,
    move_across,
    steps_up,
    switches,
    unexplained,
)
from trainforensics.signals.task import rewarded

KIND = KINDS["data-shift"]
UNTRAINED = 3  # points
THINNED = 5.0  # times the usual distance of the rows before: between two so far apart a loss may fall as it likes


def training_alone(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """A level change of the training loss, if every validation curve goes on as before."""
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 8]
    change = level_change(loss, params["jump_z"], params["size"]) if curves else None
    if change is None:
        return None
    moves = [move_across(curve, change) for curve in curves]
    shared = any(abs(m) > max(params["val_share"] * abs(change.size), params["val_z"] * e) for m, e in moves)
    unknown = any(abs(change.size - m) < params["val_z"] * e for m, e in moves)  # validation is too noisy to tell
    scheduled = explained(signals, loss, change.first, change.last, falls=change.size < 0, rate=params["rate"])
    if shared or unknown or scheduled or comes_back(loss, change, params["kept"]) or _thinned(loss, change):
        return None
    move, text = max((m for m, _ in moves), key=abs), f"changes its level by {change.size:+.3g}"
    rows = (
        Evidence(loss.name, change.onset, change.after, change.before, f"training loss {text}"),
        Evidence("val_loss", change.last, None, None, f"validation moves by {move:+.2g} at most meanwhile"),
    )
    summary = (
        f"the training loss {text} at step {change.onset} and stays, {change.z:.0f} noise widths; "
        f"validation does not follow ({move:+.2g})"
    )
    return change_at(KIND, loss, change.onset, change.first, 0.75, summary, rows)


def _thinned(loss: Curve, change: LevelChange) -> bool:
    """Whether a fall lies where the log begins to hold fewer rows."""
    first, last, apart = loss.at(change.first), loss.at(change.last), np.diff(loss.step)
    return change.size < 0 and 0 < first < last and bool(apart[first:last].max() > THINNED * np.median(apart[:first]))


def stepped_up(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """Steps upwards that are made at once and kept, while validation goes on falling: however few evaluations tell it.

    Steps downwards are not judged so: an epoch that ends makes them, and validation need not follow.
    """
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 2]
    if not curves or rewarded(signals):
        return None
    ups = steps_up(loss, params["kept"], params["clear"])
    ups = [at for at in ups if all(goes_on(curve, loss, at, params["val_share"]) for curve in curves)]
    ups = unexplained(signals, loss, ups, params["rate"])
    untrained = float(loss.value[:UNTRAINED].max())  # no data are harder than all were to the untrained model
    ups = [at for at in ups if levels_at(loss, at)[1] < untrained]
    if not ups:
        return None
    step, (before, after) = int(loss.step[ups[0]]), levels_at(loss, ups[0])
    rows = (
        Evidence(loss.name, step, after, before, f"training loss steps up by {after - before:.3g} and stays"),
        Evidence("val_loss", step, None, None, "validation does not rise over the evaluations around it"),
    )
    times = f", one of {len(ups)} such steps" if len(ups) > 1 else ""
    levels = f"from {before:.4g} to {after:.4g} at step {step}"
    summary = f"{loss.name} steps {levels} and stays{times}; validation does not follow"
    finding = change_at(KIND, loss, step, int(loss.step[ups[0] - 1]), 0.6, summary, rows)
    return replace(finding, occurrences=tuple(loss.step[ups].tolist()))


def fell_at_once(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """One fall from epoch to epoch by far more than the loss ever moved, for good, from which no evaluation gains.

    A learning rate that is not logged may have been cut there, which makes falls three times as large.
    """
    curves = [c for role in ("val_loss", "val_metric") for c in validation_curves(signals, role) if len(c) >= 8]
    at = fall_for_good(loss.value, params["fall"] * (1 if signals.has("learning_rate") else 3), params["block"])
    if at is None or not curves or signals.axis.unit != "epoch" or rewarded(signals):
        return None
    first, step = int(loss.step[at - 1]), int(loss.step[at])
    if any(best_after(oriented(curve), first) for curve in curves):
        return None
    if explained(signals, loss, first, step, falls=False, rate=params["rate"]):
        return None
    before, after = float(loss.value[at - 1]), float(loss.value[at])
    text = f"falls from {before:.4g} to {after:.4g} from one epoch to the next"
    rows = (
        Evidence(loss.name, step, after, before, f"training loss {text}"),
        Evidence(curves[0].name, step, None, None, "no evaluation from there on is better than the best before"),
    )
    summary = f"{loss.name} {text}, at {step}, more than it ever moved, and stays; no evaluation gains from it"
    return change_at(KIND, loss, step, first, 0.6, summary, rows)


def blocks(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """Levels that switch up and down at once, over and over, while validation falls: sources in unshuffled blocks."""
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 5 and curve.value.min() > 0]
    if not curves or loss.value.min() <= 0 or rewarded(signals):
        return None
    found, usual = switches(loss, params["switch"], params["block"], params["plain"])
    if any(np.diff(np.log(curve.value)).max() > params["val_share"] * usual for curve in curves):
        return None
    found = unexplained(signals, loss, found, params["rate"])
    if len(found) < 4:
        return None
    at, step = found[0], int(loss.step[found[0]])
    text = f"the level of {loss.name} switches up and down at once, by {math.expm1(usual):.0%} as a rule"
    rows = (Evidence(loss.name, step, float(loss.value[at]), float(loss.value[at - 1]), text),)
    summary = f"{text}, at {len(found)} steps from {step} on, while validation goes on falling"
    finding = change_at(KIND, loss, step, int(loss.step[at - 1]), 0.6, summary, rows)
    return replace(finding, occurrences=tuple(loss.step[found].tolist()))
