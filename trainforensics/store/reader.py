"""Reads runs back from a store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from trainforensics.errors import UsageError
from trainforensics.importers.base import EMPTY, NULL, STATES
from trainforensics.model import Axis, Checkpoint, Event, ReadWarning, Segment, Series, SourceSummary
from trainforensics.store import schema
from trainforensics.store.manifest import read_manifest

_PARTS = ("name", "logs", "axis", "grouping", "config", "segments", "checkpoints", "sources")
_IDENTITY = ("id", "name", "source", "rank", "layer", "expert", "domain", "naive_time")
_NO_NUMBER = frozenset({STATES[NULL], STATES[EMPTY]})


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series as stored, with its counts; `stream` tells which sources continue one another."""

    series: Series
    stream: int
    part: int
    n: int
    n_nonfinite: int
    first_step: int | None
    last_step: int | None


@dataclass(frozen=True, slots=True, eq=False)
class StoredPoints:
    """Numbers of one series in the order of the source, shape (n,); `time` in seconds since the epoch, NaN unknown."""

    step: NDArray[np.int64]
    value: NDArray[np.float64]
    time: NDArray[np.float64]
    segment: NDArray[np.int32]
    seq: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StoredBlanks(StoredPoints):
    """Rows that name one series and hold no number for it, shape (n,): `null` as such, else an empty cell."""

    null: NDArray[np.bool_]


P = TypeVar("P", bound=StoredPoints)


