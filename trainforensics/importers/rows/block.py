"""Blocks of rows as columns. A missing key, an empty cell, null, NaN and the text "NaN" stay five things."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import EMPTY, NO_TIME, NULL, STRING, VALUE
from trainforensics.importers.literals import literal

# Further states that cells have only inside a block.
TEXT, ABSENT = 254, 255
LONGEST_LIST = 512

_PRINTED = re.compile(
    r"(\d+)\s*/\s*\d+"
    r"|([-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?)"
    r"|([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(?:%|[KMGT]i?B|ms|s|[a-z]+/s(?:ec)?)"
    r"|tensor\(\s*([-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf))\s*(?:,.*)?\)"
)
_TRUTH = {"true": 1.0, "false": 0.0}

Floats = NDArray[np.float64]
States = NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Cells:
    """One column of a block, shape (n,): numbers, states, and the texts where a state is TEXT.

    `time`: microseconds since the epoch, for columns that are typed as times; `naive` if the type has no zone.
    """

    number: Floats
    state: States
    text: NDArray[np.object_] | None = None
    time: NDArray[np.int64] | None = None
    naive: bool = False

    @property
    def given(self) -> NDArray[np.bool_]:
        """Mask of cells that hold a number or the text NaN."""
        return np.asarray((self.state == VALUE) | (self.state == STRING))

    def take(self, rows: NDArray[np.bool_]) -> Cells:
        """The cells of some rows."""
        text = None if self.text is None else self.text[rows]
        time = None if self.time is None else self.time[rows]
        return Cells(self.number[rows], self.state[rows], text, time, self.naive)


@dataclass(slots=True, eq=False)
class Block:
    """Consecutive rows as columns, in the order in which the columns first appear; `line` numbers rows from 1."""

    columns: dict[str, Cells]
    line: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.line)

    def take(self, rows: NDArray[np.bool_]) -> Block:
        """Some of the rows."""
        return Block({name: cells.take(rows) for name, cells in self.columns.items()}, self.line[rows])


def flatten(row: Mapping[str, Any], prefix: str = "", out: dict[str, Any] | None = None) -> dict[str, Any]:
    """Nested objects as one level, keys joined by "/"; lists of numbers become `name/0`, `name/1` ..."""
    out = {} if out is None else out
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flatten(value, f"{name}/", out)
        elif isinstance(value, list) and 0 < len(value) <= LONGEST_LIST:
            if len(value) == 1:
                flatten({name: value[0]}, "", out)
            else:
                flatten({str(i): item for i, item in enumerate(value)}, f"{name}/", out)
        else:
            out[name] = value
    return out


def block_of_rows(rows: Sequence[Mapping[str, Any]], lines: Sequence[int]) -> Block:
    """Rows as decoded from JSON, with the line each came from."""
    at: dict[str, list[int]] = {}
    given: dict[str, list[Any]] = {}
    for i, row in enumerate(rows):
        for key, value in flatten(row).items():
            if key not in at:
                at[key], given[key] = [], []
            at[key].append(i)
            given[key].append(value)
    columns = {key: spread(cells_of(given[key]), np.asarray(at[key]), len(rows)) for key in at}
    return Block(columns, np.asarray(lines, dtype=np.int64))


def spread(cells: Cells, at: NDArray[np.int64], n: int) -> Cells:
    """Cells that stand in rows `at` of `n`; the other rows lack the key."""
    if len(at) == n:
        return cells
    number, state = np.full(n, np.nan), np.full(n, ABSENT, np.uint8)
    number[at], state[at] = cells.number, cells.state
    text = time = None
    if cells.text is not None:
        text = np.full(n, None, dtype=object)
        text[at] = cells.text
    if cells.time is not None:
        time = np.full(n, NO_TIME)
        time[at] = cells.time
    return Cells(number, state, text, time, cells.naive)


def cells_of(values: Sequence[Any]) -> Cells:
    """Cells of Python values: numbers, booleans, None, strings, anything else as text."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float, bool}:
        try:
            return Cells(np.array(values, dtype=np.float64), np.zeros(len(values), np.uint8))
        except OverflowError:
            pass
    number, state = np.full(len(values), np.nan), np.zeros(len(values), np.uint8)
    text = np.full(len(values), None, dtype=object)
    for i, value in enumerate(values):
        number[i], state[i] = read_cell(value)
        if state[i] == TEXT:
            text[i] = value if isinstance(value, str) else repr(value)
    return Cells(number, state, text if (state == TEXT).any() else None)


def read_cell(value: Any) -> tuple[float, int]:
    """Number and state of one value."""
    if value is None:
        return math.nan, NULL
    if isinstance(value, str):
        return read_text(value)
    if isinstance(value, int | float):
        try:
            return float(value), VALUE
        except OverflowError:
            return math.nan, TEXT
    return math.nan, TEXT


def read_text(text: str) -> tuple[float, int]:
    """Number and state of a text: a number, a NaN or infinity said in words (STRING), missing, empty, or another text.

    Also as programs print them: "1,360", "7/1500" (the seventh step), "47.31GiB", "38.2%", "tensor(2.5)", "True".
    """
    stripped = text.strip()
    if not stripped:
        return math.nan, EMPTY
    try:
        number = float(stripped) if "_" not in stripped else None
    except ValueError:
        number = None
    if number is not None:
        return number, VALUE if math.isfinite(number) or stripped[-1].isdigit() else STRING
    if stripped.lower() in _TRUTH:
        return _TRUTH[stripped.lower()], VALUE
    word = literal(stripped)
    if word is not None:
        return word[0], STRING if word[1] == VALUE else word[1]
    printed = _PRINTED.fullmatch(stripped)
    if printed is None:
        return math.nan, TEXT
    return read_text(next(group for group in printed.groups() if group is not None).replace(",", ""))
