"""One JSON document that holds rows: arrays of objects, objects of columns, pandas' and W&B's exports."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainforensics import roles
from trainforensics.importers.base import open_binary
from trainforensics.importers.header import named_after
from trainforensics.importers.jsonlogs.repair import repaired
from trainforensics.importers.rows.axes import is_step_name, says_validation
from trainforensics.importers.rows.block import flatten

_LARGEST = 64 << 20  # beyond it, only arrays and concatenated objects are read, as a stream
_CHUNK = 4 << 20
_TAIL = 1 << 16  # what fails to parse so near the end of a chunk may merely be cut by it
_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"\}\s*+(?:,\s*+)?\{")
_RESULTS = frozenset({"train_loss", "val_loss", "grad_norm", "reward", "val_metric", "step_time", "tokens_per_sec"})
_COUNTED_KEY = re.compile(r"(epoch|step|iter(?:ation)?|round|)[_ -]?(\d+)", re.IGNORECASE)
_TAG = re.compile(r"tag-(.+?)(?: ?\(\d+\))?\.json")  # as TensorBoard calls what it downloads
_FEWEST_KEYED = 3  # rows
_ROW_KEYS = ("history", "logs", "log", "data", "metrics", "rows", "records", "results")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """The rows of a document, and what it says beside them."""

    rows: list[Mapping[str, Any]]
    beside: Mapping[str, Any] = field(default_factory=dict)


def read_document(path: Path, head: bytes, whole: bool) -> Document | None:
    """What the document holds, None where that is no rows. `head` spares reading the file where it is `whole`."""
    try:
        if not whole:
            with open_binary(path) as stream:
                head = stream.read(_LARGEST)
        value = loads(head.decode("utf-8-sig"))
        return rows_of(value) or _tuples(value, path.name)
    except (ValueError, OSError, EOFError, RecursionError):
        return None


def loads(text: str) -> Any:
    """The value of a document, also where some of its values are written as no JSON allows. Raises ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):  # cut off
            raise
    _refuse_early(text)
    return json.loads(repaired(text))


def _refuse_early(text: str) -> None:
    """Raise ValueError where the first lines show already that no repair makes a document of the text.

    No repair looks past the end of a line, but for blanks.
    """
    begin = repaired(text[: text.rfind("\n", 0, 2 * _TAIL) + 1])
    try:
        json.loads(begin)
    except json.JSONDecodeError as error:
        if error.pos < len(begin) - _TAIL:
            raise


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
            text = yield from _objects(text, tail=_TAIL if more else 0)
            if not more:
                return


def _objects(text: str, tail: int) -> Generator[Mapping[str, Any] | None, None, str]:
    """The objects of a text, up to one that its end may merely have cut off; returns the text from there on."""
    at, untouched = 0, True
    while (start := text.find("{", at)) >= 0:
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if getattr(error, "pos", 0) >= len(text) - tail:
                return text[start:]
            if untouched:
                text, at, untouched = repaired(text[start:]), 0, False
                continue
            yield None
            at = _next_object(text, start + 1)
        else:
            yield value
    return ""


def _next_object(text: str, at: int) -> int:
    """Where the object after a damaged one begins: at a brace that follows a closing one."""
    found = _BETWEEN.search(text, at)
    return found.end() - 1 if found else len(text)


