"""What the rows of a history say of the data of their steps: shards and documents beside the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trainforensics.importers.base import Batches
from trainforensics.importers.rows.provenance import canonical, is_provenance, logged_batches
from trainforensics.importers.wandb.clock import Clock
from trainforensics.importers.wandb.items import Column


def batches(columns: Sequence[Column], said: Mapping[str, Mapping[int, str]], clock: Clock) -> Iterator[Batches]:
    """The rows that name their data, by the columns of numbers and what was `said` in text: name -> record -> text."""
    numbers = {column.name: dict(zip(column.rows, column.values, strict=True)) for column in columns}
    cells: dict[str, Mapping[int, Any]] = {**numbers, **said}
    if not is_provenance(list(cells)):
        return
    import polars as pl  # noqa: PLC0415  (heavy; only for rows that name their data)

    named = canonical(cells)
    rows = np.array(sorted({row for name in named for row in cells[name]}), np.int64)
    frame = pl.DataFrame({name: [cells[name].get(row) for row in rows.tolist()] for name in named}, strict=False)
    yield from logged_batches(frame, clock.at(rows)[0])
