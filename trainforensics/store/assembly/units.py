"""The runs that one source holds: a share of it each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from trainforensics.importers.base import EMPTY, NULL
from trainforensics.store.assembly.lives import FALSE_START, Life, lives_of
from trainforensics.store.assembly.paths import local_rank, path_says, wandb_id
from trainforensics.store.assembly.series import Points, first_points, main_series
from trainforensics.store.staging import SeriesStats, Staged


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One run's share of a source: all of it, one run of a chart export, or one of several runs appended in a file.

    `stats` by the source's series ids; `rows` is the half-open range of `seq` it spans, None for all.
    """

    staged: Staged
    run: str
    stats: Mapping[int, SeriesStats]
    main: int
    lives: tuple[Life, ...]
    rows: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The source's path within the run."""
        return self.staged.source.label

    @property
    def identity(self) -> str | None:
        """The run id that the source, or W&B's name of its folder, states."""
        return self.staged.identities.get(self.run) or self.staged.identities.get("") or wandb_id(self.label)

    @property
    def rank(self) -> int | None:
        """The rank that the path names, or that all of its rows state, else the local one of a folder."""
        if (named := path_says(self.label).rank) is not None:
            return named
        stated = {series.rank for series in self.stats.values()}
        if stated == {None}:
            return local_rank(self.label)
        return stated.pop() if len(stated) == 1 else None

    @property
    def ranks(self) -> frozenset[int]:
        """The ranks whose rows its main series holds, as its path or they say; empty where something is of none."""
        if self.rank is not None:
            return frozenset({self.rank})
        main = self.stats[self.main].name
        stated = {series.rank for series in self.stats.values() if series.name == main}
        told = {self.staged.rank} if stated == {None} else stated
        return frozenset(rank for rank in told if rank is not None and None not in told)

    @property
    def held_out(self) -> str:
        """The split that the file's name says it is about ("val", "test" ...), empty for training and where unsaid."""
        return path_says(self.label).split

    @property
    def folder(self) -> str:
        """The sub-folders that are part of its series' names."""
        return path_says(self.label).folder

    def by_name(self) -> dict[str, SeriesStats]:
        """Series by name."""
        return {series.name: series for series in self.stats.values()}

    def points(self, name: str) -> Points:
        """The first points of a series."""
        return first_points(self.staged, next(i for i, series in self.stats.items() if series.name == name))


def units_of(staged: Staged) -> list[Unit]:
    """The runs that a source holds, where they have a number at all."""
    by_run: dict[str, dict[int, SeriesStats]] = {}
    for i, series in enumerate(staged.series):
        if series.n:
            by_run.setdefault(series.run, {})[i] = series
    units = []
    for run, stats in by_run.items():
        main = main_series(stats)
        units += _split_anew(Unit(staged, run, stats, main, lives_of(staged, main)))
    return units


def _split_anew(unit: Unit) -> list[Unit]:
    """A source in which another run begins from the start is several runs; a false start is none of its own."""
    groups: list[list[Life]] = [[unit.lives[0]]]
    for life in unit.lives[1:]:
        begin = groups[-1][0].first_step
        if 0 <= life.first_step <= begin:
            groups.append([life])
        else:
            groups[-1].append(life)
    for i in reversed(range(len(groups) - 1)):
        if _extent(groups[i]) < FALSE_START * _extent(groups[i + 1]):
            groups[i : i + 2] = [groups[i] + groups[i + 1]]
    if len(groups) == 1:
        return [unit]
    starts = [*(group[0].start for group in groups), np.iinfo(np.int64).max]
    spans = list(pairwise(starts))
    stats = _stats_of_spans(unit, spans)
    return [
        replace(unit, stats=part, main=main_series(part), lives=tuple(group), rows=span)
        for part, group, span in zip(stats, groups, spans, strict=True)
        if part
    ]


def _extent(group: Sequence[Life]) -> int:
    return max(life.max_step for life in group) - min(life.first_step for life in group)


def _stats_of_spans(unit: Unit, spans: Sequence[tuple[int, int]]) -> list[dict[int, SeriesStats]]:
    """Statistics of each series within each range of rows."""
    result: list[dict[int, SeriesStats]] = [{} for _ in spans]
    starts = np.array([start for start, _ in spans])
    for block in unit.staged.spool.blocks():
        number = np.isin(block["series"], list(unit.stats)) & ~np.isin(block["state"], (NULL, EMPTY))
        rows = np.flatnonzero(number & (block["seq"] >= starts[0]))
        span = np.searchsorted(starts, block["seq"][rows], side="right") - 1
        order = np.lexsort((block["series"][rows], span))  # stable: rows stay in their order
        rows, span, of = rows[order], span[order], block["series"][rows][order]
        borders = np.flatnonzero((np.diff(span) != 0) | (np.diff(of) != 0)) + 1
        for here in np.split(np.arange(len(rows)), borders) if len(rows) else ():
            i = int(of[here[0]])
            whole = unit.stats[i]
            series = result[int(span[here[0]])].setdefault(i, SeriesStats(whole.name, whole.rank, whole.run))
            series.add(block["step"][rows[here]], block["value"][rows[here]])
    return result
