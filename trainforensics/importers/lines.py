"""Text files in blocks of whole lines, decompressed, in bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainforensics.importers.base import open_binary
from trainforensics.model import ReadWarning

BLOCK_BYTES = 8 << 20
_LONGEST_LINE = 256 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class LineBlocks:
    """Iterates over (bytes, number of the first line); what was lost on the way is in `warnings` afterwards."""

    path: Path
    block_bytes: int = BLOCK_BYTES
    warnings: list[ReadWarning] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        line, rest = 1, b""
        for chunk in self._chunks():
            data = rest + chunk
            cut = data.rfind(b"\n") + 1
            if not cut and len(data) < _LONGEST_LINE:
                rest = data
                continue
            block, rest = (data[:cut], data[cut:]) if cut else (data, b"")
            yield block, line
            line += block.count(b"\n")
        if rest:
            yield rest, line

    def _chunks(self) -> Iterator[bytes]:
        read = 0
        with open_binary(self.path) as stream:
            while True:
                try:
                    chunk = stream.read(self.block_bytes)
                except Exception as error:
                    if not isinstance(error, EOFError | OSError | zlib.error) and type(error).__name__ != "ZstdError":
                        raise
                    self.warnings.append(
                        ReadWarning("damaged-archive", f"byte {read}", f"unpacking stopped here: {error}")
                    )
                    return
                if not chunk:
                    return
                yield chunk.removeprefix(_BOM) if not read else chunk
                read += len(chunk)
