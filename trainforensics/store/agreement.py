"""Whether two logs hold the same numbers, of which one may have been printed with fewer digits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_TOLERANCE = 2e-3  # four decimals of a loss near 0.1, the coarsest rounding that common loggers use
_DECIMALS = range(1, 7)
_DIGITS = range(1, 5)  # behind the first significant one
_EXACT = 1e-9

_SAME, _OTHER = 0.8, 0.5  # share alike from which series are the same, and below which they are not as they stand
_SHIFTED_POINTS = 8

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two series agree: on the `share` of their `common` steps, those of the second raised by `shift`."""

    share: float
    common: int
    shift: int = 0


def agreement(a: tuple[_Ints, _Floats], b: tuple[_Ints, _Floats]) -> Agreement:
    """The agreement of two series, steps and values each.

    One counts from 0 and the other from 1 where the values say so, and say nothing of the kind as they stand.
    """
    plain = _shifted(a, b, 0)
    if plain.share < _OTHER:
        for shift in (1, -1):
            moved = _shifted(a, b, shift)
            if moved.share >= _SAME and moved.common >= _SHIFTED_POINTS:
                return moved
    return plain


def _shifted(a: tuple[_Ints, _Floats], b: tuple[_Ints, _Floats], shift: int) -> Agreement:
    steps, left, right = np.intersect1d(a[0], b[0] + shift, return_indices=True)
    return Agreement(share_alike(a[1][left], b[1][right]) if len(steps) else 0.0, len(steps), shift)


def share_alike(a: _Floats, b: _Floats) -> float:
    """Share of pairs that are the same number as far as the coarser of two series, (n,) each, tells; NaN equals NaN."""
    with np.errstate(all="ignore"):
        same = np.isclose(a, b, rtol=_TOLERANCE, atol=1e-6, equal_nan=True)
        if not same.all():
            distance = np.abs(a - b)
            same |= (distance <= _half_unit(a)) | (distance <= _half_unit(b))
    return float(np.mean(same))


def _half_unit(values: _Floats) -> _Floats:
    """Half of what the last written digit of each value is worth, (n,); 0 where the digits do not end."""
    known = values[np.isfinite(values)]
    half = np.zeros(len(values))
    for decimals in _DECIMALS:
        if _cut(known, decimals):
            half += 0.5 * 10.0**-decimals
            break
    exponent = np.floor(np.log10(np.abs(values)))
    exponent[~np.isfinite(exponent)] = 0.0
    mantissa = (values / 10.0**exponent)[np.isfinite(values)]
    for digits in _DIGITS:
        if _cut(mantissa, digits):
            half = np.maximum(half, 0.5 * 10.0 ** (exponent - digits))
            break
    return half * (1 + 1e-6)


def _cut(values: _Floats, decimals: int) -> bool:
    """Whether no value has more than so many decimals."""
    return len(values) > 0 and bool(np.all(np.abs(values - np.round(values, decimals)) <= _EXACT * np.abs(values)))
