"""Steps with two values: one curve logged twice, ranks that share a name, or two jobs that write one log."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trainforensics.signals.curve import Bools, Curve
from trainforensics.signals.run import Signals

FEWEST_POINTS, FEWEST = 10, 5  # of a curve, and of those that clash
AGREE = 2e-3  # relative: a value printed twice, rounded differently
APART = 3.0  # steps between two values of one step: ranks log it at once


def clashes(curve: Curve) -> Bools:
    """Which points repeat the step before, in one life, with another value; shape (n - 1,), empty for a short curve."""
    if len(curve) < FEWEST_POINTS:
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
