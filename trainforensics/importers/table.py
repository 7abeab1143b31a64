"""Tables with a step column: CSV, TSV and Parquet.

Lightning's and Keras' CSV loggers, progress.csv, W&B's chart exports and `run.history()`, wide tables and tables of
one metric a row. W&B's table of runs (one row a run, no step) is recognised and refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainforensics import roles
from trainforensics.importers.base import EMPTY, HEAD_BYTES, NULL, Head, Record, Source, open_binary
from trainforensics.importers.framing import BlockReader
from trainforensics.importers.header import NAMELESS, by_place, is_number, shape_of
from trainforensics.importers.lines import LineBlocks, text_head
from trainforensics.importers.rows.axes import is_step_name
from trainforensics.importers.rows.block import ABSENT, Block, Cells
from trainforensics.importers.rows.cells import Marks, columns_of_frame, decimal_comma, text_cells
from trainforensics.importers.rows.provenance import logged_batches
from trainforensics.importers.rows.reader import RowReader
from trainforensics.importers.rows.rewritten import Rewritten
from trainforensics.model import ReadWarning

if TYPE_CHECKING:
    import polars as pl

FORMAT = "table"

_PARQUET = b"PAR1"
_BAND = re.compile(r"__(MIN|MAX)$")
_RUNS_TABLE = frozenset({"Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "ID"})
_MARGINS = re.compile(rb"^[ \t]+|(?<![ \t\r])[ \t\r]+$", re.MULTILINE)
_BLANKS = re.compile(rb"[ \t]+")
_LONG_NAMES = frozenset({"metric", "tag", "name", "key"})
_LONG_VALUES = frozenset({"value", "metric_value"})
_LONGEST_QUOTED = 64 << 20
_NAME = re.compile(r"(?!(?:nan|inf(?:inity)?|none|null)$)[A-Za-z][\w ./()-]*", re.IGNORECASE)
_BATCH_ROWS = 1 << 16
_FEWEST_WITH_GAPS = 3  # rows
_FEW_LINES = 3
_LONGEST_HEAD = 4 << 20


def sniff(head: Head) -> float:
    """A header that names a step or an epoch and a metric, over rows of numbers (cells may be set apart by blanks)."""
    if head.data.startswith(_PARQUET):
        return _sniff_parquet(head)
    shape = shape_of(_first_lines(head), head.name, head.options)
    if shape is None:
        return 0.0
    if shape.named:
        return _confidence_without_header(shape.header, head.options)
    if _is_runs_table(shape.header):
        return 0.8
    whole = [row for row in shape.rows if len(row) == len(shape.header)]  # others may be of a table within this one
    rows = whole if len(whole) > len(shape.rows) / 3 else shape.rows
    numeric = sum(_numeric_share(row, len(shape.header)) >= 0.3 for row in rows)
    if not rows or numeric < 0.7 * len(rows):
        return 0.0
    if len(shape.header) == 1:
        return 0.4
    return _confidence(shape.header, head.options)


def columns_of(head: Head) -> list[str]:
    """Names of the columns of a table, whatever they mean; none for what is no table of at least two columns."""
    if head.data.startswith(_PARQUET):
        return _parquet_names(head.path)
    shape = shape_of(_first_lines(head), head.name, head.options)
    if shape is None or len(shape.header) < 2 or not shape.rows:
        return []
    whole = shape.rows[:-1] if len(shape.rows) > 1 else shape.rows  # the last row may be cut off
    return shape.header if all(len(row) == len(shape.header) for row in whole) else []


def read(source: Source) -> Iterator[Record]:
    """Stream the table's columns as points."""
    with source.path.open("rb") as stream:
        parquet = stream.read(4) == _PARQUET
    yield from _read_parquet(source) if parquet else _Csv(source).read()


def _confidence(header: Sequence[str], options: Mapping[str, str]) -> float:
    names = [name.strip() for name in header]
    lower = {name.lower() for name in names}
    known = {roles.resolve(_metric(name), options).role for name in names} - {None, "epoch"}
    long_form = _LONG_VALUES & lower and _LONG_NAMES & lower
    if any(is_step_name(name) or options.get(name) == "step" for name in names):
        return 0.85 if known or long_form else 0.6
    return 0.4 if known & {"train_loss", "val_loss"} or roles.are_losses(names) else 0.0


