"""The manifest cut into the log's own intervals, the units in which coincidence is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from trainforensics.blame.manifest import Manifest
from trainforensics.signals.curve import Ints

# Beyond this many rows the first appearance of every document no longer fits into memory for certain, and the number
# of different documents is estimated.
EXACT_ROWS = 5_000_000
BEFORE_ALL = -(1 << 62)
# Documents of the windows that one is compared with: a step of a large run lists thousands, and a few hundred thousand
# are looked at in half a second.
COMPARED = 250_000


@dataclass(frozen=True)
class Units:
    """Unit i holds the batches of log steps (grid[i-1], grid[i]]."""

    manifest: Manifest
    grid: Ints

    def of(self, steps: Ints) -> Ints:
        """Unit of each step of the log's axis; len(grid) beyond the last logged step."""
        return np.searchsorted(self.grid, steps)

    @cached_property
    def population(self) -> Ints:
        """All units with a batch, sorted."""
        at = self.manifest.frame.select(pl.col("at").unique()).collect(engine="streaming")["at"].to_numpy()
        units = np.unique(self.of(at))
        return units[units < len(self.grid)]

    @cached_property
    def rows(self) -> int:
        """Rows of the manifest; where each lists very many documents, as many as it lists documents."""
        if self.manifest.documents is not None:
            return self.manifest.documents.appearances
        return int(self.manifest.frame.select(pl.len()).collect().item())

    def affordable(self, width: int) -> int:
        """How many windows of `width` steps to either side of one can be compared with it."""
        documents = self.manifest.documents
        if documents is None:
            return len(self.grid)
        each = documents.appearances / max(1, self.manifest.last - self.manifest.first + 1) * width
        return max(10, int(COMPARED / max(1.0, each) / 2))

    def held(self, key: str, names: Sequence[str]) -> dict[str, Ints]:
        """For each named shard, document or domain the sorted units that hold it."""
        if key == "doc" and self.manifest.documents is not None:
            steps = self.manifest.documents.steps_of(list(names))
            return {name: np.unique(self.of(at)) for name, at in steps.items()}
        frame = self.manifest.keyed(key).filter(pl.col(key).is_in(list(names))).with_columns(self._unit())
        table = frame.select(key, "unit").unique().group_by(key).agg(pl.col("unit").sort()).collect(engine="streaming")
        return {name: units.to_numpy() for name, units in zip(table[key].to_list(), table["unit"], strict=True)}

    def shared_by_two(self, key: str, events: Ints) -> list[str]:
        """Names that at least two of the event units hold."""
        seen = (
            self.manifest.keyed(key)
            .filter(self._inside(events))
            .with_columns(self._unit())
            .select(key, "unit")
            .unique()
        )
        return sorted(str(name) for name in seen.group_by(key).len().filter(pl.col("len") >= 2).collect()[key])

    def rows_in(self, events: Ints, holds: pl.Expr) -> pl.DataFrame:
        """The manifest's rows in some units that satisfy an expression, in step order."""
        events = events[events < len(self.grid)]
        if not len(events):
            return self.manifest.frame.head(0).collect()
        frame = self.manifest.frame.filter(self._inside(events))
        if self.manifest.documents is not None:
            frame = frame.collect().lazy()  # so that the rows of no other step are made only to be filtered out
        return frame.filter(holds).collect().sort("at", maintain_order=True)

    def looked_at(self, key: str) -> int:
        """How many different names the manifest holds; estimated for documents of manifests beyond `EXACT_ROWS`."""
        if key == "doc" and self.manifest.documents is not None:
            return self.manifest.documents.count
        count = pl.col(key).approx_n_unique() if key == "doc" and self.rows > EXACT_ROWS else pl.col(key).n_unique()
        return int(self.manifest.keyed(key).select(count).collect(engine="streaming").item())

    def first_seen(self, key: str) -> Mapping[str, int]:
        """First unit of every name; empty for documents of manifests beyond `EXACT_ROWS`."""
        if key not in self._first_seen:
            if key == "doc" and self.rows > EXACT_ROWS:
                self._first_seen[key] = {}
            else:
                table = self.manifest.keyed(key).group_by(key).agg(pl.col("at").min()).collect(engine="streaming")
                units = self.of(table["at"].to_numpy()).tolist()
                self._first_seen[key] = dict(zip(table[key].to_list(), units, strict=True))
        return self._first_seen[key]

    @cached_property
    def _first_seen(self) -> dict[str, Mapping[str, int]]:
        return {}

    def _inside(self, events: Ints) -> pl.Expr:
        spans = [(int(self.grid[u - 1]) if u > 0 else BEFORE_ALL, int(self.grid[u])) for u in events.tolist()]
        return pl.any_horizontal([(pl.col("at") > low) & (pl.col("at") <= high) for low, high in spans])

    def _unit(self) -> pl.Expr:
        grid = self.grid
        unit = pl.col("at").map_batches(lambda s: pl.Series(np.searchsorted(grid, s.to_numpy())), return_dtype=pl.Int64)
        return unit.alias("unit")
