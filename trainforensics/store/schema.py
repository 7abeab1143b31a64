"""Columns of the store and the names of its files."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import pyarrow as pa

from trainforensics.importers.base import STATES

STORE_SCHEMA = "trainforensics/store/1"
MANIFEST = "manifest.json"
RUN_FILE = "run.json"
SERIES_FILE = "series.parquet"
_LONGEST = 200
EVENTS_FILE = "events.parquet"
POINTS_FOLDER = "points"
BATCHES_FOLDER = "batches"

STATE_TYPE = pa.dictionary(pa.int8(), pa.string())
STATE_NAMES = pa.array(STATES, pa.string())


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema(list(columns))


POINTS = _schema(
    ("series", pa.int32()),
    ("segment", pa.int32()),
    ("seq", pa.int64()),
    ("step", pa.int64()),
    ("wall_time", pa.timestamp("us", tz="UTC")),
    ("value", pa.float64()),
    ("state", STATE_TYPE),
)

SERIES = _schema(
    ("id", pa.int32()),
    ("name", pa.string()),
    ("source", pa.string()),
    ("rank", pa.int32()),
    ("layer", pa.string()),
    ("expert", pa.int32()),
    ("domain", pa.string()),
    ("n", pa.int64()),
    ("n_nonfinite", pa.int64()),
    ("first_step", pa.int64()),
    ("last_step", pa.int64()),
)

EVENTS = _schema(
    ("step", pa.int64()),
    ("wall_time", pa.timestamp("us", tz="UTC")),
    ("kind", pa.string()),
    ("rank", pa.int32()),
    ("text", pa.string()),
    ("source", pa.string()),
    ("line", pa.int64()),
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
