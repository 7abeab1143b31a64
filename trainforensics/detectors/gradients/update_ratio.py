"""Updates are out of proportion to the weights for long.

What it detects:
    A ratio of update to parameter norm that leaves the band of about 1e-5 to 1e-1 for good, after the run's own ratio
    was inside it or far from where it is now; or one that lies below the band from the first point to the last while
    the loss hardly falls, be it that all updates of thousands of steps together cannot move the weights by a hundredth.

Why it matters:
    Below the band nothing is learnt although the loss and the gradient look alive (updates dropped, rounded away, or a
    learning rate of nothing). Above it each step rewrites the weights.

Evidence:
    The ratio before and since, the learning rate at both.

False positives:
    Warm-up from zero and the tail of a decayed schedule make the ratio small: it is judged against the learning rate
    where one is logged. A decline without a learning rate in the log counts only where it is sudden. Where the loss
    falls, small updates are the run's own measure, and where the learning rate is as small, its owner's choice, unless
    they add up to nothing.

Example:
    From step 150 on the update ratio is exactly 0; it was 4e-3 before and the learning rate is still 9e-4.

Parameters:
    low, high: the band.
    departure: times the run's own earlier ratio, or the learning rate.
    idle: fall of the loss over the log that counts as hardly any.
"""

from __future__ import annotations

import math

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.stretches import at_steps, lasting_start

META = Meta(
    kind=KINDS["update-ratio"],
    needs=("update_ratio",),
    uses=("*",),
    params=(
        Param("low", 1e-5, "practitioners' band; about 1e-3 is usual"),
        Param("high", 1e-1, "practitioners' band"),
        Param("departure", 10.0, "a decade from where the run itself was"),
        Param("idle", 2.0, "in widths of the loss's point-to-point noise: the eye would not see it"),
    ),
)
MIN_POINTS = 20
LONG, MOVED, FALLEN = 1000, 0.01, 0.03  # steps; of the weights' norm, in all; of the loss
FEWEST_IN_ALL = 50  # points: in fewer a loss need not have fallen


def detect(signals: Signals, params: Params) -> Outcome:
    """Report a ratio that left the band for good."""
    if any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    main = signals.curve("update_ratio")
    layers = [c for c in signals.curves("update_ratio") if c.series.layer is not None]
    curves = [main] if main is not None and main.series.layer is None else layers
    found = [f for curve in curves if (f := _judge(signals, curve, params)) is not None]
    if not curves:
        return NotApplicable("no update ratio is logged", "the ratio of update to parameter norm")
    return Fired((min(found, key=lambda f: f.onset_step or 0),)) if found else Clear()


@np.errstate(all="ignore")
def _judge(signals: Signals, curve: Curve, params: Params) -> Finding | None:
    curve = curve.take(curve.finite & (curve.value >= 0))
    n = len(curve)
    if n < MIN_POINTS + 10:
        return None
    rate = signals.curve("learning_rate")
    lr = at_steps(rate, curve.step) if rate is not None else np.full(n, np.nan)
    with_rate = bool(np.isfinite(lr).mean() > 0.9) and bool(np.nanmax(lr) > 0)
    for low in (True, False):
        mask = curve.value < params["low"] if low else curve.value > params["high"]
        if low and with_rate:
            mask &= lr > 1e-3 * np.nanmax(lr)  # a learning rate of nothing is another matter
        first = lasting_start(mask)
        if first is None or first < 5 or n - first < max(MIN_POINTS, n // 20):
            continue
        before, since = curve.value[max(0, first - 50) : first], curve.value[first:]
        if with_rate and low:
            own, now = np.median(before / lr[max(0, first - 50) : first]), np.median(since / lr[first:])
        else:
            own, now = np.median(before[-5:]), np.median(since[:5])  # sudden, or it is a schedule
        if (now * params["departure"] <= own) if low else (now >= own * params["departure"]):
            return _finding(curve, first, float(np.median(before)), float(np.median(since)), float(lr[first]))
    if _always_timid(curve, params) and (
        (_below_rate(curve, lr, params) and _idle(signals, params)) or _moves_nothing(signals, curve)
    ):
        return _finding(curve, 0, params["low"], float(np.median(curve.value)), float(lr[0]))
    return None


def _always_timid(curve: Curve, params: Params) -> bool:
    """Whether nearly every update is below the band."""
    below = (curve.value < params["low"]) & (curve.value > 0)
    return len(curve) >= FEWEST_IN_ALL and bool(np.mean(below) >= 0.95)


def _below_rate(curve: Curve, lr: Floats, params: Params) -> bool:
    """Whether updates are far below the rate, where it is known.

    Adam's updates are about as large as its rate; plain descent on a usual scale of weights is within a decade of it.
    """
    known = np.isfinite(lr)
    return not known.any() or bool(np.median(curve.value[known] / lr[known]) * params["departure"] < 1)


def _moves_nothing(signals: Signals, curve: Curve) -> bool:
    """Whether the updates of a long log, all in one direction, would hardly move the weights, nor the loss moves.

    Where it does, as in fine-tuning, little is enough.
    """
    steps = int(curve.step[-1] - curve.step[0])
    loss = signals.curve("train_loss")
    value = loss.value[loss.finite] if loss is not None else np.empty(0)
    fifth = len(value) // 5
    if steps < LONG or fifth < FEWEST_IN_ALL // 5 or steps * float(curve.value.max()) > MOVED:
        return False
    first, last = float(np.median(value[:fifth])), float(np.median(value[-fifth:]))
    return abs(first - last) < FALLEN * abs(first)


def _idle(signals: Signals, params: Params) -> bool:
    """Whether the loss is hardly lower at the end of the log than at its beginning."""
    loss = signals.curve("train_loss")
    value = loss.value[loss.finite] if loss is not None else np.empty(0)
    fifth = len(value) // 5
    if fifth < FEWEST_IN_ALL // 5:
        return False
    fall = float(np.median(value[:fifth]) - np.median(value[-fifth:]))
    noise = robust_sigma(np.diff(value)) / math.sqrt(2)
    return fall < min(params["idle"] * noise, 0.2 * abs(float(np.median(value))))


def _finding(curve: Curve, first: int, before: float, since: float, lr: float) -> Finding:
    step = int(curve.step[first])
    evidence = [Evidence(curve.name, step, since, before, "ratio since, against the ratio before")]
    if np.isfinite(lr):
        evidence.append(Evidence("learning_rate", step, lr, None, "learning rate at the onset"))
    evidence[0] = evidence[0] if first else Evidence(curve.name, step, since, before, "ratio, against the usual band")
    timid = "nothing is learnt from such updates" if since < before else "each update rewrites the weights"
    return Finding(
        kind="update-ratio",
        series=curve.name,
        role="update_ratio",
        onset_step=step,
        confidence=0.85 if since == 0 or np.isfinite(lr) else 0.7,
        summary=f"{curve.name} goes from {before:.2g} to {since:.2g} at step {step} and stays there: {timid}."
        if first
        else f"{curve.name} is {since:.2g} all along, below {before:.0g}, and the loss hardly falls: {timid}.",
        onset_interval=(int(curve.step[first - 1]), step) if first else (step, step),
        segment=int(curve.segment[first]),
        recovery="unrecovered",
        scope=Scope(layer=curve.series.layer),
        evidence=tuple(evidence),
    )
