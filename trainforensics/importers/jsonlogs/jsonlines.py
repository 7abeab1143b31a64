"""JSON lines: one object a line, flat or nested, NaN in any spelling, also behind a log prefix.

Reads what Hugging Face, LLaMA-Factory, ms-swift, mmdetection, mmengine, Detectron2, fairseq and hand-written loggers
leave, and arrays or columns of rows in one JSON document (exported histories).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeVar

from trainforensics import roles
from trainforensics.importers.base import NO_TIME, Config, Head, Record, Source
from trainforensics.importers.jsonlogs import fast
from trainforensics.importers.jsonlogs.document import (
    Document,
    flat_config,
    holds_result,
    is_number,
    read_document,
    rows_of,
    stream_objects,
)
from trainforensics.importers.jsonlogs.repair import repaired
from trainforensics.importers.jsonlogs.rows import add_rows
from trainforensics.importers.lines import LineBlocks, ends_by_return, newlines, text_head
from trainforensics.importers.messages import event_kind
from trainforensics.importers.rows.axes import is_checkpoint_name, is_step_name, logging_interval
from trainforensics.importers.rows.block import Block, flatten
from trainforensics.importers.rows.provenance import logged_batches
from trainforensics.importers.rows.reader import RowReader
from trainforensics.importers.rows.times import parse_time
from trainforensics.model import Event, ReadWarning

FORMAT = "jsonl"

_PREFIX_TIME = re.compile(r"\[?(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)")
_IN_ARRAY = re.compile(r"\[(?:[^\[\]]*[^\[\]\s]),$")  # an object among others in an array: "[125, 0, {...}, {...}]"
_CONFIG_WORDS = frozenset(
    {"config", "args", "arguments", "hparams", "hyperparameters", "header", "meta", "settings", "env", "init"}
)
_START_WORDS = frozenset({"start", "run_start", "train_start", "training_start", "begin", "launch"})
_PROGRESS_ROLES = frozenset({"train_loss", "val_loss", "grad_norm", "reward"})
_DOCUMENT_ROWS = 1 << 16
_BLOCK_BYTES = 16 << 20
_CONFIG_KEYS = frozenset({"env_info", "config", "args", "hparams", "hyperparameters", "user_config", "cfg"})
_TAG_KEYS = ("type", "event", "kind", "record", "mode", "split", "phase", "stage")


def sniff(head: Head) -> float:
    """JSON objects that carry numbers, one a line, or rows in one JSON document."""
    data = text_head(head.data)
    if ends_by_return(data):
        data = data.replace(b"\r", b"\n")
    whole = len(head.data) >= head.size
    lines = data.split(b"\n")
    if not whole and len(lines) > 1:
        lines.pop()
    filled = [line for line in lines[:400] if line.strip()]
    if not filled:
        return 0.0
    plain = prefixed = 0
    rows: list[Mapping[str, Any]] = []
    for line in filled:
        found = _decode(line.decode("utf-8", "replace"))
        if found is not None and found.rows:
            plain += not found.prefix
            prefixed += bool(found.prefix)
            rows += found.rows
    # One object alone is a log only where it holds a result; else it is a configuration.
    metrics = any(_holds_metrics(row) for row in rows) if len(rows) > 1 else any(holds_result(row) for row in rows)
    if metrics and plain >= 0.5 * len(filled):
        return 0.9
    if metrics and prefixed >= 0.2 * len(filled):
        return 0.7
    if data.lstrip()[:1] not in (b"[", b"{") or b'"log_history"' in data:
        return 0.0
    document = read_document(head.path, data, whole)
    rows = [row for row in islice(stream_objects(head.path), 50) if row] if document is None else document.rows[:50]
    return 0.85 if any(holds_result(row) for row in rows) else 0.0


def read(source: Source) -> Iterator[Record]:
    """Stream the points, with configuration lines and messages between them."""
    reader = _Reader(source, RowReader(source))
    blocks = LineBlocks(source.path, _BLOCK_BYTES)
    lines = _ahead(iter(blocks))
    first = next(lines, None)
    if first is not None and _is_document(first[0]):
        yield from reader.document(read_document(source.path, b"", whole=False))
    elif first is not None:
        for stretch in _ahead(_stretches(chain([first], lines))):
            yield from reader.lines(stretch)
    yield from reader.finish()
    yield from blocks.warnings


def _is_document(block: bytes) -> bool:
    """Whether a file is one JSON document, or objects over several lines, rather than an object a line."""
    text = block.lstrip()
    if text[:1] == b"[":
        return text[1:].lstrip()[:1] in (b"{", b"]", b"[")
    if text[:1] != b"{":
        return False
    found = _decode(_first_line(text))
    if found is None or not found.rows:
        return True
    if len(found.rows) == 1 and rows_of(found.rows[0]) is not None:
        return not text.partition(b"\n")[2].strip()
    return not any(_holds_metrics(row) for row in found.rows) and not text.partition(b"\n")[2].strip()


def _first_line(text: bytes) -> str:
    end = text.find(b"\n")
    return text[: end if end >= 0 else len(text)].decode("utf-8", "replace")


T = TypeVar("T")


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The items, of which the next is made in another thread while one is used."""
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(lambda: list(islice(items, 1)))
        while item := coming.result():
            coming = other.submit(lambda: list(islice(items, 1)))
            yield item[0]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive lines, the first of which is number `line`; `parsed` where they are plain.

    `head`: it ends with the first row of the file, which is a configuration.
    """

    text: bytes
    line: int
    parsed: fast.Parsed | None = None
    head: bool = False


def _stretches(blocks: Iterable[tuple[bytes, int]]) -> Iterator[_Stretch]:
    """The lines of a file; what would keep others from being plain, at its begin and its end, stands alone."""
    for number, (block, line) in enumerate(blocks):
        begin = _end_of_configuration(block) if not number else 0
        end = _begin_of_torn_line(block)
        if begin:
            yield _Stretch(block[:begin], line, head=True)
        if begin < end:
            body, first = block[begin:end], line + newlines(block[:begin])
            yield _Stretch(body, first, fast.parse(body, first))
        if end < len(block):
            yield _Stretch(block[end:], line + newlines(block))


def _end_of_configuration(block: bytes) -> int:
    """Where the first row ends, if it is a configuration; else 0."""
    begin = len(block) - len(block.lstrip())
    found = _decode(_first_line(block[begin:]))
    if found is None or not found.rows or _config_of(found.rows[0], first=True) is None:
        return 0
    return block.find(b"\n", begin) + 1 or len(block)


def _begin_of_torn_line(block: bytes) -> int:
    """Where the last line begins, if it has no end and is no row; else the length of the block."""
    if block.endswith(b"\n"):
        return len(block)
    begin = block.rfind(b"\n") + 1
    found = _decode(block[begin:].decode("utf-8", "replace"))
    return len(block) if found is not None and found.rows and not found.torn else begin


@dataclass(slots=True)
class _Line:
    """The objects of one line and what stood before the first of them; `torn` where the last is incomplete."""

    rows: list[dict[str, Any]]
    prefix: str = ""
    torn: bool = False


_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[, \t]*")


def _decode(line: str) -> _Line | None:
    """The JSON objects of a line; None where there is no brace at all."""
    at = line.find("{")
    if at < 0:
        return None
    found = _Line([], line[:at].strip().lstrip("\ufeff"))
    if _IN_ARRAY.match(found.prefix):
        return None
    if found.prefix.startswith("["):
        found.prefix = found.prefix if len(found.prefix) > 1 else ""
    untouched = True
    while line.startswith("{", at):
        try:
            value, end = _DECODER.raw_decode(line, at)
        except (ValueError, RecursionError):
            if not untouched:
                found.torn = True
                return found
            line, at, untouched = repaired(line[at:]), 0, False
            continue
        found.rows.append(value)
        between = _BETWEEN.match(line, end)
        at = between.end() if between else end
    return found


def _holds_metrics(row: Mapping[str, Any]) -> bool:
    """Whether a row names a step or a known metric and holds a number."""
    flat = flatten(row)
    numbers = [key for key, value in flat.items() if is_number(value)]
    return bool(numbers) and any(is_step_name(key) or roles.resolve(key).role for key in numbers)


@dataclass(slots=True)
class _Reader:
    source: Source
    points: RowReader
    bad: int = 0
    bad_line: int = 0
    torn_line: int = 0
    read_lines: int = 0
    foreign: int = 0  # lines of text without an object, of which nothing was taken
    foreign_line: int = 0
    first: bool = False  # the next row is the file's first
    _rows: list[Mapping[str, Any]] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def document(self, document: Document | None) -> Iterator[Record]:
        """One JSON document, or where it is no such whole, the objects in it. Rows are counted instead of lines."""
        if document is not None and document.beside:
            yield Config(flat_config(document.beside))
        for number, row in enumerate(stream_objects(self.source.path) if document is None else document.rows, 1):
            if row is None:
                self._count_bad(number, torn=False)
                continue
            self._rows.append(row)
            self._lines.append(number)
            if len(self._rows) >= _DOCUMENT_ROWS:
                yield from self._flush()
        yield from self._flush()

    def lines(self, stretch: _Stretch) -> Iterator[Record]:
        """Consecutive lines."""
        parsed = stretch.parsed
        self.first = stretch.head
        if parsed is not None and not _holds_config(parsed.block):
            self.read_lines += len(parsed.block)
            yield from self.points.add(parsed.block)
            if parsed.frame is not None:
                yield from logged_batches(parsed.frame, self.points.steps)
        else:
            yield from self._line_by_line(stretch.text, stretch.line)

    def _line_by_line(self, block: bytes, line: int) -> Iterator[Record]:
        last = not block.endswith(b"\n")
        texts = block.decode("utf-8", "replace").split("\n")
        for number, raw in enumerate(texts, line):
            if not raw or raw.isspace():
                continue
            found = _decode(raw)
            if found is None or (not found.rows and not found.torn):
                events = list(self._message(raw, number))
                if not events:
                    self.foreign += 1
                    self.foreign_line = self.foreign_line or number
                yield from events
                continue
            self.read_lines += 1
            if found.torn:
                self._count_bad(number, torn=last and number == line + len(texts) - 1)
            for row in found.rows:
                yield from self._row(self._tagged(row, found.prefix), number)
        yield from self._flush()

    def finish(self) -> Iterator[Record]:
        """What could not be read."""
        yield from self.points.finish()
        if self.bad:
            message = f"{self.bad} lines are no complete JSON object; the others were kept"
            yield ReadWarning("bad-line", f"line {self.bad_line}", message)
        if 0 < self.foreign <= self.read_lines:  # a log that is mostly text is a console's, and its text no damage
            message = f"{self.foreign} lines hold no JSON object; the others were kept"
            yield ReadWarning("bad-line", f"line {self.foreign_line}", message)
        if self.torn_line:
            yield ReadWarning("torn-line", f"line {self.torn_line}", "the last line is unfinished; it was left out")

    def _count_bad(self, number: int, torn: bool) -> None:
        if torn:
            self.torn_line = number
        else:
            self.bad += 1
            self.bad_line = self.bad_line or number

    def _row(self, row: dict[str, Any], number: int) -> Iterator[Record]:
        config = _config_of(row, self.first)
        self.first = False
        if config is not None:
            yield from self._flush()
            if self.points.started:
                self.points.segment += 1
            self.points.logging_interval = self.points.logging_interval or logging_interval(config)
            yield Config(config)
            return
        self._rows.append(row)
        self._lines.append(number)

    def _tagged(self, row: dict[str, Any], prefix: str) -> dict[str, Any]:
        """A row with the time and the record type of its log prefix ("2025-10-30 05:32:43 | INFO | valid | {...}")."""
        if not prefix:
            return row
        tag = prefix.rstrip("| :-").rsplit("|", 1)[-1].strip().rsplit(" ", 1)[-1]
        if tag in {"valid", "train", "test"}:
            counter = row.get(f"{tag}_num_updates")
            row = {**row, **({"num_updates": counter} if counter is not None else {})}
            if tag != "train":
                row["mode"] = tag
        found = _PREFIX_TIME.search(prefix)
        if found and "timestamp" not in row:
            row["timestamp"] = found[1]
        return row

    def _message(self, raw: str, number: int) -> Iterator[Record]:
        """What a line of plain text between the rows says."""
        kind = event_kind(raw)
        if kind is None:
            return
        yield from self._flush()
        found = _PREFIX_TIME.search(raw)
        wall = parse_time(found[1]) if found else NO_TIME
        step = self.points.last_step
        time = None if wall == NO_TIME else wall / 1e6
        yield Event(kind, step, time, text=raw.strip()[:2000], source=self.source.label, line=number)

    def _flush(self) -> Iterator[Record]:
        rows, lines = self._rows, self._lines
        if not rows:
            return
        self._rows, self._lines = [], []
        yield from add_rows(self.points, rows, lines)


def _holds_config(block: Block) -> bool:
    """Whether any row of a block may be a configuration."""
    for name, cells in block.columns.items():
        texts = set() if cells.text is None else {str(text).lower() for text in set(cells.text)}
        if (texts and name in _CONFIG_KEYS) or (name in _TAG_KEYS and texts & _CONFIG_WORDS):
            return True
    return any(name.split("/", 1)[0] in _CONFIG_KEYS for name in block.columns if "/" in name)


def _config_of(row: Mapping[str, Any], first: bool) -> dict[str, Any] | None:
    """The configuration that a row holds instead of metrics, or None."""
    tag = next((str(row[key]).lower() for key in _TAG_KEYS if isinstance(row.get(key), str)), "")
    said = tag in _CONFIG_WORDS or any(isinstance(row.get(key), str | Mapping) for key in _CONFIG_KEYS & row.keys())
    said |= tag in _START_WORDS and "step" not in row and not holds_result(row)
    if said or (first and not _holds_progress(row)):
        return flat_config({key: value for key, value in row.items() if key not in _TAG_KEYS or key not in row})
    return None


def _holds_progress(row: Mapping[str, Any]) -> bool:
    """Whether a first row is a row of the log: it names a step, an epoch, a loss, or what a checkpoint measured."""
    keys = flatten(row).keys()
    if any(map(is_checkpoint_name, keys)) and holds_result(row):
        return True
    last = {key.rsplit("/", 1)[-1] for key in keys}
    if any(map(is_step_name, last)) and any(roles.resolve(key).role in _PROGRESS_ROLES for key in last):
        return True
    return any(
        is_step_name(key) or key in {"timestamp", "time"} or roles.resolve(key).role in _PROGRESS_ROLES for key in keys
    )
