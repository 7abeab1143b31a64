"""Whether one of two curves is the other, printed with fewer digits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trainforensics.signals.curve import Floats

EXACT = 2e-7  # relative; a float32 that holds a printed number is as near to it
MOST_DECIMALS, MOST_DIGITS = 6, 5  # beyond them a float32 cannot tell printed numbers from others
PROOF = 12.0  # digits that both must share, over distinct values, to be no chance
HALF = 0.5 * (1 + 1e-6)  # of a unit of the last digit, which rounding may move a number by


def printed_shorter(a: Floats, b: Floats) -> tuple[Floats, Floats] | None:
    """Both curves, shape (n,), the one with more digits rounded as the other is printed.

    None unless, from their first point on, one shows roundings of the other's values. What does not round to the
    other's value keeps its own.
    """
    found = [(_digits_shared(a, b, unit), 1, unit) for unit in _units(b, a)]
    found += [(_digits_shared(b, a, unit), 0, unit) for unit in _units(a, b)]
    shared, shorter, unit = max(found, key=lambda entry: entry[0], default=(0.0, 0, a))
    if shared < PROOF:
        return None
    alike = np.abs(a - b) <= HALF * unit
    return (np.where(alike, b, a), b) if shorter else (a, np.where(alike, a, b))


def _units(short: Floats, full: Floats) -> Iterator[Floats]:
    """One unit of the last digit of each value of `short`, by decimals and by digits, where `full` shows more."""
    decimals = _fewest(short, full, np.zeros(len(short)), MOST_DECIMALS)
    if decimals is not None:
        yield np.full(len(short), 10.0**-decimals)
    sizes = np.abs(short)
    leading = np.floor(np.log10(np.where(np.isfinite(sizes) & (sizes > 0), sizes * (1 + EXACT), 1.0)))
    digits = _fewest(short, full, leading, MOST_DIGITS - 1)
    if digits is not None:
        yield 10.0 ** (leading - digits)


def _fewest(short: Floats, full: Floats, leading: Floats, most: int) -> int | None:
    """How many places after that of `leading` hold all of `short` but not all of `full`; None where no number does."""
    fewest = next((n for n in range(most + 1) if _fits(short, 10.0 ** (n - leading))), None)
    return None if fewest is None or _fits(full, 10.0 ** (fewest - leading)) else fewest


def _fits(values: Floats, scale: Floats) -> bool:
    """Whether all finite values are whole numbers, each times its scale."""
    finite = np.isfinite(values)
    scaled = values[finite] * scale[finite]
    return bool(np.all(np.abs(scaled - np.round(scaled)) <= EXACT * np.maximum(np.abs(scaled), 1.0)))


def _digits_shared(full: Floats, short: Floats, unit: Floats) -> float:
    """Digits that agree from the first point to the first that is no rounding, over distinct values of `short`."""
    odd = np.flatnonzero(~((np.abs(full - short) <= HALF * unit) | (~np.isfinite(full) & ~np.isfinite(short))))
    until = int(odd[0]) if len(odd) else len(full)
    values, at = np.unique(np.abs(short[:until]), return_index=True)
    known = np.isfinite(values) & (values > 0)
    return float(np.log10(values[known] / unit[:until][at][known] + 1).sum())
