"""Gradient norms that fall to nothing while nothing is learnt: of the whole model, of some layers, of a policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.model import Series
from trainforensics.signals.chance import FROM_SCRATCH
from trainforensics.signals.curve import Bools, Curve, Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps, lasting_start, middle
from trainforensics.signals.task import per_token

MIN_POINTS = 20
FEWEST, FEWEST_ZERO = 10, 3  # points of a norm that is judged by its course, and of one that never was anything
NOTHING, NO_EXCEPTION = 1e-30, 0.99  # a norm of zero, or of what single precision leaves of it; share of the points
ALIVE, FEWEST_THIRD, CLEAR = 0.9, 5, 2.0  # share of steps with unequal rewards; points; standard errors
TINY = 1e-4  # the band practitioners use; the run's own history must agree
STARVED = 1e-3  # of the strongest layer's: what saturated units leave; healthy layers lie within two decades
FAR_BELOW, OUTSIDE = 100.0, 10.0  # times below its early level: gone, and on its way
LITTLE = 0.7  # of its first level: what the layers next to the loss learn alone leaves most of it
BIAS, FROZEN = "bias", re.compile(r"lora|adapter|frozen|pretrained|backbone|(^|[^a-z])base([^a-z]|$)")
STANDS = 0.02  # of the level of a loss, within which nothing is learnt
CONVERGED = 0.1  # of its first level: a loss this low may well have small gradients


@dataclass(frozen=True, slots=True, eq=False)
class Collapse:
    """A gradient norm that is next to nothing from index `first` of `curve` on while the loss stands still.

    `before` is the norm's earlier level (NaN where it was tiny from the start), `level` the one since, `loss` the loss
    meanwhile, or the reward where one is what the run maximises (`aim` says which). `layers`: the layers that get no
    gradient while others do; empty where the whole norm is meant.
    """

    curve: Curve
    first: int
    before: float
    level: float
    loss: float
    layers: tuple[Series, ...] = ()
    aim: Literal["loss", "reward"] = "loss"


def collapse(signals: Signals) -> Collapse | None:
    """The gradient norm, or that of some layers, is next to nothing to the end of the log; None where it is not."""
    if signals.has("reward"):
        return signals.derive(("collapse of a policy's gradient",), lambda: _policy_collapse(signals))
    return signals.derive(("collapse",), lambda: _collapse(signals) or _layer_collapse(signals))


def _whole_norm(signals: Signals) -> Curve | None:
    """The global gradient norm: as logged, else from the norms of at least three layers."""
    logged = signals.curve("grad_norm")
    layers = signals.layers("grad_norm") if logged is None else None
    if layers is None or len(layers.rows) < 3:
        return logged
    template = next(c for c in signals.curves("grad_norm") if c.series == layers.rows[0])
    at = np.searchsorted(template.step, layers.step, side="right") - 1
    series = replace(template.series, layer=None, name=f"gradient norm of {len(layers.rows)} layers")
    total = np.sqrt(np.sum(layers.value**2, axis=0))
    return Curve(series, layers.step, total, template.time[at], template.segment[at])


@np.errstate(all="ignore")
def _collapse(signals: Signals) -> Collapse | None:
    curve, loss = _whole_norm(signals), signals.curve("train_loss")
    if curve is None or loss is None:
        return None
    curve, loss = curve.take(curve.finite & (curve.value >= 0)), loss.only_finite()
    n = len(curve)
    if n < FEWEST:
        return _never_any(curve, loss)
    early = float(np.median(curve.value[: max(5, n // 10)]))
    from_start = early < TINY
    first = lasting_start(curve.value < (TINY if from_start else min(TINY, early / FAR_BELOW)))
    slowly = first is None and not from_start
    first = lasting_start(curve.value < early / FAR_BELOW) if slowly else first
    if first is None or n - first < max(5, n // 20):
        return None
    level = float(np.median(curve.value[first:]))
    idle = _idle_level(loss, int(curve.step[first]))
    if idle is None or (slowly and not _nothing_learnt(loss.value, idle)):
        return None
    if slowly:
        first = lasting_start(curve.value < early / OUTSIDE) or first
    if from_start and level > 0 and (n - first < n // 3 or level > TINY * min(1.0, abs(idle))):
        return None
    return Collapse(curve, first, float("nan") if from_start else early, level, idle)


def _never_any(curve: Curve, loss: Curve) -> Collapse | None:
    """A norm of exactly zero in each of a few rows, where the loss stays within a fiftieth of its first value."""
    if min(len(curve), len(loss)) < FEWEST_ZERO or curve.value.any():
        return None
    first, last = float(loss.value[0]), float(np.median(loss.value[-FEWEST_ZERO:]))
    return Collapse(curve, 0, float("nan"), 0.0, last) if abs(last - first) <= STANDS * abs(first) else None


@np.errstate(all="ignore")
def _policy_collapse(signals: Signals) -> Collapse | None:
    """A gradient norm of exactly zero where rewards differ, the rate is up and the reward does not rise.

    Equal rewards give no gradient, now and then or for long: they are no fault of the gradient.
    """
    curve = signals.curve("grad_norm")
    if curve is None:
        return None
    curve = curve.take(curve.finite & (curve.value >= 0))
    n, first = len(curve), lasting_start(curve.value < NOTHING, NO_EXCEPTION)
    if first is None or n - first < max(MIN_POINTS, n // 10):
        return None
    step, since = int(curve.step[first]), curve.step[first:]
    reward, rate = signals.curve("reward"), signals.curve("learning_rate")
    if reward is None or (rate is not None and not middle(at_steps(rate, since)) > 0):
        return None
    value = reward.value[reward.finite & (reward.step >= step)]
    spread = signals.curve("reward_std")
    alive = np.diff(value) != 0 if spread is None else at_steps(spread, since) > 0
    third = len(value) // 3
    if third < FEWEST_THIRD or np.mean(alive) < ALIVE:
        return None
    rise = float(np.median(value[-third:]) - np.median(value[:third]))
    if rise > CLEAR * 1.2533 * robust_sigma(np.diff(value)) / np.sqrt(third):
        return None
    before = float(np.median(curve.value[:first])) if first >= FEWEST_THIRD else float("nan")
    return Collapse(curve, first, before, 0.0, float(np.median(value)), aim="reward")


def _idle_level(loss: Curve, step: int) -> float | None:
    """Level of a finite loss from `step` on; None where it falls or has converged."""
    value, since = loss.value, loss.value[loss.step >= step]
    if len(since) < 5:
        return None
    start, level = float(np.median(value[:5])), float(np.median(since))
    third = len(since) // 3
    early, late = float(np.median(since[:third])), float(np.median(since[-third:]))
    noise = 1.4826 * float(np.median(np.abs(since - level)))
    falls = early - late > max(1.5 * noise, STANDS * abs(level))
    converged = abs(level) < CONVERGED * abs(start) or level == 0
    return None if falls or converged else level


@np.errstate(all="ignore")
def _layer_collapse(signals: Signals) -> Collapse | None:
    matrix, loss = signals.layers("grad_norm"), signals.curve("train_loss")
    if matrix is None or loss is None or len(matrix.rows) < 3 or len(matrix.step) < 10:
        return None
    value = np.where(np.isfinite(matrix.value) & (matrix.value >= 0), matrix.value, np.nan)
    usual = np.array([middle(row[len(row) // 2 :]) for row in value])
    strong = float(np.nanmax(usual)) if np.isfinite(usual).any() else 0.0
    biases = np.array([BIAS in row.name.lower() for row in matrix.rows])  # of keys, and before a norm: zero by nature
    tiny = (usual < TINY) & (usual < strong * STARVED) & ~biases
    if not tiny.any() or tiny.all() or strong <= 0:
        return None
    if (usual[tiny] == 0).all() and not _cut_off(signals, matrix.rows, tiny):
        return None
    weakest = np.nanmin(np.where(tiny[:, None], value, np.nan), axis=0)
    first = lasting_start(weakest < strong * STARVED)
    if first is None or len(matrix.step) - first < max(5, len(matrix.step) // 5):
        return None
    loss = loss.only_finite()
    idle = _idle_level(loss, int(matrix.step[first]))
    if idle is None or idle < LITTLE * float(np.median(loss.value[:5])):
        return None
    order = np.argsort(usual)
    rows = tuple(matrix.rows[i] for i in order if tiny[i])
    curve = next(c for c in signals.curves("grad_norm") if c.series == rows[0])
    at = int(np.searchsorted(curve.step, matrix.step[first]))
    return Collapse(curve, at, strong, float(usual[order[0]]), idle, rows)


def _cut_off(signals: Signals, rows: Sequence[Series], dead: Bools) -> bool:
    """Whether layers of zero gradient are the first ones of a model that is trained from the start, so that something
    between them and the rest lets none through; what is tuned has frozen layers on purpose."""
    rate = signals.curve("learning_rate")
    tuned = rate is not None and float(np.nanmax(rate.value, initial=0.0)) < FROM_SCRATCH
    if tuned or per_token(signals) or any(FROZEN.search(row.name.lower()) for row in rows):
        return False
    return bool(dead[: int(dead.sum())].all())


def _nothing_learnt(value: Floats, level: float) -> bool:
    """Whether a loss stands where it began, in its first twentieth, within its noise."""
    width = max(MIN_POINTS, len(value) // 20)
    if len(value) < 4 * width:
        return False
    noise = 1.2533 * robust_sigma(np.diff(value)) / np.sqrt(2 * width)
    return bool(abs(level - float(np.median(value[:width]))) < CLEAR * max(noise, 0.005 * abs(level)))