def _confidence_without_header(header: Sequence[str], options: Mapping[str, str]) -> float:
    """Numbers alone may be anything: the file's name or the user says that a column is a metric."""
    said = [name for name in header if name in options or not name.startswith(NAMELESS)]
    counted = {"epoch", "step"} < set(said)  # no other numbers stand so
    return 0.4 if counted or any(roles.resolve(name, options).role for name in said) else 0.0


def _metric(name: str) -> str:
    """The metric of a column of a chart export ("run - metric")."""
    return _BAND.sub("", name).rsplit(" - ", 1)[-1]


def _is_runs_table(header: Sequence[str]) -> bool:
    return len(_RUNS_TABLE & set(header)) >= 3 and "Step" not in header


def _first_lines(head: Head) -> bytes:
    """The head of a text, or a few of its lines where these are longer: a table may have thousands of columns."""
    text = text_head(head.data)
    if len(head.data) >= head.size or text.count(b"\n") >= _FEW_LINES:
        return text
    try:
        with open_binary(head.path) as stream:
            return text_head(BlockReader(stream).read(_LONGEST_HEAD))
    except OSError:
        return text


def _top(data: bytes) -> bytes:
    """As much of a block as `_first_lines` gives."""
    end = -1
    for _ in range(_FEW_LINES):
        end = data.find(b"\n", end + 1)
        if end < 0:
            return data[:_LONGEST_HEAD]
    return data[: max(HEAD_BYTES, end + 1)]


# --- CSV ---------------------------------------------------------------------------------------------------------


def _numeric_share(row: Sequence[str], width: int) -> float:
    filled = [cell for cell in row if cell.strip()]
    if not filled or len(filled) > 2 * width:
        return 0.0
    return sum(is_number(cell) for cell in filled) / len(filled)


