"""The protocol buffer wire format, as far as a few hot messages need it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are no protocol buffer message."""


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned varint at `position` and the position behind it."""
    value = shift = 0
    while shift < 70:
        try:
            byte = data[position]
        except IndexError:
            raise WireError("varint runs past the end") from None
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise WireError("varint is too long")


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, and first and last (exclusive) byte of the value of each field of data[start:end]."""
    position, end = start, len(data) if end is None else end
    while position < end:
        key, position = varint(data, position)
        wire_type = key & 7
        first = position
        if wire_type == VARINT:
            _, position = varint(data, position)
        elif wire_type == FIXED64:
            position += 8
        elif wire_type == BYTES:
            size, first = varint(data, position)
            position = first + size
        elif wire_type == FIXED32:
            position += 4
        else:
            raise WireError(f"wire type {wire_type}")
        if position > end:
            raise WireError("field runs past the end")
        yield key >> 3, wire_type, first, position


def parse(module: ModuleType, message: str, data: bytes) -> Any:
    """Parse `data` as a message of a generated module. Raises WireError."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415  (only where such a message occurs)

    try:
        return getattr(module, message).FromString(data)
    except DecodeError as error:
        raise WireError(str(error)) from None
