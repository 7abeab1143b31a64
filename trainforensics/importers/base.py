"""The importer protocol. An importer knows one file format: it recognises it by content and streams what it holds.

An importer never raises on a bad record: it counts, skips, resynchronises and says where in a `ReadWarning`.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.framing import BlockReader
from trainforensics.model import Axis, Event, ReadWarning

if TYPE_CHECKING:
    import pyarrow as pa

HEAD_BYTES = 64 * 1024

# Codes of the store's `state` column: why a point has no ordinary number.
VALUE, NULL, EMPTY, STRING = 0, 1, 2, 3
NO_TIME = np.iinfo(np.int64).min  # a wall time that was not logged
csv.field_size_limit(2**31 - 1)  # a cell of any length: else one long line would raise
NAIVE_TIME = "naive-time"  # kind of the warning by which an importer says that wall times state no zone
DAMAGE = frozenset({"corrupt", "damaged-file", "damaged-archive", "importer-error"})  # warnings: something is not read
STATES = ("value", "null", "empty", "string")

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Head:
    """What sniffing may look at: the path, the first 64 KiB, decompressed, and what --map says of names."""

    path: Path
    data: bytes
    size: int
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name without a compression suffix."""
        return self.path.name.removesuffix(".gz").removesuffix(".zst")


@dataclass(frozen=True, slots=True)
class Points:
    """A chunk of one series in the order of the source.

    `step` int64, `value` float64, `seq` int64 (row or record number in the source, shared by the series of one row),
    `wall_time` int64 microseconds since the epoch in UTC or None, `state` uint8 codes or None (all VALUE),
    `segment` int32 process life within this source or None (life 0). All arrays have the same length.
    `run` separates the runs of a file that holds several (chart exports). `rank`: where the log states it elsewhere.
    """

    name: str
    step: NDArray[np.int64]
    value: NDArray[np.float64]
    seq: NDArray[np.int64]
    wall_time: NDArray[np.int64] | None = None
    state: NDArray[np.uint8] | None = None
    segment: NDArray[np.int32] | None = None
    rank: int | None = None
    run: str = ""


@dataclass(frozen=True, slots=True)
class Batches:
    """Rows of a batch manifest; columns already carry their canonical names (see importers/manifest.py)."""

    table: pa.Table


@dataclass(frozen=True, slots=True)
class Config:
    """Something the run said about itself; merged key by key, later sources first come first kept."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Identity:
    """What ties files to one run across folders, e.g. a W&B run id; `run` as in Points."""

    run_id: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class Rank:
    """The one rank whose process wrote the source, as its rows say; it tells files of several ranks apart."""

    rank: int


@dataclass(frozen=True, slots=True)
class Inner:
    """A record of a log within the file, which is a source of its own: its format, as console text in a W&B run."""

    format: str
    record: Points | Event | Config | Axis | ReadWarning


Record = Points | Batches | Event | Config | Axis | Identity | Rank | ReadWarning | Inner


def inner_label(label: str, format_: str) -> str:
    """How results name a log within the file `label`."""
    return f"{label}#{format_}"


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read. `label` is how results name it: its path relative to the run."""

    path: Path
    label: str
    options: Mapping[str, str] = field(default_factory=dict)  # --map NAME=ROLE additions, for axis and manifest columns


class Importer(Protocol):
    """What every module in importers/ offers (modules satisfy it as they are)."""

    FORMAT: str

    def sniff(self, head: Head) -> float:
        """Confidence 0..1 that this importer reads the file, judged on content; 0 is no."""
        ...

    def read(self, source: Source) -> Iterator[Record]:
        """Stream the file's records in bounded memory."""
        ...


def as_text(name: str) -> str:
    """A name as text that can be written out; what no encoding holds (stray bytes, lone surrogates) becomes escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def naive_times(label: str) -> ReadWarning:
    """What an importer says once of a source whose wall times state no zone; it gives them as UTC."""
    message = "its wall times state no zone and are taken as UTC; they are not held against other clocks"
    return ReadWarning(NAIVE_TIME, label, message)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing gzip and zstd by their magic numbers."""
    with path.open("rb") as raw:
        magic = raw.read(4)
    if magic[:2] == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(path, "rb"), 1 << 20)
    if magic == ZSTD_MAGIC:
        import zstandard  # noqa: PLC0415  (only for compressed logs)

        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True), 1 << 20)
    return path.open("rb", buffering=1 << 20)


def read_head(path: Path) -> Head:
    """The first 64 KiB of a file, of a broken archive what unpacks. Raises OSError where it cannot be opened."""
    size = path.stat().st_size
    with open_binary(path) as stream:
        return Head(path, BlockReader(stream).read(HEAD_BYTES), size)
