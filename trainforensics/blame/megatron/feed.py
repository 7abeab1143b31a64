"""The samples a run consumed as a batch manifest: rows are made when they are asked for, out of the mapped arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from trainforensics.blame.consumed import Consumed
from trainforensics.blame.megatron.index import IndexMap
from trainforensics.signals.curve import Ints

_CHUNK = 1 << 18  # samples whose documents are looked up in one go


@dataclass(frozen=True, slots=True)
class Ranks:
    """How each step's samples are dealt out: `micro` to a rank in turn, round after round."""

    micro: int
    count: int

    def of(self, place: Ints) -> Ints:
        """The rank of the samples at some places of the global batch."""
        return place % (self.micro * self.count) // self.micro


@dataclass(frozen=True, eq=False)
class Feed:
    """What each step was fed: sample n of the run is the n-th of the one data set, or `place[n]` of `dataset[n]`.

    `names`, `maps` have an entry a data set; `dataset`, `place`, shape (samples,), are None where there is only one.
    """

    consumed: Consumed
    names: tuple[str, ...]
    maps: tuple[IndexMap, ...]
    dataset: NDArray[np.integer] | None = None
    place: NDArray[np.integer] | None = None
    ranks: Ranks | None = None

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Columns of the manifest; `consumed_samples` is what was consumed before the step."""
        numbers = ["step", *(["rank"] if self.ranks else []), "consumed_samples"]
        shard = {"shard": pl.String()} if len(self.maps) > 1 else {}  # the one data set of all steps tells nothing
        return {**dict.fromkeys(numbers, pl.Int64()), **shard, "doc": pl.List(pl.String())}

    def frame(self) -> pl.LazyFrame:
        """The manifest, a row for each step, rank and data set. A filter on the step costs the rows of that step."""
        return register_io_source(self._scan, schema=self.schema, is_pure=True)

    @cached_property
    def appearances(self) -> int:
        """Documents of all samples, about: as many as the samples start anew, and the one each begins with."""
        perhaps = sum(int(index.first[-1]) / len(index) for index in self.maps) / len(self.maps)
        return int((self.consumed.total - self.consumed.edge[0]) * (1 + perhaps))

    @cached_property
    def count(self) -> int:
        """Different documents that the maps hold."""
        return sum(index.distinct() for index in self.maps)

    def steps_of(self, names: list[str]) -> dict[str, Ints]:
        """The steps that each document fed, sorted."""
        steps: dict[str, Ints] = {}
        for number, index in enumerate(self.maps):
            own = {one: name for name in names if (one := self._number(name, number)) is not None}
            if not own:
                continue
            sample, document = self._in_run(number, *index.samples_of(np.array(list(own)), self.consumed.total))
            inside = (sample >= self.consumed.edge[0]) & (sample < self.consumed.total)
            at, document = self.consumed.steps_of(sample[inside]), document[inside]
            steps |= {name: np.unique(at[document == one]) for one, name in own.items()}
        return steps

    # --- rows --------------------------------------------------------------------------------------------------------

    def _scan(
        self, columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Rows for polars. A predicate on the step alone is answered before any row is made."""
        wanted = list(self.schema) if columns is None else columns
        which = np.arange(len(self.consumed.step))
        needed = set(wanted)
        if predicate is not None:
            roots = set(predicate.meta.root_names())
            needed |= roots
            if roots == {"step"}:
                passed = pl.DataFrame({"step": self.consumed.step}).select(predicate).to_series()
                which, predicate = which[passed.fill_null(value=False).to_numpy()], None
        left = limit
        for chunk in self._chunks(which):
            rows = self._rows(chunk, with_documents="doc" in needed)
            rows = (rows if predicate is None else rows.filter(predicate)).select(wanted)
            yield rows if left is None else rows.head(left)
            left = None if left is None else left - len(rows)
            if left is not None and left <= 0:
                return

    def _chunks(self, which: Ints) -> Iterator[Ints]:
        """Steps, by their place, so many at a time that their samples fit a chunk; at least one."""
        if not len(which):
            yield which
            return
        edge = self.consumed.edge
        ends = np.cumsum(edge[which + 1] - edge[which])
        start = 0
        while start < len(which):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _CHUNK, side="right")))
            yield which[start:stop]
            start = stop

    def _rows(self, which: Ints, with_documents: bool) -> pl.DataFrame:
        """The rows of some steps, in order of step, rank and data set."""
        edge = self.consumed.edge
        size = edge[which + 1] - edge[which]
        place = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        sample = place + np.repeat(edge[which], size)
        rank = self.ranks.of(place) if self.ranks else np.zeros(len(place), np.int64)
        dataset, own = self._drawn(sample)
        step = np.repeat(np.arange(len(which)), size)
        ranks = self.ranks.count if self.ranks else 1
        code = (step * ranks + rank) * len(self.maps) + dataset
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(np.diff(code[order], prepend=-1))
        first = order[starts]
        columns = {
            "step": self.consumed.step[which[step[first]]],
            "rank": rank[first],
            "shard": pl.Series(self.names, dtype=pl.String).gather(dataset[first]),
            "consumed_samples": edge[which[step[first]]],
        }
        if with_documents:
            columns["doc"] = self._documents(dataset[order], own[order], starts)
        return pl.DataFrame({name: columns[name] for name in self.schema if name in columns})

    def _documents(self, dataset: Ints, own: Ints, starts: Ints) -> pl.Series:
        """Names of the documents of samples, listed by row; rows begin at `starts`."""
        import pyarrow as pa  # noqa: PLC0415  (heavy)

        count = np.zeros(len(own), np.int64)
        found = []
        for number, index in enumerate(self.maps):
            mine = np.flatnonzero(dataset == number)
            count[mine], documents = index.documents(own[mine])
            found.append((mine, documents))
        ends = np.cumsum(count)
        flat, source = np.zeros(int(count.sum()), np.int64), np.repeat(dataset, count)
        for mine, documents in found:
            each = count[mine]
            at = np.arange(each.sum()) + np.repeat(ends[mine] - each - (np.cumsum(each) - each), each)
            flat[at] = documents
        names = pl.Series(flat).cast(pl.String)
        if len(self.maps) > 1:
            prefixes = pl.Series([f"{name}:" for name in self.names], dtype=pl.String)
            names = prefixes.gather(source) + names
        offsets = np.append((ends - count)[starts], len(flat))
        listed = pa.LargeListArray.from_arrays(pa.array(offsets), names.to_arrow())
        return pl.Series("doc", listed).list.unique(maintain_order=True)

    def _drawn(self, sample: Ints) -> tuple[Ints, Ints]:
        """Data set of each of the run's samples, and the how-manieth of it."""
        if self.dataset is None or self.place is None:
            return np.zeros(len(sample), np.int64), sample
        return self.dataset[sample].astype(np.int64), self.place[sample].astype(np.int64)

    def _in_run(self, number: int, fed: Ints, document: Ints) -> tuple[Ints, Ints]:
        """Pairs (n-th sample of a data set, document) with the sample's place in the whole run."""
        if self.dataset is None or self.place is None:
            return fed, document
        upto = self.consumed.total
        mine = np.flatnonzero(self.dataset[:upto] == number)
        place = self.place[mine]
        at = np.searchsorted(place, fed)  # each data set's samples are drawn in its own order
        drawn = at < len(mine)
        return mine[at[drawn]], document[drawn]

    def _number(self, name: str, dataset: int) -> int | None:
        """The document's number, if the name is one of that data set's."""
        prefix, _, number = name.rpartition(":")
        own = not prefix if len(self.maps) == 1 else prefix == self.names[dataset]
        return int(number) if own and number.isdecimal() else None
