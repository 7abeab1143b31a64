"""Which rank moved first: one dirty batch reaches every rank only through gradient averaging, one step later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals import Matrix, Signals

BASELINE = 64  # logged points before the onset that give each rank's own noise
CLEAR = 6.0  # noise widths; a rank that stands this far out of its own habit, and three times further than the next
ROLES = ("train_loss", "batch_loss", "grad_norm", "step_time")


@dataclass(frozen=True, slots=True)
class RankMove:
    """The rank that left the others first, at which step, and by how many of its own noise widths (inf for NaN)."""

    rank: int
    step: int
    role: str
    value: float
    others: float
    widths: float


def first_mover(signals: Signals, after: int, upto: int, roles: tuple[str, ...] = ROLES) -> RankMove | None:
    """The one rank that moved first at a step in (after, upto], or None where none or several did."""
    for role in roles:
        matrix = signals.ranks(role)
        if matrix is None:
            continue
        for column in np.flatnonzero((matrix.step > after) & (matrix.step <= upto)):
            move = _alone(matrix, int(column), role)
            if move is not None:
                return move
    return None


def departed(matrix: Matrix | None, onset: int) -> int | None:
    """The rank that leaves the others for good at a step: its level shifts three times more than any other's."""
    if matrix is None:
        return None
    apart = matrix.value - np.nanmedian(matrix.value, axis=0)
    before = apart[:, (matrix.step < onset)][:, -BASELINE:]
    after = apart[:, matrix.step >= onset][:, :BASELINE]
    if before.shape[1] < 8 or after.shape[1] < 8 or not np.isfinite([before.sum(), after.sum()]).all():
        return None
    noise = 1.4826 * np.median(np.abs(before - np.median(before, axis=1, keepdims=True)))
    shift = np.abs(np.median(after, axis=1) - np.median(before, axis=1))
    order = np.argsort(shift)
    clear = shift[order[-1]] > max(3 * shift[order[-2]], noise)
    return matrix.rows[order[-1]].rank if clear else None


def _alone(matrix: Matrix, column: int, role: str) -> RankMove | None:
    """The single rank that stands out at a column."""
    now = matrix.value[:, column]
    bad = ~np.isfinite(now)
    if bad.any():
        if bad.sum() > 1:
            return None
        row = int(np.flatnonzero(bad)[0])
        return _move(matrix, row, column, role, float("inf"))
    before = matrix.value[:, max(0, column - BASELINE) : column]
    before = before[:, np.isfinite(before).all(axis=0)]
    if before.shape[1] < 8:
        return None
    apart = before - np.median(before, axis=0)
    habit = np.median(apart, axis=1)
    noise = 1.4826 * np.median(np.abs(apart - habit[:, None]), axis=1)
    floor = max(float(np.median(noise)), 1e-12)
    widths = np.abs(now - np.median(now) - habit) / np.maximum(noise, floor)
    order = np.argsort(widths)
    top, second = int(order[-1]), float(widths[order[-2]])
    if widths[top] < CLEAR or widths[top] < 3 * second:
        return None
    return _move(matrix, top, column, role, float(widths[top]))


def _move(matrix: Matrix, row: int, column: int, role: str, widths: float) -> RankMove:
    others = np.delete(matrix.value[:, column], row)
    rank = matrix.rows[row].rank
    return RankMove(
        -1 if rank is None else rank,
        int(matrix.step[column]),
        role,
        float(matrix.value[row, column]),
        float(np.median(others)),
        widths,
    )
