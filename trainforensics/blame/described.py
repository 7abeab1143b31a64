"""What the run's configuration says, however deep it is nested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every leaf; lists and empty mappings are leaves."""
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        yield name, value


def leaf(key: str) -> str:
    """The last part of a dotted or slashed key, in lower case."""
    return re.split(r"[./]", key)[-1].lower()


def setting(config: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of `names` that is the last part of a key; None where none is."""
    by_leaf: dict[str, Any] = {}
    for key, value in flat(config):
        by_leaf.setdefault(leaf(key), value)
    return next((by_leaf[name] for name in names if name in by_leaf), None)


def matching(config: Mapping[str, Any], pattern: str) -> Iterator[tuple[str, Any]]:
    """Every (key, value) whose key's last part matches a pattern as a whole."""
    found = re.compile(pattern, re.IGNORECASE)
    return ((key, value) for key, value in flat(config) if found.fullmatch(leaf(key)))
