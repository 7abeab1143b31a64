"""A curve sits at a whole multiple of its counterpart: a scale, not learning.

What it detects:
    A training loss that steps to a whole multiple (or fraction) of its level within one logged point and keeps
    training there, its noise grown by the same factor (any large multiple where the gradient norm does not move). Or
    one that lies at the same whole multiple of the validation loss from the first evaluation to the last; or validation
    and training that stand at one large ratio, whole or not, from the first evaluation on, while both fall in
    proportion; or validation that is fifty times training and more at every evaluation while it falls tenfold.

Why it matters:
    Sums instead of means, losses multiplied by gradient accumulation or world size, a changed reduction after an
    upgrade: nothing happened to the model, but every threshold, clip and comparison is off by that factor.

Evidence:
    The ratio of the levels, the ratio of the noise, the evaluations at which the multiple holds; a setting of the
    configuration with that value.

False positives:
    Losses that really double do not double their noise at once, nor go on at the same slope, in proportion, as before.
    A fall where an epoch ends, or a step where the learning rate moves, may be learning. Validation above training by
    dropout, packing or harder data is no constant whole number and stays within a few times; over-fitting opens the
    gap as it goes, and one that adds to the loss does not fall with it.

Example:
    The loss goes from 1.21 to 4.86 between steps 500 and 505, 4.0 times, and falls on from there.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params, change_at
from trainforensics.detectors.resume.proportions import against_validation
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import usable
from trainforensics.signals.multiples import (
    SIDE,
    Step,
    evaluation_follows,
    gradient_across,
    learnt,
    setting_of,
    steps,
    whole,
)
from trainforensics.signals.parts import part_adds
from trainforensics.signals.structure import changes_between

META = Meta(
    kind=KINDS["scale-mismatch"],
    needs=("train_loss",),
    uses=("*",),
    params=(
        Param("whole", 0.04, "distance of the ratio from a whole number; levels are known to a few per cent"),
        Param("unnamed", 0.12, "the same in full where no setting has that value: a quarter of all ratios lie as near"),
        Param("bend", 0.35, "change of slope over 32 points, in logarithms, that the noise need not explain"),
        Param("plain", 3.0, "multiple from which on a gradient norm that stays put stands in for a whole number"),
        Param("still", 1.3, "factor by which such a norm may move; it would follow a loss that really rose"),
        Param("steady", 0.015, "the same against validation, where many evaluations average"),
        Param("largest", 64.0, "largest multiple looked for; beyond it every ratio is near a whole number"),
        Param("noise", 1.7, "factor by which the noise may miss the multiple; it is known from 32 points a side"),
        Param("spread", 0.05, "spread of train against validation over the evaluations"),
        Param("apart", 6.0, "ratio that no gap of generalisation has at the first evaluation already"),
        Param("beyond", 50.0, "times training that validation may be at every evaluation; no other public log has 8"),
        Param("farthest", 4096.0, "largest such ratio: sums over batches and sequences; beyond it, another measure"),
        Param("few", 8.0, "evaluations that tell it from a gap which opened before the first one"),
        Param("tenfold", 2.3, "fall of validation, in logarithms, over which any few of them do: no gap falls so far"),
        Param("wide", 0.25, "spread of such a ratio; the training loss of a few batches is known no better"),
        Param("fallen", 0.25, "fall of validation, in logarithms, over which such a ratio must hold"),
        Param("start", 0.1, "of that fall: training goes on falling over the stretch that stands for an evaluation"),
        Param("drift", 0.35, "share of that fall by which the ratio may drift; a gap that adds drifts by all of it"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """A step within the run first, then the training loss against validation."""
    curve = signals.curve("train_loss")
    loss = usable(curve) if curve is not None else None
    if loss is None or not len(loss) or loss.value.min() <= 0:
        return Clear()
    found = [f for step in steps(loss) if (f := _rescaled(signals, loss, step, params)) is not None]
    if not found and (against := against_validation(signals, loss, params)) is not None:
        found.append(against)
    return Fired(tuple(found)) if found else Clear()


def _rescaled(signals: Signals, loss: Curve, step: Step, params: Params) -> Finding | None:
    """The finding for a step that multiplies the whole curve: level and noise, but not its course."""
    ratio, larger = step.ratio, max(step.ratio, 1 / step.ratio)
    k = whole(ratio, params["whole"], params["largest"])
    named = setting_of(signals, k) if k is not None else None
    if k is not None and not named and abs(max(step.exact, 1 / step.exact) - k) > params["unnamed"]:
        k = None
    still = _gradient_agrees(signals, loss, step, params) if larger >= params["plain"] else None
    bent = step.bend > max(params["bend"] / SIDE, 3 * step.error)
    noisier = abs(math.log(max(step.noise, 1e-12) / ratio)) > math.log(params["noise"])
    if bent or noisier or (k is None and still is None) or (not named and learnt(signals, loss, step)):
        return None
    if evaluation_follows(signals, loss, step):
        return None
    edge = (int(loss.step[step.at - 1]), int(loss.step[step.at]))
    if not named and any(changes_between(other, *edge) for other in signals.unmapped):
        return None  # what the log counts beside the loss moved on there, as the number of noise levels does
    at, before, after = int(loss.step[step.at]), float(np.median(step.before[-8:])), float(np.median(step.after[:8]))
    if ratio > 1 and part_adds(signals, loss, (int(loss.step[step.at - 1]), at), after - before):
        return None
    about, times = ("", f"{k}") if k is not None else ("about ", f"{larger:.2g}")
    way = f"{about}{times} times" if ratio > 1 else f"{about}1/{times} of"
    rows = (
        Evidence(loss.name, at, after, before, f"ratio {ratio:.3f}"),
        Evidence(loss.name, at, step.noise, ratio, f"its point-to-point noise changes by {step.noise:.2g}"),
        *((still,) if still is not None else ()),
    )
    setting = f"; {named} is {k}" if named else ""
    summary = f"{loss.name} is {way} its former level from step {at} on ({ratio:.3f}), noise included{setting}"
    confidence = 0.9 if named else 0.8 if k is not None else 0.7
    return change_at(META.kind, loss, at, int(loss.step[step.at - 1]), confidence, summary, rows)


def _gradient_agrees(signals: Signals, loss: Curve, step: Step, params: Params) -> Evidence | None:
    """The gradient norm across the step, where it is logged, free to move and stays: the model met no other task.

    Or it falls by the same factor: the gradient of a part of a loss is that part of its gradient.
    """
    at = int(loss.step[step.at])
    norm = gradient_across(signals, at)
    if norm is None:
        return None
    moved = norm.after / norm.before
    stays, follows = (1 / params["still"] <= f <= params["still"] for f in (moved, moved / step.ratio))
    if not stays and not (follows and step.ratio < 1):
        return None
    text = "does not move" if stays else "falls by the same factor"
    return Evidence(norm.name, at, norm.after, norm.before, text)
