"""Console text: what trainings print, in any mixture, with progress bars, tracebacks and several ranks in one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainforensics.importers.base import HEAD_BYTES, Head, Record, Source, open_binary
from trainforensics.importers.lines import LineBlocks, text_head
from trainforensics.importers.printed.reader import Reader
from trainforensics.model import Event

FORMAT = "console"

_NOT_CONSOLE = (".json", ".yaml", ".yml", ".toml", ".csv", ".tsv", ".parquet", ".md", ".html", ".py", ".ini", ".cfg")
_TAIL_BYTES = 256 * 1024
_LONGEST_LINE = 32 << 20
_SNIFFED_LINES = 40  # at a time
_ENOUGH_RECORDS, _ENOUGH_SETTINGS = 2, 5


def sniff(head: Head) -> float:
    """Text with records, or at least events or settings; a program may be printed before them, so the end is looked at
    too."""
    if head.name.lower().endswith(_NOT_CONSOLE) or b"\x00" in text_head(head.data)[:4096]:
        return 0.0
    records, events = _found(head.path, text_head(head.data))
    if records < _ENOUGH_RECORDS and head.size > len(head.data):
        more, further = _found(head.path, _tail(head))
        records, events = records + more, events + further
    if records >= _ENOUGH_RECORDS:
        return 0.5
    return 0.3 if records else 0.1 if events else 0.0


def read(source: Source) -> Iterator[Record]:
    """Stream the points, events and settings in the order of the text."""
    reader = Reader(source)
    blocks = LineBlocks(source.path, carriage_returns=True, longest_line=_LONGEST_LINE)
    for block, line in blocks:
        yield from reader.block(block.decode("utf-8", "replace"), line)
    yield from reader.end()
    yield from blocks.warnings


def _found(path: Path, data: bytes) -> tuple[int, int]:
    """How many records and events a stretch of text holds, as far as it was read until there are enough of records; a
    table of settings counts as an event."""
    reader = Reader(Source(path, path.name))
    lines = data.decode("utf-8", "replace").split("\n")
    events = 0
    for at in range(0, len(lines), _SNIFFED_LINES):
        text = "\n".join(lines[at : at + _SNIFFED_LINES])
        events += sum(isinstance(record, Event) for record in reader.block(text, at + 1))
        if reader.records >= _ENOUGH_RECORDS:
            break
    return reader.records, events + (reader.stated >= _ENOUGH_SETTINGS)


def _tail(head: Head) -> bytes:
    """The end of a file, or what follows the head where it is compressed."""
    with open_binary(head.path) as stream:
        try:
            stream.seek(max(HEAD_BYTES, head.size - _TAIL_BYTES) if stream.seekable() else HEAD_BYTES)
            return stream.read(_TAIL_BYTES)
        except (EOFError, OSError, ValueError):
            return b""
