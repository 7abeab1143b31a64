"""Where epochs end, and how often the data were gone through."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.signals.curve import Curve
from trainforensics.signals.evaluations import usable
from trainforensics.signals.run import Signals

ROUNDED = 0.02  # logged epochs are rounded
SLACK = 0.01  # of the run, by which the border of an equal part is known
JUMP = 4  # usual distances of steps; less is a row left out
PARTS = (2, 3, 4, 5)


def epoch_length(signals: Signals) -> int | None:
    """Steps of an epoch where the axis of the run is made of epochs and iterations."""
    return signals.axis.epoch_length


def steps_of_epoch(signals: Signals) -> float | None:
    """Steps of an epoch by the axis, else by the usual distance of the steps at which the logged epoch goes up."""
    logged, known = signals.curve("epoch"), epoch_length(signals)
    if known is not None or logged is None:
        return known
    epoch = logged.only_finite()
    starts = epoch.step[1:][np.diff(np.floor(epoch.value + ROUNDED)) > 0]
    return float(np.median(np.diff(starts))) if len(starts) > 1 else None


def length_since(signals: Signals, curve: Curve, step: int) -> int | None:
    """Steps of an epoch from `step` on, where the log shows another length before it; None where it does not.

    On an axis of epochs and iterations a new length places all epochs anew: the axis jumps from a multiple of the old
    length to the same multiple of the new one.
    """
    before, at = epoch_length(signals), int(np.searchsorted(curve.step, step))
    if before is None or not 0 < at < len(curve):
        return None
    last, first = int(curve.step[at - 1]), int(curve.step[at])
    count = round((last + curve.cadence / 2) / before)
    if count < 1 or abs(last + 1 - count * before) > curve.cadence or first % count:
        return None
    since = first // count
    return since if since != before and abs(first - last) > JUMP * curve.cadence else None


def passes(signals: Signals, step: int) -> float | None:
    """The epoch at a step, as logged or as the axis counts it; None where the log counts no epochs."""
    epoch, length = signals.curve("epoch"), epoch_length(signals)
    if epoch is not None and len(epoch):
        return float(epoch.value[max(epoch.at(step), 0)])
    return step / length if length is not None else None


def epoch_ends(signals: Signals, first: int, last: int, total: int) -> bool:
    """Whether an epoch ends between two steps: as logged, else where a whole number of equal epochs would end.

    `total` is the last step of the run.
    """
    logged = signals.curve("epoch")
    epoch = usable(logged) if logged is not None else None
    if epoch is not None and min(epoch.at(first), epoch.at(last)) >= 0:
        before, after = float(epoch.value[epoch.at(first)]), float(epoch.value[epoch.at(last)])
        return math.floor(after + ROUNDED) > math.floor(before - ROUNDED)
    slack = SLACK * total
    return any(first - slack <= total * k / n <= last + slack for n in PARTS for k in range(1, n))
