"""What the learning rate does against what schedules do.

Schedules warm up once, stay, decay in curves or steps, and may restart regularly from their low end. All else is named
here: a rate of zero or below it while training goes on, a climb above the warmed-up peak, a reset or a jump in
mid-course, a warm-up that begins anew over and over. Cuts at even distances, a decay that is over long before the log
is and a cosine that swings on and on are faults only beside what the loss does: `even_cuts`, `spent` and `swings` find
them for those who know that. What is a fault beside a declared schedule is in `plan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.stretches import stretches

FEWEST = 10  # points; a shorter log shows no schedule
SETTLED = 0.05  # share of the log for which the rate must rest before its warm-up counts as over
ANEW = 2  # falls at once from which a rate that otherwise rises begins its warm-up anew over and over
FEWEST_OF_TOOTH = 5  # points between two such falls
RIPPLE = 0.1  # of the rate: falls within a warm-up, where an epoch of the decay ends or the rate is adaptive
STAIRS = 4  # rises that make a staircase: a warm-up by epochs, or one printed with few decimals
RISE = 1.5  # times the warmed-up peak that no schedule exceeds later
RESET = 0.5  # share of its value that the rate must lose at once to have been reset
FAST = 0.25  # of such a fall, by which a rate that is reset does not move before
REST = 0.02  # share of the log for which a rate printed with few decimals may stand at its low end after a reset
ROUNDED = 3  # times as long as it was printed as 1 may a rate be printed as 0: a cosine takes 1.4 times as long
LOW_END = 0.15  # of the peak: restarts from below are what cyclic schedules do (their floor is a tenth at most)
MOVE = 0.05  # of the peak: smaller ups and downs are the grain of the log
ZERO = 1e-6  # of the peak: as good as zero
CUT = 0.7  # times the rate before: plateau schedulers cut by 0.5 to 0.1, exponential decay hardly at all
FEWEST_CUTS = 3  # at even distances, from which cuts are a habit
NEXT_TO_ZERO = 1e-4  # of the peak: from there as good as zero is one more cut away
# Of the peak: left at half of the log; after its first SOON share, a hundredth of a peak that lies between two rows.
SPENT, SOON_SPENT = 1e-3, 1.25e-2
SOON = 0.1  # of the log: no recipe has left its low end behind so early
FEWEST_DECAYED = 8  # points of a geometric decay, from which its factor can be told
STRAIGHT = 0.05  # of its fall by which the logarithm of a geometric decay may leave the straight line
STAND = 0.2  # of its points at which a geometric decay may stand still: one by epochs stands at most of them
MANY_WAVES = 16  # half as many as an epoch has batches, where a cosine of one swing is stepped per batch
FEWEST_PHASES = 4  # distinct values of a wave; fewer are settings in turn
WAVE_POINTS = 4096  # points that a wave is fitted to
WAVE_FIT = 1e-3  # of the variance that a cosine may leave; a triangle leaves 1.4 % to its first harmonic
LEAP = 2.0  # factor of one move, which a schedule makes now and then
DECADE = math.log(10)
HUGE = 1e100  # no rate: what goes beyond is left out
MANY = 5  # upward moves beyond which the series is no single schedule (groups logged in turn)


@dataclass(frozen=True, slots=True)
class ScheduleFault:
    """One fault: indices into the finite points of the curve, and the rate before and after.

    `factor`: what a geometric decay leaves of the rate after each step, 1 for every other fault.
    """

    what: Literal[
        "zero", "negative", "climb", "reset", "jump", "anew", "back", "again", "drop", "short", "cuts", "spent",
        "swings", "stands", "wild",
    ]  # fmt: skip
    onset: int
    end: int
    before: float
    after: float
    factor: float = 1.0


def schedule_faults(curve: Curve) -> tuple[ScheduleFault, ...]:
    """Faults of a learning-rate curve (its finite points), by onset; none for fewer than 10 points."""
    rate = curve.value[curve.finite]
    if len(rate) < FEWEST or rate.max() > HUGE:
        return ()
    if rate.min() < 0:
        return _negative(rate)
    zero = _zero(rate)
    if rate.max() == 0:
        return zero
    warm = warmed_up(rate)
    late = _climb(rate, warm)
    rest = late or _anew(rate) or _ups(rate, warm)
    return tuple(sorted((*zero, *rest), key=lambda fault: fault.onset))


def wild(curve: Curve) -> ScheduleFault | None:
    """A rate that leaps up and down over decades from point to point, to lows that have nothing in common: no cycle.

    Groups that are logged in turn leap as well, but each comes back to where it was.
    """
    rate = curve.value[curve.finite]
    if len(rate) < FEWEST or rate.min() <= 0:
        return None
    shown = np.log(rate)
    moves = np.diff(shown)
    leaps = np.abs(moves) > math.log(LEAP)
    lows = np.diff(shown[1:-1][(moves[:-1] < 0) & (moves[1:] > 0)])
    if np.mean(leaps) <= 0.5 or np.ptp(shown) < 2 * DECADE or len(lows) < 2 or np.median(np.abs(lows)) < DECADE:
        return None
    first = int(np.argmax(leaps))
    return ScheduleFault("wild", first + 1, len(rate) - 1, float(rate.max()), float(rate.min()))


def spent(curve: Curve) -> ScheduleFault | None:
    """A decay that leaves next to nothing of the rate long before the log is over; onset: a tenth of the peak is left.

    Either it falls by a constant factor a step through three decades in the first half of the log, at nearly every
    point, or by several moves to about a hundredth or less within the first tenth.
    """
    points = curve.take(curve.finite & (curve.value >= 0))
    rate, step = points.value, points.step.astype(np.float64)
    if len(rate) < FEWEST or not rate.max() > 0:
        return None
    peak, top = float(rate.max()), int(np.flatnonzero(rate == rate.max())[-1])
    low = rate <= SOON_SPENT * peak * (1 + 1e-6)
    gone = int(np.flatnonzero(~low)[-1]) + 1
    if gone == len(rate):
        return None
    share = (step[gone] - step[0]) / max(float(np.ptp(step)), 1.0)
    half = int(np.searchsorted(step, step[0] + np.ptp(step) / 2))
    soon = share <= SOON and _moves(rate[top : gone + 1]) >= 2
    onset = top + int(np.argmax(rate[top:] <= 0.1 * peak))
    near = slice(onset - 1, half + 1)
    factor = _constant_factor(rate[near], step[near]) if onset <= half and rate[half] <= SPENT * peak else 1.0
    if factor == 1 and not (soon and _rises_to(rate[: top + 1])):
        return None
    return ScheduleFault("spent", onset, len(rate) - 1, peak, float(rate[-1]), factor)


def _moves(rate: Floats) -> int:
    return int(np.sum(np.diff(rate) != 0))


def _rises_to(rate: Floats) -> bool:
    """Whether a rate gets to its peak as a warm-up does, and not by a range test, whose rise is geometric."""
    return len(rate) < FEWEST or float(np.median(rate)) > SOON_SPENT * float(rate[-1])


def _constant_factor(rate: Floats, step: Floats) -> float:
    """What is left of a rate after each step if it falls evenly at nearly every point, as far as it is above zero.

    1 where it falls otherwise.
    """
    above = int(np.argmin(rate > 0)) if rate.min() <= 0 else len(rate)
    if above < FEWEST_DECAYED:
        return 1.0
    fallen, x = np.log(rate[:above]), step[:above] - step[0]
    slope = float((fallen[-1] - fallen[0]) / max(float(x[-1]), 1.0))
    straight = np.abs(fallen - fallen[0] - slope * x).max() <= STRAIGHT * (fallen[0] - fallen[-1])
    return float(np.exp(slope)) if straight and np.mean(np.diff(fallen) == 0) <= STAND else 1.0


def swings(curve: Curve) -> ScheduleFault | None:
    """A cosine between its peak and next to nothing, down and up again, many times over; onset: where it first turns.

    Judged on evenly logged points. A coarse log may make a slow wave of a fast one, never the reverse.
    """
    points = curve.take(curve.finite & (curve.value >= 0))
    if len(points) < FEWEST or not points.value.max() > 0:
        return None
    warm = warmed_up(points.value)
    rate, peak = points.value[warm:], float(points.value.max())
    phases = np.unique(np.round(rate / (STRAIGHT * peak)))
    if len(phases) < FEWEST_PHASES or rate.min() > LOW_END * peak or np.sum(np.diff(rate) > 0) <= MANY_WAVES:
        return None
    period = _period(rate[1:WAVE_POINTS], points.step[warm + 1 : warm + WAVE_POINTS])
    if period is None or len(rate) < MANY_WAVES * period:
        return None
    onset = warm + max(1, round(period / 2))
    return ScheduleFault("swings", onset, len(points) - 1, peak, float(rate.min()))


def _period(rate: Floats, step: Ints) -> float | None:
    """Points from one top of a cosine to the next, where one explains the rate at even steps; None where none does."""
    n = len(rate)
    if n < 2 * MANY_WAVES or np.ptp(np.diff(step)) > 0:
        return None
    size = 8 * n
    strength = np.abs(np.fft.rfft(rate - rate.mean(), size))
    frequency, width = float(np.argmax(strength)) / size, 1 / size
    for _ in range(4):
        tried = np.linspace(frequency - width, frequency + width, 9)
        left = [_unexplained(rate, f) for f in tried]
        frequency, width = float(tried[np.argmin(left)]), width / 4
    return 1 / frequency if min(left) <= WAVE_FIT and frequency > 0 else None


def _unexplained(rate: Floats, frequency: float) -> float:
    """Share of the variance that a cosine of this frequency (waves a point) leaves."""
    angle = 2 * np.pi * frequency * np.arange(len(rate))
    basis = np.column_stack((np.ones(len(rate)), np.cos(angle), np.sin(angle)))
    found, *_ = np.linalg.lstsq(basis, rate, rcond=None)
    return float(np.var(rate - basis @ found) / np.var(rate))


def even_cuts(rate: Floats) -> Ints:
    """Indices of cuts at even distances from the first cut on, the rate resting in between; none for fewer than 3."""
    none = np.empty(0, np.int64)
    if not len(rate) or rate.min() < 0:
        return none
    at = np.flatnonzero(rate[1:] < CUT * rate[:-1]) + 1
    if len(at) < FEWEST_CUTS:
        return none
    moved = np.flatnonzero(np.abs(np.diff(rate)) > 1e-6 * rate[:-1]) + 1
    gaps = np.diff(at[: FEWEST_CUTS + 1])
    rests = not np.isin(moved[moved >= at[0]], at, invert=True).any()
    return at if rests and np.ptp(gaps) <= 0.1 * float(gaps.mean()) + 1 else none


def warmed_up(rate: Floats) -> int:
    """Index at which the warm-up is over: the rate falls by more than a ripple, or has not risen for longer than in any
    rest of the warm-up before.

    0 without a warm-up: the rate never rises, or rests for long before it does.
    """
    n, top = len(rate), np.maximum.accumulate(rate)
    fallen = rate < (1 - RIPPLE) * top
    end = int(np.argmax(fallen)) if fallen.any() else n
    rising = np.flatnonzero(np.diff(top[:end]) > 1e-9 * top[: max(end - 1, 0)]) + 1  # places where it has just gone up
    if not len(rising):
        return 0
    rests = np.diff(np.append(rising, end))
    stair = float(np.median(rests[:-1])) if len(rests) > 1 else 0.2 * n  # one stair may be a warm-up epoch
    if rising[0] > max(SETTLED * n, FEWEST, 2 * stair):
        return 0
    longest = max(int(rising[0]), stair if len(rests) >= STAIRS else 0)
    for at, rest in zip(rising, rests, strict=True):
        if rest > max(SETTLED * n, FEWEST, 2 * longest):
            return int(at)
        longest = max(longest, float(rest))
    return int(rising[-1])


def _negative(rate: Floats) -> tuple[ScheduleFault, ...]:
    """Below zero after having been above it: a decay that goes on beyond its end. A logarithm is negative all along."""
    below = rate < -ZERO * float(rate.max())
    first = int(np.argmax(below))
    if not first or rate[:first].min() < 0 or not below.any():
        return ()
    last = int(np.flatnonzero(below)[-1])
    return (ScheduleFault("negative", first, last, float(rate[first - 1]), float(rate.min())),)


def _zero(rate: Floats) -> tuple[ScheduleFault, ...]:
    """Zero over all of the log, over a fifth of it from the start, or over a twentieth later on or before a leap to the
    top, which no warm-up makes.

    A rate printed with few decimals is zero before a warm-up and after a decay shows: next to the last decimal.
    """
    n, peak = len(rate), float(rate.max())
    grain = _grain(rate) if peak > 0 else 0.0
    start, end = stretches(rate <= ZERO * peak)
    found = []
    for a, b in zip(start, end, strict=True):
        if b - a + 1 <= ROUNDED * max(_rest(rate, i, grain) for i in (a - 1, b + 1)):
            continue
        if a and rate[a - 1] <= NEXT_TO_ZERO * peak and rate[a : b + 1].min() > 0:
            continue  # cut again and again: where it stands is a matter of the cuts
        if not a and 0 < rate[a] < rate[b]:
            continue  # a range test grows from far below its end
        leaps = b + 1 < n and rate[b + 1] >= RESET * peak
        if b - a + 1 >= max(FEWEST, (0.05 if a or leaps else 0.2) * n):
            found.append(ScheduleFault("zero", int(a), int(b), float(rate[a - 1]) if a else peak, 0.0))
    return tuple(found)


def _grain(rate: Floats) -> float:
    """The last decimal that the rate is printed with, where its low values are 1, 2 and 3 of it; else 0."""
    grain = float(rate[rate > 0].min())
    if grain < ZERO * ZERO * float(rate.max()):
        return 0.0
    multiples = rate / grain
    if np.abs(multiples - np.round(multiples)).max() > 1e-3:
        return 0.0
    low = {1.0, 2.0, 3.0} if multiples.max() > 2.5 else {1.0, 2.0}
    return grain if low <= set(np.round(multiples).tolist()) else 0.0


def _rest(rate: Floats, at: int, value: float) -> int:
    """For how many points around `at` the rate stands at `value`, 0 where it does not."""
    if not 0 <= at < len(rate) or abs(rate[at] - value) > 0.5 * value or not value > 0:
        return 0
    start, end = stretches(np.abs(rate - value) < 0.5 * value)
    k = int(np.searchsorted(start, at, side="right")) - 1
    return int(end[k] - start[k] + 1)


def _climb(rate: Floats, warm: int) -> tuple[ScheduleFault, ...]:
    """From where the rate begins to grow out of its warmed-up level until it is back, if it exceeds that by half."""
    peak = float(rate[: warm + 1].max())
    above = rate[warm + 1 :] > RISE * peak
    if not above.any() or peak <= 0:
        return ()
    first = warm + 1 + int(np.argmax(above))
    below = np.flatnonzero(rate[:first] <= peak * (1 + 1e-6))
    falling = np.flatnonzero(np.diff(rate[: int(below[-1]) + 1]) <= 0)
    onset = max(int(falling[-1]) + 2 if len(falling) else 0, warm + 1)
    back = np.flatnonzero(rate[first:] <= peak * (1 + 1e-6))
    end = first + int(back[0]) - 1 if len(back) else len(rate) - 1
    return (ScheduleFault("climb", onset, end, float(rate[onset - 1]), float(rate[first : end + 1].max())),)


def _anew(rate: Floats) -> tuple[ScheduleFault, ...]:
    """The warm-up that begins anew, over and over: the rate only ever rises, and falls at once at even distances.

    Cyclic schedules fall as gently as they rise, and warm restarts fall gently and rise at once.
    """
    moves = np.diff(rate)
    falls = np.flatnonzero(moves < -RESET * np.ptp(rate)) + 1
    if len(falls) < ANEW or np.delete(moves, falls - 1).min() < -MOVE * float(rate.max()):
        return ()
    lengths = np.diff([0, *falls, len(rate)])
    teeth = lengths[:-1]
    even = np.ptp(teeth) <= 0.1 * float(teeth.mean()) + 1 and lengths[-1] <= 1.1 * float(teeth.mean()) + 1
    if not even or teeth.min() < FEWEST_OF_TOOTH:
        return ()
    first = int(falls[0])
    return (ScheduleFault("anew", first, len(rate) - 1, float(rate[first - 1]), float(rate[first])),)


def _ups(rate: Floats, warm: int) -> tuple[ScheduleFault, ...]:
    """Upward moves after the warm-up that no regular restart explains."""
    peak = float(rate.max())
    ups = [up for up in rises(rate, warm) if rate[up[1]] - rate[up[0]] >= MOVE * peak]
    if not ups or len(ups) > MANY or _regular([up[0] for up in ups], len(rate)):
        return ()
    found = []
    for low, high in ups:
        top = max(warm, low - 2)  # a fall logged in two parts is still at once
        fallen = _start_of_rest(rate, low)
        if fallen > warm and low - fallen <= REST * len(rate) and rate[low] <= RESET * rate[fallen - 1]:
            top = fallen - 1
        before, bottom = float(rate[top]), float(rate[low])
        moves = np.abs(np.diff(rate[max(warm, top - 2) : top + 1]))
        steep = len(moves) == 2 and moves.min() > FAST * (before - bottom)  # a cycle of a few points
        if bottom <= RESET * before and before > LOW_END * peak and not steep:
            found.append(ScheduleFault("reset", top + 1, high, before, bottom))
        elif high - low <= 2 and bottom > LOW_END * peak:
            found.append(ScheduleFault("jump", low + 1, high, bottom, float(rate[high])))
    return tuple(found)


def _start_of_rest(rate: Floats, at: int) -> int:
    """Index from which on the rate stands at the value that it has at `at`."""
    moved = np.flatnonzero(rate[:at] != rate[at])
    return int(moved[-1]) + 1 if len(moved) else 0


def rises(rate: Floats, warm: int) -> list[tuple[int, int]]:
    """First and last index of each stretch over which the rate does not fall and ends higher, after the warm-up."""
    moves = np.sign(np.diff(rate[warm:]))
    turning = np.flatnonzero(moves != 0)
    if not len(turning):
        return []
    start, end = stretches(moves[turning] > 0)
    return [(warm + int(turning[a]), warm + int(turning[b]) + 1) for a, b in zip(start, end, strict=True)]


def _regular(starts: list[int], n: int) -> bool:
    """Whether restarts come at equal or geometric distances; two need an equal distance from the start."""
    gaps = np.diff([0, *starts]).astype(np.float64)
    gaps = gaps[1:] if len(gaps) > 2 else gaps
    if len(gaps) < 2:
        return False
    equal = np.abs(gaps - gaps.mean()).max() <= 0.1 * gaps.mean() + 1
    ratios = gaps[1:] / np.maximum(gaps[:-1], 1)
    geometric = len(ratios) > 1 and np.abs(ratios - ratios.mean()).max() <= 0.15 * ratios.mean()
    doubled = len(ratios) == 1 and abs(ratios[0] - round(ratios[0])) <= 0.1 and n > 0
    return bool(equal or geometric or doubled)
