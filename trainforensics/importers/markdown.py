"""Training results in Markdown: tables, as model cards hold them, a row an evaluation with the loss before it; where a
file holds none, the records in its text and in its blocks of output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainforensics import roles
from trainforensics.importers.base import EMPTY, Head, Points, Record, Source
from trainforensics.importers.lines import LineBlocks, text_head
from trainforensics.importers.printed.reader import Reader
from trainforensics.importers.rows.axes import is_step_name
from trainforensics.importers.rows.block import Block
from trainforensics.importers.rows.cells import text_cells
from trainforensics.importers.rows.reader import RowReader

FORMAT = "markdown"
SUFFIXES = (".md", ".markdown")

_RULER = re.compile(r"\s*+\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)+\|?\s*")
_NOTHING = frozenset({"No log", "-", "N/A"})  # "No log": the Trainer evaluated before it logged a loss
_RESULTS = frozenset({"train_loss", "val_loss"})
_FEWEST_ROWS, _FEWEST_RECORDS = 2, 3
_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*(\w*)(?!.*```)")
_OUTPUT = frozenset({"", "text", "txt", "log", "logs", "console", "output", "plaintext", "bash", "sh", "shell"})
_MARK = re.compile(r"\s*(?:[-*+]|\d+[.)]|#{1,6})\s+(?=[^\W\d]|\*\*)")  # of a list or a heading
_ASIDE = re.compile(r"\s*\([^()]*[A-Za-z][^()]*\)(?=\W*$|:)")  # "Step 750 (the best): ...", "... (it overfits)"
_MARKS = str.maketrans("", "", "*`")


@dataclass(slots=True)
class _Table:
    """The rows of one table, with the number of the first one's line."""

    header: list[str]
    first: int
    rows: list[list[str]] = field(default_factory=list)


@dataclass(slots=True)
class _Text:
    """The text of a page as a console would show it, part by part."""

    fence: str | None = None  # the language of the block that is open

    def of(self, text: str) -> str:
        """A text without the lines of programs; the others stand without marks and remarks."""
        return "\n".join(map(self._line, text.split("\n")))

    def _line(self, line: str) -> str:
        if (found := _FENCE.match(line)) is not None:
            self.fence = found[1].lower() if self.fence is None else None
            return ""
        if self.fence is not None:
            return line if self.fence in _OUTPUT else ""
        return _ASIDE.sub("", _MARK.sub("", line).translate(_MARKS))


def sniff(head: Head) -> float:
    """A Markdown file with a table whose columns are a step or an epoch and a loss, or with records as text."""
    if not head.name.lower().endswith(SUFFIXES):
        return 0.0
    text = text_head(head.data).decode("utf-8", "replace")
    if any(len(table.rows) >= _FEWEST_ROWS for table in _tables(text)):
        return 0.6
    found = Reader(Source(head.path, head.name)).block(_Text().of(text), 1)
    rows = max((len(record.step) for record in found if isinstance(record, Points)), default=0)
    return 0.3 if rows >= _FEWEST_RECORDS else 0.0


def read(source: Source) -> Iterator[Record]:
    """The points of each table; those behind the first are runs of their own. Without any, those of its text."""
    blocks = LineBlocks(source.path)
    tables = (table for data, line in blocks for table in _tables(data.decode("utf-8", "replace"), line))
    number = 0
    for number, table in enumerate(tables, 1):
        reader = RowReader(source, f"table_{number}" if number > 1 else "")
        yield from reader.add(_block(table))
        yield from reader.finish()
    if not number:
        blocks = LineBlocks(source.path)
        printed, page = Reader(source), _Text()
        for data, line in blocks:
            yield from printed.block(page.of(data.decode("utf-8", "replace")), line)
        yield from printed.end()
    yield from blocks.warnings


def _tables(text: str, line: int = 1) -> list[_Table]:
    """The tables of a text that tell of a training; its first line has the number `line`."""
    found: list[_Table] = []
    before: list[str] = []
    table: _Table | None = None
    for number, row in enumerate(text.splitlines(), line):
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")] if "|" in row else []
        if _RULER.fullmatch(row) and len(cells) == len(before):
            table = _Table(before, number + 1) if _tells_training(before) else None
            found += [table] if table else []
        elif table is not None and len(cells) == len(table.header):
            table.rows.append(cells)
        else:
            table = None
        before = cells
    return [table for table in found if table.rows]


def _tells_training(header: Sequence[str]) -> bool:
    found = {match.role for match in roles.resolve_all(header).values()}
    return any(map(is_step_name, header)) and bool(found & _RESULTS)


def _block(table: _Table) -> Block:
    import polars as pl  # noqa: PLC0415  (heavy)

    columns = dict(zip(table.header, zip(*table.rows, strict=True), strict=True))
    texts = {
        name: pl.Series(name, ["" if cell in _NOTHING else cell.strip("*`") for cell in cells])
        for name, cells in columns.items()
    }
    cells = {name: text_cells(column, EMPTY, typed=False) for name, column in texts.items()}
    return Block(cells, np.arange(table.first, table.first + len(table.rows), dtype=np.int64))
