"""What stands out of a log of few points at a glance, where its noise cannot be known: one point far above all around
it, or all later points far above all earlier ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import condense
from trainforensics.signals.jumps import MAX_JUMP_POINTS, UNDONE, set_back
from trainforensics.signals.measure import FIRST_POINTS, Excursion
from trainforensics.signals.noise import printed_grid

AROUND, FEWEST_AROUND = 5, 4  # points on each side that a point is seen among; of both sides
CHANCE = 0.01  # of a log of exponential noise to hold such a point; shown by 2 % even of those of squared giants
BEHIND, LATER = 2, 3  # points that must follow; of a level that stays
FEWEST_EARLIER, APART = 2, 2.0  # points before a level that stays; times what both levels span, at least
AROUND_MEANS, NEXT = 10, 1  # points on each side of a mean over an epoch; those beside it that may belong to a burst
LEAP, STEADY = 2.0, 0.1  # times the highest before; of their level, what steady values span
FEWEST_FALLING, ALL_LOST = 5, 1.5  # points, each below the one before; times the last of them, in which all is lost
FEWEST_CLIMB, CLIMBED = 5, 0.5  # points that climb without a break; of the level before
GAP, CLEAR = 4.0, 7.0  # times every other rise; noise widths: as for evaluations that are set back
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


def bursts_of_means(values: Floats) -> tuple[Excursion, ...]:
    """Means over epochs that stand so far above the up to ten on each side that exponential noise shows none in a
    hundred logs, and above all of them by as much as their level: averaging leaves no heavier tail.

    The points right beside may belong to the burst, which begins with the one before if that stands out too. The first
    three have no level before them.
    """
    found: list[Excursion] = []
    for at in np.flatnonzero(_peaks_of(values)):
        around = np.append(values[max(0, at - AROUND_MEANS) : at - NEXT], values[at + 1 + NEXT : at + 1 + AROUND_MEANS])
        if at < FIRST_POINTS or len(around) < AROUND_MEANS or len(values) - at <= BEHIND:
            continue
        likely = len(values) * _chance_among(float(values[at]), around) >= CHANCE
        if likely or values[at] < LEAP * np.median(around) or np.median(around) <= 0:
            continue
        first = at - NEXT if values[at - NEXT] > around.max() + np.ptp(around) else at
        found.append(replace(_burst(values, int(at)), onset=int(first), knee=int(first)))
    return tuple(found)


def _peaks_of(values: Floats) -> NDArray[np.bool_]:
    beside = np.pad(values, 1, constant_values=-np.inf)
    return (values > beside[:-2]) & (values >= beside[2:])


def setback(curve: Curve) -> Excursion | None:
    """A rise from one finite point of a loss to the next that is four times every other, undoes four points or more and
    is not made up for in as many: a lone point of heavy-tailed noise is, up or down. None in logs of more than 400."""
    value = curve.value
    jump = set_back(condense(curve, MAX_JUMP_POINTS), GAP) if len(value) <= MAX_JUMP_POINTS else None
    if jump is None or jump.z < CLEAR or jump.relative < NOTABLE:
        return None
    at, shortly_before = jump.at, value[jump.at - UNDONE : jump.at]
    before = float(np.median(shortly_before))
    height = jump.after - before
    if value[at : at + UNDONE].min() <= shortly_before.max() or value[at] >= value[:FIRST_POINTS].min():
        return None  # back at the start another training has begun
    below = np.flatnonzero(value[at:] < before + height / 2)
    back = np.flatnonzero(value[at:] <= before)
    turn = at + int(below[0]) if len(below) else len(value) - 1
    end = at + int(back[0]) if len(back) else len(value) - 1
    return Excursion.plain(
        value,
        at,
        at + int(np.argmax(value[at : turn + 1])),
        before=before,
        after=float(np.median(value[end:][:AROUND])),
        sigma=height / jump.z,
        recovery="recovered" if len(back) else "partial" if len(below) else "unrecovered",
        half=turn,
        end=end,
        height=height,
    )


def step_among_few(values: Floats) -> Excursion | None:
    """The step from two points or more to a level that stays, of three or more, apart by twice what both levels span:
    steady noise of five points shows one in 500 logs, a random walk in 150; None where there is none."""
    grid = printed_grid(values)
    for at in range(FEWEST_EARLIER, len(values) - LATER + 1):
        earlier, later = values[:at], values[at:]
        span = max(float(np.ptp(earlier) + np.ptp(later)), grid, np.finfo(np.float64).tiny)
        if later.min() - earlier.max() <= APART * span:
            continue
        return _notable(
            Excursion.plain(
                values,
                at,
                at + int(np.argmax(later)),
                before=float(np.median(earlier)),
                after=float(np.median(later)),
                sigma=span / 2,
                recovery="unrecovered",
            )
        )
    return None


def leap_at_end(values: Floats) -> Excursion | None:
    """A last value of three or more that is twice as high as all before, which are steady; or above all of five and
    more, each of which is below the one before, and half as high again as the last of them; None where it is not."""
    before, last = values[:-1], float(values[-1])
    if len(before) < BEHIND or before.min() <= 0:
        return None
    at, moves = len(before), np.diff(before)
    if np.ptp(before) <= STEADY * before.min() and last > LEAP * before.max():
        return _ongoing(values, at, "burst")
    falling = at >= FEWEST_FALLING and moves.max() < 0
    if not falling or last <= max(float(before[0]), ALL_LOST * float(before[-1])):
        return None
    sigma = max(float(np.std(np.diff(moves))), printed_grid(values))
    return Excursion.plain(values, at, at, before=float(before[-1]), after=last, sigma=sigma, recovery="ongoing")


def climb_to_end(values: Floats) -> Excursion | None:
    """A loss whose every point, of five at least, is above the one before, and the last by half of the first: as
    unlikely by chance as one order in 120, and no training does it; None where it does not."""
    if len(values) < FEWEST_CLIMB or values[0] <= 0 or np.diff(values).min() <= 0:
        return None
    if values[-1] <= (1 + CLIMBED) * values[0]:
        return None
    return _ongoing(values, int(np.argmax(values > values[0] + (values[-1] - values[0]) / 4)), "rise")


def _ongoing(values: Floats, onset: int, shape: Literal["burst", "rise"]) -> Excursion:
    last, before = len(values) - 1, float(np.median(values[:onset]))
    return Excursion.plain(
        values,
        onset,
        last,
        before=before,
        after=float(values[-1]),
        sigma=max(float(np.ptp(values[:onset])), STEADY * before / 2),
        recovery="ongoing" if shape == "burst" else "diverging",
        shape=shape,
        rise=last - onset + 1,
    )


def _least_likely(values: Floats, chances: dict[int, float]) -> Excursion | None:
    at = min(chances, key=chances.__getitem__, default=0)
    return _notable(_burst(values, at)) if chances and chances[at] * len(values) < CHANCE else None


def _chance(values: Floats, at: int) -> float:
    """How often noise lifts a point as far above those around it; 1 where it is not above them, or they are few."""
    return _chance_among(float(values[at]), _around(values, at))


def _chance_among(value: float, around: Floats) -> float:
    above = value - float(around.max()) if len(around) >= FEWEST_AROUND else 0.0
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
    return Excursion.plain(
        values,
        at,
        at,
        before=float(np.median(values[max(0, at - AROUND) : at])),
        after=float(np.median(values[at + 1 : at + 1 + AROUND])),
        sigma=float(np.std(_around(values, at), ddof=1)),
        recovery="recovered",
        half=at + 1,
        end=at + 1,
    )
