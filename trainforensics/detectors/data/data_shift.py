"""The level or mix of the training data changes, and the loss follows.

What it detects:
    A lasting step of a data series (sequence length, padding, sampling ratio of a source) at which the level of the
    training loss changes as well; or a level change of the training loss alone that validation does not share, once or
    over and over, as where unshuffled sources follow each other. A change of the logged source or stage, or one
    announced in the configuration, is reported as low.

Why it matters:
    The loss before and after measures different data: a lower level is no progress and a higher one no instability.
    Unplanned, it points at the sampler, a source that ran dry, or a wrong mix.

Evidence:
    The data series on both sides, the training loss against the same difference elsewhere in the run, validation over
    the same evaluations.

False positives:
    Epoch boundaries (training falls in stairs, validation does not), learning-rate steps and restarts, which are other
    kinds' business; changes that validation shares are the model's.

Example:
    Training loss falls from 1.875 to 1.839 at step 190,000 while two validation sets go on as before.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import (
    Jump,
    condense,
    level_jump,
    point_noise,
    usable,
    validation_curves,
)
from trainforensics.signals.restarts import join, restarts
from trainforensics.signals.steps import SIDE, kept_up, lasting_steps, other_moves
from trainforensics.signals.task import rewarded

BLOCKS = (400, 100, 40)  # block medians per run: short blocks for sharp steps, long ones for small steps
DATA_ROLES = ("seq_len", "seq_len_max", "padding_fraction", "sampling_ratio")
META = Meta(
    kind=KINDS["data-shift"],
    needs=("train_loss",),
    uses=(*DATA_ROLES, "source", "domain", "val_loss", "learning_rate", "epoch", "reward"),
    params=(
        Param("z", 6.0, "level change of the training loss in units of the run's own changes, as at restarts"),
        Param("jump_z", 7.0, "step of the training loss alone in noise and unrest, as for val-jump"),
        Param("val_share", 0.25, "validation may move by this share of the training step"),
        Param("val_z", 4.0, "or by this many of its own standard errors"),
        Param("size", 0.01, "step against the level of the loss; a smaller one changes no decision"),
        Param(
            "kept", 0.5, "share of a step upwards that is left 24 points on; what a model unlearnt comes back sooner"
        ),
        Param("switch", 5.0, "noise widths of one switch; four of them, two each way, are no noise"),
        Param(
            "block", 0.1, "such a switch against the level; sources differ by more, batches are as far apart by chance"
        ),
        Param("clear", 2.0, "times the 98th percentile of all other moves from point to point: noise has no such gap"),
        Param("plain", 4.0, "the same for the usual switch, times the 90th percentile"),
        Param("rate", 0.2, "change of the learning rate across the step that makes it the schedule's"),
    ),
)
BLOCK_SIDE = 3  # points: the shortest block whose level is known
ANNOUNCING = ("curriculum", "data_stages", "mix_schedule", "data_schedule")


def detect(signals: Signals, params: Params) -> Outcome:
    """Data series first; what they announce or explain is not sought in the loss again."""
    curve = signals.curve("train_loss")
    loss = usable(curve) if curve is not None else None
    if loss is None or len(loss) < 20:
        return Clear()
    found = [*_announced(signals, loss, params), *_data_steps(signals, loss, params)]
    for seek in (_training_alone, _stepped_up, _blocks):
        if not found and (alone := seek(signals, loss, params)) is not None:
            found.append(alone)
    planned = any(signals.config.get(key) for key in ANNOUNCING)
    return Fired(tuple(replace(f, severity="low") if planned else f for f in found)) if found else Clear()


def _announced(signals: Signals, loss: Curve, params: Params) -> list[Finding]:
    """Steps at which a logged source, stage or domain number changes for good and the loss with it."""
    found = []
    for role in ("source", "domain"):
        for curve in signals.curves(role):
            points = usable(curve)
            for at in np.flatnonzero(np.diff(points.value)) + 1:
                if len(set(points.value[at - 8 : at])) == 1 and len(set(points.value[at : at + 8])) == 1:
                    text = f"{curve.name} changes from {points.value[at - 1]:g} to {points.value[at]:g}"
                    finding = _followed(loss, points, int(at), text, params)
                    found += [replace(finding, severity="low")] if finding is not None else []
    return found[:5]


def _data_steps(signals: Signals, loss: Curve, params: Params) -> list[Finding]:
    found = []
    for role in DATA_ROLES:
        for curve in signals.curves(role):
            points = usable(curve)
            for at in lasting_steps(points.value):
                before = float(np.median(points.value[max(0, at - 8) : at]))
                after = float(np.median(points.value[at : at + 8]))
                text = f"{curve.name} goes from {before:.4g} to {after:.4g}"
                finding = _followed(loss, points, at, text, params)
                found += [finding] if finding is not None else []
    return found[:5]


def _followed(loss: Curve, points: Curve, at: int, text: str, params: Params) -> Finding | None:
    """The finding for a data step, if the level of the loss changes there."""
    step = int(points.step[at])
    border = int(np.searchsorted(loss.step, step))
    change = join(loss.value, border)
    if change is None or abs(change.z) < params["z"] or abs(change.change) < change.noise / 2:
        return None
    rows = (
        Evidence(points.name, step, float(points.value[at]), float(points.value[at - 1]), text),
        Evidence(loss.name, step, change.after, change.before, f"training loss changes by {change.change:+.3g} there"),
    )
    summary = f"at step {step} {text} and the training loss from {change.before:.4g} to {change.after:.4g}"
    return _finding(loss, step, int(points.step[at - 1]), 0.85, summary, rows)


def _training_alone(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """A level change of the training loss, if every validation curve goes on as before."""
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 8]
    found = _sharpest_jump(loss, params) if curves else None
    if found is None:
        return None
    jump, first, last = found
    size = jump.after - jump.before
    moves = [_move(curve, first, last) for curve in curves]
    if any(abs(move) > max(params["val_share"] * abs(size), params["val_z"] * error) for move, error in moves):
        return None
    if any(abs(size - move) < params["val_z"] * error for move, error in moves):
        return None  # validation is too noisy to say that it did not take the same step
    if _explained(signals, loss, first, last, size, params) or _comes_back(loss, first, last, size, params["kept"]):
        return None
    return _alone_finding(loss, first, last, jump, max((move for move, _ in moves), key=abs))


def _stepped_up(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """Steps upwards that are made at once and kept, while validation goes on falling: however few evaluations tell it.

    Steps downwards are not judged so: an epoch that ends makes them, and validation need not follow.
    """
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 2]
    if not curves or rewarded(signals):
        return None
    ups = [at for at in lasting_steps(loss.value) if at >= len(loss) / 10 and kept_up(loss.value, at, params["kept"])]
    clear = params["clear"] * other_moves(loss.value, ups, 0.98)
    ups = [at for at in ups if loss.value[at] - loss.value[at - 1] > clear]
    ups = [at for at in ups if all(_goes_on(curve, loss, at, params["val_share"]) for curve in curves)]
    cadence = loss.cadence
    steps = [int(loss.step[at]) for at in ups]
    steps = [step for step in steps if not _explained(signals, loss, step - cadence, step + cadence, 1.0, params)]
    if not steps:
        return None
    at = int(np.searchsorted(loss.step, steps[0]))
    before, after = float(np.median(loss.value[at - SIDE : at])), float(np.median(loss.value[at : at + SIDE]))
    rows = (
        Evidence(loss.name, steps[0], after, before, f"training loss steps up by {after - before:.3g} and stays"),
        Evidence("val_loss", steps[0], None, None, "validation does not rise over the evaluations around it"),
    )
    times = f", one of {len(steps)} such steps" if len(steps) > 1 else ""
    summary = (
        f"{loss.name} steps from {before:.4g} to {after:.4g} at step {steps[0]} and stays{times}; "
        "validation does not follow"
    )
    finding = _finding(loss, steps[0], int(loss.step[at - 1]), 0.6, summary, rows)
    return replace(finding, occurrences=tuple(steps))


def _blocks(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """Levels that switch up and down at once, over and over, while validation falls: sources in unshuffled blocks."""
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 5 and curve.value.min() > 0]
    if not curves or loss.value.min() <= 0 or rewarded(signals):
        return None
    value = np.log(loss.value)
    switches = [at for at in lasting_steps(value, BLOCK_SIDE, params["switch"]) if at >= len(loss) / 10]
    sizes = np.array([value[at] - value[at - 1] for at in switches])
    if min(np.sum(sizes > 0), np.sum(sizes < 0)) < 2:
        return None
    usual = float(np.median(np.abs(sizes)))
    if (
        usual < params["block"]
        or usual < params["plain"] * other_moves(value, switches, 0.9)
        or any(np.diff(np.log(c.value)).max() > params["val_share"] * usual for c in curves)
    ):
        return None
    cadence, steps = loss.cadence, [int(loss.step[at]) for at in switches]
    steps = [step for step in steps if not _explained(signals, loss, step - cadence, step + cadence, 1.0, params)]
    if len(steps) < 4:
        return None
    at = int(np.searchsorted(loss.step, steps[0]))
    text = f"the level of {loss.name} switches up and down at once, by {math.expm1(usual):.0%} as a rule"
    rows = (Evidence(loss.name, steps[0], float(loss.value[at]), float(loss.value[at - 1]), text),)
    summary = f"{text}, at {len(steps)} steps from {steps[0]} on, while validation goes on falling"
    return replace(_finding(loss, steps[0], int(loss.step[at - 1]), 0.6, summary, rows), occurrences=tuple(steps))


def _goes_on(curve: Curve, loss: Curve, at: int, share: float) -> bool:
    """Whether the evaluations around a step rise by less than a share of it, both in proportion to their level."""
    left, right = curve.at(int(loss.step[at - 1])), curve.at(int(loss.step[at - 1])) + 1
    if left < 0 or right >= len(curve) or curve.value[left] <= 0:
        return False
    before, after = float(np.median(loss.value[at - SIDE : at])), float(np.median(loss.value[at : at + SIDE]))
    return float(curve.value[right] / curve.value[left] - 1) <= share * (after - before) / max(abs(before), 1e-300)


def _comes_back(loss: Curve, first: int, last: int, size: float, share: float) -> bool:
    """Whether a rise is mostly undone some points later, as by a model that was hurt and learns again."""
    end = int(np.searchsorted(loss.step, last))
    before, late = loss.value[loss.step <= first][-SIDE:], loss.value[end + 2 * SIDE : end + 3 * SIDE]
    return size > 0 and len(late) == SIDE and float(np.median(late) - np.median(before)) < share * size


def _sharpest_jump(loss: Curve, params: Params) -> tuple[Jump, int, int] | None:
    """The level change at the shortest block length at which one stands out, and the steps between which it lies."""
    for blocks in BLOCKS:
        points = condense(loss, blocks)
        jump = level_jump(points)
        if jump is None or jump.z < params["jump_z"] or jump.relative < params["size"]:
            continue
        if jump.at >= len(points) / 5:  # start-up may do anything
            after = int(points.step[jump.at + 1]) if jump.at + 1 < len(points) else int(loss.step[-1])
            return jump, int(points.step[jump.at - 1]), after
    return None


def _move(curve: Curve, first: int, last: int) -> tuple[float, float]:
    """Level change of a validation curve across two steps, beyond its drift, and its standard error."""
    left, right = np.flatnonzero(curve.step <= first)[-5:], np.flatnonzero(curve.step >= last)[:5]
    if len(left) < 2 or len(right) < 2:
        return 0.0, 0.0
    slopes = np.append(*(np.diff(curve.value[side]) / np.diff(curve.step[side]) for side in (left, right)))
    drift = float(np.median(slopes)) * float(np.median(curve.step[right]) - np.median(curve.step[left]))
    error = point_noise(curve.value) * math.sqrt(1 / len(left) + 1 / len(right))
    return float(np.median(curve.value[right]) - np.median(curve.value[left])) - drift, error


def _explained(signals: Signals, loss: Curve, first: int, last: int, size: float, params: Params) -> bool:
    """A restart, a step of the learning rate, or (for a fall) an epoch boundary lies there."""
    if any(first - loss.cadence <= restart.step <= last + loss.cadence for restart in restarts(signals)):
        return True
    rate = signals.curve("learning_rate")
    if rate is not None and (before := rate.at(first)) >= 0:
        old, new = float(rate.value[before]), float(rate.value[rate.at(last)])
        if not abs(new - old) <= params["rate"] * abs(old):
            return True
    return size < 0 and _epoch_boundary(signals, loss, first, last)


def _epoch_boundary(signals: Signals, loss: Curve, first: int, last: int) -> bool:
    """Whether an epoch ends between two steps: as logged, else where a whole number of equal epochs would end."""
    logged = signals.curve("epoch")
    epoch = usable(logged) if logged is not None else None
    if epoch is not None and min(epoch.at(first), epoch.at(last)) >= 0:
        before, after = float(epoch.value[epoch.at(first)]), float(epoch.value[epoch.at(last)])
        return math.floor(after + 0.02) > math.floor(before - 0.02)  # logged epochs are rounded
    total = int(loss.step[-1])
    return any(first - 0.01 * total <= total * k / n <= last + 0.01 * total for n in (2, 3, 4, 5) for k in range(1, n))


def _alone_finding(loss: Curve, first: int, last: int, jump: Jump, move: float) -> Finding:
    size = jump.after - jump.before
    before = loss.value[(loss.step > 2 * first - last) & (loss.step <= first)]
    level, noise = float(np.median(before)), point_noise(before)
    inside = np.flatnonzero((loss.step >= first) & (loss.step <= last))
    smooth = np.array([np.median(loss.value[i : i + 5]) for i in inside])
    out = np.flatnonzero((smooth - level) * math.copysign(1, size) > 2 * noise)
    onset = int(loss.step[inside[out[0]]]) if len(out) else last
    rows = (
        Evidence(loss.name, onset, jump.after, jump.before, f"training loss changes its level by {size:+.3g}"),
        Evidence("val_loss", last, None, None, f"validation moves by {move:+.2g} at most over the same evaluations"),
    )
    summary = (
        f"the training loss changes its level by {size:+.3g} at step {onset} and stays, {jump.z:.0f} noise widths; "
        f"validation does not follow ({move:+.2g})"
    )
    return _finding(loss, onset, first, 0.75, summary, rows)


def _finding(
    loss: Curve, step: int, before: int, confidence: float, summary: str, rows: tuple[Evidence, ...]
) -> Finding:
    return Finding(
        kind="data-shift",
        series=loss.name,
        role="train_loss",
        onset_step=step,
        onset_interval=(min(before, step), step),
        occurrences=(step,),
        peak_step=step,
        confidence=confidence,
        summary=summary,
        evidence=rows,
    )
