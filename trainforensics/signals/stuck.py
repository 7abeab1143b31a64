"""What stands exactly still: a loss (hidden NaN, masked labels, a dead model, a fault of the logging), or the weights.

Zero has four meanings. From the first step on: nothing is learnt from (all labels masked). After a jump, or with a
gradient norm that is NaN or a constant: a filter that hides NaN. With a gradient norm of zero: dead. With a gradient
norm that lives: rounding, or an objective whose value is zero by construction (GRPO) - no fault at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.signals.curve import Bools, Curve, Floats, Ints
from trainforensics.signals.epochs import passes
from trainforensics.signals.evaluations import validation_curves
from trainforensics.signals.rows import loss_like
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps, lasting_start, middle, stretches

MIN_ZERO, MIN_OTHER = 5, 20  # points; another constant than zero may repeat by rounding
MIN_ALL = 3  # points of a log in which nothing else than zero was ever printed
MIN_SHARE = 0.05  # of the log
DUST = 1e-14  # of the first losses: what rounding leaves of a difference that is none
FALLEN = 0.7  # of its early level: no auxiliary loss falls so far by itself
REST, RESTLESS = 30, 10.0  # points of weights at rest; in the longest rest before, which is the rounding of the norm's
MOVES = 0.1  # of the highest learning rate: below it weights may move by less than the digits of their norm
UNLEARNT = 5.0  # times the smallest training loss in the log that is not zero
ROLES_OF_RL = ("reward", "kl", "reward_std")

Reason = Literal["filter", "labels", "dead", "constant", "stopped"]


@dataclass(frozen=True, slots=True, eq=False)
class Stuck:
    """Points `first`..`last` of `curve` hold exactly `value`.

    `level` is the median of the 20 values before (NaN at the start); `gradient` the gradient norm in the stretch:
    NaN where none is logged, infinity where it is not finite.
    """

    curve: Curve
    first: int
    last: int
    value: float
    reason: Reason
    level: float
    gradient: float


def stuck(signals: Signals) -> Stuck | None:
    """The stretch to the end of the training loss that stands still and is a fault; None where there is none."""
    return signals.derive(("stuck",), lambda: _stuck(signals))


@np.errstate(all="ignore")
def _stuck(signals: Signals) -> Stuck | None:
    curve = signals.curve("train_loss")
    if curve is None:
        return None
    curve = _without_dust(curve if curve.finite.all() else curve.only_finite())
    n = len(curve)
    least_zero = MIN_ZERO if curve.value.any() else MIN_ALL
    if n < least_zero or np.mean(curve.value[-MIN_ZERO:] == curve.value[-1]) < 0.5:
        return None
    value = float(curve.value[-1])
    first = lasting_start(curve.value == value, 0.95)
    if first is None or n - first < (least_zero if value == 0 else MIN_OTHER) or n - first < MIN_SHARE * n:
        return None
    if _another_lives(signals, curve, int(curve.step[first])):
        return None
    gradients = _gradients(signals, curve)
    level = middle(curve.value[max(0, first - 20) : first])
    reason = _reason(signals, curve, first, value, gradients)
    if reason is None:
        return None
    inside = gradients[first:]
    logged = inside[~np.isnan(inside)]
    gradient = float(np.median(logged)) if len(logged) else float("nan")
    return Stuck(curve, first, n - 1, value, reason, level, gradient)


def _without_dust(curve: Curve) -> Curve:
    """The curve with zero for what is no more than the last bit of the sums that it was."""
    size = np.abs(curve.value)
    dust = (size > 0) & (size < DUST * size[:MIN_ZERO].max(initial=0.0))
    return replace(curve, value=np.where(dust, 0.0, curve.value)) if dust.any() else curve


def empty_epochs(signals: Signals) -> Ints | None:
    """Indices of the epochs of the training loss that saw no batch; None where there is none.

    Their loss is exactly zero between others, and the scores of training beside it are zero as well, or the validation
    loss is that of the epoch before to its last digit, as where a generator ran dry.
    """
    curve = signals.curve("train_loss")
    if curve is None or signals.axis.unit != "epoch" or len(curve) < MIN_ALL or signals.has("reward"):
        return None
    zero = np.flatnonzero(curve.value == 0)
    if not len(zero) or len(zero) > len(curve) / 2 or zero[0] == 0:
        return None
    beside = [other for other in (*signals.unmapped, *signals.curves("val_loss")) if len(other) == len(curve)]
    for other in beside:
        kept = other.value[zero] == (other.value[zero - 1] if other.series.role == "val_loss" else 0)
        if kept.all() and np.all(np.delete(other.value, zero) != 0) and np.ptp(other.value) > 0:
            return zero
    return None


def weights_at_rest(signals: Signals) -> tuple[Curve, int] | None:
    """The norm of the weights and the index from which on it is the same to its last digit although it moved before and
    the learning rate is up; None where it goes on moving, or is printed too coarsely to tell."""
    logged, scheduled = signals.curve("param_norm"), signals.curve("learning_rate")
    if logged is None or scheduled is None:
        return None
    curve, rate = logged.only_finite(), scheduled.only_finite()
    if len(curve) < REST or not len(rate):
        return None
    moved = np.flatnonzero(np.diff(curve.value))
    first = int(moved[-1]) + 1 if len(moved) else 0
    if not len(moved) or len(moved) < first / 2:
        return None
    longest = int(np.max(np.diff(np.concatenate(([-1], moved)))))
    meanwhile = at_steps(rate, curve.step[first:])
    trained = meanwhile[meanwhile > MOVES * rate.value.max()]
    return (curve, first) if len(trained) >= max(REST, RESTLESS * longest) else None


def _another_lives(signals: Signals, curve: Curve, step: int) -> bool:
    """Whether a second account of the training loss moves meanwhile, so that this one is a placeholder."""
    for other in signals.curves("train_loss"):
        if other.series != curve.series and other.series.rank is None and other.series.domain is None:
            value = other.value[other.finite & (other.step >= step)]
            if len(value) >= MIN_ZERO and float(np.ptp(value)) > 0:
                return True
    if curve.value.any():
        return False
    return any(_learns(other) for other in loss_like(signals) if other.series.role is None)


def _learns(curve: Curve) -> bool:
    """Whether a loss of another name falls by far: that one is trained, and the first has no part in it."""
    value = curve.value[curve.finite]
    third = len(value) // 3
    if third < MIN_ZERO or value.min() < 0:
        return False
    return float(np.median(value[-third:])) < FALLEN * float(np.median(value[:third]))


def _gradients(signals: Signals, curve: Curve) -> Floats:
    norm = signals.curve("grad_norm")
    return at_steps(norm, curve.step) if norm is not None else np.full(len(curve), np.nan)


def _reason(signals: Signals, curve: Curve, first: int, value: float, gradients: Floats) -> Reason | None:
    logged = gradients[first:][~np.isnan(gradients[first:])]
    broken = len(logged) > 0 and float(np.mean(np.isinf(logged))) > 0.5
    still = len(logged) > 1 and not broken and float(np.ptp(logged[np.isfinite(logged)])) == 0
    lively = len(logged) > 0 and not broken and not still
    rewarded = any(signals.has(role) for role in ROLES_OF_RL)
    history = curve.value[:first]
    if first <= 1 and not _jumped(history):
        if value == 0:
            return None if lively or (rewarded and not broken) else "labels"
        printed_coarsely = lively and value == round(value, 4)
        return None if rewarded or printed_coarsely else "constant"
    if broken:
        return "filter"
    if value == 0 and not rewarded and _new_and_unlearnt(signals, curve, int(curve.step[first])):
        return "constant"
    if not _abrupt(history, value) or (rewarded and lively):
        return None  # it got there little by little, or rewards decide: rounding of a small loss
    if still:
        before = gradients[:first][np.isfinite(gradients[:first])]
        varied = len(before) > 2 and float(np.ptp(before)) > 0
        return _with_a_still_gradient(value, float(logged[0]), varied=varied)
    if not lively and value == 0 and _jumped(history):
        return "filter"
    return "constant"


def _with_a_still_gradient(value: float, gradient: float, *, varied: bool) -> Reason:
    """What stands still with its gradient, which `varied` before; neither at zero: an optimiser that has stopped, as
    after a line search that found nothing lower."""
    if gradient == 0:
        return "dead"
    return "filter" if varied else "constant" if value == 0 else "stopped"


def _new_and_unlearnt(signals: Signals, curve: Curve, step: int) -> bool:
    """Whether the data are still new at a step, and what evaluation finds later lies far above what a loss of zero in
    the digits of the log can be."""
    epoch = passes(signals, step)
    late = [c.value[c.step >= step] for c in validation_curves(signals)]
    smallest = float(np.min(curve.value[curve.value > 0], initial=np.inf))
    return epoch is not None and epoch < 1 and any(len(v) and np.median(v) > UNLEARNT * smallest for v in late)


def _abrupt(history: Floats, value: float) -> bool:
    """Whether the loss was at its usual distance from `value` right before it got there, many rounding steps away."""
    distance = np.abs(history[-50:] - value)
    usual = float(np.median(distance))
    scale = float(np.max(np.abs(history[:20])))
    coarse = len(history) > 5 and float(np.mean(history[1:] == history[:-1])) > 0.3
    return not coarse and float(np.median(distance[-3:])) > 0.3 * usual > 3e-4 * scale


def _jumped(history: Floats) -> bool:
    """Whether the value right before stands far above the ones before it, or is absurd for a first loss."""
    if not len(history):
        return False
    last, earlier = float(np.max(history[-2:])), history[:-2]
    return last > 1e3 or (len(earlier) >= 3 and last > 3 * float(np.median(earlier[-20:])))


def hidden_points(curve: Curve, gradients: Floats) -> Bools:
    """Points of a loss that are exactly zero, or repeat the point before, while the gradient norm is not finite.

    `gradients` has shape (n,), infinity where the norm is not finite. Zeros from the very first point on hide nothing
    that the log could show, so they do not count; nor do any where most such norms stand beside a loss that moves.
    """
    value = curve.value
    repeats = np.append(False, value[1:] == value[:-1])
    beside = np.isinf(gradients) & np.isfinite(value)
    hidden: Bools = beside & ((value == 0) | repeats)
    if hidden.sum() <= beside.sum() / 2:
        return np.zeros(len(value), dtype=np.bool_)
    first, last = stretches(hidden)
    if len(first) and first[0] == 0:
        hidden[: last[0] + 1] = False
    return hidden
