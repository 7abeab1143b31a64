"""The value of a number as it is printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import NULL
from trainforensics.importers.literals import literal
from trainforensics.importers.printed.text.tokens import COUNT_SUFFIXES
from trainforensics.importers.rows.axes import MAX_STEP

LARGEST_COUNT = int(MAX_STEP)
_DIGITS_OF_LARGEST = len(str(LARGEST_COUNT))


def number_of(text: str) -> float:
    """The value of a number as printed, with thousands separators or a count suffix; NaN for one that is missing.

    Raises ValueError for what is no number.
    """
    if (word := literal(text)) is not None:
        return word[0]
    plain, scale = text.replace(",", ""), 1.0
    if plain[-1:] in COUNT_SUFFIXES and plain[-2:-1].isdigit():
        scale, plain = COUNT_SUFFIXES[plain[-1]], plain[:-1]
    return float(plain) * scale


def whole_number(text: str | None) -> int:
    """A count as printed, 0 for what is none; beyond the largest it is that one."""
    if text and len(text) < _DIGITS_OF_LARGEST and text.isdecimal():
        return int(text)
    try:
        count = int(number_of(text or "0"))
    except OverflowError:
        return LARGEST_COUNT
    except ValueError:
        return 0
    return max(-LARGEST_COUNT, min(count, LARGEST_COUNT))


def count_of(text: str | None) -> int:
    """A count as printed, 0 for what is none. Raises ValueError for one that no step can be."""
    if text and len(text) < _DIGITS_OF_LARGEST and text.isdecimal():  # as most are
        return int(text)
    count = whole_number(text)
    if not -LARGEST_COUNT < count < LARGEST_COUNT:
        raise ValueError(f"{(text or '')[:20]} is beyond what can be counted")
    return count


def numbers(texts: Sequence[str | None]) -> tuple[NDArray[np.float64], NDArray[np.uint8] | None, list[str]]:
    """Numbers, their states, and the texts that are no number (they get the state of a gap)."""
    try:
        return np.array(list(map(float, texts))), None, []  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    values, state = np.full(len(texts), math.nan), np.zeros(len(texts), np.uint8)
    bad: list[str] = []
    for i, text in enumerate(texts):
        try:
            values[i] = float(text or "None")
            continue
        except ValueError:
            pass
        if (word := literal(text or "None")) is not None:
            values[i], state[i] = word
            continue
        try:
            values[i] = number_of(text or "")
        except ValueError:
            state[i] = NULL
            bad += [text] if text else []
    return values, state if state.any() else None, bad
