"""Decodes the scalars of TensorBoard events, many records at a time.

A writer lays out all events of one kind alike. So one record of a kind is parsed byte by byte; the others of the same
length that differ from it only in wall time, step, tag and value are decoded as columns of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainforensics.importers import protowire as wire
from trainforensics.importers.base import NO_TIME
from trainforensics.importers.tensorboard.records import Block

MAX_LAYOUTS = 64  # per record length and block; what is laid out in yet another way is left to the general decoder
MAX_PLAIN_BYTES = 4096  # larger events hold histograms, images or graphs
_SECONDS_MAX = 9e12  # in microseconds still an int64

_Ints = NDArray[np.int64]
# Tag, record number in the block, step, wall time in microseconds, value; arrays of one length.
Columns = tuple[str, _Ints, _Ints, _Ints, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Slot:
    """One scalar within an event: where its tag and its value lie; `dtype` is the value's numpy type."""

    tag: int
    tag_size: int
    value: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an event of scalars keeps things, in bytes from its start; -1 and size 0 where a field is absent."""

    wall_time: int
    step: int
    step_size: int
    slots: tuple[Slot, ...]

    def mask(self, size: int) -> NDArray[np.uint8]:
        """(size,) bits that two events of this layout must share: 0 in what may differ."""
        mask = np.full(size, 0xFF, np.uint8)
        if self.wall_time >= 0:
            mask[self.wall_time : self.wall_time + 8] = 0
        mask[self.step : self.step + self.step_size] = 0x80  # the continuation bits fix the varint's length
        for slot in self.slots:
            mask[slot.tag : slot.tag + slot.tag_size] = 0
            mask[slot.value : slot.value + np.dtype(slot.dtype).itemsize] = 0
        return mask


def scalar_layout(payload: bytes) -> Layout | None:
    """The layout of an event that holds nothing but scalars; None for every other event. Raises WireError."""
    wall_time, step, step_size = -1, 0, 0
    summary: tuple[int, int] | None = None
    for number, kind, start, end in wire.fields(payload):
        if (number, kind) == (1, wire.FIXED64) and wall_time < 0:
            wall_time = start
        elif (number, kind) == (2, wire.VARINT) and not step_size:
            step, step_size = start, end - start
        elif (number, kind) == (5, wire.BYTES) and summary is None:
            summary = (start, end)
        else:
            return None
    if summary is None:
        return None
    slots = []
    for number, kind, start, end in wire.fields(payload, *summary):
        slot = _slot(payload, start, end) if (number, kind) == (1, wire.BYTES) else None
        if slot is None:
            return None
        slots.append(slot)
    return Layout(wall_time, step, step_size, tuple(slots)) if slots else None


def _slot(payload: bytes, start: int, end: int) -> Slot | None:
    """A Summary.Value with a number: simple_value, or a tensor of one float or double."""
    tag: tuple[int, int] | None = None
    value: tuple[int, str] | None = None
    for number, kind, first, last in wire.fields(payload, start, end):
        if (number, kind) == (1, wire.BYTES) and tag is None:
            tag = (first, last - first)
        elif (number, kind) == (2, wire.FIXED32) and value is None:
            value = (first, "<f4")
        elif (number, kind) == (8, wire.BYTES) and value is None:
            value = _tensor_value(payload, first, last)
            if value is None:
                return None
        elif number not in {7, 9} or b"hparams" in payload[first:last]:  # node name, metadata: say nothing of a number
            return None
    return Slot(*tag, *value) if tag and value else None


def _tensor_value(payload: bytes, start: int, end: int) -> tuple[int, str] | None:
    """Offset and numpy type of the number in a TensorProto of one float (dtype 1) or double (dtype 2)."""
    dtype = ""
    value: tuple[int, int] | None = None
    for number, kind, first, last in wire.fields(payload, start, end):
        if (number, kind) == (1, wire.VARINT):
            dtype = {1: "<f4", 2: "<f8"}.get(wire.varint(payload, first)[0], "")
        elif (number, kind) == (2, wire.BYTES):
            if not _holds_one(payload, first, last):
                return None
        elif number in {4, 5, 6} and kind != wire.VARINT and value is None:  # tensor_content, float_val, double_val
            value = (first, last - first)
        else:
            return None
    if not dtype or value is None or value[1] != np.dtype(dtype).itemsize:
        return None
    return value[0], dtype


def _holds_one(payload: bytes, start: int, end: int) -> bool:
    """Whether a TensorShapeProto has no dimension but those of size 1."""
    for number, kind, first, last in wire.fields(payload, start, end):
        sizes = [wire.varint(payload, at)[0] for n, _, at, _ in wire.fields(payload, first, last) if n == 1]
        if (number, kind) != (2, wire.BYTES) or sizes != [1]:
            return False
    return True


@dataclass(slots=True)
class Scalars:
    """Columns of scalars: tag number, record number in the block, step, wall time in seconds, value."""

    tags: dict[str, int] = field(default_factory=dict)
    columns: list[tuple[_Ints, _Ints, _Ints, NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    _singles: list[tuple[int, int, int, float, float]] = field(default_factory=list)

    def tag_number(self, tag: str) -> int:
        """The number that stands for a tag."""
        return self.tags.setdefault(tag, len(self.tags))

    def add(self, tag: str, record: int, step: int, wall_time: float, value: float) -> None:
        """Add one scalar."""
        self._singles.append((self.tag_number(tag), record, step, wall_time, value))

    def steps(self) -> tuple[_Ints, _Ints]:
        """Record number (rising) and step of every scalar added since the last call of `series`."""
        self._gather()
        if not self.columns:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        record = np.concatenate([column[1] for column in self.columns])
        step = np.concatenate([column[2] for column in self.columns])
        order = np.argsort(record, kind="stable")
        return record[order], step[order]

    def series(self) -> Iterator[Columns]:
        """Each tag's scalars in the file's order. Empties the columns; the tags' numbers stay."""
        self._gather()
        if not self.columns:
            return
        tag, record, step, wall_time, value = (np.concatenate(parts) for parts in zip(*self.columns, strict=True))
        self.columns.clear()
        order = np.lexsort((record, tag))
        bounds = np.flatnonzero(np.diff(tag[order], prepend=-1, append=-1))
        names = list(self.tags)
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = order[start:end]
            yield names[tag[rows[0]]], record[rows], step[rows], microseconds(wall_time[rows]), value[rows]

    def _gather(self) -> None:
        if self._singles:
            tag, record, step, wall_time, value = zip(*self._singles, strict=True)
            self._singles.clear()
            places = np.array([tag, record, step], np.int64)
            self.columns.append((places[0], places[1], places[2], np.array(wall_time, float), np.array(value, float)))


