"""Which of a W&B run's columns counts its steps: what the run declared, a well-known name, or `_step`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trainforensics.model import Axis, AxisUnit

OWN_COUNTER = "_step"  # counts calls of wandb.log unless the user gave a step
KNOWN_COUNTERS = (
    "train/global_step",
    "trainer/global_step",
    "global_step",
    "train/step",
    "train/iter",
    "iter",
    "iteration",
    "step",
)
_EVERYTHING = 1000  # weight of define_metric("*", step_metric=...) against that of single metrics
_MAX_DECREASES = 0.01  # of the rows: a counter of steps only falls when a run is taken up again


def declared_counters(definitions: Iterable[tuple[str, str]]) -> list[str]:
    """Step metrics of define_metric calls (metric or glob, step metric), the one that governs most first."""
    weight: Counter[str] = Counter()
    for metric, counter in definitions:
        weight[counter] += _EVERYTHING if metric == "*" else 1
    return [counter for counter, _ in weight.most_common()]


def choose(declared: Sequence[str], columns: Mapping[str, NDArray[np.float64]], n_rows: int) -> Axis:
    """The axis, judged on the first rows of a run: `columns` gives each candidate's logged values in order."""
    for name in declared:
        if name in columns and _counts(name, columns[name]):
            return Axis(name, unit_of(name))
    for name in KNOWN_COUNTERS:
        if name in columns and 2 * len(columns[name]) >= n_rows and _counts(name, columns[name]):
            return Axis(name, "step")
    return Axis(OWN_COUNTER, "step")


def unit_of(name: str) -> AxisUnit:
    """Steps, unless the name says epochs, or samples or tokens."""
    last = re.split(r"[/._]", name.lower())[-1].rstrip("s")
    return "epoch" if last == "epoch" else "sample" if last in {"sample", "token", "example"} else "step"


def _counts(name: str, values: NDArray[np.float64]) -> bool:
    """Whether the values are whole and hardly ever fall; and, for epochs, seldom repeat."""
    if not len(values) or not np.isfinite(values).all() or (values != np.rint(values)).any():
        return False
    if (np.diff(values) < 0).sum() > _MAX_DECREASES * len(values):
        return False
    distinct = len(np.unique(values))
    if unit_of(name) == "epoch":
        return 2 * distinct >= len(values)
    return distinct > 1 or len(values) <= 2
