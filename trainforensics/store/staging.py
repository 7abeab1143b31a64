"""Reads one source through its importer into a spool of bounded memory, with statistics per series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainforensics.discovery import SourceFile
from trainforensics.errors import is_full
from trainforensics.importers.base import (
    EMPTY,
    NAIVE_TIME,
    NO_TIME,
    NULL,
    VALUE,
    Batches,
    Config,
    Identity,
    Inner,
    Points,
    Rank,
    Record,
    Source,
    as_text,
    inner_label,
)
from trainforensics.model import Axis, Event, ReadWarning

if TYPE_CHECKING:
    import pyarrow as pa

    from trainforensics.store.points import EarlyParts

BLOCK_ROWS = 1 << 18
BLOCKS_IN_MEMORY = 8
BATCH_ROWS = 1_000_000

Block = dict[str, NDArray[Any]]
_DTYPES: dict[str, Any] = {
    "series": np.int32, "segment": np.int32, "seq": np.int64, "step": np.int64,
    "wall_time": np.int64, "value": np.float64, "state": np.uint8,
}  # fmt: skip
# Columns of which most sources say nothing; a block has them without memory until one does.
_DEFAULTS: dict[str, Any] = {"segment": 0, "wall_time": NO_TIME, "state": VALUE}


class Spool:
    """Points of one source in its own order: blocks of arrays, on disk once they are many.

    `early`: where each block also goes as soon as it is full.
    """

    def __init__(self, folder: Path, stem: str, early: EarlyParts | None = None) -> None:
        self._folder, self._stem = folder, stem
        self.early = early
        self._open: Block = {}
        self._open_rows = 0
        self._files: list[Path] = []
        self._blocks: list[Block] = []
        self._placed: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None

    def append(self, series: int, columns: Block) -> None:
        """Add rows of a series; every other column of the points schema, those that have a default where known."""
        at, n = 0, len(columns["step"])
        while at < n:
            begin = self._open_rows
            end = min(begin + n - at, BLOCK_ROWS)
            rows = slice(begin, end)
            self._column("series")[rows] = series
            for name in columns.keys() | self._open.keys() - {"series"}:
                column = self._column(name)
                column[rows] = columns[name][at : at + end - begin] if name in columns else _DEFAULTS[name]
            at, self._open_rows = at + end - begin, end
            if end == BLOCK_ROWS:
                self.finish()

    def _column(self, name: str) -> NDArray[Any]:
        """A column of the open block, with the default in the rows before it was first given."""
        if name not in self._open:
            self._open[name] = np.empty(BLOCK_ROWS, _DTYPES[name])
            self._open[name][: self._open_rows] = _DEFAULTS.get(name, 0)
        return self._open[name]

    def finish(self) -> None:
        """Close the open block, and move the blocks to disk where they are too many."""
        rows = self._open_rows
        if not rows:
            return
        full = rows == BLOCK_ROWS
        self._blocks.append({name: column if full else column[:rows].copy() for name, column in self._open.items()})
        self._open, self._open_rows = {}, 0
        if self.early is not None:
            self.early.add(_with_defaults(self._blocks[-1], _DTYPES))
        if len(self._blocks) > BLOCKS_IN_MEMORY:
            for block in self._blocks:
                file = self._folder / f"{self._stem}.{len(self._files):06d}.npz"
                np.savez(file, allow_pickle=False, **block)
                self._files.append(file)
            self._blocks = []

    def discard(self) -> None:
        """Set memory and disk free; the rows are gone."""
        if self.early is not None:
            self.early.discard()
        self.early = None
        self._blocks = []
        for file in self._files:
            file.unlink()
        self._files = []

    def move(self, placed: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
        """From now on, give the rows other steps: `placed` of those that they were added with, shape (n,)."""
        self._placed = placed

    def blocks(self, columns: tuple[str, ...] = tuple(_DTYPES)) -> Iterator[Block]:
        """The rows again, in order, block by block; the arrays are for reading only."""
        for block in self._as_added(columns):
            if self._placed is not None and "step" in block:
                block["step"] = self._placed(block["step"])
            yield block

    def _as_added(self, columns: tuple[str, ...]) -> Iterator[Block]:
        for file in self._files:
            with np.load(file) as arrays:
                yield _with_defaults(arrays, columns)
        for block in self._blocks:
            yield _with_defaults(block, columns)


def _with_defaults(block: Mapping[str, NDArray[Any]], columns: Iterable[str]) -> Block:
    n = len(block["series"])
    return {
        name: block[name] if name in block else np.broadcast_to(_DTYPES[name](_DEFAULTS[name]), n) for name in columns
    }


@dataclass(slots=True)
class SeriesStats:
    """A series of one source: `n` counts numbers, NaN and infinities included; steps in the order of the source."""

    name: str
    rank: int | None
    run: str
    n: int = 0
    n_nonfinite: int = 0
    first_step: int | None = None
    last_step: int | None = None
    _last: tuple[int, float] | None = None

    def fresh(self, step: NDArray[np.int64], value: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """Mask of rows that do not merely repeat the row before (a reprinted line); None where all are fresh."""
        last_step, last_value = self._last or (step[0] - 1, 0.0)
        same = np.empty(len(step), bool)
        same[0], same[1:] = last_step == step[0], step[1:] == step[:-1]
        if not same.any():
            return None
        before = np.concatenate(([last_value], value[:-1]))
        same &= (before == value) | (np.isnan(before) & np.isnan(value))
        return ~same if same.any() else None

    def add(self, step: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        """Count rows that carry a number."""
        self.n += len(step)
        self.n_nonfinite += int(len(value) - np.count_nonzero(np.isfinite(value)))
        self.first_step = int(step[0]) if self.first_step is None else self.first_step
        self.last_step = int(step[-1])
        self._last = (int(step[-1]), float(value[-1]))


@dataclass(slots=True, eq=False)
class Staged:
    """What one source held. `series` is indexed by the spool's local series ids, `ids` gives them.

    `inner`: the logs within its file, by format; each is a source of its own, a part of the same run (`is_inner`).
    """

    source: SourceFile
    spool: Spool
    series: list[SeriesStats] = field(default_factory=list)
    batches: list[Path] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    identities: dict[str, str] = field(default_factory=dict)
    axis: Axis | None = None
    warnings: list[ReadWarning] = field(default_factory=list)
    ids: dict[tuple[str, str, int | None], int] = field(default_factory=dict)
    inner: dict[str, Staged] = field(default_factory=dict)
    is_inner: bool = False
    rank: int | None = None  # of all its rows, where no series says it

    @property
    def points(self) -> int:
        """How many numbers were read."""
        return sum(series.n for series in self.series)

    @property
    def naive_times(self) -> bool:
        """Whether wall times are those of a clock whose zone is not stated."""
        return any(warning.kind == NAIVE_TIME for warning in self.warnings)

    @property
    def has_context(self) -> bool:
        """Whether there is anything here that runs nearby could use."""
        return bool(self.batches or self.events or self.config)


class _BatchParts:
    """Manifest rows as Parquet parts; a new part every million rows, and wherever the columns change."""

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder, self._stem = folder, stem
        self._open: list[pl.DataFrame] = []
        self.paths: list[Path] = []

    def add(self, table: pa.Table) -> None:
        frame = pl.DataFrame(table)
        if self._open and (frame.schema != self._open[0].schema or sum(map(len, self._open)) >= BATCH_ROWS):
            self.finish()
        self._open.append(frame)

    def finish(self) -> None:
        if self._open:
            path = self._folder / f"{self._stem}-{len(self.paths):04d}.parquet"
            pl.concat(self._open).write_parquet(path)
            self.paths.append(path)
        self._open = []


def stage(
    importer: ModuleType,
    source: SourceFile,
    folder: Path,
    stem: str,
    options: dict[str, str],
    early: EarlyParts | None = None,
) -> Staged:
    """Stream a source into `folder`. An importer that fails midway costs what follows, with a warning."""
    staged = Staged(source, Spool(folder, stem, early))
    parts = _BatchParts(folder, stem)
    try:
        for record in importer.read(Source(source.path, source.label, options)):
            match record:
                case Batches():
                    parts.add(record.table)
                case Inner():
                    _add(_inner(staged, record.format, folder, stem), record.record)
                case _:
                    _add(staged, record)
    except (Exception, pl.exceptions.PanicException) as error:
        if is_full(error):  # of our own files: the log is only read
            raise
        staged.warnings.append(
            ReadWarning(
                "importer-error", source.label, f"the {source.format} importer failed: {error!r}; kept what came before"
            )
        )
    finally:
        for log in (staged, *staged.inner.values()):
            log.spool.finish()
        parts.finish()
    staged.batches = parts.paths
    if source.others:
        others = ", ".join(source.others)
        message = f"read as {source.format} ({source.confidence:.2f} sure); {others} would read it too"
        staged.warnings.append(ReadWarning("also-claimed", source.label, message))
    return staged


def _inner(staged: Staged, format_: str, folder: Path, stem: str) -> Staged:
    """The log of a format within a source's file."""
    if format_ not in staged.inner:
        source = replace(staged.source, label=inner_label(staged.source.label, format_), format=format_, others=())
        log = Staged(source, Spool(folder, f"{stem}-{format_}"), identities=staged.identities, is_inner=True)
        staged.inner[format_] = log
    return staged.inner[format_]