def microseconds(seconds: NDArray[np.float64]) -> _Ints:
    """Wall times in microseconds; NO_TIME where there is none (zero), or none that int64 holds."""
    known = (seconds != 0) & (np.abs(seconds) < _SECONDS_MAX)
    return np.where(known, (np.where(known, seconds, 0.0) * 1e6).round().astype(np.int64), NO_TIME)


def decode(block: Block, scalars: Scalars) -> list[int]:
    """Add the scalars of a block's plain events to `scalars`; returns the records that are something else."""
    padded = np.frombuffer(block.data + bytes(8), np.uint8)
    order = np.argsort(block.sizes, kind="stable")
    bounds = np.flatnonzero(np.diff(block.sizes[order], prepend=-1, append=-1))
    others: list[int] = []
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        records = order[start:end]
        size = int(block.sizes[records[0]])
        width = -(-size // 8) * 8  # whole words; the bytes beyond the payload are masked out
        if not 0 < size <= MAX_PLAIN_BYTES:
            others += records.tolist()
            continue
        rows = sliding_window_view(padded, width)[block.starts[records]]
        others += _decode_equal_sizes(rows, records, size, scalars)
    return sorted(others)


def _decode_equal_sizes(rows: NDArray[np.uint8], records: _Ints, size: int, scalars: Scalars) -> list[int]:
    others: list[int] = []
    layouts = 0
    while len(records):
        try:
            layout = scalar_layout(rows[0, :size].tobytes())
        except wire.WireError:
            layout = None
        if layout is None:
            others.append(int(records[0]))
            rows, records = rows[1:], records[1:]
            continue
        alike = _alike(rows, layout, size)
        _add(rows[alike], records[alike], layout, scalars)
        rows, records = rows[~alike], records[~alike]
        layouts += 1
        if layouts == MAX_LAYOUTS:
            return [*others, *records.tolist()]
    return others


def _alike(rows: NDArray[np.uint8], layout: Layout, size: int) -> NDArray[np.bool_]:
    """Which rows have the first row's layout: equal in every bit that the layout fixes."""
    mask = np.zeros(rows.shape[1], np.uint8)
    mask[:size] = layout.mask(size)
    words, masks = rows.view(np.uint64), mask.view(np.uint64)
    differs = np.zeros(len(rows), np.uint64)
    for column, bits in enumerate(masks):
        if bits:
            differs |= (words[:, column] ^ words[0, column]) & bits
    return np.equal(differs, 0)


def _add(rows: NDArray[np.uint8], records: _Ints, layout: Layout, scalars: Scalars) -> None:
    wall_time = _column(rows, layout.wall_time, "<f8") if layout.wall_time >= 0 else np.zeros(len(rows))
    step = np.zeros(len(rows), np.uint64)
    for place in range(layout.step_size):
        step |= (rows[:, layout.step + place].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * place)
    for slot in layout.slots:
        tag = _tag_numbers(rows[:, slot.tag : slot.tag + slot.tag_size], scalars)
        value = _column(rows, slot.value, slot.dtype).astype(np.float64)
        scalars.columns.append((tag, records, step.view(np.int64), wall_time, value))


def _column(rows: NDArray[np.uint8], start: int, dtype: str) -> NDArray[np.float64]:
    width = np.dtype(dtype).itemsize
    return np.ascontiguousarray(rows[:, start : start + width]).view(dtype)[:, 0]


def _tag_numbers(tags: NDArray[np.uint8], scalars: Scalars) -> _Ints:
    count, width = tags.shape
    if width == 0:
        return np.full(count, scalars.tag_number(""))
    import pyarrow as pa  # noqa: PLC0415  (heavy)

    cells: Any = pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(tags.tobytes())])
    encoded = cells.dictionary_encode()
    names: list[Any] = encoded.dictionary.to_pylist()
    numbers = [scalars.tag_number(name.decode(errors="replace")) for name in names]
    # Not to_numpy(): that imports pandas.
    indices = np.frombuffer(encoded.indices.buffers()[1], np.int32, count)
    return np.array(numbers, np.int64)[indices]
