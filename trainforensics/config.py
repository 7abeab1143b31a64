"""Settings of the tool: command line > environment (TRAINFORENSICS_*) > trainforensics.toml > [tool.trainforensics]."""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trainforensics import registry
from trainforensics.errors import UsageError
from trainforensics.kinds import CODES, FAMILIES, KINDS, SEVERITIES

ENV_PREFIX = "TRAINFORENSICS_"
FILE_NAME = "trainforensics.toml"
_NOT_SETTINGS = frozenset({"DEBUG", "CONFIG"})  # variables with a meaning of their own
_ROLE = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class Settings:
    """Effective settings of one call. `params` overrides detector thresholds: kind -> parameter -> value.

    `jobs` 0 lets the tool choose by the amount of work.
    """

    out: Path = Path("trainforensics-out")
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    map: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 0
    plots: bool = True
    fail_on: str = "high"
    require: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def wants(self, kind: str, family: str) -> bool:
        """Whether --select/--ignore let a kind through."""
        selected = not self.select or kind in self.select or family in self.select
        return selected and kind not in self.ignore and family not in self.ignore


def load(overrides: Mapping[str, Any], file: Path | None = None, folder: Path | None = None) -> Settings:
    """Settings from the command line's `overrides` (None: not given), the environment and the configuration file.

    `map` is merged name by name, names of a higher level first: the first that fits a series decides its role. The
    file is `file`, else $TRAINFORENSICS_CONFIG, else trainforensics.toml or pyproject.toml in `folder` (default: where
    the call is made). Raises UsageError for a key or value that is not understood, naming where it stands.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    table, where = _file_table(file or _env_file(), folder or Path())
    levels = (_checked(given, "the command line"), _checked(_environment(), "the environment"), _checked(table, where))
    merged: dict[str, Any] = {}
    names: dict[str, str] = {}
    for level in levels:
        names |= {name: role for name, role in level.get("map", {}).items() if name not in names}
        merged = level | merged
    return Settings(**(merged | {"map": names}))


def _env_file() -> Path | None:
    value = os.environ.get(f"{ENV_PREFIX}CONFIG")
    return Path(value) if value else None


def _file_table(file: Path | None, folder: Path) -> tuple[dict[str, Any], str]:
    if file is not None:
        return _inner(_parse(file), file.name == "pyproject.toml"), str(file)
    own, project = folder / FILE_NAME, folder / "pyproject.toml"
    if own.is_file():
        return _parse(own), str(own)
    if project.is_file():
        return _inner(_parse(project), True), f"{project} [tool.trainforensics]"
    return {}, ""


def _inner(document: dict[str, Any], is_project: bool) -> dict[str, Any]:
    if not is_project:
        return document
    table: Any = document
    for key in ("tool", "trainforensics"):
        table = table.get(key, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise UsageError("pyproject.toml: [tool.trainforensics] must be a table")
    return dict(table)


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot read the configuration ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # the former also of a number too long to be read
        raise UsageError(f"{file}: not valid TOML ({error})") from None


def _environment() -> dict[str, Any]:
    known = {f.name for f in fields(Settings)} - {"params"}
    found = {}
    for name, value in os.environ.items():
        key = name.removeprefix(ENV_PREFIX)
        if key == name or key in _NOT_SETTINGS:
            continue
        if key.lower() not in known:
            names = sorted(ENV_PREFIX + setting.upper() for setting in known)
            raise UsageError(f"environment variable {name}: no such setting; {_hint(name, names)}")
        found[key.lower()] = value
    return found


def _checked(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    readers = {
        "out": _path, "select": _kinds, "ignore": _kinds, "map": _mapping, "jobs": _jobs, "plots": _flag,
        "fail_on": _severity, "require": _names, "params": _params,
    }  # fmt: skip
    result = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in readers:
            raise UsageError(f"{where}: unknown setting {key!r}; {_hint(name, readers)}")
        try:
            result[name] = readers[name](value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{where}: {key} = {value!r}: {error}") from None
    return result


def _path(value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
        raise ValueError("needs a folder name")
    return Path(value)


def _names(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise ValueError("needs a list of names")
    pieces = [piece.strip() for item in items for piece in item.split(",")]
    return tuple(dict.fromkeys(piece for piece in pieces if piece))


def _kinds(value: Any) -> tuple[str, ...]:
    names = []
    for name in _names(value):
        kind = CODES.get(name.upper(), name)
        if kind not in KINDS and kind not in FAMILIES:
            raise ValueError(f"no kind, code or family {name!r}; {_hint(name, [*KINDS, *FAMILIES], FAMILIES)}")
        names.append(kind)
    return tuple(names)


def _mapping(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            raise ValueError("needs NAME=ROLE pairs")
        pairs = [pair for item in items for pair in _pairs(item)]
    if not all(isinstance(part, str) and part for pair in pairs for part in pair):
        raise ValueError("needs NAME=ROLE pairs")
    return dict(pairs)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The pairs of `NAME=ROLE,NAME=ROLE`. A comma parts two pairs only behind a role: a name may hold one itself."""
    pieces: list[str] = []
    for piece in text.split(","):
        pieces.append(piece)
        name, equals, role = ",".join(pieces).rpartition("=")
        if equals and _ROLE.fullmatch(role.strip()):
            yield name.strip(), role.strip()
            pieces = []
    if rest := ",".join(pieces).strip():
        raise ValueError(f"{rest!r} is not NAME=ROLE")


def _jobs(value: Any) -> int:
    wrong = "needs a whole number of processes, 0 to choose by the amount of work"
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(wrong)
    try:
        jobs = int(value)
    except ValueError:
        raise ValueError(wrong) from None
    if jobs < 0:
        raise ValueError(wrong)
    return jobs


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError("needs true or false")
    return word in ("1", "true", "yes", "on")


def _severity(value: Any) -> str:
    if value not in SEVERITIES:
        raise ValueError(f"needs one of {', '.join(SEVERITIES)}")
    return str(value)


def _params(value: Any) -> dict[str, dict[str, float]]:
    if not isinstance(value, Mapping):
        raise ValueError("needs a table per kind")
    result: dict[str, dict[str, float]] = {}
    for kind, table in value.items():
        if kind not in KINDS:
            raise ValueError(f"no kind {kind!r}; {_hint(kind, KINDS, ())}")
        if not isinstance(table, Mapping):
            raise ValueError(f"{kind} needs a table of parameters")
        known = _parameters(kind)
        for name in table:
            if name not in known:
                has = _hint(str(name), known) if known else "it has none"
                raise ValueError(f"{kind} has no parameter {name!r}; {has}")
        result[kind] = {str(name): _threshold(f"{kind}.{name}", number) for name, number in table.items()}
    return result


def _parameters(kind: str) -> tuple[str, ...]:
    """Names of a kind's parameters, as its detector declares them."""
    metas = [module.META for module in registry.detectors().modules]
    return tuple(param.name for meta in metas if meta.kind.name == kind for param in meta.params)


def _threshold(name: str, value: Any) -> float:
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} = {value!r} is no threshold; it needs a number from 0 on")
    return number


def _hint(name: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """The known name nearest to one that is not, else the known (or the `listed`) names."""
    known = [*known]
    near = difflib.get_close_matches(name, known, n=1) or [k for k in known if name and name in k.split("-")][:1]
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known are {', '.join(known if listed is None else listed)}"
