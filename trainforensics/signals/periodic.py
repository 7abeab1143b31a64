"""Events that come like clockwork: the period of a set of onsets, and how little chance explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.trend import moving_median

FEWEST = 4
JITTER = 0.03  # of the period; a burst's first point outside the noise varies by some points
SHARE = 0.85  # of the onsets that must keep time


@dataclass(frozen=True, slots=True)
class Period:
    """Onsets `kept` (steps) lie `steps` apart, or multiples of it, within `tolerance`; `chance` is the probability of
    this for onsets at random."""

    steps: float
    kept: tuple[int, ...]
    tolerance: float
    chance: float


def period(onsets: Ints, cadence: int) -> Period | None:
    """The period of a set of steps; None for fewer than four of them or where too few keep time."""
    onsets = np.unique(onsets)
    if len(onsets) < FEWEST:
        return None
    gaps = np.diff(onsets)
    best: Period | None = None
    for rough in np.unique(gaps):
        found = _with_period(onsets, float(rough), cadence)
        if found is not None and (best is None or found.chance < best.chance):
            best = found
    return best


def _with_period(onsets: Ints, rough: float, cadence: int) -> Period | None:
    allowed = max(1.5 * cadence, JITTER * rough)
    if allowed > 0.15 * rough:
        return None
    turns = np.round((onsets - onsets[0]) / rough)
    usual = float(_slope(turns, onsets)) if np.ptp(turns) > 0 else rough
    phase = np.median(onsets - turns * usual)
    late = np.abs(onsets - turns * usual - phase)
    kept = onsets[late <= allowed]
    steady = len(kept) >= max(FEWEST, SHARE * len(onsets)) and len(np.unique(turns[late <= allowed])) == len(kept)
    # most turns must be there: a period so short that it hits every onset somewhere explains nothing
    if not steady or len(kept) < 0.6 * (np.ptp(turns[late <= allowed]) + 1):
        return None
    tolerance = max(float(cadence), float(late[late <= allowed].max()))
    free = len(kept) - 2  # two onsets fix period and phase
    missed = len(onsets) - len(kept)
    chance = (2 * tolerance / usual) ** free * len(onsets) ** missed * len(onsets)
    return Period(usual, tuple(int(s) for s in kept), tolerance, float(chance))


def _slope(x: Floats, y: Ints) -> float:
    """Steps per turn by the median of slopes to the farthest points (robust against one stray onset)."""
    half = len(x) // 2
    rise, run = y[half:] - y[: len(y) - half], x[half:] - x[: len(x) - half]
    usable = run > 0
    return float(np.median(rise[usable] / run[usable])) if usable.any() else float(np.median(np.diff(y)))


MIN_LENGTH, CYCLES, BINS = 200, 6, 12
ALIKE, NEVER_APART = 0.7, 0.25  # correlation of a cycle with the others: median, and that of (nearly) every one
LEAST_ALIKE = 0.9  # share of cycles
STAIRS = 0.6  # a course that climbs less than this share of what it falls per cycle goes down stairs
SHORTEST = 0.85  # of the highest autocorrelation: of a period and its multiples the shortest is meant
STEADY_POINTS = 8  # per cycle


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """A level that repeats every `points` points: `swing` between the lowest and the highest phase, `noise` of the
    points, `alike` the median correlation of a cycle with the others, `cycles` their number, `first` the index from
    which on they repeat."""

    points: int
    swing: float
    noise: float
    alike: float
    cycles: int
    first: int


def cycle(values: Floats) -> Cycle | None:
    """The period with which the level of evenly logged values repeats, stairs set aside; None where none does."""
    n = len(values)
    if n < MIN_LENGTH or not np.ptp(values) > 0:
        return None
    lag = _likeliest_lag(values)
    if lag is None:
        return None
    best = _best_fold(values, lag)
    parts = (_best_fold(values, lag // k) for k in range(5, 1, -1) if lag // k >= STEADY_POINTS)
    best = next((part for part in parts if part.alike > SHORTEST * best.alike and part.swing > best.swing / 2), best)
    clear = best.swing > 2 * best.noise / math.sqrt(best.points / BINS) and best.swing > best.noise
    return best if clear and best.alike >= ALIKE and _keeps_time(values, best.points) else None


def cycle_since(values: Floats, starts: Sequence[int]) -> Cycle | None:
    """The cycle of the whole or, where it begins within the log, of what follows one of `starts`; with its begin."""
    for start in (0, *starts):
        found = cycle(values[start:])
        if found is not None:
            return _begin(values, found)
    return None


def _begin(values: Floats, found: Cycle) -> Cycle:
    """The cycle with its first index: from there on more cycles than not are alike and no fewer than before."""
    profiles = _profiles(values, found.points)
    model = np.median(_settled(profiles[-max(CYCLES, found.cycles) :]), axis=0)
    scale = np.linalg.norm(profiles, axis=1) * np.linalg.norm(model)
    alike = (profiles @ model > ALIKE * scale) & (np.ptp(profiles, axis=1) > found.swing / 3)
    first = int(np.argmax(np.cumsum(np.where(alike, 1, -1)[::-1])[::-1]))
    return replace(found, first=len(values) - (len(profiles) - first) * found.points)


def _best_fold(values: Floats, lag: int) -> Cycle:
    near = range(lag - lag // 20, lag + lag // 20 + 1)
    step = max(1, len(near) // 40)
    return max((_fold(values, points) for points in near[::step]), key=lambda c: c.alike)


def _likeliest_lag(values: Floats) -> int | None:
    """Lag of the highest peak of the autocorrelation of what a slow trend leaves over."""
    values = values[len(values) // 8 :]
    n = len(values)
    longest = n // (CYCLES - 1)
    rest = _clipped(values - moving_median(values, 2 * longest + 1))
    spectrum = np.fft.rfft(rest, 2 * n)
    alike = np.fft.irfft(np.abs(spectrum) ** 2)[: longest + 2] / max(float(rest @ rest), 1e-300)
    turned = np.flatnonzero(alike < 0)  # before it swings over, every lag of a slow course is alike
    if not len(turned):
        return None
    at = np.arange(max(STEADY_POINTS, int(turned[0])), longest + 1)
    peaks = at[(alike[at] >= alike[at - 1]) & (alike[at] >= alike[at + 1]) & (alike[at] > 0.2)]
    if not len(peaks):
        return None
    shortest = int(peaks[alike[peaks] >= SHORTEST * alike[peaks].max()][0])
    near = peaks[peaks <= 1.2 * shortest]
    return int(near[np.argmax(alike[near])])


def _clipped(rest: Floats) -> Floats:
    width = 4 * robust_sigma(rest)
    return np.asarray(np.clip(rest, -width, width) if width > 0 else rest)


def _profiles(values: Floats, points: int) -> Floats:
    """Medians of 12 phases of every whole cycle, the line through each cycle's neighbours removed; (cycle, phase)."""
    cycles = len(values) // points
    late = values[len(values) - cycles * points :].reshape(cycles, points)
    edges = np.linspace(0, points, min(BINS, points) + 1).round().astype(int)
    phases = np.column_stack([medians(late[:, a:b]) for a, b in pairwise(edges.tolist())])
    return np.asarray(phases - phases.mean(axis=1, keepdims=True))


