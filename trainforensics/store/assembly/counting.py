"""Places the rows of a log that counts no steps on those of another log of the run that does.

A console that prints `{'loss': 2.08, 'epoch': 0.01}` beside the trainer's own state: the same numbers in the same
order, with steps in one of them alone. Or means over epochs, a row each, beside a console that counts the iterations of
every epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainforensics.store.agreement import share_alike
from trainforensics.store.assembly.series import Points, first_points, main_series
from trainforensics.store.staging import Staged

FEWEST = 8  # values in the same order that are no chance
ALIKE = 0.9  # of them that must agree to the digits printed
EPOCH, MOSTLY = "epoch", 0.5  # of the losses of a log of several launches: what was done again came out otherwise
MOST_TRIED = 64  # places in the counted log at which the other may begin, as one does that was printed since a restart

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


def place_rows(staged: Sequence[Staged]) -> None:
    """Give logs that count rows alone the steps of one that holds the same losses, where there is one."""
    counted = [log for log in staged if log.points and (log.axis is None or log.axis.unit == "step")]
    counted.sort(key=lambda log: -max((s.last_step for s in log.series if s.last_step is not None), default=0))
    for log in staged:
        if log.axis is None or log.axis.unit != "row" or not log.points:
            continue
        found = ((other, place(log, other)) for place in (_placed, _placed_by_epoch) for other in counted)
        other, placed = next((pair for pair in found if pair[1] is not None), (None, None))
        if other is not None and placed is not None:
            _move(log, placed)
            log.axis = other.axis


def place_epochs(staged: Sequence[Staged]) -> None:
    """Give logs that count epochs alone the last steps of these, by a log beside them that counts their iterations."""
    clocks = [log for log in staged if log.points and log.axis is not None and log.axis.epoch_length]
    for log in staged:
        if log.axis is None or log.axis.unit != "epoch" or not log.points:
            continue
        beside = [clock for clock in clocks if clock.source.path.parent == log.source.path.parent]
        length = {clock.axis for clock in beside}
        if len(length) == 1 and (last_steps := _last_steps(log, beside[0])) is not None:
            _move(log, last_steps)
            log.axis = beside[0].axis


def _last_steps(log: Staged, clock: Staged) -> Callable[[_Ints], _Ints] | None:
    """The last step of each epoch. Epochs are counted from 0 or from 1; the first of a clock that was started again is
    not the log's, which may hold earlier ones. None where the two do not tell of the same epochs."""
    length = clock.axis.epoch_length if clock.axis is not None else None
    first, begun = (
        min((s.first_step for s in source.series if s.first_step is not None), default=None) for source in (log, clock)
    )
    if not length or first is None or begun is None:
        return None
    done = begun // length
    base = first - done if first >= done else min(first, 1)
    if base not in {0, 1}:
        return None
    return lambda epochs: np.asarray((epochs - base + 1) * length - 1, dtype=np.int64)


def _placed(log: Staged, other: Staged) -> Callable[[_Ints], _Ints] | None:
    """Which steps the rows of a log are, by the values of its longest training loss; None where the other has none of
    the same values in the same order."""
    tag = log.series[main_series({i: s for i, s in enumerate(log.series) if s.n})].name
    if tag not in {series.name for series in other.series if series.n}:
        return None
    (row, value), (step, known) = _points_of(log, tag), _points_of(other, tag)
    at = _begins(value, known)
    if at is None or (np.diff(row) <= 0).any() or (np.diff(step) <= 0).any():
        return None
    n = min(len(value), len(known) - at)
    return lambda rows: _interpolated(rows, row[:n], step[at : at + n])


def _placed_by_epoch(log: Staged, other: Staged) -> Callable[[_Ints], _Ints] | None:
    """Which steps the rows of a log are that goes back to an earlier epoch, as a console of several launches does, by
    the fractions of epochs in both; None where most losses at those steps are others."""
    tag = log.series[main_series({i: s for i, s in enumerate(log.series) if s.n})].name
    if not {tag, EPOCH} <= {s.name for s in log.series if s.n} & {s.name for s in other.series if s.n}:
        return None
    (row, epoch), (step, passed) = _finite(_points_of(log, EPOCH)), _finite(_points_of(other, EPOCH))
    row, first = np.unique(row, return_index=True)
    epoch = epoch[first]
    if min(len(row), len(step)) < FEWEST or not (np.diff(epoch) < 0).any() or (np.diff(passed) < 0).any():
        return None
    (told, value), (at, known) = _points_of(log, tag), _points_of(other, tag)
    beyond = np.maximum(epoch - passed[-1], 0) * (step[-1] - step[0]) / max(passed[-1] - passed[0], 1e-12)
    steps = _nearest(at, np.interp(epoch, passed, step) + beyond)
    same = np.isin(told, row) & np.isin(steps[np.searchsorted(row, told).clip(max=len(row) - 1)], at)
    there = steps[np.searchsorted(row, told[same])]
    found = np.searchsorted(at, there)
    alike = share_alike(value[same], known[found]) if same.sum() >= FEWEST else 0.0
    by_chance = share_alike(value[same], known[found - 1]) if alike >= MOSTLY else 1.0  # coarse digits agree anywhere
    if alike < MOSTLY or by_chance > alike / 2:
        return None
    return lambda rows: steps[np.searchsorted(row, rows).clip(max=len(row) - 1)]


def _finite(points: Points) -> Points:
    step, value = points
    known = np.isfinite(value)
    return step[known], value[known]


def _nearest(known: _Ints, position: _Floats) -> _Ints:
    """The known step nearest to each position; a position between two of them, or beyond, is rounded."""
    after = np.searchsorted(known, position).clip(1, len(known) - 1)
    nearest = np.where(position - known[after - 1] <= known[after] - position, known[after - 1], known[after])
    reach = np.median(np.diff(known)) / 4
    return np.asarray(np.where(np.abs(nearest - position) <= reach, nearest, np.rint(position)), dtype=np.int64)


def _points_of(log: Staged, tag: str) -> Points:
    return first_points(log, next(i for i, series in enumerate(log.series) if series.name == tag and series.n))


def _begins(value: _Floats, known: _Floats) -> int | None:
    """Where in `known` the values begin and from where on they agree with it, in order."""
    if min(len(value), len(known)) < FEWEST:
        return None
    first = np.flatnonzero(np.abs(known - value[0]) <= np.abs(value[0]) * 1e-2)[:MOST_TRIED]
    for at in first.tolist():
        n = min(len(value), len(known) - at)
        if n >= FEWEST and share_alike(value[:n], known[at : at + n]) >= ALIKE:
            return int(at)
    return None


def _interpolated(rows: _Ints, row: _Ints, step: _Ints) -> _Ints:
    """Steps of rows, of which some are known; before and beyond those at the usual distance."""
    usual = float(np.median(np.diff(step)) / np.median(np.diff(row)))
    beyond = np.where(rows > row[-1], (rows - row[-1]) * usual, np.minimum(rows - row[0], 0) * usual)
    return np.asarray(np.rint(np.interp(rows, row, step) + beyond), dtype=np.int64)


def _move(log: Staged, placed: Callable[[_Ints], _Ints]) -> None:
    def one(step: int | None) -> int | None:
        return None if step is None else int(placed(np.array([step]))[0])

    log.spool.move(placed)
    for series in log.series:
        series.first_step, series.last_step = one(series.first_step), one(series.last_step)
    log.events = [replace(event, step=one(event.step)) for event in log.events]
