"""The text files of a W&B run folder: `wandb-summary.json` (last values only) and `config.yaml`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trainforensics.importers import configfile
from trainforensics.importers.base import STRING, VALUE, Config, Head, Points, Record, Source, open_binary
from trainforensics.model import Axis, ReadWarning

FORMAT = "wandb-files"

_OWN_KEYS = (b'"_step"', b'"_runtime"', b'"_timestamp"', b'"_wandb"')


def sniff(head: Head) -> float:
    """A JSON object with W&B's own keys under the summary's name, or a configuration with `wandb_version`."""
    if head.name == "wandb-summary.json" and head.data.lstrip()[:1] == b"{":
        return 0.95 if any(key in head.data for key in _OWN_KEYS) else 0.8
    if head.name.endswith((".yaml", ".yml")) and (b"wandb_version:" in head.data or b"\n_wandb:" in head.data):
        return 0.95
    return 0.0


def read(source: Source) -> Iterator[Record]:
    """Stream the configuration, or one point for each number of a summary that lies without its history."""
    with open_binary(source.path) as stream:
        content = stream.read()
    if content.lstrip()[:1] == b"{":
        yield from _summary(source, content)
    else:
        yield from _config(content)


def _config(content: bytes) -> Iterator[Record]:
    try:
        loaded = configfile.parse("config.yaml", content)
    except ValueError as error:
        yield ReadWarning("undecodable", "file", f"not YAML; configuration lost ({error})")
        return
    found = loaded if isinstance(loaded, Mapping) else {}
    values = {key: _unwrapped(value) for key, value in found.items() if key not in {"wandb_version", "_wandb"}}
    if values:
        yield Config(values)


def _unwrapped(value: Any) -> Any:
    """Each setting is stored as {desc: ..., value: ...}."""
    return value["value"] if isinstance(value, Mapping) and "value" in value else value


def _summary(source: Source, content: bytes) -> Iterator[Record]:
    if any(source.path.parent.glob("*.wandb")) or any(source.path.parent.parent.glob("*.wandb")):
        return  # the history beside it ends with these values
    try:
        values = json.loads(content)
    except ValueError as error:
        yield ReadWarning("undecodable", "file", f"not JSON: {error}")
        return
    step, time = values.get("_step"), values.get("_timestamp")
    numbers = dict(_numbers("", values))
    where = np.array([int(step) if _finite(step) else 0])
    wall_time = np.array([round(time * 1e6)]) if _finite(time) else None
    for name, (value, state) in numbers.items():
        states = np.array([state], np.uint8) if state != VALUE else None
        yield Points(name, where, np.array([value]), np.zeros(1, np.int64), wall_time, states)
    yield Axis("_step", "step")
    message = f"only the last values of {len(numbers)} metrics are here, without their history"
    yield ReadWarning("summary-only", source.label, message)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _numbers(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, int]]]:
    """Every number of a summary under its dotted name, with its state."""
    for key, value in values.items():
        if key.startswith("_"):
            continue
        if isinstance(value, Mapping):
            if "_type" not in value:
                yield from _numbers(f"{prefix}{key}.", value)
        elif isinstance(value, int | float):
            yield f"{prefix}{key}", (float(value), VALUE)
        elif isinstance(value, str):
            try:
                yield f"{prefix}{key}", (float(value), STRING)
            except ValueError:
                continue
