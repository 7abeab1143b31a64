"""The series of a source that are compared: which one is its main one, and the points of one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trainforensics import roles
from trainforensics.store.staging import SeriesStats, Staged

Points = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps and values

_COMPARED_POINTS = 20_000


def main_series(stats: Mapping[int, SeriesStats]) -> int:
    """The series whose steps tell process lives apart: the longest training loss, else the longest series."""
    return max(stats, key=lambda i: (roles.resolve(stats[i].name).role == "train_loss", stats[i].n))


def first_points(staged: Staged, series: int) -> Points:
    """The first points of a series of a source."""
    steps, values, n = [], [], 0
    for block in staged.spool.blocks(("series", "step", "value")):
        mask = block["series"] == series
        steps.append(block["step"][mask])
        values.append(block["value"][mask])
        n += len(steps[-1])
        if n >= _COMPARED_POINTS:
            break
    return np.concatenate(steps), np.concatenate(values)
