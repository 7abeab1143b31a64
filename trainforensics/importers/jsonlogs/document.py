"""One JSON document that holds rows: arrays of objects, objects of columns, pandas' and W&B's exports."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainforensics.importers.base import open_binary

_LARGEST = 64 << 20  # beyond it, only arrays and concatenated objects are read, as a stream
_CHUNK = 4 << 20
_TAIL = 1 << 16  # what fails to parse so near the end of a chunk may merely be cut by it
_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"\}\s*,?\s*\{")
_ROW_KEYS = ("history", "logs", "log", "data", "metrics", "rows", "records", "results")


def document_rows(path: Path, head: bytes, whole: bool) -> list[Mapping[str, Any]] | None:
    """The rows of the document, None where it holds none. `head` spares reading the file where it is `whole`."""
    try:
        if whole:
            value = json.loads(head)
        else:
            with open_binary(path) as stream:
                value = json.loads(stream.read(_LARGEST).removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, OSError, EOFError, RecursionError):
        return None
    return rows_of(value)


def stream_objects(path: Path) -> Iterator[Mapping[str, Any] | None]:
    """The objects of an array, or of objects written one after the other over several lines; None for a gap.

    After a damaged object it goes on with the next one. Bounded memory.
    """
    with open_binary(path) as stream:
        decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        text = ""
        while True:
            more = stream.read(_CHUNK)
            text += decode(more, final=not more)
            at = yield from _objects(text, tail=_TAIL if more else 0)
            text = text[at:]
            if not more:
                return


def _objects(text: str, tail: int) -> Generator[Mapping[str, Any] | None, None, int]:
    """The objects of a text, up to one that its end may merely have cut off; returns where that one begins."""
    at = 0
    while (start := text.find("{", at)) >= 0:
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if getattr(error, "pos", 0) >= len(text) - tail:
                return start
            yield None
            at = _next_object(text, start + 1)
        else:
            yield value
    return len(text)


def _next_object(text: str, at: int) -> int:
    """Where the object after a damaged one begins: at a brace that follows a closing one."""
    found = _BETWEEN.search(text, at)
    return found.end() - 1 if found else len(text)


def rows_of(value: Any) -> list[Mapping[str, Any]] | None:
    """Rows of a decoded document: [{...}, ...], {"loss": [...], ...}, {"loss": {"0": ...}, ...} or one level deeper."""
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, Mapping)]
        return rows if len(rows) >= max(1, len(value) // 2) and _numbers(rows) else None
    if not isinstance(value, Mapping):
        return None
    for key in _ROW_KEYS:
        if isinstance(value.get(key), list | Mapping):
            found = rows_of(value[key])
            if found is not None:
                return found
    return _columns(value)


def _numbers(rows: list[Mapping[str, Any]]) -> bool:
    return any(isinstance(item, int | float) for row in rows[:50] for item in row.values())


def _columns(value: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Rows from columns of equal length: lists, or objects keyed by the row number."""
    lists = {key: column for key, column in value.items() if isinstance(column, list) and len(column) > 2}
    lists = {key: column for key, column in lists.items() if not isinstance(column[0], list | Mapping)}
    if lists and len({len(column) for column in lists.values()}) == 1:
        n = len(next(iter(lists.values())))
        counted = {} if any(key in {"step", "epoch", "_step"} for key in lists) else {"epoch": list(range(n))}
        return [{key: column[i] for key, column in {**counted, **lists}.items()} for i in range(n)]
    maps = {key: column for key, column in value.items() if isinstance(column, Mapping)}
    if maps and len(maps) == len(value) and all(str(k).isdigit() for column in maps.values() for k in column):
        keys = list(dict.fromkeys(k for column in maps.values() for k in column))
        return [{key: column[k] for key, column in maps.items() if k in column} for k in keys]
    return None


def flat_config(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration as one level, keys joined by "."; W&B's {"value": ...} wrappers are taken off."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if "value" in value and value.keys() <= {"value", "desc"}:
                out |= flat_config({name: value["value"]})
            else:
                out |= flat_config(value, f"{name}.")
        else:
            out[name] = value
    return out
