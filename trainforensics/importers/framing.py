"""What binary log framings share: reading a stream block by block, and saying which bytes were lost."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import BinaryIO

from trainforensics.model import ReadWarning

MAX_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Loss:
    """A stretch of bytes that held no readable record.

    `index` is the number of readable records before it, counted from the start of the file; `offset` and `size` are
    bytes of the (decompressed) stream.
    """

    kind: str  # "corrupt": something readable follows, or should have; "truncated": the file ends here
    index: int
    offset: int
    size: int
    reason: str

    def warning(self, before: int | None, after: int | None) -> ReadWarning:
        """The warning for this loss, which lies between two steps (None where there is no readable one)."""
        what = f"{self.size} bytes cannot be read: {self.reason}" if self.size else self.reason
        if before is not None and after is not None:
            what += f"; between steps {before} and {after}"
        elif before is not None or after is not None:
            what += f"; after step {before}" if before is not None else f"; before step {after}"
        return ReadWarning(self.kind, f"byte {self.offset}", what)


class BlockReader:
    """Reads a stream in large blocks; a broken archive ends the stream and leaves its reason in `error`.

    `whole`: the error is that something else follows a gzip archive that was unpacked to its end and checked.
    """

    def __init__(self, stream: BinaryIO) -> None:
        # A buffer around gzip loses, at damage, what it had gathered; gzip's own read1 does not.
        raw = getattr(stream, "raw", None)
        self._read1 = raw.read1 if isinstance(raw, gzip.GzipFile) else stream.read1  # type: ignore[attr-defined]
        self.error = ""
        self.whole = False
        self._read = 0

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the stream ends."""
        parts: list[bytes] = []
        missing = size
        while missing and not self.error:
            try:
                part = self._read1(missing)
            except Exception as error:  # each decompressor has errors of its own
                self.error = str(error) or type(error).__name__
                # gzip says so only where a member should begin; a checksum that fails has another message
                self.whole = bool(self._read) and self.error.startswith("Not a gzipped file")
                break
            if not part:
                break
            parts.append(part)
            missing -= len(part)
            self._read += len(part)
        return b"".join(parts)


def summarise(losses: int, lost_bytes: int) -> ReadWarning:
    """The warning that stands for those beyond the first MAX_WARNINGS."""
    return ReadWarning("corrupt", "file", f"{losses} further damaged places, {lost_bytes} bytes in all")
