"""One rank's loss, gradient norm, parameter norm or checksum leaves the other ranks' for good.

What it detects:
    A rank whose series stays apart from the other ranks' far beyond what all ranks ordinarily do, many steps in a row,
    upwards or downwards, by a jump or a slow drift. Checksums and parameter norms that were equal and are no longer.

Why it matters:
    Ranks that hold the same weights see the same losses but for their data. One that parts has other weights, other
    data or a device that computes wrongly, and gradient averaging hands its fault to all.

Evidence:
    The rank, its distance from the middle rank before and since, the ordinary spread of such distances, and whether
    the other per-rank series part as well.

False positives:
    Ordinary noise of each rank's own batch, constant differences between ranks' data, shards with levels of their own:
    they are the spread that is judged against, and a rank that was apart from the start is a remark (low), for its data
    may be other data by design. A single odd point is data noise. Ranks of sharded models differ in gradient and
    parameter norm from the start and count only where they were equal before.

Example:
    From step 400 on the loss of rank 2 is 0.27 above the middle rank's; blocks of points ordinarily differ by 0.04.

Parameters:
    from_start_widths: point-to-point noise widths of a loss that is apart from the first step on.
    equal: relative difference below which norms of ranks count as equal.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Matrix, Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.ranks import MIN_POINTS, RankDeparture, rank_departures, unequal_ranks
from trainforensics.signals.trend import spans_decades

ROLES = ("train_loss", "grad_norm", "param_norm", "checksum")
EQUAL_ROLES = ("param_norm", "checksum")
EQUAL_POINTS = 8  # points at which all ranks' losses are the same: they are fed the same, or log a mean
META = Meta(
    kind=KINDS["rank-divergence"],
    needs=("train_loss|grad_norm|param_norm|checksum",),
    uses=ROLES,
    params=(
        Param("from_start_widths", 3.0, "practitioners' 3 sigma of all ranks; ranks' data may differ by less"),
        Param("equal", 1e-4, "single precision sums in another order differ by less"),
    ),
)
MAX_ROOT = 3  # ranks told one by one


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge each per-rank series; every rank that leaves is one finding."""
    matrices = [(role, matrix) for role in ROLES if (matrix := _varying(signals.ranks(role))) is not None]
    if not matrices:
        return NotApplicable("no series is logged per rank", "loss and a checksum of the weights for every rank")
    if all(len(matrix.step) < MIN_POINTS for _, matrix in matrices):
        return NotApplicable("the ranks share too few logged steps", "the loss of every rank at the same steps")
    found: dict[int | None, list[tuple[str, Matrix, RankDeparture]]] = {}
    for role, matrix in matrices:
        for left in _departures(role, matrix, params):
            found.setdefault(matrix.rows[left.row].rank, []).append((role, matrix, left))
    if not found or len(found) > max(MAX_ROOT, max(len(m.rows) for _, m in matrices) // 4):
        return Clear()
    return Fired(tuple(_finding(told) for told in found.values()))


def _varying(matrix: Matrix | None) -> Matrix | None:
    """Without ranks that log a constant in place of a value (the loss of earlier pipeline stages)."""
    if matrix is None:
        return None
    moves = np.array([np.isfinite(row).any() and np.ptp(row[np.isfinite(row)]) > 0 for row in matrix.value])
    if moves.sum() < 2:
        return None
    return Matrix(
        tuple(s for s, keep in zip(matrix.rows, moves, strict=True) if keep), matrix.step, matrix.value[moves]
    )


def _space(role: str, values: Floats) -> Floats:
    finite = values[np.isfinite(values)]
    logged = role == "grad_norm" or (role == "train_loss" and spans_decades(finite))
    return np.log(np.where(values > 0, values, np.nan)) if logged else values


def _departures(role: str, matrix: Matrix, params: Params) -> list[RankDeparture]:
    if role in EQUAL_ROLES and (unequal := unequal_ranks(matrix.value, params["equal"])):
        return list(unequal)
    values = _space(role, matrix.value)
    told = []
    for left in rank_departures(values):
        if role == "train_loss":
            noise = robust_sigma(np.diff(values[left.row][np.isfinite(values[left.row])])) / np.sqrt(2)
            if not left.from_start or abs(left.size) > params["from_start_widths"] * noise:
                told.append(_since_they_differ(matrix, left))
        elif not left.from_start and (role not in EQUAL_ROLES or _were_equal(matrix, left, params["equal"])):
            told.append(left)
    return told if len(matrix.rows) > 2 else told[:1]


def _since_they_differ(matrix: Matrix, left: RankDeparture) -> RankDeparture:
    """The departure, dated where ranks that had been fed the same differ for the first time; else as it is."""
    differ = np.flatnonzero(np.isfinite(matrix.value).all(axis=0) & (np.ptp(matrix.value, axis=0) != 0))
    first = int(differ[0]) if len(differ) else 0
    return replace(left, first=first) if EQUAL_POINTS <= first < left.first else left


def _were_equal(matrix: Matrix, left: RankDeparture, equal: float) -> bool:
    before = matrix.value[:, : left.first]
    middle = np.median(before, axis=0)
    return bool(np.median(np.abs(before[left.row] - middle)) <= equal * np.median(np.abs(middle)))


def _finding(told: list[tuple[str, Matrix, RankDeparture]]) -> Finding:
    role, matrix, left = min(told, key=lambda t: int(t[1].step[t[2].first]))
    series, step = matrix.rows[left.row], matrix.step
    known = len(matrix.rows) > 2
    onset = int(step[left.first])
    unit = " (in logarithms)" if _space(role, matrix.value) is not matrix.value else ""
    whose = f"rank {series.rank}" if known else "one of the two ranks"
    since = f"From step {onset} on" if left.first else "From the start on"
    text = (
        f"{since} {series.name} of {whose} no longer equals the other ranks'; it is {left.size:.3g} off at the median."
        if role in EQUAL_ROLES and left.before == 0.0
        else f"{since} {series.name} of {whose} stays {abs(left.size):.3g} {'above' if left.size > 0 else 'below'} the "
        f"middle rank's{unit}; such levels ordinarily differ by {left.spread:.2g}."
    )
    others = sorted({r for r, _, _ in told if r != role})
    if others:
        text += f" Its {' and '.join(others).replace('_', ' ')} part as well."
    return Finding(
        kind="rank-divergence",
        series=series.name,
        role=role,
        onset_step=onset,
        onset_interval=(int(step[max(left.first - 1, 0)]), onset),
        confidence=round(min(0.95, 0.55 + 0.02 * min(left.z, 15.0) + 0.1 * len(others) - (0.0 if known else 0.15)), 2),
        summary=text,
        severity="low" if left.from_start else None if known else "medium",
        end_step=int(step[left.last]) if left.ended else None,
        recovery="recovered" if left.ended else "unrecovered",
        scope=Scope(rank=series.rank if known else None),
        evidence=tuple(
            Evidence(m.rows[d.row].name, int(m.step[d.first]), d.size, 0.0 if d.from_start else d.before,
                     f"distance from the middle rank since then; ordinary spread {d.spread:.2g}")
            for _, m, d in told[:4]
        ),
    )  # fmt: skip
