"""From the rows of JSON to points, and to batches where they name their data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainforensics.importers.base import Record
from trainforensics.importers.rows.block import block_of_rows
from trainforensics.importers.rows.provenance import canonical, is_provenance, logged_batches
from trainforensics.importers.rows.reader import RowReader


def add_rows(points: RowReader, rows: Sequence[Mapping[str, Any]], lines: Sequence[int]) -> Iterator[Record]:
    """What further rows say; `lines` numbers them from 1."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    if not is_provenance(names):
        yield from points.add(block_of_rows(rows, lines))
        return
    import polars as pl  # noqa: PLC0415  (heavy; only for rows that name their data)

    documents = {name for name, target in canonical(names).items() if target == "doc"}
    plain = [{key: value for key, value in row.items() if key not in documents} for row in rows]
    yield from points.add(block_of_rows(plain, lines))
    yield from logged_batches(pl.DataFrame(rows, infer_schema_length=None, strict=False), points.steps)
