"""One rank against the others."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.movement import BASELINE, CREPT_POINTS, FEWEST_BEFORE, LASTING_POINTS
from trainforensics.signals.curve import Floats

NEAR = 5  # points after the onset within which a leap belongs to it


@once
def lone_gap(case: Case) -> tuple[str, float, float, float] | None:
    """How one rank's loss left the others': rank, first gap, later gap, usual gap; None where not logged.

    The first gap is the median of three logged points from the steepest rise at the onset on, the later that of the
    following 20.
    """
    matrix = case.signals.ranks("train_loss")
    rank = case.incident.scope.rank
    row = next((i for i, series in enumerate(matrix.rows) if series.rank == rank), None) if matrix else None
    if matrix is None or row is None:
        return None
    gap = matrix.value[row] - np.median(matrix.value, axis=0)
    onset = int(np.searchsorted(matrix.step, case.onset))
    at = onset + _steepest(gap[max(0, onset - 1) : onset + NEAR])
    usual, first, later = gap[max(0, onset - BASELINE) : onset], gap[at : at + 3], gap[at + 3 : at + 3 + LASTING_POINTS]
    if len(usual) < FEWEST_BEFORE or len(later) < CREPT_POINTS:
        return None
    if not all(np.isfinite(v).any() for v in (usual, first, later)):
        return None
    return str(rank), float(np.nanmedian(first)), float(np.nanmedian(later)), float(np.nanmedian(np.abs(usual)))


def _steepest(gap: Floats) -> int:
    """Number of points from the second on to the one that the largest move leads to."""
    moves = np.abs(np.diff(gap))
    return int(np.nanargmax(moves)) if np.isfinite(moves).any() else 0
