"""The loss is, or drops, too low to be true.

What it detects:
    A loss per token that falls below a value no text allows while the data are seen for the first time: under 0.1
    nats for good. And any loss that had settled and then, without a change of the learning rate or a new epoch,
    collapses to a few percent of its level.

Why it matters:
    The model reads its answer: a missing causal mask, labels in the input, packing that lets documents see themselves,
    duplicated data. Everything measured afterwards is void.

Evidence:
    Loss before and after, the epoch reached, gradient norm meanwhile.

False positives:
    Fine-tuning over several epochs memorises honestly: more than one pass over the data clears it, and so does a
    collapse that begins with an epoch. A plateau at the start that ends when learning sets in is no settled level.

Example:
    `loss fell from 1.64 to 0.02 by step 30, 2 % of the first epoch`

Parameters:
    floor: nats per token. seen_once: epochs up to which data count as new. left: share of the level after a collapse.
"""

from __future__ import annotations

import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.precursors import companions
from trainforensics.signals.task import TOKEN_ROLES, per_token, rewarded
from trainforensics.signals.trend import moving_median

LEARNT = 0.5  # nats: a run that starts below has learnt before
SETTLED, STILL_FALLING = 0.7, 1.1  # of its level a twelfth of the log earlier: neither falling fast nor risen
DESCENDED = 0.7  # of the start: learning had set in before
FEW_POINTS = 5
BELOW = 3.0  # noise widths
FALL_SPAN = 0.15  # of the log, for the whole fall

_EPOCHS = re.compile(r"epoch x (\d+)")  # an axis made of epochs and iterations tells where epochs begin

META = Meta(
    kind=KINDS["suspicious-low-loss"],
    needs=("train_loss",),
    uses=("epoch", "grad_norm", "learning_rate", "loss_scale", "reward", *TOKEN_ROLES),
    params=(
        Param("floor", 0.1, "the best models stay above 0.3 nats per token even on source code"),
        Param("seen_once", 1.0, "the second pass over data may be memorised"),
        Param("points", 5.0, "a single low batch may hold boilerplate"),
        Param("bottomless", 100.0, "log likelihoods below zero stay within the scale they start from"),
        Param("left", 0.1, "learning-rate drops and easier data lower a settled loss by a factor of two or three"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Look for a lasting fall below the floor in new data, then for the collapse of a settled loss."""
    loss = signals.curve("train_loss")
    if loss is None:
        return NotApplicable("no training loss is logged", "the training loss at every step")
    loss = loss.only_finite()
    known = _known_answer(signals, loss, params) if per_token(signals) else None
    fell = known or _bottomless(signals, loss, params["bottomless"]) or _collapse(signals, loss, params["left"])
    return Fired((fell,)) if fell is not None else Clear()


def _known_answer(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """A loss per token below the floor to the end, reached within the first pass over the data."""
    epoch, count = signals.curve("epoch"), int(params["points"])
    low = loss.value < params["floor"]
    fading = low & (loss.value > 0)  # a loss that is 0 at once stands still: loss-zero, or a filter over NaN
    if epoch is None or len(loss) < 2 * count or not low[-count:].all() or fading.sum() < count:
        return None
    if float(np.median(loss.value[:3])) < LEARNT:
        return None
    first = int(np.flatnonzero(~low)[-1]) + 1
    leaving = int(np.flatnonzero(loss.value[:first] > LEARNT)[-1]) + 1
    passed = float(epoch.value[max(epoch.at(int(loss.step[first])), 0)])
    if passed >= params["seen_once"]:
        return None
    reason = f"in epoch {passed:.3g}, when the data are new"
    return _finding(signals, loss, leaving, first, float(np.median(loss.value[:3])), reason)


def _bottomless(signals: Signals, loss: Curve, factor: float) -> Finding | None:
    """A loss far below zero that still falls as fast as ever: its targets lie outside of what the loss allows for."""
    n = len(loss)
    if n < 2 * FEW_POINTS or rewarded(signals):
        return None
    third = n // 3
    levels = [float(np.median(part)) for part in (loss.value[:third], loss.value[third:-third], loss.value[-third:])]
    first = float(np.median(np.abs(loss.value[:FEW_POINTS])))
    if levels[2] > -factor * max(first, 1.0) or levels[1] - levels[2] < levels[0] - levels[1]:
        return None
    below = int(np.argmax(loss.value < 0))
    return _finding(signals, loss, below, n - third, float(loss.value[0]), "and falls ever faster: it has no bottom")


def _collapse(signals: Signals, loss: Curve, left: float) -> Finding | None:
    """A level that was settled, after a descent, and within 15 % of the log falls to a few percent of itself."""
    n = len(loss)
    width = max(10, n // 12)
    if n < 6 * width or loss.value.min() < 0:
        return None
    start = float(np.median(loss.value[:5]))
    for at in range(2 * width, n - 2 * width, max(1, width // 4)):
        before = float(np.median(loss.value[at - width : at]))
        earlier = float(np.median(loss.value[at - 2 * width : at - width]))
        settled = SETTLED * earlier < before < STILL_FALLING * earlier
        later = loss.value[at + max(width, int(FALL_SPAN * n)) :][:width]
        fallen = len(later) > 0 and 0 < np.median(later) < left * before
        if not (settled and LEARNT < before < DESCENDED * start and fallen):
            continue
        halfway = at + int(np.argmax(loss.value[at:] < 0.5 * before))
        onset = _leaving(loss.value[at - width : halfway + 1], before) + at - width
        if np.median(loss.value[onset:]) > left * before or _explained(signals, loss, onset - width, halfway):
            return None
        return _finding(signals, loss, onset, onset + width, before, "without a reason in the schedule")
    return None


def _leaving(value: Floats, level: float) -> int:
    """Index of the first value of the fall that ends `value`: from there on none is back inside the noise."""
    inside = np.flatnonzero(moving_median(value, 5) >= level - BELOW * robust_sigma(np.diff(value)) / np.sqrt(2))
    return min(int(inside[-1]) + 1, len(value) - 1) if len(inside) else len(value) - 1


def _explained(signals: Signals, loss: Curve, start: int, stop: int) -> bool:
    """Whether the learning rate fell or an epoch began between two points."""
    first, last = int(loss.step[max(start, 0)]), int(loss.step[stop])
    rate, epoch = signals.curve("learning_rate"), signals.curve("epoch")
    if rate is not None and rate.value[max(rate.at(last), 0)] < 0.5 * rate.value[max(rate.at(first), 0)]:
        return True
    if epoch is None:
        steps = _EPOCHS.match(signals.axis.name)
        return steps is not None and (last + int(steps[1]) // 20) // int(steps[1]) > first // int(steps[1])
    return bool(np.floor(epoch.value[max(epoch.at(last), 0)]) > np.floor(epoch.value[max(epoch.at(first), 0)]))


def _finding(signals: Signals, loss: Curve, leaving: int, first: int, start: float, reason: str) -> Finding:
    value, onset = float(np.median(loss.value[first:])), int(loss.step[leaving])
    row = Evidence(loss.name, int(loss.step[first]), value, start, reason)
    return Finding(
        kind="suspicious-low-loss",
        series=loss.name,
        role="train_loss",
        onset_step=onset,
        onset_interval=(int(loss.step[max(leaving - 1, 0)]), onset),
        confidence=0.85 if per_token(signals) else 0.7,
        summary=f"{loss.name} fell from {start:.4g} to {value:.3g} by step {loss.step[first]}, {reason}",
        evidence=(row, *companions(signals, onset)),
    )
