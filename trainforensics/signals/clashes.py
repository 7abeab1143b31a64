"""Steps with two values: one curve logged twice, ranks that share a name, or two jobs that write one log. And rows
whose clock tells that they are of another run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trainforensics.signals.curve import Bools, Curve
from trainforensics.signals.run import Signals

FEWEST_POINTS, FEWEST = 10, 5  # of a curve, and of those that clash
AGREE = 2e-3  # relative: a value printed twice, rounded differently
COURSE, FOREIGN = 3, 0.2  # points before that show how a clock goes; share of its points
AHEAD, SAME_PACE = 10.0, 2.0  # usual differences by which a clock runs back; factor between paces
APART = 3.0  # steps between two values of one step: ranks log it at once


def clashes(curve: Curve) -> Bools:
    """Which points repeat the step before, in one life, with another value; shape (n - 1,), empty for a short curve and
    for one of a single step, as what an evaluation counts."""
    if len(curve) < FEWEST_POINTS or curve.step[0] == curve.step[-1]:
        return np.zeros(0, dtype=np.bool_)
    clash: Bools = (np.diff(curve.step) == 0) & (np.diff(curve.segment) == 0)
    at = np.flatnonzero(clash)
    clash[at] = ~np.isclose(curve.value[at + 1], curve.value[at], rtol=AGREE, atol=0, equal_nan=True)
    return clash if clash.sum() >= FEWEST else np.zeros_like(clash)


def share(clash: Bools) -> float:
    """Share of points that clash."""
    return float(clash.mean()) if len(clash) else 0.0


def most_clashing(curves: Iterable[Curve]) -> Curve | None:
    """The curve with the largest share of clashing points; None where none clashes."""
    worst = max(curves, key=lambda curve: share(clashes(curve)), default=None)
    return worst if worst is not None and clashes(worst).any() else None


def two_writers(signals: Signals, least: float) -> Curve | None:
    """The training loss, if at least a share `least` of it clashes because two jobs wrote it: the learning rate has two
    values a step as well, or the two were logged many steps apart while both jobs were at work."""
    loss, rate = signals.curve("train_loss"), signals.curve("learning_rate")
    if loss is None or share(clashes(loss)) < least:
        return None
    two_rates = rate is not None and share(clashes(rate)) >= least
    return loss if two_rates or _interleaved(loss, clashes(loss)) else None


def _interleaved(curve: Curve, clash: Bools) -> bool:
    one, other = curve.time[:-1][clash], curve.time[1:][clash]
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < FEWEST:
        return False
    one, other = one[known], other[known]
    pace, apart = float(np.median(np.abs(np.diff(one)))), float(np.median(np.abs(other - one)))
    return apart > APART * pace > 0 and max(one.min(), other.min()) < min(one.max(), other.max())


def foreign_rows(clock: Curve) -> tuple[int, int] | None:
    """First and last index of a few rows in the middle of a time since the start that are far ahead of those before and
    after, which go on as if they were not there; None without such rows."""
    value, step = clock.value, clock.step
    back = np.flatnonzero((np.diff(value) < 0) & (np.diff(clock.segment) == 0))
    if len(back) != 1:
        return None
    last, after = int(back[0]), int(back[0]) + 1
    first = int(np.argmax(value[:after] > value[after]))
    usual = float(np.median(np.diff(value)))
    if first < COURSE or after - first > FOREIGN * len(clock) or value[last] - value[after] < AHEAD * usual:
        return None
    moves = np.diff(value)[: first - 1] / np.maximum(np.diff(step)[: first - 1], 1)
    across = (value[after] - value[first - 1]) / max(int(step[after] - step[first - 1]), 1)
    return (first, last) if 1 / SAME_PACE < across / float(np.median(moves)) < SAME_PACE else None
