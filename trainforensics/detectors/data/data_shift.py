"""The level or mix of the training data changes, and the loss follows.

What it detects:
    A lasting step of a data series (sequence length, padding, share of a source as logged or as the batch manifest has
    it) at which the level of the training loss changes as well; or a level change of the training loss alone that
    validation does not share, once or over and over, as where unshuffled sources follow each other. A change of the
    logged source or stage, or one announced in the configuration, is reported as low.

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
from trainforensics.signals.evaluations import usable, validation_curves
from trainforensics.signals.levels import (
    comes_back,
    explained,
    goes_on,
    level_change,
    levels_at,
    move_across,
    steps_up,
    switches,
    unexplained,
)
from trainforensics.signals.restarts import join
from trainforensics.signals.steps import lasting_steps
from trainforensics.signals.structure import announced, changes_between
from trainforensics.signals.task import rewarded

DATA_ROLES = ("seq_len", "seq_len_max", "padding_fraction", "sampling_ratio")
META = Meta(
    kind=KINDS["data-shift"],
    needs=("train_loss",),
    uses=(*DATA_ROLES, "source", "domain", "val_loss", "learning_rate", "epoch", "reward", "stage"),
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
NEAR_STAGE = 10  # logged points; the onset of a level change is no surer
MOST_SETTINGS = 12  # distinct lengths of a curriculum; measured means differ from batch to batch
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
    told = tuple(replace(f, severity="low") if planned or _staged(signals, loss, f) else f for f in found)
    return Fired(told) if told else Clear()


def _staged(signals: Signals, loss: Curve, finding: Finding) -> bool:
    """Whether a counter of stages moves on there, or the length of the samples by a setting: it has but few values."""
    step = finding.onset_step or 0
    reach = NEAR_STAGE * loss.cadence
    before, step = step - reach, step + reach
    lengths = [curve for curve in signals.curves("seq_len") if len(np.unique(curve.value)) <= MOST_SETTINGS]
    return announced(signals, before, step) or any(changes_between(curve, before, step) for curve in lengths)


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
    """Lasting steps of a data series with which the loss changes; of sources that trade places one speaks."""
    found: dict[int, Finding] = {}
    for role in DATA_ROLES:
        for curve in signals.curves(role):
            points = usable(curve)
            for at in lasting_steps(points.value):
                before = float(np.median(points.value[max(0, at - 8) : at]))
                after = float(np.median(points.value[at : at + 8]))
                text = f"{curve.name} goes from {before:.4g} to {after:.4g}"
                finding = _followed(loss, points, at, text, params)
                if finding is not None and finding.onset_step is not None:
                    found.setdefault(finding.onset_step, finding)
    return list(found.values())[:5]


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
    change = level_change(loss, params["jump_z"], params["size"]) if curves else None
    if change is None:
        return None
    moves = [move_across(curve, change) for curve in curves]
    shared = any(abs(m) > max(params["val_share"] * abs(change.size), params["val_z"] * e) for m, e in moves)
    unknown = any(abs(change.size - m) < params["val_z"] * e for m, e in moves)  # validation is too noisy to tell
    scheduled = explained(signals, loss, change.first, change.last, falls=change.size < 0, rate=params["rate"])
    if shared or unknown or scheduled or comes_back(loss, change, params["kept"]):
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
    return _finding(loss, change.onset, change.first, 0.75, summary, rows)


def _stepped_up(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """Steps upwards that are made at once and kept, while validation goes on falling: however few evaluations tell it.

    Steps downwards are not judged so: an epoch that ends makes them, and validation need not follow.
    """
    curves = [curve for curve in validation_curves(signals) if len(curve) >= 2]
    if not curves or rewarded(signals):
        return None
    ups = steps_up(loss, params["kept"], params["clear"])
    ups = [at for at in ups if all(goes_on(curve, loss, at, params["val_share"]) for curve in curves)]
    ups = unexplained(signals, loss, ups, params["rate"])
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
    finding = _finding(loss, step, int(loss.step[ups[0] - 1]), 0.6, summary, rows)
    return replace(finding, occurrences=tuple(loss.step[ups].tolist()))


def _blocks(signals: Signals, loss: Curve, params: Params) -> Finding | None:
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
    finding = _finding(loss, step, int(loss.step[at - 1]), 0.6, summary, rows)
    return replace(finding, occurrences=tuple(loss.step[found].tolist()))


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
