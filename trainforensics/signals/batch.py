"""How much data a step takes: the logged batch size, else what a counter of data gains by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.run import Signals

FEWEST = 10  # points; fewer may all grow in a ramp
GROWN = 1.25  # least growth of a batch that a rate may follow, and the slack of the rule it follows


def batch_size(signals: Signals) -> Curve | None:
    """Data per step: the logged batch size, or the gains of a counter (samples or tokens seen) between its points.

    A "batch size" that begins at nothing and grows with every point is such a counter ("tokens 480, 960, ...").
    Each gain stands at the later of its two points. Gains across a restart, or where the counter starts anew, are left
    out; None where neither is logged, or the counter is printed with too few digits to tell its gains.
    """
    logged = signals.curve("batch_size")
    if logged is not None and not _counts(logged):
        return logged
    counter = signals.curve("tokens_seen") if signals.has("tokens_seen") else logged
    if counter is None:
        return None
    counter = counter.only_finite()
    if not len(counter) or _printed_short(counter.value):
        return None
    gain, steps = np.diff(counter.value), np.diff(counter.step)
    later = np.flatnonzero((np.diff(counter.segment) == 0) & (gain > 0) & (steps > 0)) + 1
    per_step = gain[later - 1] / steps[later - 1]
    series = replace(counter.series, name=f"{counter.name} per step", role="batch_size")
    return replace(counter.take(later), series=series, value=per_step)


def follows_scaling_rule(signals: Signals, first: int, last: int, factor: float) -> bool:
    """Whether a rate that moves by a factor between two steps follows the batch: the linear or square-root rule."""
    batch = batch_size(signals)
    at = batch.at(first) if batch is not None else -1
    if batch is None or at < 0 or not batch.value[at] > 0:
        return False
    grown = float(batch.value[batch.at(last)] / batch.value[at])
    if factor < 1 and grown > 0:
        factor, grown = 1 / factor, 1 / grown
    return grown > GROWN and grown**0.5 / GROWN <= factor <= grown * GROWN


def _counts(logged: Curve) -> bool:
    """Whether what is named as a size is the count so far: it begins at nothing and grows with every point."""
    value = logged.value[logged.finite]
    gain = np.diff(value)
    return len(value) >= FEWEST and bool((gain > 0).all()) and float(value[0]) <= 2 * float(gain[0])


def _printed_short(total: Floats) -> bool:
    """Whether a total keeps four digits or fewer (1.23e6) and gains no more than a few units of the last at a time."""
    size = np.floor(np.log10(np.maximum(np.abs(total), 1.0)))
    for digits in (2, 3, 4):
        unit = 10.0 ** (size - digits + 1)
        if np.all(np.abs(total / unit - np.round(total / unit)) < 1e-6):
            mean = float(np.ptp(total)) / max(1, len(total) - 1)
            return 4 * float(np.max(unit)) > mean and float(np.max(unit)) > 1
    return False
