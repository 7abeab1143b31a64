"""Whether the loss makes progress: over the whole log, after a step, before each cut of the learning rate."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.signals.curve import Curve, Ints
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals

IN_A_ROW = 3  # new minima, which come on a plateau once in 60 places or less
CLEARLY = 6.0  # widths of the noise that is known from fewer points
FEWEST = 10  # points of a loss, or of a third of it, whose level is known


def learns(signals: Signals) -> bool:
    """Whether the training loss of the last third of the log is below that of the first, beyond its noise."""
    loss = signals.curve("train_loss")
    value = np.empty(0) if loss is None else loss.value[loss.finite]
    third = len(value) // 3
    if third < IN_A_ROW:
        return False
    early, late = float(np.median(value[:third])), float(np.median(value[-third:]))
    return early - late > (2 if third >= FEWEST else CLEARLY) * robust_sigma(value[-third:])


def loss_falls_after(signals: Signals, step: int) -> bool | None:
    """Whether the training loss goes on falling after a step, beyond its noise; None where that cannot be seen."""
    loss = signals.curve("train_loss")
    return None if loss is None else falls_after(loss, step)


def falls_after(loss: Curve, step: int) -> bool | None:
    """The same of one loss, or of a part of it."""
    value, at = loss.value[loss.finite], loss.step[loss.finite]
    since, before = value[at >= step], value[at < step]
    third = len(since) // 3
    if third < 3 or len(before) < 5:
        return None
    level, late = float(np.median(before[-max(5, min(third, 20)) :])), float(np.median(since[-third:]))
    noise = 1.4826 * float(np.median(np.abs(since[-third:] - late)))
    return level - late > max(noise, 0.02 * abs(level))


def at_its_best(signals: Signals, step: int) -> bool:
    """Whether every loss that is logged set a new minimum with each of its last few points before a step."""
    curves = [c.only_finite() for role in ("val_loss", "train_loss") if (c := signals.curve(role)) is not None]
    before = [curve.value[curve.step < step] for curve in curves]
    return bool(before) and all(
        len(value) > IN_A_ROW and bool((np.diff(np.minimum.accumulate(value))[-IN_A_ROW:] < 0).all())
        for value in before
    )


def improving(signals: Signals, cuts: Ints, least: float) -> bool:
    """Whether every loss that is logged was lower in the span before each cut than in the span before that.

    By a share `least` of itself, and beyond its noise.
    """
    curves = [c.only_finite() for role in ("val_loss", "train_loss") if (c := signals.curve(role)) is not None]
    curves = [curve for curve in curves if len(curve) >= FEWEST]
    return bool(curves) and all(_improves(curve, cuts, least) for curve in curves)


def _improves(loss: Curve, cuts: Ints, least: float) -> bool:
    width = int(np.diff(cuts).min())
    first, last = np.searchsorted(loss.step, (cuts[0] - width, cuts[-1]))
    noise = robust_sigma(np.diff(loss.value[first:last], 2)) / math.sqrt(6)
    spans = [np.searchsorted(loss.step, (cut - 2 * width, cut - width, cut)) for cut in cuts]
    spans = spans[1:] if spans[0][0] == spans[0][1] else spans  # the first cut may have but one span before it
    for low, middle, high in spans:
        fewest = min(middle - low, high - middle)
        if not fewest:
            return False
        before, now = float(np.median(loss.value[low:middle])), float(np.median(loss.value[middle:high]))
        if before - now < max(least * abs(before), 2 * noise / math.sqrt(fewest)):
            return False
    return True
