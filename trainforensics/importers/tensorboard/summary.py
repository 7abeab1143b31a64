"""Decodes one value of a TensorBoard summary through TensorBoard's own messages: number, histogram, text, settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainforensics.importers import protowire as wire
from trainforensics.importers.histogram import quantiles

_ASSIGNMENT = re.compile(r"([\w./-]+)\s*[:=]\s*(\S+)")
_MAX_WORD = 200  # a text of one word up to this length is a setting (Megatron writes each argument so)


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar under a tag."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """Text for people."""

    text: str


Found = Number | Text | Mapping[str, Any]


def decode_value(value: Any) -> Iterator[Found]:
    """What a Summary.Value holds; a mapping is configuration. Images, audio and curves give nothing."""
    kind = value.WhichOneof("value")
    if value.metadata.plugin_data.plugin_name == "hparams":
        yield from _hyperparameters(value.metadata.plugin_data.content)
    elif kind == "simple_value":
        yield Number(value.tag, value.simple_value)
    elif kind == "histo":
        yield from _old_histogram(value.tag, value.histo)
    elif kind == "tensor":
        yield from _tensor(value)


def _tensor(value: Any) -> Iterator[Found]:
    from tensorboard.util.tensor_util import make_ndarray  # noqa: PLC0415

    try:
        array = make_ndarray(value.tensor)  # type: ignore[no-untyped-call]
    except (TypeError, KeyError) as error:  # a damaged type or shape; the latter for a type that does not exist
        raise wire.WireError(f"not a tensor ({error})") from None
    if array.dtype.kind in "OSU":
        if value.metadata.plugin_data.plugin_name in {"text", ""}:
            parts = [part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in array.ravel()]
            yield from _text(value.tag.removesuffix("/text_summary"), parts)
    elif array.size == 1:
        yield Number(value.tag, float(array.ravel()[0]))
    elif array.ndim == 2 and array.shape[1] == 3 and value.metadata.plugin_data.plugin_name in {"histograms", ""}:
        edges = np.append(array[:, 0], array[-1:, 1])
        yield from _numbers(value.tag, quantiles(edges, array[:, 2]))


def _old_histogram(tag: str, histogram: Any) -> Iterator[Number]:
    limits, counts = np.array(histogram.bucket_limit, float), np.array(histogram.bucket, float)
    if len(limits) and len(limits) == len(counts):
        edges = np.append(-np.inf, limits)
        yield from _numbers(tag, quantiles(edges, counts, histogram.min, histogram.max))


def _numbers(tag: str, values: Mapping[str, float]) -> Iterator[Number]:
    return (Number(f"{tag}/{name}", value) for name, value in values.items())


def _text(tag: str, parts: list[str]) -> Iterator[Found]:
    text = "\n".join(parts)
    settings = _json_object(text) or _markdown_table(text) or _assignments(text)
    if settings:
        yield settings
    elif 0 < len(text) <= _MAX_WORD and len(text.split()) == 1:
        yield {tag: text}
    else:
        yield Text(f"{tag}: {text}")


def _json_object(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _markdown_table(text: str) -> dict[str, str]:
    """A two-column Markdown table of names and values, as add_text("hyperparameters", ...) often holds."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|", 1)] for line in text.strip().splitlines()]
    if len(rows) < 3 or any(len(row) != 2 for row in rows) or set("".join(rows[1])) - set("-:| "):
        return {}
    return dict(rows[2:])


def _assignments(text: str) -> dict[str, str]:
    """Lines that each set one name to one word ("lr: 0.0003"), at least two of them."""
    found = [_ASSIGNMENT.fullmatch(line.strip()) for line in text.strip().splitlines()]
    return {match[1]: match[2] for match in found if match} if len(found) > 1 and all(found) else {}


def _hyperparameters(content: bytes) -> Iterator[dict[str, Any]]:
    from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: PLC0415

    start = wire.parse(plugin_data_pb2, "HParamsPluginData", content).session_start_info
    values = {name: getattr(value, value.WhichOneof("kind") or "", None) for name, value in start.hparams.items()}
    if values:
        yield values
