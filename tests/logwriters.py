"""Writes small logs in the real binary formats, and says where in the file each record lies."""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

from trainforensics.importers.base import Points, Record

Span = tuple[int, int]
START_TIME = 1.7e9


def write_events(path: Path, events: Iterable[Event]) -> list[Span]:
    """Write an event file through TensorBoard's own record writer; first and last byte (exclusive) of each record."""
    return write_event_payloads(path, [event.SerializeToString() for event in events])


def write_event_payloads(path: Path, payloads: Iterable[bytes]) -> list[Span]:
    """As `write_events`, with whatever bytes."""
    spans = []
    with path.open("wb") as stream:
        writer = RecordWriter(stream)
        for payload in payloads:
            start = stream.tell()
            writer.write(payload)
            spans.append((start, stream.tell()))
    return spans


def version_event() -> Event:
    """The record with which every event file begins."""
    return Event(wall_time=START_TIME, file_version="brain.Event:2")


def scalar_event(tag: str, step: int, value: float) -> Event:
    """A scalar as SummaryWriter.add_scalar writes it."""
    event = Event(wall_time=START_TIME + step, step=step)
    event.summary.value.add(tag=tag, simple_value=value)
    return event


def tensor_event(tag: str, step: int, value: float, double: bool = False) -> Event:
    """A scalar as TensorFlow 2 writes it: a tensor without dimensions."""
    event = Event(wall_time=START_TIME + step, step=step)
    tensor = event.summary.value.add(tag=tag).tensor
    tensor.dtype = 2 if double else 1
    tensor.tensor_shape.SetInParent()
    (tensor.double_val if double else tensor.float_val).append(value)
    return event


def history_record(row: Mapping[str, Any], number: int = 1, nested: bool = True) -> Any:
    """A row of W&B history; keys with dots become paths where `nested`."""
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    record = wandb_internal_pb2.Record(num=number)
    for name, value in row.items():
        item = record.history.item.add(value_json=json.dumps(value))
        if nested:
            item.nested_key.extend(name.split("."))
        else:
            item.key = name
    if "_step" in row:
        record.history.step.num = row["_step"]
    return record


def write_wandb(path: Path, records: Sequence[Any]) -> list[list[Span]]:
    """Write records as a `.wandb` file; the spans of each record's chunks."""
    return write_wandb_payloads(path, [record.SerializeToString() for record in records])


def write_wandb_payloads(path: Path, payloads: Iterable[bytes]) -> list[list[Span]]:
    """As `write_wandb`, with whatever bytes."""
    data = bytearray(b":W&B\xe1\xbe\x00")
    spans = [_append_record(data, payload) for payload in payloads]
    path.write_bytes(data)
    return spans


def _append_record(data: bytearray, payload: bytes) -> list[Span]:
    spans: list[Span] = []
    first = True
    while first or payload:
        left = 32768 - len(data) % 32768
        if left < 7:
            data += bytes(left)
            left = 32768
        part, payload = payload[: left - 7], payload[left - 7 :]
        kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not payload]
        body = bytes([kind]) + part
        spans.append((len(data), len(data) + 7 + len(part)))
        data += struct.pack("<IH", zlib.crc32(body), len(part)) + body
        first = False
    return spans


def points_of(records: Iterable[Record]) -> dict[str, list[tuple[int, float]]]:
    """Step and value of each series' points, in order."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for record in records:
        if isinstance(record, Points):
            assert len(record.step) == len(record.value) == len(record.seq)
            assert (np.diff(record.seq) >= 0).all()
            found[record.name] += zip(record.step.tolist(), record.value.tolist(), strict=True)
    return dict(found)
