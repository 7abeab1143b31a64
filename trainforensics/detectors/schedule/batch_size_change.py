"""The batch size changes in mid-run and the learning rate does not follow.

What it detects:
    One lasting step of the batch size (sequences or tokens a step, logged or from a counter of data seen) by a fifth or
    more, at which the learning rate neither scales along nor with its square root.

Why it matters:
    The noise of the gradient and the progress per step change with it; curves before and after, and runs with and
    without, no longer compare.

Evidence:
    The batch size before and after, the learning rate at both sides, the loss noise against the square root of the
    ratio.

False positives:
    A planned ramp (three or more steps up, two equal ones, or one declared in the configuration). The short last batch
    of an epoch does not last. Batches of varying size must step far out of their own variation; sizes that climb over
    each epoch and start afresh in the next follow sorted samples.

Example:
    Tokens a step go from 1,000 to 2,000 at step 500; the learning rate stays on its schedule.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.batch import batch_size
from trainforensics.signals.curve import Floats
from trainforensics.signals.evaluations import usable
from trainforensics.signals.restarts import noise_ratio
from trainforensics.signals.saw import is_saw
from trainforensics.signals.steps import lasting_steps

WIDTHS = (1, 4, 16)  # points whose mean is one size
FEW = 2  # steps of such means; more are how the batches are made up
META = Meta(
    kind=KINDS["batch-size-change"],
    needs=("batch_size|tokens_seen",),
    uses=("learning_rate", "train_loss"),
    params=(
        Param("ratio", 1.2, "smaller changes do not call for another learning rate"),
        Param("follows", 0.25, "share of the change (in logarithms) that a following learning rate shows at least"),
        Param("ramp", 3.0, "steps in one direction that make it a planned ramp"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """One finding per lasting step."""
    curve = batch_size(signals)
    points = usable(curve) if curve is not None else None
    if points is None or len(points) < 10 or points.value.min() <= 0:
        return NotApplicable("fewer than 10 positive batch sizes", "log the batch size, in sequences or tokens a step")
    points, steps = _steps(points, params)
    size = np.log(points.value)
    declared = any("ramp" in key.lower() and value for key, value in signals.config.items())
    if not steps or declared or _is_ramp(points.value, steps, params) or is_saw(size):
        return Clear()
    found = [f for at in steps if (f := _judge(signals, points, size, at, params)) is not None]
    return Fired(tuple(found)) if found else Clear()


def _steps(points: Curve, params: Params) -> tuple[Curve, list[int]]:
    """Lasting steps, and the points on which they are seen: means of several where each batch is of another size."""
    for width in WIDTHS:
        count = len(points) // width
        whole = points.take(np.arange(width - 1, count * width, width))
        means = replace(whole, value=points.value[: count * width].reshape(count, width).mean(axis=1))
        size = np.log(means.value)
        steps = [at for at in lasting_steps(size) if abs(_change(size, at)) >= math.log(params["ratio"])]
        if steps and (width == 1 or len(steps) <= FEW):
            return means, steps
    return points, []


def _is_ramp(value: Floats, steps: list[int], params: Params) -> bool:
    """Several steps up, or two by the same amount, are a plan."""
    levels = [float(np.median(part)) for part in np.split(value, steps)]
    rises = np.diff(levels)
    if len(rises) < 2 or rises.min() <= 0:
        return False
    return len(rises) >= params["ramp"] or float(np.ptp(rises)) <= 0.1 * float(rises.max())


def _change(size: Floats, at: int) -> float:
    return float(np.median(size[at : at + 8]) - np.median(size[max(0, at - 8) : at]))


def _judge(signals: Signals, points: Curve, size: Floats, at: int, params: Params) -> Finding | None:
    step, before_step = int(points.step[at]), int(points.step[at - 1])
    change = _change(size, at)
    rate = signals.curve("learning_rate")
    followed = _rate_change(rate, before_step, step)
    if followed is not None and followed * math.copysign(1, change) >= params["follows"] * abs(change):
        return None
    before, after = math.exp(float(np.median(size[max(0, at - 8) : at]))), math.exp(float(np.median(size[at : at + 8])))
    evidence = [Evidence(points.name, step, after, before, f"batch size {before:.4g} -> {after:.4g}")]
    if rate is not None and followed is not None:
        text = f"learning rate changes by {math.expm1(followed):+.1%} across it"
        evidence.append(Evidence(rate.name, step, math.exp(followed), math.exp(change), text))
    loss = signals.curve("train_loss")
    if loss is not None:
        clean = usable(loss)
        ratio = noise_ratio(clean.value, int(np.searchsorted(clean.step, step)), 32)
        expected = math.exp(-change / 2)
        if ratio != 1.0:
            text = f"point-to-point noise of the loss changes by {ratio:.2g}; {expected:.2g} goes with the batch size"
            evidence.append(Evidence(loss.name, step, ratio, expected, text))
    unsaid = "; the learning rate is not logged" if followed is None else " and the learning rate does not follow"
    return Finding(
        kind="batch-size-change",
        series=points.name,
        role="batch_size",
        onset_step=step,
        onset_interval=(before_step, step),
        occurrences=(step,),
        segment=int(points.segment[at]),
        peak_step=step,
        confidence=0.9 if followed is not None else 0.65,
        summary=f"{points.name} goes from {before:.4g} to {after:.4g} at step {step}{unsaid}",
        evidence=tuple(evidence),
    )


def _rate_change(rate: Curve | None, before: int, after: int) -> float | None:
    """Logarithm of the learning rate's change from two points before to two points after; None where unknown."""
    if rate is None:
        return None
    points = rate.take(rate.finite & (rate.value > 0))
    left, right = points.at(before), points.at(after)
    if left < 1 or right + 2 >= len(points):
        return None
    drift = math.log(float(points.value[left] / points.value[left - 1])) * (right + 2 - left)
    return math.log(float(points.value[right + 2] / points.value[left])) - drift
