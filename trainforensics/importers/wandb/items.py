"""Items of W&B records: a key (one name, or a path of names) and a value as JSON. Rows of them become columns.

An item on the wire is `key | nested_key ...` and then `value_json`, its last field. The bytes before the value are the
same in every row, so they are parsed once and then looked up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainforensics.importers import protowire as wire
from trainforensics.importers.base import NULL, STRING
from trainforensics.importers.histogram import quantiles
from trainforensics.importers.rows.provenance import names_data

_KEY, _NESTED_KEY = 1, 2
_VALUE_JSON = b"\x82\x01"  # key of field 16, length-delimited
_PACKED = ".packedBins."

Path = tuple[str, ...]


@dataclass(slots=True)
class Column:
    """Values logged under one name since the last flush; `odd` gives the state of those that are no plain numbers."""

    name: str
    values: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    odd: dict[int, int] = field(default_factory=dict)


class Columns:
    """Rows of items, turned into columns as they come."""

    def __init__(self) -> None:
        self._by_head: dict[bytes, Column] = {}
        self.by_name: dict[str, Column] = {}
        self._said: dict[str, dict[int, str]] = {}  # texts that name data: name -> row -> text
        self._lists: dict[str, list[float]] = {}  # of the current row: the parts of histograms

    def unknown(self, items: Iterable[bytes]) -> dict[bytes, bytes]:
        """Key and value, as `split` gives them, of the items that name no column."""
        by_head = self._by_head
        return dict(split(item) for item in items if item.partition(_VALUE_JSON)[0] not in by_head)

    def add_row(self, items: Iterable[bytes], row: int) -> None:
        """Add a row of items; `row` numbers it. Raises WireError where an item is malformed."""
        by_head = self._by_head
        for item in items:
            head, _, rest = item.partition(_VALUE_JSON)
            column = by_head.get(head)
            if column is None or not rest or rest[0] != len(rest) - 1:
                head, value = split(item)
                column = by_head.get(head) or self._new(head)
            else:
                value = rest[1:]
            try:
                number = float(value)
            except ValueError:
                self._add_odd(column, value, row)
                continue
            column.rows.append(row)
            column.values.append(number)
        if self._lists:
            self._add_histograms(row)

    def take(self) -> list[Column]:
        """The columns that got values since the last call, which are then empty again."""
        filled = [column for column in self.by_name.values() if column.rows and _PACKED not in column.name]
        taken = [Column(column.name, column.values, column.rows, column.odd) for column in filled]
        for column in self.by_name.values():
            column.values, column.rows, column.odd = [], [], {}
        return taken

    def take_said(self) -> dict[str, dict[int, str]]:
        """The texts since the last call that name shards, documents and the like: name -> row -> text."""
        said, self._said = self._said, {}
        return said

    def _new(self, head: bytes) -> Column:
        column = self._named(".".join(path_of(head)))
        self._by_head[head] = column
        return column

    def _named(self, name: str) -> Column:
        return self.by_name.setdefault(name, Column(name))

    def _add_odd(self, column: Column, value: bytes, row: int) -> None:
        """A value that is no JSON number. Text that is no number, media and tables are no metrics."""
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return
        self._add_value(column, found, row)

    def _add_value(self, column: Column, found: Any, row: int) -> None:
        if found is None:
            _append(column, row, math.nan, NULL)
        elif isinstance(found, bool | int | float):
            _append(column, row, float(found))
        elif isinstance(found, str):
            try:
                _append(column, row, float(found), STRING)
            except ValueError:
                self._say(column.name, found, row)
        elif isinstance(found, list):
            self._lists[column.name] = found
            self._say(column.name, json.dumps(found), row)
        elif found.get("_type") == "histogram":
            self._lists |= {f"{column.name}.{key}": found[key] for key in ("bins", "values") if key in found}
            for key, part in found.get("packedBins", {}).items():
                self._add_value(self._named(f"{column.name}{_PACKED}{key}"), part, row)
        elif "_type" not in found:
            for key, part in found.items():
                self._add_value(self._named(f"{column.name}.{key}"), part, row)

    def _say(self, name: str, said: str, row: int) -> None:
        if names_data(name):
            self._said.setdefault(name, {})[row] = said

    def _add_histograms(self, row: int) -> None:
        for name, counts in self._lists.items():
            base = name.removesuffix(".values")
            if base == name:
                continue
            edges = self._lists.get(f"{base}.bins") or self._packed_edges(base, row, len(counts))
            if not edges or len(edges) != len(counts) + 1:
                continue
            try:
                found = quantiles(np.array(edges, float), np.array(counts, float))
            except (TypeError, ValueError):
                continue
            for part, number in found.items():
                _append(self._named(f"{base}/{part}"), row, number)
        self._lists.clear()

    def _packed_edges(self, base: str, row: int, count: int) -> list[float]:
        low, size = (self.by_name.get(f"{base}{_PACKED}{part}") for part in ("min", "size"))
        if low is None or size is None or low.rows[-1:] != [row] or size.rows[-1:] != [row]:
            return []
        return [low.values[-1] + size.values[-1] * place for place in range(count + 1)]


def split(item: bytes) -> tuple[bytes, bytes]:
    """The bytes that name an item, and its value as JSON text. Raises WireError."""
    head, value = 0, b""
    for number, kind, start, end in wire.fields(item):
        if number in {_KEY, _NESTED_KEY} and kind == wire.BYTES:
            head = end
        elif number == 16 and kind == wire.BYTES:
            value = item[start:end]
    return item[:head], value


def path_of(head: bytes) -> Path:
    """The names in an item's key: one, or several where a mapping was logged."""
    found = [(number, head[start:end]) for number, _, start, end in wire.fields(head)]
    names = [name for number, name in found if number == _NESTED_KEY] or [name for _, name in found]
    return tuple(text(name) for name in names) or ("",)


def nested(items: Iterable[tuple[Path, bytes]]) -> dict[str, Any]:
    """Items as nested mappings; values that are no JSON are kept as text."""
    root: dict[str, Any] = {}
    for path, value in items:
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = text(value)
        level = root
        for name in path[:-1]:
            inner = level.get(name)
            level[name] = level = inner if isinstance(inner, dict) else {}
        level[path[-1]] = found
    return root


def text(value: bytes) -> str:
    """Bytes of a record as text."""
    return value.decode("utf-8", "replace")


def _append(column: Column, row: int, value: float, state: int = 0) -> None:
    if state:
        column.odd[len(column.rows)] = state
    column.rows.append(row)
    column.values.append(value)