def rows_of(value: Any) -> Document | None:
    """Rows of a decoded document, None where it holds none.

    They are [{...}, ...], {"loss": [...], ...}, {"loss": {"0": ...}, ...}, one of these below a key that says so, lists
    of rows below any key, or series that state their first step and the interval of their values.
    """
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, Mapping)]
        return Document(rows) if len(rows) >= max(1, len(value) // 2) and _numbers(rows) else None
    if not isinstance(value, Mapping):
        return None
    for key in _ROW_KEYS:
        if isinstance(value.get(key), list | Mapping):
            found = rows_of(value[key])
            if found is not None:
                return Document(found.rows, {**_beside(value, (key,)), **found.beside})
    return _columns(value) or _keyed(value) or _histories(value) or _spaced(value)


def holds_result(row: Mapping[str, Any]) -> bool:
    """Whether a row holds a number that training or evaluation gave."""
    return any(is_number(value) and roles.resolve(key).role in _RESULTS for key, value in flatten(row).items())


def is_number(value: Any) -> bool:
    """Whether a decoded value is a number, or a text that begins as one and as no date."""
    if isinstance(value, str):
        return bool(re.match(r"\s*[-+]?(?:\d(?!\d{3}-\d\d)|nan|inf)", value, re.IGNORECASE))
    return isinstance(value, int | float)


def _numbers(rows: list[Mapping[str, Any]]) -> bool:
    return any(isinstance(item, int | float) for row in rows[:50] for item in row.values())


def _beside(value: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in taken and not isinstance(item, list)}


def _columns(value: Mapping[str, Any]) -> Document | None:
    """Rows from columns of equal length, a result among them: lists, or objects keyed by the row number."""
    lists = {key: column for key, column in value.items() if isinstance(column, list) and len(column) > 2}
    lists = {key: column for key, column in lists.items() if not isinstance(column[0], list | Mapping)}
    results = any(roles.resolve(key).role in _RESULTS for key in lists)
    if results and len({len(column) for column in lists.values()}) == 1:
        n = len(next(iter(lists.values())))
        counted = {} if any(key in {"step", "epoch", "_step"} for key in lists) else {"epoch": list(range(n))}
        rows: list[Mapping[str, Any]] = [
            {key: column[i] for key, column in {**counted, **lists}.items()} for i in range(n)
        ]
        return Document(rows, _beside(value, lists))
    maps = {key: column for key, column in value.items() if isinstance(column, Mapping)}
    if maps and len(maps) == len(value) and all(str(k).isdigit() for column in maps.values() for k in column):
        keys = list(dict.fromkeys(k for column in maps.values() for k in column))
        return Document([{key: column[k] for key, column in maps.items() if k in column} for k in keys])
    return None


def _keyed(value: Mapping[str, Any]) -> Document | None:
    """Rows keyed by what counts them: {"epoch_1": {"loss": ...}, ...}, {"1": {...}, ...}."""
    found = [(_COUNTED_KEY.fullmatch(key), row) for key, row in value.items() if isinstance(row, Mapping)]
    rows = [{(key[1] or "epoch").lower(): int(key[2]), **row} for key, row in found if key is not None]
    if len(rows) < max(_FEWEST_KEYED, len(value) // 2) or not any(map(holds_result, rows)):
        return None
    return Document(list(rows), _beside(value, [key for key in value if _COUNTED_KEY.fullmatch(key)]))


def _tuples(value: Any, name: str) -> Document | None:
    """Rows of step and value, or of wall time, step and value as TensorBoard gives them, of a series that the file's
    name says.
    """
    said = named_after(name) or (found[1] if (found := _TAG.search(name)) else "")
    if not (said and isinstance(value, list) and len(value) >= _FEWEST_KEYED):
        return None
    widths = {len(row) if isinstance(row, list) and all(map(is_number, row)) else 0 for row in value}
    names = {2: ("step", said), 3: ("wall_time", "step", said)}.get(max(widths), ())
    return Document([dict(zip(names, row, strict=True)) for row in value]) if names and len(widths) == 1 else None


def _histories(value: Mapping[str, Any]) -> Document | None:
    """The longest list of rows of a log below any key, and those that its key says hold validation."""
    found = {key: rows for key, rows in _lists(value) if len(rows) > 1 and any(map(_is_of_a_log, rows[:50]))}
    if not found:
        return None
    longest = max(found, key=lambda key: (not says_validation(key), len(found[key])))
    rows: list[Mapping[str, Any]] = list(found.pop(longest))
    for key, others in found.items():
        rows += [{"split": "val", **row} for row in others if says_validation(key)]
    return Document(rows, _beside(value, ()))


def _spaced(value: Mapping[str, Any]) -> Document | None:
    """Rows of {"lm loss": {"start_step": 0, "step_interval": 5, "values": [...]}, ...}, as of Megatron's tests; values
    may be keyed by their steps instead."""
    rows: dict[int, dict[str, Any]] = {}
    taken = set()
    for name, series in value.items():
        held = series.get("values") if isinstance(series, Mapping) else None
        if isinstance(held, list) and all(_counts(series.get(key)) for key in ("start_step", "step_interval")):
            first, apart = _count(series["start_step"]), _count(series["step_interval"])
            held = {first + i * apart: item for i, item in enumerate(held)}
        if isinstance(held, Mapping) and all(_counts(step) for step in held):
            taken.add(name)
            for step, item in held.items():
                rows.setdefault(_count(step), {})[name] = item
    found = [{**rows[step], "step": step} for step in sorted(rows)]
    return Document(list(found), _beside(value, taken)) if len(found) > 1 and any(map(holds_result, found)) else None


def _counts(value: Any) -> bool:
    """Whether a decoded value is a whole number that steps are counted with, or the text of one."""
    return re.fullmatch(r"[0-9]{1,18}(?:\.0)?", str(value)) is not None


def _count(value: Any) -> int:
    return int(str(value).removesuffix(".0"))


def _lists(value: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _lists(item)
        elif isinstance(item, list) and all(isinstance(row, Mapping) for row in item):
            yield key, item


def _is_of_a_log(row: Mapping[str, Any]) -> bool:
    return holds_result(row) and any(is_step_name(key) and is_number(item) for key, item in row.items())


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
