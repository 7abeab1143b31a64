"""Columns of the store and the names of its files."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import polars as pl

STORE_SCHEMA = "trainforensics/store/2"
MANIFEST = "manifest.json"
RUN_FILE = "run.json"
SERIES_FILE = "series.parquet"
EVENTS_FILE = "events.parquet"
POINTS_FOLDER = "points"
BATCHES_FOLDER = "batches"
_LONGEST = 200

UTC = pl.Datetime("us", "UTC")
SERIES = pl.Schema(
    {
        "id": pl.Int32(),
        "name": pl.String(),
        "source": pl.String(),
        "rank": pl.Int32(),
        "layer": pl.String(),
        "expert": pl.Int32(),
        "domain": pl.String(),
        "naive_time": pl.Boolean(),
        "n": pl.Int64(),
        "n_nonfinite": pl.Int64(),
        "first_step": pl.Int64(),
        "last_step": pl.Int64(),
    }
)

EVENTS = pl.Schema(
    {
        "step": pl.Int64(),
        "wall_time": UTC,
        "kind": pl.String(),
        "rank": pl.Int32(),
        "text": pl.String(),
        "source": pl.String(),
        "line": pl.Int64(),
        "naive_time": pl.Boolean(),
    }
)


def encode(run: str) -> str:
    """A run's folder name: its name, percent-encoded (also a leading dot, which would hide it).

    A name too long for a file system (255 bytes) keeps its end, after a digest of the whole.
    """
    name = quote(run, safe=" ()+,=@", errors="surrogateescape")
    if len(name) > _LONGEST:
        digest = hashlib.blake2b(run.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        name = f"{digest}~{name[-_LONGEST:]}"
    return "%2E" + name[1:] if name.startswith(".") else name
