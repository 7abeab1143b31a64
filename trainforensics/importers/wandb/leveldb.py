"""LevelDB log framing, as W&B's `.wandb` files use it.

Blocks of 32 KiB hold chunks: uint32 checksum (zlib's CRC-32 of type and data), uint16 length, uint8 type, data. A
record is one FULL chunk, or FIRST, MIDDLE ... and LAST; fewer than seven bytes at the end of a block are zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from zlib import crc32

import numpy as np

from trainforensics.importers.framing import BlockReader, Loss

BLOCK_BYTES = 32 * 1024
READ_BYTES = 4 << 20
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_HEADER = struct.Struct("<IHB")
_MAX_CHUNK = _HEADER.size + 0xFFFF
# After damage every byte is tried as a chunk's head this far, so that nothing beside it is lost even where bytes are
# missing; beyond that only the beginnings of blocks, which is what keeps long damage cheap.
_SEARCH_BYTES = 2 * BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records of the file in order; `first` is the number of the first one."""

    first: int
    payloads: list[bytes]
    losses: tuple[Loss, ...]


def read_batches(stream: BinaryIO, header: bytes = b"", read_bytes: int = READ_BYTES) -> Iterator[Batch]:
    """Records of a file that begins with `header`, a few MB at a time. A damaged header is searched for chunks."""
    reader = BlockReader(stream)
    data = reader.read(len(header))
    log = _Log(len(header) if data == header else 0)
    data = (b"" if data == header else data) + reader.read(read_bytes)
    while data:
        more = reader.read(read_bytes)
        yield log.take(data, final=not more)
        data = data[log.consumed :] + more
        if not more:
            break
    if reader.error:
        yield log.broken_archive(reader.error)


class _Log:
    """Follows chunks from buffer to buffer; `consumed` bytes of the last buffer are dealt with."""

    def __init__(self, offset: int) -> None:
        self.consumed = 0
        self._offset = offset
        self._records = 0
        self._unfinished: list[bytes] | None = None
        self._begun = 0  # where the unfinished record began
        self._losses: list[Loss] = []
        self._damage: tuple[int, str] | None = None

    def take(self, data: bytes, final: bool) -> Batch:
        """The records that end in `data`; `data[consumed:]` belongs in front of the next buffer."""
        first, payloads = self._records, []
        view, at, size = memoryview(data), 0, len(data)
        # Enough is left unread for a search to find its chunk, as long as there is more to come.
        limit = size if final else max(size - _SEARCH_BYTES - 2 * _MAX_CHUNK, 0)
        while at < limit:
            kind, end = _chunk(data, view, at)
            if kind:
                if self._damage:
                    self._close(at)
                record = self._piece(kind, data[at + _HEADER.size : end], at)
                if record is not None:
                    payloads.append(record)
                    self._records += 1
                at = end
                continue
            at = self._step_over(data, view, at, limit)
        self.consumed = min(at, size)
        if final:
            self._end(data, size)
        self._offset += self.consumed
        losses, self._losses = tuple(self._losses), []
        return Batch(first, payloads, losses)

    def broken_archive(self, error: str) -> Batch:
        """An empty batch that says why the stream could not be decompressed further."""
        loss = Loss("truncated", self._records, self._offset, 0, f"the archive is damaged: {error}")
        return Batch(self._records, [], (loss,))

    def _piece(self, kind: int, data: bytes, at: int) -> bytes | None:
        """Add a chunk; the whole record if this completes it."""
        if kind in {FULL, FIRST}:
            if self._unfinished is not None:
                self._lose_unfinished(at)
            if kind == FULL:
                return data
            self._unfinished, self._begun = [data], self._offset + at
        elif self._unfinished is not None:  # else its beginning was lost, and has been reported
            self._unfinished.append(data)
            if kind == LAST:
                record = b"".join(self._unfinished)
                self._unfinished = None
                return record
        return None

    def _step_over(self, data: bytes, view: memoryview, at: int, limit: int) -> int:
        """The next place to read after one where no chunk begins."""
        padding = _zeros(data, at)
        if padding and (_chunk(data, view, at + padding)[0] or at + padding >= len(data)):
            return at + padding
        if self._damage is None:
            cut = at + _HEADER.size > len(data) or _HEADER.unpack_from(data, at)[1] + at + _HEADER.size > len(data)
            self._damage = (self._offset + at, "the file ends within a record" if cut else "checksum does not match")
            if self._unfinished is not None:
                self._damage = (self._begun, self._damage[1])
                self._unfinished = None
        return self._search(data, view, at + 1, limit)

    def _search(self, data: bytes, view: memoryview, at: int, limit: int) -> int:
        """The next place where a chunk begins, or where to go on searching."""
        near = min(at + _SEARCH_BYTES, limit)
        found = _first_chunk(data, view, at, near)
        if found is not None:
            return found
        for block in range(near + -(self._offset + near) % BLOCK_BYTES, limit, BLOCK_BYTES):
            if _chunk(data, view, block)[0]:
                before = _first_chunk(data, view, max(near, block - BLOCK_BYTES), block)
                return block if before is None else before
        return limit

    def _end(self, data: bytes, size: int) -> None:
        self.consumed = size
        if self._unfinished is not None and self._damage is None:
            self._damage = (self._begun, "the file ends within a record")
        if self._damage is not None:
            offset, reason = self._damage
            if data[max(offset - self._offset, 0) :].strip(b"\0") or offset < self._offset:
                kind = "truncated" if reason == "the file ends within a record" else "corrupt"
                self._losses.append(Loss(kind, self._records, offset, self._offset + size - offset, reason))
            self._damage = None

    def _close(self, at: int) -> None:
        if self._damage is not None:
            offset, _ = self._damage
            size = self._offset + at - offset
            self._losses.append(Loss("corrupt", self._records, offset, size, "checksum does not match"))
            self._damage = None

    def _lose_unfinished(self, at: int) -> None:
        size = self._offset + at - self._begun
        self._losses.append(Loss("corrupt", self._records, self._begun, size, "the record was never finished"))
        self._unfinished = None


def _chunk(data: bytes, view: memoryview, at: int) -> tuple[int, int]:
    """Type and end of the chunk at `at`; (0, at) if none is there, whole and sound."""
    if at + _HEADER.size > len(data):
        return 0, at
    checksum, size, kind = _HEADER.unpack_from(data, at)
    end = at + _HEADER.size + size
    if FULL <= kind <= LAST and end <= len(data) and crc32(view[at + 6 : end]) == checksum:
        return kind, end
    return 0, at


def _first_chunk(data: bytes, view: memoryview, start: int, end: int) -> int | None:
    """The first position in data[start:end] where a chunk begins."""
    kinds = np.frombuffer(data, np.uint8)[start + 6 : end + 6]
    for candidate in (np.flatnonzero((kinds >= FULL) & (kinds <= LAST)) + start).tolist():
        if _chunk(data, view, candidate)[0]:
            return int(candidate)
    return None


def _zeros(data: bytes, at: int) -> int:
    """How many of the next six bytes are zero, up to the first that is not."""
    short = data[at : at + _HEADER.size - 1]
    return len(short) - len(short.lstrip(b"\0"))
