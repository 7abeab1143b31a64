"""What stands out of a log of few points at a glance, where its noise cannot be known: one point far above all around
it, or all later points far above all earlier ones."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.measure import FIRST_POINTS, Excursion
from trainforensics.signals.noise import printed_grid

AROUND, FEWEST_AROUND = 5, 4  # points on each side that a point is seen among; of both sides
CHANCE = 0.01  # of a log of exponential noise to hold such a point; shown by 2 % even of those of squared giants
BEHIND, LATER = 2, 3  # points that must follow; of a level that stays
FEWEST_EARLIER, APART = 2, 2.0  # points before a level that stays; times what both levels span, at least
NOTABLE = 0.1  # of the level before: lower steps of a smooth log are plain as well, and nothing to act on


def burst_among_few(values: Floats) -> Excursion | None:
    """The point that stands farthest above the up to five on each side, where chance shows none so far in a hundred
    logs; None where there is no such point.

    Of m points with an exponential tail, the chance that another stands above them by c times their span is the product
    of j / (j + c) over j < m. The first point of three, at most three, has no level before it: a start may overshoot.
    """
    n = len(values)
    return _least_likely(values, {at: _chance(values, at) for at in range(min(FIRST_POINTS, n // 3), n - BEHIND)})


def burst_at_start(values: Floats, shared: Floats) -> Excursion | None:
    """The same for the second and third point, where the values of a second series at the same steps (NaN where it has
    none) stand out as far: what both show is no overshoot of the start. None where they do not."""
    chances = {
        at: (_chance(values, at), _chance(shared, at)) for at in range(1, min(FIRST_POINTS, len(values) - BEHIND))
    }
    return _least_likely(values, {at: p * q for at, (p, q) in chances.items() if max(p, q) < CHANCE})


def _least_likely(values: Floats, chances: dict[int, float]) -> Excursion | None:
    at = min(chances, key=chances.__getitem__, default=0)
    return _notable(_burst(values, at)) if chances and chances[at] * len(values) < CHANCE else None


def _chance(values: Floats, at: int) -> float:
    """How often noise lifts a point as far above those around it; 1 where it is not above them, or they are few."""
    around = _around(values, at)
    above = float(values[at] - around.max()) if len(around) >= FEWEST_AROUND else 0.0
    if not above > 0:
        return 1.0
    spans, m = above / max(float(np.ptp(around)), np.finfo(np.float64).tiny), len(around)
    return math.exp(math.fsum(math.log(j) - math.log(j + spans) for j in range(1, m)))


def _around(values: Floats, at: int) -> Floats:
    around = np.append(values[max(0, at - AROUND) : at], values[at + 1 : at + 1 + AROUND])
    return around[np.isfinite(around)]


def _notable(e: Excursion) -> Excursion | None:
    return e if e.height > NOTABLE * abs(e.before) else None


def _burst(values: Floats, at: int) -> Excursion:
    around = _around(values, at)
    before = float(np.median(values[max(0, at - AROUND) : at]))
    return Excursion(
        shape="burst",
        onset=at,
        knee=at,
        peak=at,
        half=at + 1,
        end=at + 1,
        rise=1,
        height=float(values[at]) - before,
        sigma=float(np.std(around, ddof=1)),
        before=before,
        after=float(np.median(values[at + 1 : at + 1 + AROUND])),
        recovery="recovered",
        returned=True,
        scale=1,
    )


def step_among_few(values: Floats) -> Excursion | None:
    """The step from two points or more to a level that stays, of three or more, apart by twice what both levels span:
    steady noise of five points shows one in 500 logs, a random walk in 150; None where there is none."""
    n, grid = len(values), printed_grid(values)
    for at in range(FEWEST_EARLIER, n - LATER + 1):
        earlier, later = values[:at], values[at:]
        span = max(float(np.ptp(earlier) + np.ptp(later)), grid, np.finfo(np.float64).tiny)
        if later.min() - earlier.max() <= APART * span:
            continue
        before, peak = float(np.median(earlier)), at + int(np.argmax(later))
        return _notable(
            Excursion(
                shape="burst",
                onset=at,
                knee=at,
                peak=peak,
                half=n - 1,
                end=n - 1,
                rise=1,
                height=float(values[peak]) - before,
                sigma=span / 2,
                before=before,
                after=float(np.median(later)),
                recovery="unrecovered",
                returned=False,
                scale=1,
            )
        )
    return None
