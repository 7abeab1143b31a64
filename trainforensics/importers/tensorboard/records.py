"""TFRecord framing: uint64 length, masked CRC-32C of the length, payload, masked CRC-32C of the payload.

Eight bytes of length that match their own checksum do not occur by chance (one in 2^32 per byte), so every such
position is a record's head. They are all found at once; records are the chain of heads in which each ends where the
next begins, and where the chain breaks, reading resumes at the next head.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

import google_crc32c
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainforensics.importers.framing import BlockReader, Loss

BLOCK_BYTES = 8 << 20
HEADER_BYTES, FOOTER_BYTES = 12, 4
MAX_LENGTH = 1 << 30  # protocol buffers stop at 2 GiB; no event comes near
_NO_RECORD, _CUT = "no record begins here", "the file ends within a record"
_MASK_DELTA = np.uint32(0xA282EAD8)

_Ints = NDArray[np.int64]
_Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Block:
    """Records that lie wholly in `data`, in the order of the file.

    `starts` and `sizes` (int64) give each payload within `data`; `offset` is where `data` lies in the file, `first` the
    number of its first record; `losses` are the damaged stretches met on the way.
    """

    data: bytes
    offset: int
    first: int
    starts: _Ints
    sizes: _Ints
    losses: tuple[Loss, ...]

    def payload(self, index: int) -> bytes:
        """Payload of one record of the block."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]


