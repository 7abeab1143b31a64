"""Cases of one incident in made-up signals, and what evidence says of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainforensics.causes.case import Case
from trainforensics.causes.weight import Reason
from trainforensics.model import Incident
from trainforensics.signals import Signals

N, ONSET = 400, 300
STEP = np.arange(N)


def noise(level: float = 1.0, seed: int = 0) -> np.ndarray:
    return level * (1 + 0.03 * np.random.default_rng(seed).standard_normal(N))


def burst(values: np.ndarray, factor: float, points: int = 1) -> np.ndarray:
    values = values.copy()
    values[ONSET : ONSET + points] *= factor
    return values


def case(incident: Incident, signals: Signals) -> Case:
    return Case(incident, signals, (incident,))


def said(reasons: Sequence[Reason]) -> str:
    return "; ".join(reason.text for reason in reasons)
