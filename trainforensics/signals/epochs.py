"""Where epochs end, and how often the data were gone through."""

from __future__ import annotations

import math
import re

from trainforensics.signals.evaluations import usable
from trainforensics.signals.run import Signals

ROUNDED = 0.02  # logged epochs are rounded
SLACK = 0.01  # of the run, by which the border of an equal part is known
PARTS = (2, 3, 4, 5)

_LENGTH = re.compile(r"epoch x (\d+)")  # an axis made of epochs and iterations tells how long an epoch is


def epoch_length(signals: Signals) -> int | None:
    """Steps of an epoch where the axis of the run is made of epochs and iterations."""
    found = _LENGTH.match(signals.axis.name)
    return int(found[1]) if found is not None else None


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
