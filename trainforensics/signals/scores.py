"""Accuracy while the loss is up: on its own batches, or as evaluated."""

from __future__ import annotations

import math
import re

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals

_SCORE = re.compile(r"(^|[^a-z])(acc|accuracy|top[-_]?\d)([^a-z]|$)", re.IGNORECASE)
FEWEST, MOST = 5, 64  # points of a stretch that tell its score; of those before it
CLEAR, LARGE = 4.0, 0.1  # standard errors of a difference, and share of the score before


def accuracy_gains(signals: Signals, first: int, risen: int, last: int) -> bool:
    """Whether every accuracy is better from step `risen` to `last` than before step `first`, by a tenth, beyond its
    noise and at the end of that stretch too: a model gone astray does not get more answers right."""
    named = (c for c in (*signals.unmapped, *signals.curves("val_metric")) if _SCORE.search(c.name))
    curves = [c.only_finite() for c in named if c.series.rank is None]
    told = []
    for curve in curves:
        before = curve.value[: max(1, int(np.searchsorted(curve.step, first)))][-MOST:]
        since = curve.value[(curve.step >= risen) & (curve.step <= last)]
        if len(since) >= FEWEST:
            told.append(_higher(before, since) and _higher(before, since[-max(FEWEST, len(since) // 4) :]))
    return bool(told) and all(told)


def _higher(before: Floats, since: Floats) -> bool:
    noise = robust_sigma(np.diff(np.concatenate([before, since]))) / math.sqrt(2)
    error = 1.2533 * noise * math.sqrt(1 / len(before) + 1 / len(since))
    was = float(np.median(before))
    return float(np.median(since)) - was > max(CLEAR * error, LARGE * was)
