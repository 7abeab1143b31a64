"""Columns of Arrow and of text as cells: numbers, with the state of those that are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainforensics.importers.base import STRING
from trainforensics.importers.rows import LONGEST_LIST, TEXT, Cells, read_text
from trainforensics.importers.times import NO_TIME

if TYPE_CHECKING:
    import polars as pl


def columns_of_arrow(batch: pa.RecordBatch | pa.Table, null: int) -> Iterator[tuple[str, Cells]]:
    """The columns of a batch, structs as `name/field`; `null` is the state of a cell without value.

    Lists of numbers, all of one length, become `name/0`, `name/1` ...; other lists and binary columns are no metrics.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        yield from _columns(name, column, null)


def _columns(name: str, column: Any, null: int) -> Iterator[tuple[str, Cells]]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _columns(f"{name}/{kind.field(i).name}", column.flatten()[i], null)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        yield name, _time_cells(column, null)
    elif pa.types.is_dictionary(kind):
        yield from _columns(name, column.dictionary_decode(), null)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        import polars as pl  # noqa: PLC0415  (heavy; only for text columns)

        yield name, text_cells(pl.Series(pl.from_arrow(column)), null, typed=True)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _list_columns(name, column, null)
    elif _is_number(kind):
        yield name, _number_cells(column.cast(pa.float64(), safe=False), null)
    elif pa.types.is_null(kind):
        yield name, Cells(np.full(len(column), np.nan), np.full(len(column), null, np.uint8))


def _list_columns(name: str, column: Any, null: int) -> Iterator[tuple[str, Cells]]:
    lengths = pc.list_value_length(column).drop_null().unique()
    if len(lengths) != 1 or not _is_number(column.type.value_type) or not 0 < lengths[0].as_py() <= LONGEST_LIST:
        return
    length = lengths[0].as_py()
    for i in range(length):
        yield (
            (name if length == 1 else f"{name}/{i}"),
            _number_cells(pc.list_element(column, i).cast(pa.float64()), null),
        )


def _is_number(kind: Any) -> bool:
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(is_kind(kind) for is_kind in known)


def _number_cells(column: Any, null: int) -> Cells:
    state = np.zeros(len(column), np.uint8)
    if column.null_count:
        state[_array(column.is_null())] = null
    return Cells(_array(column), state)


def _array(column: Any) -> NDArray[Any]:
    """An Arrow array as numpy, nulls as NaN. Arrow's own conversion loads pandas where it is installed (0.3 s)."""
    import polars as pl  # noqa: PLC0415

    return pl.Series(pl.from_arrow(column)).to_numpy()


def _time_cells(column: Any, null: int) -> Cells:
    micro = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
    missing = _array(column.is_null())
    time = np.where(missing, NO_TIME, _array(micro.fill_null(0)))
    state = np.where(missing, np.uint8(null), np.uint8(TEXT)).astype(np.uint8)
    return Cells(np.full(len(column), np.nan), state, time=time)


def text_cells(column: pl.Series, null: int, *, typed: bool, decimal_comma: bool = False) -> Cells:
    """Cells of a text column.

    `typed`: the column's type is text, so that a "NaN" in it is a string; in a CSV file it is the number.
    `decimal_comma`: "0,5" is a half.
    """
    import polars as pl  # noqa: PLC0415  (heavy; loaded by whoever made the column)

    if decimal_comma:
        column = column.str.replace(",", ".", literal=True)
    numbers = column.cast(pl.Float64, strict=False)
    missing = column.is_null().to_numpy()
    state = np.zeros(len(column), np.uint8)
    state[missing] = null
    number = numbers.to_numpy().copy()
    unread = numbers.is_null().to_numpy() & ~missing
    text = None
    if unread.any():
        at = np.flatnonzero(unread)
        words = column.filter(pl.Series(unread)).to_list()
        known = {word: read_text(word) for word in set(words)}
        number[at] = [known[word][0] for word in words]
        state[at] = [known[word][1] for word in words]
        text = _texts(words, at, state)
    if typed:
        spelled = (state == 0) & ~np.isfinite(number)
        state[spelled] = STRING
    else:
        state[state == STRING] = 0
    return Cells(number, state, text)


def _texts(words: list[str], at: NDArray[np.int64], state: NDArray[np.uint8]) -> NDArray[np.object_] | None:
    texts = state[at] == TEXT
    if not texts.any():
        return None
    text = np.full(len(state), None, dtype=object)
    text[at[texts]] = [word for word, is_text in zip(words, texts, strict=True) if is_text]
    return text
