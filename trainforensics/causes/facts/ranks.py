"""One rank against the others."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.movement import BASELINE, CREPT_POINTS, FEWEST_BEFORE, LASTING_POINTS


@once
def lone_gap(case: Case) -> tuple[str, float, float, float] | None:
    """How one rank's loss left the others': rank, first gap, later gap, usual gap; None where not logged.

    The first gap is the median of the three logged points from the onset on, the later that of the following 20.
    """
    matrix = case.signals.ranks("train_loss")
    rank = case.incident.scope.rank
    row = next((i for i, series in enumerate(matrix.rows) if series.rank == rank), None) if matrix else None
    if matrix is None or row is None:
        return None
    gap = matrix.value[row] - np.median(matrix.value, axis=0)
    at = int(np.searchsorted(matrix.step, case.onset))
    usual, first, later = gap[max(0, at - BASELINE) : at], gap[at : at + 3], gap[at + 3 : at + 3 + LASTING_POINTS]
    if len(usual) < FEWEST_BEFORE or len(later) < CREPT_POINTS:
        return None
    if not all(np.isfinite(v).any() for v in (usual, first, later)):
        return None
    return str(rank), float(np.nanmedian(first)), float(np.nanmedian(later)), float(np.nanmedian(np.abs(usual)))
