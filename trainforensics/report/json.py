"""result.json: the machine-readable form of a run's result and of the index, written and read back without loss.

JSON has no NaN: non-finite numbers are the strings "NaN", "Infinity" and "-Infinity", and typed number fields take them
back. Free-form values (`config`, `options`, the columns of `blame.batches`) keep the string. Unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from trainforensics.errors import UsageError
from trainforensics.model import SCHEMA, Blame, Index, RunDifference, RunResult

_GIVE = "give the result.json beside it, or the --out folder"
RESULT_NAME = "result.json"
BLAME_SCHEMA, DIFFERENCE_SCHEMA = "trainforensics/blame/1", "trainforensics/diff/1"

T = TypeVar("T", RunResult, Index)


@cache
def _run() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


@cache
def _index() -> TypeAdapter[Index]:
    return TypeAdapter(Index)


def dump_run(result: RunResult) -> bytes:
    """One run as indented UTF-8 JSON."""
    return _dump(result)


def dump_index(index: Index) -> bytes:
    """The index as indented UTF-8 JSON."""
    return _dump(index)


def dump_blame(blame: Blame) -> bytes:
    """One blame answer: what stands in an incident, under a schema of its own."""
    return _bytes({"schema": BLAME_SCHEMA, **_tree(blame)})


def dump_difference(difference: RunDifference) -> bytes:
    """A comparison of two runs, under a schema of its own."""
    return _bytes({"schema": DIFFERENCE_SCHEMA, **_tree(difference)})


def load_run(data: bytes, where: str = RESULT_NAME) -> RunResult:
    """A run from JSON. Raises UsageError naming `where` if it is not a run of this schema."""
    return _load(_run(), _parse(data, where), where)


def load_index(data: bytes, where: str = RESULT_NAME) -> Index:
    """An index from JSON. Raises UsageError naming `where` if it is not an index of this schema."""
    return _load(_index(), _parse(data, where), where)


def load(path: Path) -> tuple[Index | None, tuple[RunResult, ...]]:
    """The saved results at `path`: a result.json of either type, or a folder that holds one.

    An index comes with the result of each run it lists, in its order; a single run comes with no index.
    Raises UsageError where nothing can be read.
    """
    file = path / RESULT_NAME if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise UsageError(
            f"{path}: holds no {RESULT_NAME}; give an --out folder, or run `trainforensics analyze` on logs"
        )
    document = _parse(_read(file), str(file))
    if "runs" not in document:
        return None, (_load(_run(), document, str(file)),)
    index = _load(_index(), document, str(file))
    files = [_inside(file, entry.result) for entry in index.runs]
    return index, tuple(load_run(_read(run), str(run)) for run in files)


def _inside(index: Path, result: str) -> Path:
    """A result that the index names, which lies below the folder of the index. Raises UsageError where it does not."""
    if PurePosixPath(result).is_absolute() or ".." in PurePosixPath(result).parts:
        raise UsageError(
            f"{index}: names a result outside its folder ({result!r}); analyse the logs again to rebuild it"
        )
    return index.parent / result


def is_saved_result(path: Path) -> bool:
    """Whether `path` is one of our result files, or a folder that holds one, rather than logs."""
    file = path / RESULT_NAME if path.is_dir() else path
    if file.suffix != ".json" or not file.is_file():
        return False
    with file.open("rb") as stream:  # "schema" is the first key of everything we write
        return b'"trainforensics/result/' in stream.read(200)


def _dump(value: RunResult | Index) -> bytes:
    document = _tree(value)
    return _bytes({"schema": document.pop("schema"), **document})


def _tree(value: Any) -> Any:
    """Dataclasses as mappings, without the underscore that keeps a field's name apart from Python's keywords.

    A type adapter would do it too, but takes 40 ms to build.
    """
    if is_dataclass(value):
        return {f.name.rstrip("_"): _tree(getattr(value, f.name)) for f in fields(value)}
    return [_tree(item) for item in value] if isinstance(value, tuple) else value


def _bytes(document: dict[str, Any]) -> bytes:
    try:
        return to_json(document, indent=2, inf_nan_mode="strings", fallback=_plain) + b"\n"
    except ValueError:  # a lone surrogate, as file names that are not UTF-8 have
        return to_json(_escape(document), indent=2, inf_nan_mode="strings", fallback=_plain) + b"\n"


def _plain(value: Any) -> Any:
    """NumPy scalars and other mappings as Python's own; whatever a log's configuration holds besides, as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if hasattr(value, "item") else str(value)


def _escape(value: Any) -> Any:
    """The same tree with every lone surrogate written out as text, e.g. "\\udcff"."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_escape(key): _escape(item) for key, item in value.items()}
    return [_escape(item) for item in value] if isinstance(value, (list, tuple)) else value


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: cannot read the result: {error.strerror or error}") from error


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        document = from_json(data)
    except ValueError as error:
        advice = "analyse the logs again to rebuild it" if where.endswith(".json") else _GIVE
        raise UsageError(f"{where}: not valid JSON ({error}); {advice}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        found = f"schema {schema!r}" if schema else "no schema"
        raise UsageError(f"{where}: not a result this version reads ({found}, expected {SCHEMA!r})")
    return dict(document)


def _load(adapter: TypeAdapter[T], document: dict[str, Any], where: str) -> T:
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{where}: {error.error_count()} invalid field(s), first: {place}: {first['msg']}") from error
