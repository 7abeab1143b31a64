"""Where a mixture of experts sends its tokens: shares averaged over enough batches, and their concentration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.model import Series
from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals, stack
from trainforensics.signals.stretches import lasting_start

MIN_POINTS = 40
LEAP, CREPT = 0.5, 0.25  # of the way to its last level: at least at once, and at most before
BEGUN = 0.05  # of the way, within which a share may wander for long and come back
START_SHARE = 0.05
LATE_SHARE = 0.1  # of the log: the level that counts as the present one
SMOOTH_SHARE, SMOOTH_POINTS = 0.025, 8  # tiny batches route unevenly by chance; their average does not


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Shares of all experts of one layer: `share` (expert, step) averaged over `width` neighbouring points, each column
    sums to 1. `winner`: row with the largest share at the end, `logged`: its share as it was logged, `noise`: that of
    its averaged share."""

    experts: tuple[Series, ...]
    step: Ints
    share: Floats
    width: int
    winner: int
    logged: Floats
    noise: float

    @property
    def fair(self) -> float:
        """Share of each expert in balance."""
        return 1 / len(self.experts)

    @property
    def effective(self) -> Floats:
        """Effective number of experts (exponential of the entropy of the shares), shape (step,)."""
        known = np.maximum(self.share, 1e-12)
        return np.asarray(np.exp(-(known * np.log(known)).sum(axis=0)))


@dataclass(frozen=True, slots=True, eq=False)
class Concentration:
    """The winner's share went from `before` to `after`, the effective number of experts from `many` to `few`.

    `onset`: first index at which the winner's share stands above its earlier noise for good, 0 where it always did;
    `dead`: rows that get next to nothing at the end.
    """

    routing: Routing
    onset: int
    before: float
    after: float
    many: float
    few: float
    dead: tuple[Series, ...]


def routings(signals: Signals) -> tuple[Routing, ...]:
    """The routing of every layer whose experts are logged one by one."""
    layers: dict[str | None, list[Curve]] = {}
    for curve in signals.curves("expert_load"):
        if curve.series.expert is not None and curve.series.rank is None:
            layers.setdefault(curve.series.layer, []).append(curve)
    found = []
    for curves in layers.values():
        matrix = stack(sorted(curves, key=lambda c: c.series.expert or 0))
        if matrix is None or len(matrix.step) < MIN_POINTS:
            continue
        load = np.where(np.isfinite(matrix.value), np.maximum(matrix.value, 0.0), 0.0)
        whole = load.sum(axis=0)
        kept = whole > 0
        if kept.sum() >= MIN_POINTS:
            found.append(_routing(matrix.rows, matrix.step[kept], load[:, kept] / whole[kept]))
    return tuple(found)


def _routing(experts: tuple[Series, ...], step: Ints, share: Floats) -> Routing:
    width = max(SMOOTH_POINTS, int(SMOOTH_SHARE * len(step)))
    smooth = np.vstack([_average(row, width) for row in share])
    late = max(SMOOTH_POINTS, int(LATE_SHARE * len(step)))
    winner = int(np.argmax(np.median(share[:, -late:], axis=1)))
    # shares of few tokens are so coarse that most differences are zero: a robust scale would be zero as well
    noise = float(np.std(np.diff(share[winner]))) / np.sqrt(2 * width)
    return Routing(experts, step, smooth, width, winner, share[winner], noise)


def _average(values: Floats, width: int) -> Floats:
    """Centred moving average, shape (n,); shorter at the ends."""
    total = np.append(0.0, np.cumsum(values))
    at = np.arange(len(values))
    low, high = np.maximum(at - width // 2, 0), np.minimum(at + width - width // 2, len(values))
    return np.asarray((total[high] - total[low]) / (high - low))


def concentration(routing: Routing) -> Concentration:
    """How the routing at the end compares with the most even routing after the start."""
    n = len(routing.step)
    start, late = int(START_SHARE * n), max(SMOOTH_POINTS, int(LATE_SHARE * n))
    share, effective = routing.share[routing.winner], routing.effective
    after, few = float(np.median(share[-late:])), float(np.median(effective[-late:]))
    half = lasting_start(share > (routing.fair + after) / 2)
    early = share[start : max(start + late, half if half is not None else n)]
    before = float(np.median(early[: max(late, len(early) // 2)]))
    many = float(np.quantile(effective[start : start + len(early)], 0.9))
    spread = max(robust_sigma(early[: max(late, len(early) // 2)]), routing.noise)
    level = max(before, routing.fair)  # one that was starved and gets its fair share is on its way to balance
    onset = _left(routing, level, after, lasting_start(share > level + 3 * spread))
    last = np.median(routing.share[:, -late:], axis=1)
    dead = tuple(s for s, value in zip(routing.experts, last, strict=True) if value < 0.1 * routing.fair)
    return Concentration(routing, onset, before, after, many, few, dead)


def _left(routing: Routing, before: float, after: float, averaged: int | None) -> int:
    """Where the winner's share leaves its level: where it leaps half of the way for good, if it does. An average leaves
    its level up to half its width too early, and with every drift that ends in itself, so else where single points are
    beyond it all the way to the middle."""
    if not averaged:
        return 0
    logged = routing.logged[averaged - 1 :]
    leap = int(np.argmax(np.diff(logged))) + 1 if len(logged) > 1 else 0
    low, high = before + CREPT * (after - before), before + LEAP * (after - before)
    if leap > 0 and logged[:leap].max() < low and logged[leap:].min() > high:
        return averaged - 1 + leap
    middle = averaged + int(np.argmax(routing.logged[averaged:] > (before + after) / 2))
    noise = routing.noise * np.sqrt(routing.width)
    begun = max(3 * noise, BEGUN * (after - before))
    inside = np.flatnonzero(routing.logged[averaged:middle] <= before + begun)
    return averaged + int(inside[-1]) + 1 if len(inside) else averaged
