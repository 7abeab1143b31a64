"""What the run's configuration says, however deep it is nested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ACCUMULATION_KEYS = ("gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "accumulate_grad_batches")


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
    """The value of the first of `names` that is the last part of a key and has one; None where none has."""
    by_leaf: dict[str, Any] = {}
    for key, value in flat(config):
        if value is not None:
            by_leaf.setdefault(leaf(key), value)
    return next((by_leaf[name] for name in names if name in by_leaf), None)


def matching(config: Mapping[str, Any], pattern: str) -> Iterator[tuple[str, Any]]:
    """Every (key, value) whose key's last part matches a pattern as a whole."""
    found = re.compile(pattern, re.IGNORECASE)
    return ((key, value) for key, value in flat(config) if found.fullmatch(leaf(key)))


def whole(value: Any) -> int | None:
    """A whole number, also where it is written as text or as a float; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(value if isinstance(value, int) else number) if number.is_integer() else None


def accumulation_steps(config: Mapping[str, Any]) -> int:
    """Micro-batches per optimiser step as the configuration states them, 1 where it does not."""
    value = setting(config, ACCUMULATION_KEYS)
    return max(1, int(value)) if isinstance(value, int | float) else 1