def _add(staged: Staged, record: Record) -> None:
    match record:
        case Points():
            _add_points(staged, record)
        case Event():
            staged.events.append(record)
        case Config():
            staged.config = {**record.values, **staged.config}
        case Identity():
            staged.identities[record.run] = record.run_id
        case Rank():
            staged.rank = record.rank
        case Axis():
            staged.axis = staged.axis or record
        case ReadWarning():
            staged.warnings.append(record)


def _add_points(staged: Staged, points: Points) -> None:
    if not len(points.step):
        return
    ids = staged.ids
    key = (points.run, points.name, points.rank)
    if key not in ids:
        ids[key] = len(staged.series)
        staged.series.append(SeriesStats(as_text(points.name), points.rank, as_text(points.run)))
    series = staged.series[ids[key]]
    columns = _columns(points)
    fresh = series.fresh(columns["step"], columns["value"])
    if fresh is not None:
        columns = {name: values[fresh] for name, values in columns.items()}
    if not len(columns["step"]):
        return
    staged.spool.append(ids[key], columns)
    numbers = None if points.state is None else (columns["state"] != NULL) & (columns["state"] != EMPTY)
    if numbers is None or numbers.all():
        series.add(columns["step"], columns["value"])
    elif numbers.any():
        series.add(columns["step"][numbers], columns["value"][numbers])


def _columns(points: Points) -> Block:
    """What the points say; columns of which they say nothing are left out."""
    said = {
        "segment": points.segment,
        "seq": points.seq,
        "step": points.step,
        "wall_time": points.wall_time,
        "value": points.value,
        "state": points.state,
    }
    return {name: values.astype(_DTYPES[name], copy=False) for name, values in said.items() if values is not None}
