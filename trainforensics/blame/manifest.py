"""The batch manifest on the log's own step axis: how the two axes meet is proven where possible, else said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from trainforensics.blame.described import setting
from trainforensics.model import Basis
from trainforensics.signals import Signals
from trainforensics.signals.curve import Curve, Ints

KEYS = ("shard", "doc", "domain")
LOOKED_AT = 4096  # steps from the middle of a manifest, by which it is known whether it holds them all
SPARSE = 1.5  # steps from one row to the next; up to that, gaps are rows that were lost
MULTIPLE = 0.01  # by which the reach of two counts may miss a whole multiple
ACCUMULATION_KEYS = ("gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "accumulate_grad_batches")


@dataclass(frozen=True, slots=True)
class Alignment:
    """Step on the log's axis = manifest step // factor + offset. `slack`: steps by which it may still be off."""

    factor: int = 1
    offset: int = 0
    slack: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Batch rows with `at`, their step on the log's axis. `frame` is lazy: filters reach the Parquet files."""

    frame: pl.LazyFrame
    columns: frozenset[str]
    first: int
    last: int
    alignment: Alignment
    basis: Basis

    def rows(self, after: int, upto: int, rank: int | None = None) -> pl.DataFrame:
        """The rows of log steps in (after, upto], in step order, optionally of one rank."""
        where = self.where(after, upto)
        if rank is not None and "rank" in self.columns:
            where &= pl.col("rank") == rank
        return self.frame.filter(where).collect().sort("at", maintain_order=True)

    def where(self, after: int, upto: int) -> pl.Expr:
        """Filter for log steps in (after, upto], put on the manifest's own step column so that it is pushed down."""
        shape = self.alignment
        low, high = (after + 1 - shape.offset) * shape.factor, (upto + 1 - shape.offset) * shape.factor
        return (pl.col("step") >= low) & (pl.col("step") < high)

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
    if "step" not in schema:
        return "the batch manifest has no step column"
    frame = batches.filter(pl.col("step").is_not_null())
    if "doc" in schema and schema["doc"] == pl.String:
        frame = frame.with_columns(pl.col("doc").cast(pl.List(pl.String)))
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
    alignment = _settle_by_loss(frame, alignment, signals) if "loss" in schema and alignment.slack else alignment
    notes = (alignment.note, reach(int(last), grid, alignment), density(frame, int(first), int(last), grid, alignment))
    alignment = replace(alignment, note="; ".join(filter(None, notes)))
    at = (pl.col("step") // alignment.factor + alignment.offset).cast(pl.Int64).alias("at")
    return Manifest(
        frame.with_columns(at),
        frozenset(schema.names()) | {"at"},
        int(first) // alignment.factor + alignment.offset,
        int(last) // alignment.factor + alignment.offset,
        alignment,
        basis,
    )


def log_grid(signals: Signals) -> Ints:
    """The steps at which the run logged, shape (n,): those of the optimisation series with most points."""
    return signals.derive("log-grid", lambda: _log_grid(signals))


def _log_grid(signals: Signals) -> Ints:
    curves = [c for role in ("train_loss", "grad_norm", "learning_rate", "loss_scale") if (c := signals.curve(role))]
    curves = curves or list(signals.every_curve())
    if not curves:
        return np.array([], dtype=np.int64)
    step = max(curves, key=len).step
    return step[np.diff(step, prepend=step[:1] - 1) > 0]


def accumulation_steps(config: Mapping[str, Any]) -> int:
    """Micro-batches per optimiser step as the configuration states them, 1 where it does not."""
    value = setting(config, ACCUMULATION_KEYS)
    return max(1, int(value)) if isinstance(value, int | float) else 1


def align(first: int, last: int, grid: Ints, accumulation: int) -> Alignment | None:
    """How manifest steps `first`..`last` map to the log's; None if they share no step and no rule explains it.

    Proof by the ranges: both begin and end together (same axis); the manifest begins at 0 and ends one before the log
    (0- against 1-based); its range is `accumulation` times the log's (micro-steps). Otherwise the same axis is assumed.
    """
    low, high = int(grid[0]), int(grid[-1])
    cadence = max(1, int(np.median(np.diff(grid)))) if len(grid) > 1 else 1
    if accumulation > 1 and first in (0, 1) and abs((last + 1) / (high + 1) - accumulation) < 0.02 * accumulation:
        return Alignment(
            accumulation, 1 if low >= 1 and first == 0 else 0, 0 if high == low else 1,
            f"the manifest counts micro-steps, {accumulation} to a step",
        )  # fmt: skip
    if last < low - cadence or first > high:
        return None
    shift = high - last if first == 0 else 0
    if first == 0 and shift == 1 and low >= 1:
        return Alignment(offset=1, note="the manifest counts from 0, the log from 1")
    if last == high or (first == low and low == 0):
        return Alignment()
    if first == 0 and 0 < low <= cadence:
        return Alignment(offset=1, slack=1, note="the manifest seems to count from 0 and the log from 1")
    if first == 1 and low == 0:
        return Alignment(offset=-1, slack=1, note="the manifest seems to count from 1 and the log from 0")
    return Alignment(slack=1, note="manifest and log are taken to count steps alike; their ranges do not prove it")


def reach(last: int, grid: Ints, alignment: Alignment) -> str:
    """What a whole multiple between the ranges of manifest and log may mean; empty where there is none."""
    mine, theirs = last // alignment.factor + 1, int(grid[-1]) + 1
    ratio = max(mine, theirs) / max(1, min(mine, theirs))
    times = round(ratio)
    if times < 2 or abs(ratio - times) > MULTIPLE * times:
        return ""
    if mine > theirs:
        return (
            f"the manifest's steps reach {times} times as far as the log's: they may be micro-steps, "
            f"{times} to a step, which gradient_accumulation_steps in the run's configuration would say"
        )
    return (
        f"the log's steps reach {times} times as far as the manifest's, which either ends early or counts "
        f"one step to {times} of the log's"
    )


def density(frame: pl.LazyFrame, first: int, last: int, grid: Ints, alignment: Alignment) -> str:
    """What a manifest that leaves steps out cannot tell; empty for one that holds them all."""
    start = max(first, (first + last - LOOKED_AT) // 2)
    inside = pl.col("step").filter(pl.col("step").is_between(start, start + LOOKED_AT))
    held, low, high = (
        frame.select(inside.n_unique(), inside.min().alias("low"), inside.max().alias("high")).collect().row(0)
    )
    apart = (high - low) / (held - 1) / alignment.factor if held > 1 else 1.0
    if apart < SPARSE:
        return ""
    cadence = int(np.median(np.diff(grid))) if len(grid) > 1 else 1
    log = "every step" if cadence == 1 else f"every {cadence} steps"
    said = f"the manifest holds one step in {apart:.3g} (the log has one {log})"
    return f"{said}: it does not tell the data of the others"


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
