"""Columns of a frame and of text as cells: numbers, with the state of those that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import NO_TIME, STRING
from trainforensics.importers.rows.block import LONGEST_LIST, TEXT, Cells, read_text

if TYPE_CHECKING:
    import polars as pl

_END = r"(?:[eE][-+]?\d+)?\s*(?:%|[A-Za-z/]+)?\s*$"
_COMMA = rf"^\s*[-+]?(?:\d+|\d{{1,3}}(?:\.\d{{3}})+|\d{{1,3}}(?:[\s']\d{{3}})+),\d+{_END}"
_COMMA_THOUSANDS = rf"^\s*[-+]?[1-9]\d{{0,2}}(?:,\d{{3}})+(?:\.\d+)?{_END}"
_POINT = rf"^\s*[-+]?\d*\.\d+{_END}"
_POINT_THOUSANDS = rf"^\s*[-+]?[1-9]\d{{0,2}}(?:\.\d{{3}})+{_END}"


@dataclass(frozen=True, slots=True)
class Marks:
    """How numbers are written where "0,5" is a half: whether points then set thousands apart ("1.000")."""

    grouped: bool

    def pointed(self, column: pl.Series) -> pl.Series:
        """The numbers of a text column with decimal points and without marks of thousands; other texts as they are."""
        import polars as pl  # noqa: PLC0415  (heavy; loaded by whoever made the column)

        plain = column.str.replace_all(r"[.\s']", "").str.replace(",", ".", literal=True)
        numbers = column.str.contains(_COMMA)
        if self.grouped:
            numbers |= column.str.contains(_POINT_THOUSANDS)
        return pl.select(pl.when(numbers).then(plain).otherwise(column)).to_series()


def decimal_comma(columns: Iterable[pl.Series], *, likely: bool) -> Marks | None:
    """How numbers with a decimal comma are written in text columns; None where commas set thousands apart, or none is
    there. `likely`: what "1,234" is, where no cell settles it."""
    comma = thousands = point = False
    for column in columns:
        commas = column.filter(column.str.contains(_COMMA))
        settled = ~commas.str.contains(_COMMA_THOUSANDS)
        comma = comma or bool(settled.any())
        thousands = thousands or len(commas) > 0
        points = column.filter(column.str.contains(_POINT))
        point = point or bool((~points.str.contains(_POINT_THOUSANDS)).any())
    if comma or (thousands and likely and not point):
        return Marks(grouped=not point)
    return None


def columns_of_frame(frame: pl.DataFrame, null: int) -> Iterator[tuple[str, Cells]]:
    """The columns of a frame, structs as `name/field`; `null` is the state of a cell without value.

    Lists of numbers, all of one length, become `name/0`, `name/1` ...; other lists and binary columns are no metrics.
    """
    for name, column in frame.to_dict().items():
        yield from _columns(name, column, null)


def _columns(name: str, column: pl.Series, null: int) -> Iterator[tuple[str, Cells]]:
    import polars as pl  # noqa: PLC0415  (heavy; loaded by whoever made the column)

    kind = column.dtype
    if isinstance(kind, pl.Struct):
        for field in column.struct.fields:
            yield from _columns(f"{name}/{field}", column.struct.field(field), null)
    elif isinstance(kind, pl.Datetime | pl.Date):
        yield name, _time_cells(column, null)
    elif isinstance(kind, pl.Categorical | pl.Enum | pl.String):
        yield name, text_cells(column.cast(pl.String), null, typed=True)
    elif isinstance(kind, pl.List | pl.Array):
        yield from _list_columns(name, column.cast(pl.List(kind.inner)), null)
    elif kind.is_numeric() or kind == pl.Boolean:
        yield name, _number_cells(column, null)
    elif kind == pl.Null:
        yield name, Cells(np.full(len(column), np.nan), np.full(len(column), null, np.uint8))


def _list_columns(name: str, column: pl.Series, null: int) -> Iterator[tuple[str, Cells]]:
    lengths = column.list.len().drop_nulls().unique().to_list()
    if len(lengths) != 1 or not 0 < lengths[0] <= LONGEST_LIST:
        return
    for i in range(lengths[0]):
        item = column.list.get(i)
        if item.dtype.is_numeric() or item.dtype.is_(pl.Boolean):
            yield (name if lengths[0] == 1 else f"{name}/{i}"), _number_cells(item, null)


def _number_cells(column: pl.Series, null: int) -> Cells:
    import polars as pl  # noqa: PLC0415

    numbers = column.cast(pl.Float64)
    return Cells(numbers.to_numpy(), _states(numbers, null))


def _states(column: pl.Series, null: int) -> NDArray[np.uint8]:
    """`null` where there is no value, else 0."""
    return column.is_null().to_numpy() * np.uint8(null)


def _time_cells(column: pl.Series, null: int) -> Cells:
    time = column.dt.epoch("us").fill_null(NO_TIME).to_numpy()
    state = np.where(column.is_null().to_numpy(), np.uint8(null), np.uint8(TEXT))
    naive = getattr(column.dtype, "time_zone", None) is None  # a date has none
    return Cells(np.full(len(column), np.nan), state, time=time, naive=naive)


def text_cells(column: pl.Series, null: int, *, typed: bool, marks: Marks | None = None) -> Cells:
    """Cells of a text column.

    `typed`: the column's type is text, so that a "NaN" in it is a string; in a CSV file it is the number.
    `marks`: of numbers in which "0,5" is a half.
    """
    import polars as pl  # noqa: PLC0415  (heavy; loaded by whoever made the column)

    if marks is not None:
        column = marks.pointed(column)
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
