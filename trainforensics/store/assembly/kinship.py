"""Whether two losses that are not equal are certainly of two trainings.

One training has one noise: what a console averages, smooths or multiplies still moves with what a table holds raw. Two
trainings fall alike but have noise of their own.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from trainforensics.store.assembly.series import Points

_ENOUGH = 20  # common points below which neither noise nor course says anything
_SURE = 4.0  # standard errors of a correlation: not by chance among the pairs of readings tried
_APART = 3.0  # standard errors between two levels
_MEDIAN_ERROR = 1.2533  # standard error of a median, in standard errors of the mean
_WIDEST = 51
_OF_THE_FALL = 0.1  # share of a curve's own range below which two courses are no different ones
_MEMORIES = (3, 5, 10, 20, 30)  # points of running means that are tried
_NEAR = 0.03  # of a whole multiple
_LARGEST = 16  # multiple that is told apart from any other factor
_COMPARABLE = 0.25  # share of both spans that must be common: epochs and steps, which it keeps apart, are further off
_MOST = 20_000  # common points that tell noise and course; more cost time and say nothing new
_ENDING = 3  # points without a number that end a curve

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@np.errstate(all="ignore")
def are_two_trainings(a: Points, b: Points) -> bool:
    """Whether two losses, steps and values each, share neither noise nor course, or one alone ends without numbers.

    False too where their common steps do not tell.
    """
    common, left, right = np.intersect1d(a[0], b[0], return_indices=True)
    if len(common) < _ENOUGH or not _comparable(a[0], b[0], common):
        return False
    x, y = a[1][left], b[1][right]
    if _ends_without_numbers(x, y) or _ends_without_numbers(y, x):
        return True
    left, right, x, y = left[:_MOST], right[:_MOST], x[:_MOST], y[:_MOST]
    return _other_course(x, y) and not _shares_noise(a, b, left, right) and not _smoothed(x, y) and not _smoothed(y, x)


def _comparable(a: _Ints, b: _Ints, common: _Ints) -> bool:
    return bool(np.ptp(common) >= _COMPARABLE * max(np.ptp(a), np.ptp(b)))


def _ends_without_numbers(x: _Floats, y: _Floats) -> bool:
    """Whether x ends in points that are not finite where y goes on, and moves."""
    lost = ~np.isfinite(x)
    tail = len(x) if lost.all() else int(np.argmin(lost[::-1]))
    other = y[len(y) - tail :]
    return tail >= _ENDING and bool(np.isfinite(other).all()) and len(np.unique(other)) > 1


# --- noise -------------------------------------------------------------------------------------------------------


def _shares_noise(a: Points, b: Points, left: _Ints, right: _Ints) -> bool:
    readings = [_readings(points[1], at) for points, at in ((a, left), (b, right))]
    return any(_correlation(x, y) >= _SURE for x in readings[0] for y in readings[1])


def _readings(values: _Floats, at: _Ints) -> list[_Floats]:
    """Changes of a curve from one common point to the next, shape (n - 1,) each.

    Of the values themselves and of their means since the last common point; and how far each mean lies from the one
    before it, which is what moves a running mean.
    """
    if (np.diff(at) <= 0).any():
        return [np.diff(values[at])]
    total = np.cumsum(np.where(np.isfinite(values), values, 0.0))
    number = np.cumsum(np.isfinite(values))
    means = np.diff(total[at]) / np.diff(number[at])
    dense = bool((np.diff(at) > 1).any())
    changes = [np.diff(values[at])]
    return [*changes, np.diff(means, prepend=values[at[0]])] if dense else [*changes, _from_before(values[at])]


def _from_before(values: _Floats, memory: int = 5) -> _Floats:
    """How far each value but the first lies from the mean of up to `memory` values before it, shape (n - 1,)."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values))
    starts = np.maximum(ends - memory, 0)
    return np.asarray(values[1:] - (total[ends] - total[starts]) / (ends - starts))


def _correlation(x: _Floats, y: _Floats) -> float:
    """Rank correlation in its standard errors; series that move slowly count as fewer points (Bartlett 1935)."""
    x, y = x - _level(x), y - _level(y)  # both fall: alike, but not together
    finite = np.isfinite(x) & np.isfinite(y)
    if np.count_nonzero(finite) < _ENOUGH // 2:
        return 0.0
    left, right = (_ranks(values[finite]) for values in (x, y))
    persistence = max(_persistence(left), 0.0) * max(_persistence(right), 0.0)
    points = len(left) * (1 - persistence) / (1 + persistence)
    return float(np.mean(left * right) * np.sqrt(points))


def _ranks(values: _Floats) -> _Floats:
    """Ranks of mean 0 and variance 1."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def _persistence(ranks: _Floats) -> float:
    return float(np.mean(ranks[1:] * ranks[:-1]))


# --- course ------------------------------------------------------------------------------------------------------


def _other_course(x: _Floats, y: _Floats) -> bool:
    """Whether most levels lie apart beyond noise, also where one is a multiple of the other (sums and accumulation)."""
    finite = np.isfinite(x) & np.isfinite(y)
    if np.count_nonzero(finite) < _ENOUGH:
        return False
    x, y = x[finite], y[finite]
    factor = float(np.median(x / y))
    whole = round(max(factor, 1 / factor)) if factor > 0 else 0
    if 2 <= whole <= _LARGEST and abs(max(factor, 1 / factor) / whole - 1) < _NEAR:
        y = y * factor
    return _apart(x, y)


def _apart(x: _Floats, y: _Floats) -> bool:
    noise = np.hypot(_noise(x), _noise(y)) * _MEDIAN_ERROR / np.sqrt(_width(len(x)))
    x, y = _level(x), _level(y)
    least = _OF_THE_FALL * max(np.ptp(x), np.ptp(y))
    return bool(np.mean(np.abs(x - y) > max(_APART * noise, least)) > 0.5)


def _smoothed(x: _Floats, y: _Floats) -> bool:
    """Whether y takes the course of a running mean of x, which lags behind it."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    if len(x) < _ENOUGH:
        return False
    if abs(x[0] - y[0]) > max(_APART * _noise(x), _OF_THE_FALL * float(np.ptp(x))):  # a running mean begins there
        return False
    return any(not _apart(_running_mean(x, memory), y) for memory in _MEMORIES if memory * 5 <= len(x))


def _running_mean(values: _Floats, memory: int) -> _Floats:
    """The exponential mean that each value enters with a share of 1 / memory, shape (n,)."""
    return np.array(list(accumulate(values.tolist(), lambda mean, value: mean + (value - mean) / memory)))


def _noise(values: _Floats) -> float:
    """One width of the noise, from the changes between neighbours."""
    return float(np.median(np.abs(np.diff(values))) / 0.6745 / np.sqrt(2))


def _level(values: _Floats) -> _Floats:
    """Moving median, shape (n,)."""
    width = _width(len(values))
    padded = np.pad(values, width // 2, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1))


def _width(n: int) -> int:
    """Points whose median is a level."""
    return min(max(5, n // 10), _WIDEST) | 1
