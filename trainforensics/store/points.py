"""Blocks of points as Parquet: encodings that suit step numbers, and that every common reader knows."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trainforensics.importers.base import NO_TIME, STATES

if TYPE_CHECKING:
    from trainforensics.store.staging import Block

_UTC = pa.timestamp("us", "UTC")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("series", pa.int32(), nullable=False),
    pa.field("segment", pa.int32(), nullable=False),
    pa.field("seq", pa.int64(), nullable=False),
    pa.field("step", pa.int64(), nullable=False),
    pa.field("wall_time", _UTC),
    pa.field("value", pa.float64(), nullable=False),
    pa.field("state", pa.dictionary(pa.uint8(), pa.string()), nullable=False),
]
_DIFFERENCES = ("seq", "step", "wall_time")
_WAITING = 2  # blocks that are encoded at a time while their source is read


def write(file: Path, block: Block, ids: NDArray[np.int32], starts: NDArray[np.int64], first_life: int) -> None:
    """Write one part of a run's points.

    `ids`: the run's series id by the block's. `starts`: `seq` at which each process life begins.
    """
    pq.write_table(
        _table(block, ids, starts, first_life),
        file,
        compression="snappy",
        use_dictionary=["state"],  # type: ignore[arg-type]
        column_encoding=dict.fromkeys(_DIFFERENCES, "DELTA_BINARY_PACKED"),
        write_statistics=["series", "step"],
        store_schema=False,  # a dictionary is how the state is written, not what it is
    )


def _table(block: Block, ids: NDArray[np.int32], starts: NDArray[np.int64], first_life: int) -> pa.Table:
    life = np.full(len(block["seq"]), first_life, np.int32)
    if len(starts) > 1:
        life += np.maximum(np.searchsorted(starts, block["seq"], side="right") - 1, 0).astype(np.int32)
    state = np.ascontiguousarray(block["state"])
    columns = [
        pa.array(ids[block["series"]]),
        pa.array(life),
        pa.array(block["seq"]),
        pa.array(block["step"]),
        _times(block["wall_time"]),
        pa.array(block["value"]),
        pa.DictionaryArray.from_arrays(state, pa.array(STATES)),
    ]
    return pa.table(columns, schema=pa.schema(_FIELDS))


def _times(wall: NDArray[np.int64]) -> pa.Array[Any]:
    unknown = wall == NO_TIME
    if unknown.all():
        return pa.nulls(len(wall), _UTC)
    return pa.array(wall, mask=unknown).view(_UTC)


class EarlyParts:
    """Parts written while their source is still read: right where it alone becomes a run, of one process life."""

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder, self._stem = folder, stem
        self._writer = ThreadPoolExecutor(_WAITING)
        self._parts: list[tuple[Path, Future[None]]] = []

    def add(self, block: Block) -> None:
        """Write a block soon; waits where too many do."""
        if len(self._parts) >= _WAITING:
            wait([self._parts[-_WAITING][1]])
        file = self._folder / f"{self._stem}-{len(self._parts):06d}.parquet"
        ids = np.arange(block["series"].max() + 1, dtype=np.int32)
        self._parts.append((file, self._writer.submit(write, file, block, ids, np.zeros(1, np.int64), 0)))

    def take(self) -> list[Path]:
        """The parts, in order; they are the caller's. Raises what writing raised."""
        parts, self._parts = self._parts, []
        for _, written in parts:
            written.result()
        return [file for file, _ in parts]

    def discard(self) -> None:
        """Remove those that were not taken."""
        self._writer.shutdown(cancel_futures=True)
        for file, _ in self._parts:
            file.unlink(missing_ok=True)
        self._parts = []