@dataclass(slots=True, eq=False)
class _Csv:
    """One text table. A header may come again in the middle: a restart that appended, perhaps with other columns."""

    source: Source
    delimiter: str = ","
    header: list[str] = field(default_factory=list)
    spans: Sequence[tuple[int, int]] = ()
    ragged: int = 0
    ragged_line: int = 0
    others: set[int] = field(default_factory=set)  # widths of further tables among the rows
    foreign: int = 0
    foreign_line: int = 0
    stray: int = 0
    stray_line: int = 0
    again: int = 0  # how often the header came again
    again_line: int = 0
    changed: int = 0  # how often it did with other columns
    changed_step: int | None = None  # behind which it did first
    names: set[str] = field(default_factory=set)  # of all headers
    commas: bool = False  # whether cells of the block under way may hold any
    marks: Marks | None = None  # of numbers with a decimal comma
    warnings: list[ReadWarning] = field(default_factory=list)

    def read(self) -> Iterator[Record]:
        blocks = LineBlocks(self.source.path)
        reader = _Exports(self.source)
        pending, pending_line = b"", 1
        for block, line in blocks:
            data = pending + block.replace(b"\r\r\n", b"\n")
            first = pending_line if pending else line
            data, first = (data, first) if self.header else self._begin(data, first)
            data = self._without_stray_quotes(data, first)
            if data.count(b'"') % 2 and len(data) < _LONGEST_QUOTED:
                pending, pending_line = data, first
                continue
            pending = b""
            yield from self._block(data, first, reader)
        if pending:
            yield from self._block(pending, pending_line, reader)
        yield from reader.finish()
        yield from self._written_again(reader)
        if self.ragged:
            message = f"{self.ragged} rows have more cells than the header; the further cells are column_<number>"
            yield ReadWarning("ragged-row", f"line {self.ragged_line}", message)
        if self.foreign:
            message = f"{self.foreign} rows of another table stand among the rows; they were left out"
            yield ReadWarning("foreign-row", f"line {self.foreign_line}", message)
        if self.stray:
            message = f"{self.stray} rows open a quotation that nothing closes; they were left out"
            yield ReadWarning("bad-line", f"line {self.stray_line}", message)
        yield from self.warnings
        yield from blocks.warnings

    def _written_again(self, reader: _Exports) -> Iterator[ReadWarning]:
        """What stands below further headers, where it is not just another life under the same columns."""
        found = [r.rewritten for r in reader.readers.values() if r.rewritten is not None and r.rewritten.rows]
        if not (found or self.changed):
            return
        changed = "with other columns" if self.changed == self.again else f"{self.changed} of them with other columns"
        message = f"the header stands again {_times(self.again)}{f', {changed}' if self.changed else ''}"
        if found:
            first, last = min(r.first for r in found), max(r.last for r in found)
            rows = f"{sum(r.rows for r in found)} rows of steps {first} to {last}"
            message = f"{rows} were written again with equal values and count once: {message}"
        elif self.changed_step is not None:
            message += f", first behind step {self.changed_step}; each names the columns of the rows below it"
        yield ReadWarning("written-again", f"line {self.again_line}", message)

    def _begin(self, data: bytes, line: int) -> tuple[bytes, int]:
        """Find the header; what is below it, and the line that begins with. Nothing where this is no table."""
        shape = shape_of(_top(data), self.source.path.name, self.source.options)
        if shape is None:
            self.warnings.append(ReadWarning("no-header", f"line {line}", "no header was found; nothing was read"))
            return b"", line
        if _is_runs_table(shape.header):
            message = "a table of runs, one row each, without a step; export a chart or the history instead"
            self.warnings.append(ReadWarning("runs-table", f"line {line}", message))
            return b"", line
        if shape.named:
            message = f"no header: the columns are taken as {', '.join(shape.header)}; --map NAME=ROLE says otherwise"
            self.warnings.append(ReadWarning("no-header", f"line {line}", message))
        self.delimiter, self.header, self.spans = shape.delimiter, _with_gaps(shape.header, shape.rows), shape.spans
        if shape.across:
            values = data.strip().strip(b"[]").replace(self.delimiter.encode(), b" ")
            data, self.delimiter = b"\n".join(values.split()), ","
        body = data.split(b"\n", shape.lines)
        return body[-1] if len(body) == shape.lines + 1 else b"", line + shape.lines

    def _without_stray_quotes(self, data: bytes, line: int) -> bytes:
        """The lines, emptied where they open a quotation that is none: the line below is a row of its own.

        A quotation may go on over lines; one that nothing closes would swallow every row behind it.
        """
        if b'"' not in data:
            return data
        bytes_ = np.frombuffer(data, np.uint8)
        quotes = np.searchsorted(np.flatnonzero(bytes_ == ord("\n")), np.flatnonzero(bytes_ == ord('"')))
        odd = [row for row, count in enumerate(np.bincount(quotes).tolist()) if count % 2]
        if not odd:
            return data
        lines = data.split(b"\n")
        closing = -1
        for row, following in zip(odd, [*odd[1:], len(lines)], strict=True):
            if row == closing or row + 1 == len(lines) or not self._opens_quotation(lines[row]):
                continue
            if not self._is_row(lines[row + 1]):
                closing = following
                continue
            lines[row] = b""
            self.stray, self.stray_line = self.stray + 1, self.stray_line or line + row
        return b"\n".join(lines)

    def _opens_quotation(self, line: bytes) -> bool:
        mark = re.escape(self.delimiter)
        closed = rf'(?:"(?:[^"]|"")*+"[^{mark}]*+|[^"{mark}][^{mark}]*+)?'
        return re.fullmatch(rf"{closed}(?:{mark}{closed})*+\r?", line.decode("utf-8", "replace")) is None

    def _is_row(self, line: bytes) -> bool:
        """Whether a line is a row of numbers on its own."""
        cells = (
            line.decode("utf-8", "replace").replace('"', "").split(None if self.delimiter == " " else self.delimiter)
        )
        return len(cells) == len(self.header) and _numeric_share(cells, len(cells)) > 0.5

    def _block(self, data: bytes, line: int, reader: _Exports) -> Iterator[Record]:
        if not data.strip():
            return
        self.commas = (b'"' if self.delimiter == "," else b",") in data  # within cells
        aligned = data
        if self.delimiter == " ":
            data = _BLANKS.sub(b" ", _MARGINS.sub(b"", data))
        frame = self._clean(data)
        if frame is None and self.spans:
            data = self._placed(aligned)
            frame = self._clean(data)
        if frame is not None:
            yield from reader.add(self._cells(frame, np.arange(line, line + frame.height, dtype=np.int64)), frame)
        else:
            yield from self._row_by_row(data, line, reader)

    def _placed(self, data: bytes) -> bytes:
        """Lines of aligned columns with empty cells made explicit; other lines as they are."""
        lines = []
        for text in data.decode("utf-8", "replace").split("\n"):
            words = text.split()
            cells = by_place(text, self.spans) if 0 < len(words) < len(self.spans) else words
            lines.append(" ".join(cell or '""' for cell in cells))
        return "\n".join(lines).encode()

    def _clean(self, data: bytes) -> pl.DataFrame | None:
        """The cells of a block whose every line has as many as the header, and no header; None for any other block."""
        import polars as pl  # noqa: PLC0415  (heavy)

        separator = self.delimiter.encode()
        cuts = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(cuts == 10)
        ends = ends if len(ends) and ends[-1] == len(data) - 1 else np.append(ends, len(data))
        marks = np.flatnonzero(cuts == separator[0])
        per_line = np.diff(np.searchsorted(marks, ends), prepend=0)
        if np.any(per_line != len(self.header) - 1) or len(set(self.header)) < len(self.header):
            return None
        try:
            frame = pl.read_csv(
                data, has_header=False, separator=self.delimiter, infer_schema=False,
                new_columns=self.header, encoding="utf8-lossy", raise_if_empty=False,
            )  # fmt: skip
        except pl.exceptions.PolarsError:
            return None
        if frame.height != len(ends) or frame.width != len(self.header):
            return None
        return None if any(bool((frame[name] == name).any()) for name in self.header) else frame

    def _cells(self, frame: pl.DataFrame, lines: NDArray[np.int64]) -> Block:
        if self.commas and self.marks is None:
            self.marks = decimal_comma(frame.get_columns(), likely=self.delimiter == ";")
        columns = {c.name: text_cells(c, EMPTY, typed=False, marks=self.marks) for c in frame.get_columns()}
        return Block(columns, lines)

    def _row_by_row(self, data: bytes, line: int, reader: _Exports) -> Iterator[Record]:
        """A block with ragged lines, quoted line breaks or another header."""
        text = data.decode("utf-8", "replace")
        parsed = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        rows: list[list[str]] = []
        lines: list[int] = []
        number = line
        while True:
            try:
                row = next(parsed)
            except StopIteration:
                break
            except csv.Error as error:
                self.warnings.append(ReadWarning("bad-line", f"line {number}", f"not a row of the table: {error}"))
                continue
            at, number = number, line + parsed.line_num
            if not any(cell.strip() for cell in row):
                continue
            if self._is_header(row):
                yield from self._rows(rows, lines, reader)
                rows, lines = [], []
                self._take_header(row, at, reader)
                continue
            if self._is_foreign(row):
                self.foreign, self.foreign_line = self.foreign + 1, self.foreign_line or at
                continue
            rows.append(row)
            lines.append(at)
        yield from self._rows(rows, lines, reader)

    def _is_foreign(self, row: Sequence[str]) -> bool:
        """Whether a row is of another table that the program wrote between the rows, or its header."""
        if 1 < len(row) < len(self.header) and all(_NAME.fullmatch(cell.strip()) for cell in row):
            self.others.add(len(row))
        return len(row) in self.others

    def _is_header(self, row: Sequence[str]) -> bool:
        """Whether a row names columns: the known ones, or most of them, or in the step's place the step."""
        names = [cell.strip() for cell in row]
        if " ".join(names) == " ".join(self.header):
            return True
        known = {*self.header} | self.names
        if any(is_number(name) and name not in known for name in names):
            return False
        itself = any(is_step_name(name) and name == here for name, here in zip(names, self.header, strict=False))
        shared = len(set(names) & known)
        return itself or (any(map(is_step_name, names)) and shared >= max(2, len(names) // 2))

    def _take_header(self, row: Sequence[str], line: int, reader: _Exports) -> None:
        """The columns are called so from here on."""
        self.again, self.again_line = self.again + 1, self.again_line or line
        self.names.update(self.header)
        if " ".join(cell.strip() for cell in row) != " ".join(self.header):
            self.changed_step = self.changed_step if self.changed else reader.last_step
            self.changed += 1
            self.header, self.spans = [name.strip() for name in row], ()
        reader.restart()

    def _rows(self, rows: list[list[str]], lines: list[int], reader: _Exports) -> Iterator[Record]:
        if not rows:
            return
        import polars as pl  # noqa: PLC0415  (heavy)

        width = max(len(row) for row in rows)
        names = _unique([*self.header, *(f"column_{i + 1}" for i in range(len(self.header), width))])
        long = [line for row, line in zip(rows, lines, strict=True) if len(row) > len(self.header)]
        if long:
            self.ragged_line = self.ragged_line or long[0]
            self.ragged += len(long)
        cells = {name: [row[i] if i < len(row) else None for row in rows] for i, name in enumerate(names)}
        frame = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String))
        block = self._cells(frame, np.asarray(lines, dtype=np.int64))
        widths = np.array([len(row) for row in rows])
        for i, column in enumerate(block.columns.values()):
            column.state[widths <= i] = ABSENT
        yield from reader.add(block, frame)


