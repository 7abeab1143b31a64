"""Batch manifests: which shard, documents and domain each step used.

Parquet, CSV, TSV or JSON lines; a row a step, a batch, a rank or a document. Ids are kept as they are written, and
every column beyond the canonical ones (importers/provenance.py) is kept too.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainforensics import roles
from trainforensics.importers.base import Head, Record, Source
from trainforensics.importers.jsonlogs.document import stream_objects
from trainforensics.importers.lines import LineBlocks, text_head
from trainforensics.importers.rows.axes import is_step_name
from trainforensics.importers.rows.provenance import (
    canonical,
    flat_row,
    is_provenance,
    manifest_batches,
    plain,
    step_axis,
    unfolded,
)
from trainforensics.model import ReadWarning

if TYPE_CHECKING:
    import polars as pl

    from trainforensics.importers.rows.axes import StepAxis

FORMAT = "manifest"

# The first sample, or token, of a row's batch, for manifests that count those instead of steps.
SAMPLE_STARTS = frozenset(
    {"sample_start", "start_sample", "first_sample", "samples_start", "sample_begin", "sample_from", "sample_offset"}
)
TOKEN_STARTS = frozenset({"token_start", "start_token", "first_token", "tokens_start", "token_begin", "token_offset"})

_PARQUET = b"PAR1"
_DELIMITERS = (",", "\t", ";")
_BATCH_ROWS = 1 << 18
_BLOCK_BYTES = 16 << 20
# Roles that a manifest may carry as well; any other metric makes the file a metrics log that names its data.
_OF_BATCHES = frozenset(
    {"train_loss", "batch_loss", "seq_len", "seq_len_max", "tokens_seen", "batch_size", "epoch", "shard", "doc_ids",
     "source", "domain", "language", "padding_fraction", "val_loss", "sampling_ratio"}
)  # fmt: skip


def sniff(head: Head) -> float:
    """Columns that name a step (or samples) and a shard or documents, and no metric of the training itself."""
    columns = _columns(head)
    if columns is None or not is_provenance(columns.names):
        return 0.0
    if not any(is_step_name(name) or plain(name) in SAMPLE_STARTS | TOKEN_STARTS for name in columns.names):
        return 0.0
    metrics = {roles.resolve(name).role for name in columns.names if name not in canonical(columns.names)} - {None}
    if metrics - _OF_BATCHES:
        return 0.3
    targets = set(canonical(columns.names).values())
    if "loss" in targets and "rank" not in targets and columns.one_row_a_step:
        return 0.5  # a metrics log that names its data: the rows of the loss curve
    return 0.95


def read(source: Source) -> Iterator[Record]:
    """Stream the rows."""
    with source.path.open("rb") as stream:
        parquet = stream.read(4) == _PARQUET
    reader = _Reader(source)
    frames = reader.parquet() if parquet else reader.text()
    axis: StepAxis | None = None
    first = True
    for raw in frames:
        if not raw.height:
            continue
        frame = unfolded(raw)
        axis = step_axis(frame) if first else axis
        first = False
        yield manifest_batches(frame, axis)
    yield from reader.warnings


@dataclass(frozen=True, slots=True)
class _Columns:
    names: list[str]
    one_row_a_step: bool


def _columns(head: Head) -> _Columns | None:
    """The column names of any of the formats."""
    if head.data.startswith(_PARQUET):
        return _parquet_columns(head.path)
    data = text_head(head.data)
    lines = [line for line in data.split(b"\n")[:60] if line.strip()]
    if not lines or b"\x00" in lines[0]:
        return None
    array = _is_array(data)
    if array or lines[0].lstrip().startswith(b"{"):
        found = islice(stream_objects(head.path), 40) if array else map(_row, lines[:40])
        rows = [row for row in found if row is not None]
        rows = [flat_row(row) for row in rows]
        names = list(dict.fromkeys(key for row in rows for key in row))
        return (
            _Columns(names, _unique_steps(names, [[row.get(name) for name in names] for row in rows])) if rows else None
        )
    header = lines[0].decode("utf-8", "replace")
    delimiter = max(_DELIMITERS, key=header.count)
    if delimiter not in header:
        return None
    try:
        table = list(
            csv.reader((line.decode("utf-8", "replace").rstrip("\r\n") for line in lines), delimiter=delimiter)
        )
    except csv.Error:
        return None
    names = [name.strip() for name in table[0]]
    return _Columns(names, _unique_steps(names, table[1:-1]))


def _is_array(data: bytes) -> bool:
    text = data.lstrip()
    return text[:1] == b"[" and text[1:].lstrip()[:1] == b"{"


def _parquet_columns(path: Path) -> _Columns | None:
    import pyarrow.parquet as pq  # noqa: PLC0415  (heavy)

    try:
        with pq.ParquetFile(path) as file:
            first = next(file.iter_batches(batch_size=64), None)
            rows = [] if first is None else [flat_row(row) for row in first.to_pylist()]
            names = list(rows[0]) if rows else list(file.schema_arrow.names)
    except (OSError, ValueError):
        return None
    return _Columns(names, _unique_steps(names, [[row.get(name) for name in names] for row in rows]))


def _unique_steps(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    at = next((i for i, name in enumerate(names) if is_step_name(name)), None)
    if at is None:
        return False
    steps = [str(row[at]) for row in rows if len(row) > at]
    return len(set(steps)) == len(steps)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(slots=True, eq=False)
class _Reader:
    """Frames of a manifest, block by block, and what was lost."""

    source: Source
    warnings: list[ReadWarning] = field(default_factory=list)
    _columns: dict[str, pl.DataType] = field(default_factory=dict)
    _header: list[str] = field(default_factory=list)
    _delimiter: str = ","

    def parquet(self) -> Iterator[pl.DataFrame]:
        import polars as pl  # noqa: PLC0415  (heavy)
        import pyarrow.parquet as pq  # noqa: PLC0415  (heavy)

        row = 1
        try:
            with pq.ParquetFile(self.source.path) as file:
                for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                    row += batch.num_rows
                    yield pl.DataFrame(pl.from_arrow(batch))
        except (OSError, ValueError) as error:
            self.warnings.append(ReadWarning("damaged-file", f"row {row}", f"the Parquet file is damaged: {error}"))

    def text(self) -> Iterator[pl.DataFrame]:
        blocks = LineBlocks(self.source.path, _BLOCK_BYTES)
        if _is_array(next(iter(blocks), (b"", 0))[0]):
            yield from self._array()
            return
        for block, line in blocks:
            lines = block.lstrip().startswith(b"{") and not self._header
            yield self._json(block, line) if lines else self._csv(block, line)
        self.warnings += blocks.warnings

    def _array(self) -> Iterator[pl.DataFrame]:
        import polars as pl  # noqa: PLC0415  (heavy)

        rows = iter(enumerate(stream_objects(self.source.path), 1))
        while part := list(islice(rows, _BATCH_ROWS)):
            self._bad([number for number, row in part if row is None], "complete JSON object")
            yield pl.DataFrame([row for _, row in part if row], infer_schema_length=None, strict=False)

    def _json(self, block: bytes, line: int) -> pl.DataFrame:
        import polars as pl  # noqa: PLC0415  (heavy)

        frame = self._with_known_columns(block) if self._columns else None
        if frame is not None:
            return frame
        try:
            frame = pl.read_ndjson(block, infer_schema_length=None)
        except (pl.exceptions.PolarsError, ValueError):
            pass
        else:
            self._columns = dict(frame.schema)
            return frame
        rows: list[Mapping[str, Any]] = []
        bad: list[int] = []
        for number, raw in enumerate(block.split(b"\n"), line):
            if raw.strip():
                row = _row(raw)
                bad.extend([number] if row is None else [])
                rows.extend([] if row is None else [row])
        self._bad(bad, "complete JSON object")
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def _with_known_columns(self, block: bytes) -> pl.DataFrame | None:
        """The block, read with the columns of the one before; None where it has others (then a key would be lost)."""
        import polars as pl  # noqa: PLC0415  (heavy)

        try:
            frame = pl.read_ndjson(block, schema=self._columns)
        except (pl.exceptions.PolarsError, ValueError):
            return None
        keys = frame.height * frame.width - sum(frame.null_count().row(0))
        return frame if keys == block.count(b'":') else None

    def _csv(self, block: bytes, line: int) -> pl.DataFrame:
        """Cells as text, so that ids stay as they are written."""
        import polars as pl  # noqa: PLC0415  (heavy)

        if not self._header:
            first, _, block = block.partition(b"\n")
            text = first.decode("utf-8", "replace").strip()
            self._delimiter = max(_DELIMITERS, key=text.count)
            self._header = [name.strip() for name in next(csv.reader([text], delimiter=self._delimiter))]
            line += 1
        width = len(self._header)
        try:
            frame = pl.read_csv(
                block, has_header=False, separator=self._delimiter, infer_schema=False, encoding="utf8-lossy",
                raise_if_empty=False,
            )  # fmt: skip
            if frame.width == width:
                return frame.rename(dict(zip(frame.columns, self._header, strict=True)))
        except pl.exceptions.PolarsError:
            pass
        rows, bad = [], []
        text = block.decode("utf-8", "replace")
        for number, row in enumerate(csv.reader(text.splitlines(), delimiter=self._delimiter), line):
            if len(row) == width:
                rows.append(row)
            elif row:
                bad.append(number)
        self._bad(bad, f"row of {width} cells")
        return pl.DataFrame(rows, schema=dict.fromkeys(self._header, pl.String), orient="row")

    def _bad(self, lines: Sequence[int], wanted: str) -> None:
        if lines:
            message = f"{len(lines)} lines are no {wanted}; they were left out"
            self.warnings.append(ReadWarning("bad-line", f"line {lines[0]}", message))
