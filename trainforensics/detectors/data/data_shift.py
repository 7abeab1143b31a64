"""The level or mix of the training data changes, and the loss follows.

What it detects:
    A lasting step of a data series (sequence length, padding, share of a source as logged or as the batch manifest has
    it), or a source that is gone for good, at which the level of the training loss or of the gradient norm changes as
    well; or a level change of the training loss alone that validation does not share, once or over and over, as where
    unshuffled sources follow each other; or an epoch's mean that falls at once by twice all it ever moved, for good,
    with no evaluation better than before. A change of the logged source or stage, or one announced in the
    configuration, is reported as low.

Why it matters:
    The loss before and after measures different data: a lower level is no progress and a higher one no instability.
    Unplanned, it points at the sampler, a source that ran dry, or a wrong mix.

Evidence:
    The data series on both sides, the training loss against the same difference elsewhere in the run, validation over
    the same evaluations.

False positives:
    Epoch boundaries (training falls in stairs, validation does not), learning-rate steps and restarts, which are other
    kinds' business; changes that validation shares are the model's. A fall where the rows come to stand farther apart:
    there was time for it.

Example:
    Training loss falls from 1.875 to 1.839 at step 190,000 while two validation sets go on as before.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params, change_at
from trainforensics.detectors.data.loss_levels import blocks, fell_at_once, stepped_up, training_alone
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import usable
from trainforensics.signals.levels import levels_at, norm_step
from trainforensics.signals.mixture import logged_shares, runs_dry
from trainforensics.signals.restarts import join
from trainforensics.signals.steps import held_changes, lasting_steps
from trainforensics.signals.structure import announced, changes_between

DATA_ROLES = ("seq_len", "seq_len_max", "padding_fraction", "sampling_ratio")
META = Meta(
    kind=KINDS["data-shift"],
    needs=("train_loss",),
    uses=("*",),
    params=(
        Param("z", 6.0, "level change of the training loss in units of the run's own changes, as at restarts"),
        Param("dry_z", 4.0, "the same where a source is gone for good, which no chance explains"),
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
        Param("fall", 2.0, "times the largest move before it: an epoch's mean that falls so far is of something else"),
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
    found = [*_source_changes(signals, loss, params), *_data_steps(signals, loss, params)]
    for seek in (training_alone, stepped_up, blocks, fell_at_once):
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


def _source_changes(signals: Signals, loss: Curve, params: Params) -> list[Finding]:
    """Steps at which a logged source or domain number changes for good and the loss with it: low, as it is logged."""
    found = []
    for points in (usable(curve) for role in ("source", "domain") for curve in signals.curves(role)):
        for at in held_changes(points.value):
            text = f"{points.name} changes from {points.value[at - 1]:g} to {points.value[at]:g}"
            finding = _followed(loss, points, at, text, params)
            found += [replace(finding, severity="low")] if finding is not None else []
    return found[:5]


def _data_steps(signals: Signals, loss: Curve, params: Params) -> list[Finding]:
    """Lasting steps of a data series with which the loss changes; of sources that trade places one speaks."""
    found: dict[int | None, Finding] = {}
    logged = (usable(curve) for role in DATA_ROLES for curve in signals.curves(role))
    for points in (*logged, *logged_shares(signals)):
        for at in lasting_steps(points.value):
            before, after = levels_at(points, at)
            text = f"{points.name} goes from {before:.4g} to {after:.4g}"
            finding = _followed(loss, points, at, text, params) or _felt(signals, loss, points, at, text)
            if finding is not None:
                found.setdefault(finding.onset_step, finding)
        dry = runs_dry(points.value) if not found else None
        if dry is not None:
            finding = _followed(loss, points, dry, f"{points.name} goes to zero for good", params, params["dry_z"])
            found |= {finding.onset_step: finding} if finding is not None else {}
    return list(found.values())[:5]


def _felt(signals: Signals, loss: Curve, points: Curve, at: int, text: str) -> Finding | None:
    """The finding for a data step that the gradient norm feels, whatever the loss does."""
    step = int(points.step[at])
    levels = norm_step(signals, step)
    if levels is None:
        return None
    moved = f"the gradient norm from {levels[0]:.3g} to {levels[1]:.3g}"
    rows = (
        Evidence(points.name, step, float(points.value[at]), float(points.value[at - 1]), text),
        Evidence("grad_norm", step, levels[1], levels[0], "level of the gradient norm from there on, against before"),
    )
    return change_at(META.kind, loss, step, int(points.step[at - 1]), 0.75, f"at step {step} {text} and {moved}", rows)


def _followed(loss: Curve, points: Curve, at: int, text: str, params: Params, z: float | None = None) -> Finding | None:
    """The finding for a data step, if the level of the loss changes there by `z` of the run's own changes."""
    step = int(points.step[at])
    border = int(np.searchsorted(loss.step, step))
    change = join(loss.value, border)
    if change is None or abs(change.z) < (z or params["z"]) or abs(change.change) < change.noise / 2:
        return None
    rows = (
        Evidence(points.name, step, float(points.value[at]), float(points.value[at - 1]), text),
        Evidence(loss.name, step, change.after, change.before, f"training loss changes by {change.change:+.3g} there"),
    )
    summary = f"at step {step} {text} and the training loss from {change.before:.4g} to {change.after:.4g}"
    return change_at(META.kind, loss, step, int(points.step[at - 1]), 0.85, summary, rows)