def read_blocks(stream: BinaryIO, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Split a stream into blocks of checked records, in memory of a few blocks (or of the largest record)."""
    reader, chain = BlockReader(stream), _Chain()
    data = reader.read(block_bytes)
    while data:
        more = reader.read(max(block_bytes, len(data)))  # doubling: a huge record is scanned a few times, not often
        yield chain.take(data, final=not more)
        data = data[chain.consumed :] + more
        if not more:
            break
    if reader.error:
        yield chain.broken_archive(reader.error)


def first_payload(data: bytes) -> bytes:
    """The payload of a record at the very start of `data` (as much of it as there is), or b"" if none begins there."""
    heads, sizes = _heads(data[:HEADER_BYTES])
    return data[HEADER_BYTES : HEADER_BYTES + int(sizes[0])] if len(heads) else b""


class _Chain:
    """Follows the chain of records from block to block; `consumed` bytes of the last block are dealt with."""

    def __init__(self) -> None:
        self.consumed = 0
        self._offset = 0  # of the block in the file
        self._records = 0
        self._losses: list[Loss] = []
        self._damage: tuple[str, int, str] | None = None  # kind, offset and reason of a stretch still open

    def take(self, data: bytes, final: bool) -> Block:
        """The whole records of `data`; `data[consumed:]` belongs in front of the next block."""
        heads, sizes = _heads(data)
        ends = heads + (HEADER_BYTES + FOOTER_BYTES) + sizes
        whole = ends <= len(data)
        good = whole.copy()
        good[whole] = _payloads_match(data, heads[whole] + HEADER_BYTES, sizes[whole])
        linked = np.append(ends[:-1] == heads[1:], False)[: len(heads)]
        stops = np.flatnonzero(~(good & linked)).tolist()
        positions = [*heads.tolist(), len(data)]
        offset, first, kept, at = self._offset, self._records, [], 0
        while True:
            index = bisect_left(positions, at, hi=len(heads))
            if index == len(heads):
                break
            if positions[index] > at:
                self._lose("corrupt", at, _NO_RECORD)
            stop = stops[bisect_left(stops, index)]
            until = stop + int(good[stop])
            if until > index:
                self._close(positions[index])
                kept.append(np.arange(index, until))
                self._records += until - index
            at = int(ends[until - 1]) if until > index else positions[index]
            if good[stop]:
                continue
            at, end = positions[stop], int(ends[stop])
            if not final and end + HEADER_BYTES > len(data):
                break
            if whole[stop]:
                self._lose("corrupt", at, "checksum does not match")
            else:
                self._lose("truncated", at, _CUT)
            # The length is sound: step over the record, unless bytes were lost or added and no head follows there.
            stepped = whole[stop] and positions[bisect_left(positions, end)] == end
            at = end if stepped else at + 1
        self._end_block(data, at, index < len(heads), final)
        chosen = np.concatenate(kept) if kept else np.zeros(0, np.int64)
        losses, self._losses = tuple(self._losses), []
        return Block(data, offset, first, heads[chosen] + HEADER_BYTES, sizes[chosen], losses)

    def broken_archive(self, error: str) -> Block:
        """An empty block that says why the stream could not be decompressed further."""
        none = np.zeros(0, np.int64)
        loss = Loss("truncated", self._records, self._offset, 0, f"the archive is damaged: {error}")
        return Block(b"", self._offset, self._records, none, none, (loss,))

    def _end_block(self, data: bytes, at: int, record_pending: bool, final: bool) -> None:
        size = len(data)
        if final:
            if at < size:
                if size - at < HEADER_BYTES:
                    self._lose("truncated", at, _CUT)
                else:
                    self._lose("corrupt", at, _NO_RECORD)
            self._close(size, followed=False)
            self.consumed = size
        elif record_pending:
            self.consumed = at
        else:
            if size - at >= HEADER_BYTES:
                self._lose("corrupt", at, _NO_RECORD)
            self.consumed = max(at, size - HEADER_BYTES + 1)
        self._offset += self.consumed

    def _lose(self, kind: str, at: int, reason: str) -> None:
        if self._damage is None:
            self._damage = (kind, self._offset + at, reason)

    def _close(self, at: int, followed: bool = True) -> None:
        if self._damage is not None:
            kind, offset, reason = self._damage
            if followed and kind == "truncated":
                kind, reason = "corrupt", _NO_RECORD
            self._losses.append(Loss(kind, self._records, offset, self._offset + at - offset, reason))
            self._damage = None


def _heads(data: bytes) -> tuple[_Ints, _Ints]:
    """Every position whose length matches its checksum, and that length."""
    bytes_ = np.frombuffer(data, np.uint8)
    zero = bytes_ == 0
    last = len(data) - HEADER_BYTES + 1
    if last <= 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Lengths stay below 2^30, so the upper four bytes are zero. Only one of them (222 MiB) has the checksum 0: ruling
    # it out keeps long stretches of zero bytes cheap.
    plausible = zero[4 : last + 4] & zero[5 : last + 5] & zero[6 : last + 6] & zero[7 : last + 7]
    plausible &= ~(zero[8 : last + 8] & zero[9 : last + 9] & zero[10 : last + 10] & zero[11 : last + 11])
    heads = np.flatnonzero(plausible)
    lengths, checksums = _words(bytes_, heads), _words(bytes_, heads + 8)
    right = (_mask(_length_checksum(lengths)) == checksums) & (lengths <= MAX_LENGTH)
    return heads[right], lengths[right].astype(np.int64)


def _payloads_match(data: bytes, starts: _Ints, sizes: _Ints) -> NDArray[np.bool_]:
    checksum = google_crc32c.value
    ends = starts + sizes
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    actual = np.fromiter((checksum(data[start:end]) for start, end in spans), np.uint32, len(starts))
    return np.asarray(_mask(actual) == _words(np.frombuffer(data, np.uint8), ends))


def _words(bytes_: NDArray[np.uint8], positions: _Ints) -> _Words:
    """The little-endian uint32 at each position."""
    if not len(positions):
        return np.zeros(0, np.uint32)
    return np.ascontiguousarray(sliding_window_view(bytes_, 4)[positions]).view("<u4")[:, 0]


def _mask(checksums: _Words) -> _Words:
    return ((checksums >> np.uint32(15)) | (checksums << np.uint32(17))) + _MASK_DELTA


@cache
def _checksum_table() -> _Words:
    """(4, 256): what each value of each of the four low bytes of a length adds to the checksum of eight zero bytes."""
    empty = google_crc32c.value(bytes(8))
    single = [[google_crc32c.value(bytes(i) + bytes([b]) + bytes(7 - i)) ^ empty for b in range(256)] for i in range(4)]
    return np.array(single, np.uint32)


def _length_checksum(lengths: _Words) -> _Words:
    """CRC-32C of lengths as eight little-endian bytes; the checksum is linear, so the bytes' parts add up (xor)."""
    total = np.full(len(lengths), google_crc32c.value(bytes(8)), np.uint32)
    for place, table in enumerate(_checksum_table()):
        total ^= table[(lengths >> np.uint32(8 * place)) & np.uint32(0xFF)]
    return total
