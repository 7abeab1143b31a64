"""The values of a configuration file in YAML, JSON or TOML. Whatever is wrong with one is a ValueError."""

from __future__ import annotations

import json
import tomllib
from typing import Any

_ALIASED = 100_000  # values and characters that aliases may write out; a configuration without them is its own size


def parse(name: str, data: bytes) -> Any:
    """What a file of this name holds.

    Raises ValueError where it is damaged, nested too deeply, or would be too large once its aliases are written out.
    """
    text = data.decode("utf-8-sig", "replace")
    try:
        if name.lower().endswith(".json"):
            return json.loads(text)
        if name.lower().endswith(".toml"):
            return tomllib.loads(text)
        return _yaml(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415  (only for YAML files)

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads tags of other languages (`!!python/object`) as plain values."""

    Loader.add_multi_constructor("", _plain)
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _written_out(node, {}) > max(len(text), _ALIASED):
            raise ValueError("its aliases write out to more than a configuration can hold")
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{where}{getattr(error, 'problem', None) or 'not YAML'}") from error


def _written_out(node: Any, sizes: dict[int, float]) -> float:
    """Values and characters of a node with every alias in its place; infinite where one leads back to itself."""
    key = id(node)
    if key not in sizes:
        sizes[key] = float("inf")
        if isinstance(node.value, str):
            sizes[key] = 1 + len(node.value)
        else:
            inner = (part for item in node.value for part in (item if isinstance(item, tuple) else (item,)))
            sizes[key] = 1 + sum(_written_out(part, sizes) for part in inner)
    return sizes[key]


def _plain(loader: Any, _suffix: str, node: Any) -> Any:
    import yaml  # noqa: PLC0415  (only for YAML files)

    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value
