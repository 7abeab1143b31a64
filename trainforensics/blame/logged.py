"""Batch provenance that the run logged as ordinary metrics (shard, document, domain numbers) instead of a manifest."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainforensics.signals import Curve, Signals

NAMES = {"shard": "shard", "doc_ids": "doc", "source": "domain", "domain": "domain"}
NUMBERS = {"seq_len": "seq_len", "batch_loss": "loss"}


def logged_manifest(signals: Signals) -> pl.LazyFrame | None:
    """A manifest with one row a step and rank from the log's own shard, document or domain series; None without any."""
    if not any(signals.has(role) for role in NAMES):
        return None
    columns = {**NAMES, **NUMBERS}
    frames = [_column(curve, columns[role]) for role in columns for curve in signals.curves(role)[:256]]
    long = pl.concat(frames)
    wide = long.pivot("column", index=["step", "rank"], values="value", aggregate_function="first")
    named = [c for c in set(NAMES.values()) if c in wide.columns]
    typed = [pl.col(c).cast(pl.Int64, strict=False).cast(pl.String) for c in named]
    wide = wide.with_columns(typed).sort("step", "rank")
    if "doc" in wide.columns:
        wide = wide.with_columns(pl.concat_list("doc"))
    return wide.drop("rank").lazy() if wide["rank"].null_count() == len(wide) else wide.lazy()


def _column(curve: Curve, column: str) -> pl.DataFrame:
    finite = curve.only_finite()
    return pl.DataFrame(
        {
            "step": finite.step,
            "rank": pl.Series([curve.series.rank] * len(finite), dtype=pl.Int64),
            "column": [column] * len(finite),
            "value": finite.value.astype(np.float64),
        }
    )
