"""Reads a file through one importer and gathers what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl

from trainforensics.importers.base import EMPTY, NULL, Batches, Config, Points, Source, read_head
from trainforensics.model import Axis, Event, ReadWarning


@dataclass
class Gathered:
    """All points of one series, in the order of the source."""

    step: np.ndarray[Any, Any]
    value: np.ndarray[Any, Any]
    state: np.ndarray[Any, Any]
    seq: np.ndarray[Any, Any]
    wall: np.ndarray[Any, Any] | None
    segment: np.ndarray[Any, Any]

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """The values that are numbers, NaN and infinities included."""
        return self.value[(self.state != NULL) & (self.state != EMPTY)]

    @property
    def number_steps(self) -> list[int]:
        """Their steps."""
        return [int(s) for s in self.step[(self.state != NULL) & (self.state != EMPTY)]]


@dataclass
class Read:
    """Everything an importer yielded."""

    series: dict[str, Gathered]
    by_origin: dict[tuple[str, str, int | None], Gathered]
    axis: Axis | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    warnings: list[ReadWarning] = field(default_factory=list)
    batches: pl.DataFrame | None = None


def read(importer: ModuleType, path: Path, label: str | None = None, options: Mapping[str, str] | None = None) -> Read:
    """Import a file; `series` by name, `by_origin` by run, name and rank."""
    parts: dict[tuple[str, str, int | None], list[Points]] = {}
    result = Read({}, {})
    tables = []
    config: dict[str, Any] = {}
    for record in importer.read(Source(path, label or path.name, options or {})):
        match record:
            case Points():
                parts.setdefault((record.run, record.name, record.rank), []).append(record)
            case Axis():
                result.axis = result.axis or record
            case Config():
                config |= record.values
            case Event():
                result.events.append(record)
            case ReadWarning():
                result.warnings.append(record)
            case Batches():
                tables.append(pl.DataFrame(record.table))
    for key, points in parts.items():
        result.by_origin[key] = result.series[key[1]] = _gather(points)
    result.config = config
    result.batches = pl.concat(tables) if tables else None
    return result


def sniff(importer: ModuleType, path: Path) -> float:
    """Confidence of an importer for a file."""
    return float(importer.sniff(read_head(path)))


def _gather(points: list[Points]) -> Gathered:
    def column(pick: Any) -> Any:
        return np.concatenate([pick(p) for p in points])

    return Gathered(
        step=column(lambda p: p.step),
        value=column(lambda p: p.value),
        state=column(lambda p: np.zeros(len(p.step), np.uint8) if p.state is None else p.state),
        seq=column(lambda p: p.seq),
        wall=None if points[0].wall_time is None else column(lambda p: p.wall_time),
        segment=column(lambda p: np.zeros(len(p.step), np.int32) if p.segment is None else p.segment),
    )
