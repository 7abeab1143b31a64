"""Two runs on the steps that both log."""

from __future__ import annotations

import math
from pathlib import PurePosixPath

import numpy as np

from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.evaluations import point_noise
from trainforensics.signals.run import stack

SHARED = 0.5  # noise of the difference in that of independent runs; 1 where they share nothing


def common(a: Curve | None, b: Curve | None) -> tuple[Ints, Floats, Floats]:
    """Steps at which both are finite, and their values there; empty where one is not logged."""
    matrix = stack([a, b]) if a is not None and b is not None else None
    if matrix is None:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    finite = np.isfinite(matrix.value).all(axis=0)
    return matrix.step[finite], matrix.value[0][finite], matrix.value[1][finite]


def shared_noise(a: Floats, b: Floats) -> float:
    """Noise of the difference in that of two runs that share none: near 1 for other data or another order."""
    own = math.hypot(point_noise(a), point_noise(b))
    return point_noise(a - b) / own if own > 0 else 1.0


def short_name(run: Signals) -> str:
    """The last part of a run's name, which tells it from its neighbours."""
    return PurePosixPath(run.run).name
