"""The batch manifest on the log's own step axis: how the two axes meet is proven where possible, else said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import polars as pl

from trainforensics.blame.alignment import Alignment, Positions, align, by_position, density, reach
from trainforensics.blame.described import accumulation_steps
from trainforensics.blame.grid import log_grid
from trainforensics.model import Basis
from trainforensics.signals import Signals
from trainforensics.signals.curve import Curve, Ints

KEYS = ("shard", "doc", "domain")


class Documents(Protocol):
    """Answers for a manifest's documents without reading every row."""

    @property
    def appearances(self) -> int:
        """Of documents in the whole manifest, about."""
        ...

    @property
    def count(self) -> int:
        """Of different documents."""
        ...

    def steps_of(self, names: list[str]) -> dict[str, Ints]:
        """The steps of the log that each document fed, sorted."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Batch rows with `at`, their step on the log's axis. `frame` is lazy: filters reach the files behind it."""

    frame: pl.LazyFrame
    columns: frozenset[str]
    first: int
    last: int
    alignment: Alignment | Positions
    basis: Basis
    documents: Documents | None = None

    def rows(self, after: int, upto: int, rank: int | None = None) -> pl.DataFrame:
        """The rows of log steps in (after, upto], in step order, optionally of one rank."""
        where = self.where(after, upto)
        if rank is not None and "rank" in self.columns:
            where &= pl.col("rank") == rank
        return self.frame.filter(where).collect().sort("at", maintain_order=True)

    def where(self, after: int, upto: int) -> pl.Expr:
        """Filter for log steps in (after, upto], put on the manifest's own axis so that it is pushed down."""
        return self.alignment.within(after, upto)

    def keyed(self, key: str) -> pl.LazyFrame:
        """Columns `at` and `key`, one row for each appearance, empty ones left out."""
        frame = self.frame.select("at", key)
        if key == "doc":
            frame = frame.explode("doc")
        return frame.drop_nulls(key)


def open_manifest(signals: Signals, batches: pl.LazyFrame | None, basis: Basis = "logged") -> Manifest | str:
    """The run's manifest on its own step axis, or why there is none to work with."""
    if batches is None:
        return "no batch manifest was found"
    schema = batches.collect_schema()
    if "doc" in schema and schema["doc"] == pl.String:
        batches = batches.with_columns(pl.col("doc").cast(pl.List(pl.String)))
    by_step = _by_step(signals, batches, basis) if "step" in schema else "the batch manifest has no step column"
    if isinstance(by_step, Manifest) and not by_step.alignment.slack:
        return by_step
    positions = by_position(batches, signals)
    if isinstance(positions, Positions) and positions.slack <= _slack(by_step):
        return _placed(batches, positions, basis)
    return positions if isinstance(positions, str) and "step" not in schema else by_step


def _slack(found: Manifest | str) -> int:
    """What a placement by samples may be off and still be better; one proven by steps is not even asked."""
    return found.alignment.slack - 1 if isinstance(found, Manifest) else 1


def _placed(batches: pl.LazyFrame, positions: Positions, basis: Basis) -> Manifest | str:
    frame = batches.filter(positions.inside).with_columns(positions.at)
    first, last = frame.select(pl.col("at").min(), pl.col("at").max().alias("last")).collect(engine="streaming").row(0)
    if first is None:
        return f"no row of the manifest lies within the log's range of {positions.column}"
    return Manifest(frame, frozenset(frame.collect_schema().names()), int(first), int(last), positions, basis)


def _by_step(signals: Signals, batches: pl.LazyFrame, basis: Basis) -> Manifest | str:
    frame = batches.filter(pl.col("step").is_not_null())
    first, last, rows = (
        frame.select(pl.col("step").min(), pl.col("step").max().alias("last"), pl.len()).collect().row(0)
    )
    if not rows:
        return "the batch manifest holds no row with a step"
    grid = log_grid(signals)
    if not len(grid):
        return "the log has no step axis to hold the manifest against"
    alignment = align(int(first), int(last), grid, accumulation_steps(signals.config))
    if alignment is None:
        return (
            f"the manifest covers steps {first}-{last}, the log {grid[0]}-{grid[-1]}: "
            "they share no step and nothing proves how they correspond"
        )
    names = frame.collect_schema().names()
    alignment = _settle_by_loss(frame, alignment, signals) if "loss" in names and alignment.slack else alignment
    notes = (alignment.note, reach(int(last), grid, alignment), density(frame, int(first), int(last), grid, alignment))
    alignment = replace(alignment, note="; ".join(filter(None, notes)))
    return Manifest(
        frame.with_columns(alignment.at),
        frozenset(names) | {"at"},
        int(first) // alignment.factor + alignment.offset,
        int(last) // alignment.factor + alignment.offset,
        alignment,
        basis,
    )


def _settle_by_loss(frame: pl.LazyFrame, alignment: Alignment, signals: Signals) -> Alignment:
    """Use the manifest's own loss column to decide between neighbouring offsets, where it follows the logged loss."""
    curve = signals.curve("train_loss")
    if curve is None or alignment.factor != 1:
        return alignment
    mean = frame.group_by("step").agg(pl.col("loss").cast(pl.Float64, strict=False).mean()).sort("step").collect()
    step, loss = mean["step"].to_numpy(), mean["loss"].to_numpy()
    fits = {offset: _agreement(step + offset, loss, curve) for offset in (-1, 0, 1)}
    best = max(fits, key=lambda offset: fits[offset])
    others = max(value for offset, value in fits.items() if offset != best)
    if fits[best] < 0.5 or fits[best] - others < 0.2:
        return alignment
    return Alignment(offset=best, note=f"aligned by the manifest's loss column (correlation {fits[best]:.2f})")


def _agreement(step: Ints, loss: np.ndarray[Any, np.dtype[np.float64]], curve: Curve) -> float:
    """Correlation of step-to-step changes of the two losses on the steps they share; 0 for fewer than 20."""
    common, mine, theirs = np.intersect1d(step, curve.step, return_indices=True)
    pair = np.vstack([np.diff(loss[mine]), np.diff(curve.value[theirs])])
    pair = pair[:, np.isfinite(pair).all(axis=0)]
    if len(common) < 20 or pair.shape[1] < 20 or not pair.std(axis=1).all():
        return 0.0
    ranks = pair.argsort(axis=1).argsort(axis=1)
    matrix = np.asarray(np.corrcoef(ranks))
    return float(matrix[0, 1])