def _with_gaps(header: list[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The header with a name for each column that it skips: as many are empty in every row as rows have further cells.

    Some trainers write two separators behind a value.
    """
    further = {len(row) - len(header) for row in (rows[:-1] if len(rows) > 1 else rows)}
    if len(rows) < _FEWEST_WITH_GAPS or len(further) != 1 or (wider := further.pop()) <= 0:
        return header
    empty = [at for at in range(len(header) + wider) if not any(row[at].strip() for row in rows if at < len(row))]
    if len(empty) != wider:
        return header
    names = iter(header)
    return [f"column_{at + 1}" if at in empty else next(names) for at in range(len(header) + wider)]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _unique(names: Sequence[str]) -> list[str]:
    """Column names made unique: a second `loss` becomes `loss_2`."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


# --- charts of several runs --------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Exports:
    """Readers of the runs of one table: one for a plain table, one a run for a chart export."""

    source: Source
    readers: dict[str, RowReader] = field(default_factory=dict)

    def add(self, block: Block, frame: pl.DataFrame) -> Iterator[Record]:
        """The points of further rows; `frame` holds the same rows for what they say of their data."""
        for run, part in _runs(block).items():
            reader = self.readers.setdefault(run, RowReader(self.source, run, rewritten=Rewritten()))
            yield from reader.add(part)
            if not run:
                yield from logged_batches(frame, reader.steps)

    def restart(self) -> None:
        """The header came again: a new process life, unless the rows below are those of before."""
        for reader in self.readers.values():
            if reader.rewritten is not None:
                reader.rewritten.header()

    @property
    def last_step(self) -> int | None:
        """Step of the last row."""
        return max((r.last_step for r in self.readers.values() if r.last_step is not None), default=None)

    def finish(self) -> Iterator[Record]:
        for reader in self.readers.values():
            yield from reader.finish()


def _runs(block: Block) -> dict[str, Block]:
    """The runs of a chart export ("Step", "run - metric", "run - metric__MIN" ...); a plain table is run ""."""
    names = list(block.columns)
    charted = [name for name in names if " - " in name]
    if not charted or len(charted) < len(names) - 2:
        return {"": block}
    shared = {name: block.columns[name] for name in names if name not in charted}
    runs: dict[str, dict[str, Cells]] = {}
    for name in charted:
        run, metric = name.rsplit(" - ", 1)
        if metric in {"_step", "_step__MIN", "_step__MAX"} or _is_folded(block, name):
            continue
        runs.setdefault(run, {})[metric] = block.columns[name]
    return {run: _logged_rows(Block({**shared, **columns}, block.line), columns) for run, columns in runs.items()}


def _is_folded(block: Block, name: str) -> bool:
    """Whether a __MIN or __MAX column only repeats its mean: the export of one run, not of a group."""
    if not _BAND.search(name):
        return False
    mean = block.columns.get(_BAND.sub("", name))
    return mean is None or bool(np.array_equal(mean.number, block.columns[name].number, equal_nan=True))


def _logged_rows(block: Block, columns: dict[str, Cells]) -> Block:
    """Rows in which the run logged anything: where another run of the chart logged, this one has empty cells."""
    keep = np.zeros(len(block), bool)
    for cells in columns.values():
        keep |= cells.given
    return block if keep.all() else block.take(keep)


# --- Parquet -----------------------------------------------------------------------------------------------------


def _sniff_parquet(head: Head) -> float:
    names = _parquet_names(head.path)
    return _confidence(names, head.options) if names else 0.3


def _parquet_names(path: Path) -> list[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415  (heavy)

    try:
        return list(pq.read_schema(path).names)
    except (OSError, ValueError):
        return []


def _read_parquet(source: Source) -> Iterator[Record]:
    import polars as pl  # noqa: PLC0415  (heavy)
    import pyarrow.parquet as pq  # noqa: PLC0415  (heavy)

    reader = _Exports(source)
    row = 1
    try:
        with pq.ParquetFile(source.path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                lines = np.arange(row, row + batch.num_rows, dtype=np.int64)
                row += batch.num_rows
                frame = pl.DataFrame(pl.from_arrow(batch))
                yield from reader.add(Block(dict(columns_of_frame(frame, NULL)), lines), frame)
    except (OSError, ValueError) as error:
        yield ReadWarning("damaged-file", f"row {row}", f"the Parquet file is damaged: {error}")
    yield from reader.finish()
