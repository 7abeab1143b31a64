"""Blocks of plain JSON lines as columns, by a fast parser that knows neither NaN nor a difference between a missing
key and null: such literals are noted and blanked out before, and put back into the cells after.

Whatever is unusual (torn lines, changing types, prefixes) makes the block None; the caller then reads it line by line.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import NULL, VALUE
from trainforensics.importers.jsonlogs import uniform
from trainforensics.importers.rows.block import ABSENT, Block, Cells
from trainforensics.importers.rows.cells import columns_of_frame
from trainforensics.importers.rows.provenance import is_provenance

if TYPE_CHECKING:
    import polars as pl

Bytes = NDArray[np.uint8]
_NEWLINE, _SPACE, _QUOTE, _COLON, _MINUS, _BRACE = 10, 32, 34, 58, 45, 123
_LITERALS = tuple(
    (np.frombuffer(sign + text, np.uint8), number if not sign else -number, state)
    for sign in (b"", b"-")
    for text, number, state in (
        (b"NaN", math.nan, VALUE),
        (b"nan", math.nan, VALUE),
        (b"Infinity", math.inf, VALUE),
        (b"Inf", math.inf, VALUE),
        (b"inf", math.inf, VALUE),
        (b"null", math.nan, NULL),
    )
    if not (sign and state == NULL)
)
_STARTS_LITERAL = np.isin(np.arange(256), np.frombuffer(b"NnIi", np.uint8))
_SAMPLED_LINES = 48


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """The rows of some lines; also as a frame, where columns may say which data was used."""

    block: Block
    frame: pl.DataFrame | None = None


def parse(data: bytes, line: int) -> Parsed | None:
    """The rows of some lines, the first of which is number `line`."""
    import polars as pl  # noqa: PLC0415  (heavy)

    alike = uniform.parse(data, line)
    if alike is not None and not is_provenance(list(alike.columns)):
        return Parsed(alike)

    text = np.frombuffer(data, np.uint8)
    if text[-1] != _NEWLINE:
        data += b"\n"
        text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    starts = np.append(0, ends[:-1] + 1)
    filled = ends - starts > 1
    starts, ends, numbers = starts[filled], ends[filled], line + np.flatnonzero(filled)
    if not len(starts) or np.any(text[starts] != _BRACE):
        return None
    colons = np.flatnonzero(text == _COLON)
    colons = colons[text[colons - 1] == _QUOTE]
    patched, odd = _blank_literals(data, text, colons)
    if patched is None:
        return None
    schema = _sampled_schema(patched, starts, ends)
    frame = None if schema is None else _parse(patched, len(starts), len(colons), schema=schema)
    if frame is None:
        frame = _parse(patched, len(starts), len(colons), infer_schema_length=None)
    if frame is None or (len(odd) and any(isinstance(kind, pl.Struct) for kind in frame.dtypes)):
        return None
    columns = dict(columns_of_frame(frame, ABSENT))
    if not _put_back(columns, data, odd, ends):
        return None
    return Parsed(Block(columns, numbers), frame)


def _blank_literals(data: bytes, text: Bytes, colons: NDArray[np.int64]) -> tuple[bytes | None, list[_Odd]]:
    """The block with 0 in place of NaN, infinities and null, and where they stood; None for an unknown literal."""
    values = colons + 1
    values = values + (text[values] == _SPACE)
    first = text[values]
    signed = first == _MINUS
    first = np.where(signed, text[np.minimum(values + 1, len(text) - 1)], first)
    places = np.flatnonzero(_STARTS_LITERAL[first])
    if not len(places):
        return data, []
    left = np.ones(len(places), bool)
    patched = text.copy()
    odd: list[_Odd] = []
    for literal, number, state in _LITERALS:
        at = values[places]
        match = left & (at + len(literal) < len(text))
        for i, byte in enumerate(literal):
            match &= text[np.minimum(at + i, len(text) - 1)] == byte
        if not match.any():
            continue
        left &= ~match
        found = at[match]
        patched[found] = ord("0")
        for i in range(1, len(literal)):
            patched[found + i] = _SPACE
        odd.append(_Odd(colons[places[match]], number, state))
    return (None if left.any() else patched.tobytes()), odd


@dataclass(frozen=True, slots=True, eq=False)
class _Odd:
    """Places (of the colon before) at which one literal stood."""

    colons: NDArray[np.int64]
    number: float
    state: int


def _sampled_schema(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> dict[str, Any] | None:
    """Column types from some of the lines; None where values are nested or of changing type."""
    import polars as pl  # noqa: PLC0415  (heavy)

    picked = np.unique(np.linspace(0, len(starts) - 1, _SAMPLED_LINES).astype(int))
    schema: dict[str, Any] = {}
    for i in picked:
        try:
            row = json.loads(data[starts[i] : ends[i]])
        except (ValueError, RecursionError):
            return None
        for key, value in row.items():
            kind = pl.String if isinstance(value, str) else pl.Float64
            if isinstance(value, bool | dict | list | None) or schema.setdefault(key, kind) != kind:
                return None
    return schema


def _parse(data: bytes, rows: int, keys: int, **how: Any) -> pl.DataFrame | None:
    """The parsed block, if no row and no key was dropped."""
    import polars as pl  # noqa: PLC0415  (heavy)

    try:
        frame = pl.read_ndjson(data, **how)
    except (pl.exceptions.PolarsError, ValueError):
        return None
    if frame.height != rows or any(_holds_list(kind) for kind in frame.dtypes):
        return None
    if any(isinstance(kind, pl.Struct) for kind in frame.dtypes):
        return frame if "schema" not in how else None
    found = frame.height * frame.width - sum(frame.null_count().row(0))
    return frame if found == keys else None


def _holds_list(kind: pl.DataType) -> bool:
    import polars as pl  # noqa: PLC0415  (heavy)

    if isinstance(kind, pl.Struct):
        return any(_holds_list(inner.dtype) for inner in kind.fields if isinstance(inner.dtype, pl.DataType))
    return isinstance(kind, pl.List)


def _put_back(columns: dict[str, Cells], data: bytes, odd: list[_Odd], ends: NDArray[np.int64]) -> bool:
    """Write the noted literals into the cells; False where one belongs to no column."""
    touched: set[str] = set()
    for literal in odd:
        rows = np.searchsorted(ends, literal.colons)
        for row, colon in zip(rows.tolist(), literal.colons.tolist(), strict=True):
            key = data[data.rfind(b'"', 0, colon - 1) + 1 : colon - 1].decode("utf-8", "replace")
            cells = columns.get(key)
            if cells is None:
                return False
            if key not in touched:
                cells.number = cells.number.copy()
                touched.add(key)
            cells.number[row] = literal.number
            cells.state[row] = literal.state
            if cells.text is not None:
                cells.text[row] = None
    return True
