"""Text files in blocks of whole lines, decompressed, in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np

from trainforensics.importers.base import ZSTD_MAGIC, open_binary
from trainforensics.importers.framing import BlockReader
from trainforensics.model import ReadWarning

BLOCK_BYTES = 8 << 20
_READ_BYTES = 1 << 20  # at a time: memory that is used again costs less than fresh memory
_PACKED_BYTES = 1 << 16
_LONGEST_LINE = 256 << 20
_BOM = b"\xef\xbb\xbf"
_ZEROS = re.compile(rb"\x00+")
# Control characters that no text holds: not tab, newline, form feed, carriage return, backspace, escape.
_CONTROLS = bytes({*range(1, 32), 127} - {8, 9, 10, 12, 13, 27})
_MOST_CONTROLS = 0.01  # of a text; random bytes have a tenth


@dataclass(slots=True)
class LineBlocks:
    """Iterates over (bytes, number of the first line); what was lost on the way is in `warnings` afterwards.

    `carriage_returns`: they end a line for the sake of the blocks; only newlines are counted. `longest_line`: bytes
    after which a line is cut. Elsewhere, where a file's start has carriage returns and no newline, they are its
    line ends and become newlines. Zero bytes, which a crash leaves in place of text, end a line too.
    """

    path: Path
    block_bytes: int = BLOCK_BYTES
    carriage_returns: bool = False
    longest_line: int = _LONGEST_LINE
    warnings: list[ReadWarning] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        line, block = 1, BytesIO()
        unended = 0  # bytes of the line that the block ends with
        for chunk in self._chunks():
            cut = chunk.rfind(b"\n") + 1
            if not cut and self.carriage_returns:
                cut = chunk.rfind(b"\r") + 1
            unended = len(chunk) - cut + (0 if cut else unended)
            full = block.tell() + len(chunk) >= self.block_bytes
            if not (full and cut) and unended < self.longest_line:
                block.write(chunk)
                continue
            end = cut if unended < self.longest_line else len(chunk)
            block.write(memoryview(chunk)[:end])
            whole = block.getvalue()
            block, unended = BytesIO(), len(chunk) - end
            block.write(memoryview(chunk)[end:])
            yield whole, line
            line += newlines(whole)
        if block.tell():
            yield block.getvalue(), line

    def _chunks(self) -> Iterator[bytes]:
        read = zeros = 0
        first_zero = None
        decoder = None
        old_mac = False
        for chunk in self._unpacked():
            if not read:
                decoder = _utf16_decoder(chunk)
            text = chunk.removeprefix(_BOM) if not read else chunk
            text = text if decoder is None else decoder.decode(text).encode()
            if not read:
                old_mac = not self.carriage_returns and ends_by_return(text)
            if b"\x00" in text:
                zeros += text.count(b"\x00")
                first_zero = read + text.index(b"\x00") if first_zero is None else first_zero
                text = _ZEROS.sub(b"\n", text)
            yield text.replace(b"\r", b"\n") if old_mac else text
            read += len(chunk)
        if zeros:
            message = f"{zeros} bytes of the text are zero, as a crash leaves them; they were left out"
            self.warnings.append(ReadWarning("corrupt", f"byte {first_zero}", message))

    def _unpacked(self) -> Iterator[bytes]:
        with self.path.open("rb") as raw:
            zstd = raw.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC
        with self.path.open("rb") if zstd else open_binary(self.path) as stream:
            reader = BlockReader(stream)
            read = 0
            tail, error = "", ""
            size = _PACKED_BYTES if zstd else min(self.block_bytes, _READ_BYTES)
            pieces = iter(lambda: reader.read(size), b"")
            try:
                for piece in _unpack_zstd(pieces) if zstd else pieces:
                    read += len(piece)
                    yield piece
            except ZstdTail as found:
                tail = f"from byte {found.at} of the file on follows, after the complete archive, what is no zstd"
            except ZstdDamage as damage:
                error = str(damage)
            if reader.whole:
                tail = "what follows the complete archive is no gzip"
            if tail:
                self.warnings.append(ReadWarning("archive-tail", f"byte {read}", f"{tail}; it was left out"))
            elif error or reader.error:
                message = f"unpacking stopped here: {error or reader.error}"
                self.warnings.append(ReadWarning("damaged-archive", f"byte {read}", message))


def newlines(text: bytes) -> int:
    """How many there are."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def ends_by_return(text: bytes) -> bool:
    """Whether the lines of a text end with a carriage return alone."""
    return b"\r" in text and b"\n" not in text


def text_head(data: bytes) -> bytes:
    """The beginning of a text file as UTF-8 without a byte order mark. Redirection on Windows writes UTF-16.

    Runs of zero bytes are line ends; where they stay, the file is no text.
    """
    decoder = _utf16_decoder(data)
    text = data.removeprefix(_BOM) if decoder is None else decoder.decode(data).encode()
    if b"\x00" not in text:
        return text
    broken = _ZEROS.sub(b"\n", text)
    controls = len(broken) - len(broken.translate(None, _CONTROLS))
    runs, ends = broken.count(b"\n") - text.count(b"\n"), text.count(b"\n") + 1
    return text if runs > ends or controls > _MOST_CONTROLS * len(broken) else broken


def _utf16_decoder(start: bytes) -> codecs.IncrementalDecoder | None:
    if start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return None
    return codecs.getincrementaldecoder("utf-16")("replace")


class ZstdDamage(Exception):  # noqa: N818  (ends a stream, reaches no user)
    """A zstd archive is cut off or damaged."""


class ZstdTail(Exception):  # noqa: N818  (ends a stream, reaches no user)
    """A whole zstd archive ends at byte `at` of its file, and something else follows."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def _unpack_zstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Frames one after the other. The library's own stream ends without a word where the last frame is cut off."""
    import zstandard  # noqa: PLC0415  (only for compressed logs)

    frame, rest, at = None, b"", 0
    for piece in pieces:
        rest += piece
        while rest:
            if frame is None:
                if len(rest) < len(ZSTD_MAGIC):
                    break
                if at and not _begins_frame(rest):
                    raise ZstdTail(at)
                frame = zstandard.ZstdDecompressor().decompressobj()
            try:
                yield frame.decompress(rest)
            except zstandard.ZstdError as error:
                raise ZstdDamage(str(error)) from error
            unused = frame.unused_data if frame.eof else b""
            at, rest = at + len(rest) - len(unused), unused
            frame = None if frame.eof else frame
    if frame is None and at and rest and not ZSTD_MAGIC.startswith(rest):
        raise ZstdTail(at)
    if frame is not None or rest:
        raise ZstdDamage("the archive is cut off")


def _begins_frame(data: bytes) -> bool:
    """Whether a frame with content, or one to be skipped (0x184D2A50 to 0x184D2A5F), begins here."""
    return data.startswith(ZSTD_MAGIC) or (data[0] >> 4 == 5 and data[1:4] == b"\x2a\x4d\x18")