@contextmanager
def _intact(file: Path) -> Iterator[None]:
    """Damage of the store met in the block is a UsageError that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PolarsError) as error:
        raise UsageError(f"{file}: damaged ({type(error).__name__}); analyse the logs again") from error


class StoredRun:
    """One run of a store. Reads on first use; raises UsageError where the store is damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        file = folder / schema.RUN_FILE
        with _intact(file):
            self._document: dict[str, Any] = json.loads(file.read_text("utf-8"))
            if self._document["schema"] != schema.STORE_SCHEMA:
                raise ValueError("another schema")
            for part in _PARTS:  # wrong types come to light here, where the file can be named
                getattr(self, part)

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self._document["run"])

    @property
    def logs(self) -> Path:
        """The folder its logs were read from."""
        return Path(self._document["logs"])

    @property
    def axis(self) -> Axis:
        """The step axis."""
        return Axis(**self._document["axis"])

    @property
    def grouping(self) -> str:
        """Why these sources are one run."""
        return str(self._document["grouping"])

    @property
    def config(self) -> Mapping[str, Any]:
        """What the run said about itself."""
        return dict(self._document["config"])

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Process lives."""
        return tuple(Segment(**segment) for segment in self._document["segments"])

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Checkpoints beside the logs."""
        return tuple(Checkpoint(**checkpoint) for checkpoint in self._document["checkpoints"])

    @property
    def sources(self) -> tuple[SourceSummary, ...]:
        """The files the run was read from."""
        return tuple(
            SourceSummary(s["path"], s["format"], s["points"], tuple(ReadWarning(**w) for w in s["warnings"]))
            for s in self._document["sources"]
        )

    @cached_property
    def series(self) -> tuple[StoredSeries, ...]:
        """Every series of every source."""
        with _intact(self.folder / schema.SERIES_FILE):
            return self._read_series()

    def _read_series(self) -> tuple[StoredSeries, ...]:
        streams = [source["stream"] for source in self._document["sources"] if source["stream"] is not None]
        parts = self._part_of_series
        rows = pl.read_parquet(self.folder / schema.SERIES_FILE).to_dicts()
        return tuple(
            StoredSeries(
                Series(role=None, **{name: r[name] for name in _IDENTITY}),
                streams[parts[r["id"]]],
                parts[r["id"]],
                r["n"],
                r["n_nonfinite"],
                r["first_step"],
                r["last_step"],
            )
            for r in rows
        )

    @property
    def _part_of_series(self) -> list[int]:
        counts = [source["series"] for source in self._document["sources"] if source["stream"] is not None]
        return [part for part, count in enumerate(counts) for _ in range(count)]

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What the log says happened, in the order of the sources."""
        file = self.folder / schema.EVENTS_FILE
        with _intact(file):
            rows = pl.read_parquet(file).to_dicts()
            for row in rows:
                row["wall_time"] = row["wall_time"].timestamp() if row["wall_time"] is not None else None
            return tuple(Event(**row) for row in rows)

    def points(self) -> dict[int, StoredPoints]:
        """Numbers of every series, by series id."""
        return self.points_and_blanks()[0]

    def points_and_blanks(self) -> tuple[dict[int, StoredPoints], dict[int, StoredBlanks]]:
        """Numbers of every series, and the rows in which one holds none, by series id."""
        pieces: dict[int, list[StoredPoints]] = {}
        blanks: dict[int, list[StoredBlanks]] = {}
        folder = self.folder / schema.POINTS_FOLDER
        files = sorted(folder.glob("*.parquet"))
        with _intact(folder):
            if not files:
                raise FileNotFoundError
        for file in files:
            with _intact(file):
                frame = pl.read_parquet(file, hive_partitioning=False)
                blank = frame["state"].is_in(list(_NO_NUMBER))
                for series, columns in _by_series(frame.filter(~blank) if blank.any() else frame):
                    pieces.setdefault(series, []).append(StoredPoints(**columns))
                for series, columns in _by_series(frame.filter(blank), null=pl.col("state") == STATES[NULL]):
                    blanks.setdefault(series, []).append(StoredBlanks(**columns))
        return (
            {series: _concatenated(parts) for series, parts in pieces.items()},
            {series: _concatenated(parts) for series, parts in blanks.items()},
        )

    def batches(self) -> pl.LazyFrame | None:
        """The batch manifest with its canonical columns, or None where none was logged."""
        files = sorted((self.folder / schema.BATCHES_FOLDER).glob("*.parquet"))
        if not files:
            return None
        for file in files:
            with _intact(file):
                pl.read_parquet_schema(file)
        return pl.concat([pl.scan_parquet(file) for file in files], how="diagonal_relaxed")


def _by_series(frame: pl.DataFrame, **more: pl.Expr) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """The columns of each series of a part, its rows in the order of the source."""
    if not len(frame):
        return
    arrays = {name: frame[name].to_numpy() for name in ("step", "value", "segment", "seq")}
    wall = frame["wall_time"].dt.epoch("us")
    arrays["time"] = wall.cast(pl.Float64).fill_null(float("nan")).to_numpy() / 1e6
    arrays |= {name: frame.select(column).to_series().to_numpy() for name, column in more.items()}
    series = frame["series"].to_numpy()
    order = np.argsort(series, kind="stable")
    starts = np.flatnonzero(np.diff(series[order], prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(order)]):
        rows = order[start:end]
        yield int(series[rows[0]]), {name: array[rows] for name, array in arrays.items()}


def _concatenated(parts: Sequence[P]) -> P:
    if len(parts) == 1:
        return parts[0]
    names = [f.name for f in fields(parts[0])]
    return replace(parts[0], **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def runs_of(store: Path) -> dict[str, Path]:
    """Run name -> its folder. Raises UsageError where the folder is no store of this schema."""
    runs = read_manifest(store)
    if not runs:
        raise UsageError(
            f"{store}: not a trainforensics store (no readable {schema.MANIFEST}); run analyze or import first"
        )
    return {name: store / folder for name, folder in runs.items()}


def open_run(store: Path, name: str) -> StoredRun:
    """One run of a store."""
    runs = runs_of(store)
    if name not in runs:
        known = ", ".join(sorted(runs)[:8])
        raise UsageError(f"{store}: no run {name!r}, it has {known}; analyse the logs again")
    return StoredRun(runs[name])