def _correlations(profiles: Floats) -> Floats:
    """Of each cycle with the mean of the others."""
    others = (profiles.sum(axis=0) - profiles) / (len(profiles) - 1)
    scale = np.linalg.norm(profiles, axis=1) * np.linalg.norm(others, axis=1)
    return np.asarray((profiles * others).sum(axis=1) / np.maximum(scale, 1e-300))


def _fold(values: Floats, points: int) -> Cycle:
    profiles = _settled(_profiles(values, points))
    alike = float(np.median(_correlations(profiles)))
    mean = np.median(profiles, axis=0)
    noise = robust_sigma(np.diff(values[len(values) // 2 :])) / math.sqrt(2)
    first = len(values) - len(profiles) * points
    return Cycle(points, float(mean.max() - mean.min()), noise, alike, len(profiles), first)


def _settled(profiles: Floats) -> Floats:
    """Without the first quarter, whose descent is the start of learning."""
    return profiles[max(1, len(profiles) // 4) :]


def _keeps_time(values: Floats, points: int) -> bool:
    """Whether nearly every cycle repeats the others, and climbs about as much as it falls."""
    profiles = _settled(_profiles(values, points))
    if len(profiles) < CYCLES - 1 or np.mean(_correlations(profiles) > NEVER_APART) < LEAST_ALIKE:
        return False
    course = np.diff(np.append(np.median(profiles, axis=0), np.median(profiles, axis=0)[:1]))
    levels = medians(values[len(values) % points :].reshape(-1, points))
    drift = np.median(np.diff(levels[-len(profiles) :]))
    course[-1] += min(0.0, float(drift))  # from the end of a cycle to the begin of the next the trend falls as well
    return float(course[course > 0].sum()) > STAIRS * float(-course[course < 0].sum())
