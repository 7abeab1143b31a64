"""Decides from the values which sources of a folder are one run, and where its process lives begin.

Sources of one folder are one run when they continue each other (restarts), repeat each other (the same run logged
twice), are its ranks, or complement each other (train and validation files). Otherwise they are runs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainforensics import roles
from trainforensics.store.staging import NO_TIME, SeriesStats, Staged

Relation = Literal["first", "continues", "repeats", "rank", "part"]

_RANK = re.compile(r"(?:^|[/._-])rank[-_]?(\d+)(?=$|[/._-])", re.IGNORECASE)
_SPLIT_NAMES = re.compile(
    r"(?:^|[/._-])(train|training|val|valid|validation|eval|evaluation|test)(?=$|[/._-])", re.IGNORECASE
)
_COMPARED_POINTS = 20_000
_AGREE = 0.6  # share of common steps that must carry the same value: a replay after a restart may differ
_INTERLEAVED = 0.05  # share of backward steps beyond which a series is unordered rather than restarted
_TOLERANCE = 2e-3  # four decimals of a loss near 0.1, the coarsest rounding that common loggers use


@dataclass(frozen=True, slots=True)
class Life:
    """One process life within a source: from row `start` on. Times in microseconds, NO_TIME where unknown."""

    start: int
    first_step: int
    last_step: int
    max_step: int
    started: int
    ended: int


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One run's share of a source: all of it, or one run of a chart export."""

    staged: Staged
    run: str
    series: tuple[int, ...]
    main: int
    lives: tuple[Life, ...]

    @property
    def label(self) -> str:
        """The source's path within the run."""
        return self.staged.source.label

    @property
    def identity(self) -> str | None:
        """The run id the source states, e.g. of W&B."""
        return self.staged.identities.get(self.run) or self.staged.identities.get("")

    @property
    def rank(self) -> int | None:
        """The rank that the path names."""
        match = _RANK.search(self.label)
        return int(match[1]) if match else None

    def stats(self) -> dict[str, SeriesStats]:
        """Series by name."""
        return {self.staged.series[i].name: self.staged.series[i] for i in self.series}


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A unit in its run: which stream of points it continues, and the index of its first life there."""

    unit: Unit
    relation: Relation
    stream: int
    first_life: int


@dataclass(slots=True, eq=False)
class Plan:
    """A run to be written: its name, its members in order, and why they belong together."""

    name: str
    members: list[Member]
    grouping: str = ""
    context: list[Staged] = field(default_factory=list)


def assemble(name: str, staged: Sequence[Staged]) -> list[Plan]:
    """The runs that the sources of one candidate hold. Sources without a number are left out."""
    units = [unit for source in staged for unit in _units(source)]
    exported = [unit for unit in units if unit.run]
    plain = sorted((unit for unit in units if not unit.run), key=_started)
    groups: list[list[Member]] = []
    for unit in plain:
        _place(unit, groups)
    plans = [_plan(name, group, len(groups) > 1 or bool(exported)) for group in groups]
    for unit in exported:
        base = name if name.endswith(unit.label) else f"{name}/{unit.label}"
        plans.append(Plan(f"{base}#{unit.run}", [Member(unit, "first", 0, 0)], f"one run of the export {unit.label}"))
    return plans


def _plan(name: str, group: list[Member], split: bool) -> Plan:
    first = group[0].unit.label
    if len(group) == 1:
        reason = f"{first} neither continues nor repeats its neighbours" if split else ""
        return Plan(f"{name}#{first}" if split else name, group, reason)
    words = {
        "continues": "continues the run",
        "repeats": "logs the same steps",
        "rank": "is a rank",
        "part": "adds series",
    }
    reasons = [f"{member.unit.label} {words[member.relation]}" for member in group[1:]]
    shown = "; ".join(reasons[:4]) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
    return Plan(f"{name}#{first}" if split else name, group, f"{first} begins; {shown}")


def _started(unit: Unit) -> tuple[bool, int]:
    """Sort by the first wall time where it is known, else keep the order of the names."""
    known = [life.started for life in unit.lives if life.started != NO_TIME]
    return (not known, min(known, default=0))


def _place(unit: Unit, groups: list[list[Member]]) -> None:
    """Add the unit to the first group with a member it relates to."""
    for group in groups:
        if any(_forbidden(unit, member.unit) for member in group):
            continue
        for member in reversed(group):
            relation = _relate(member.unit, unit)
            if relation is None:
                continue
            if relation == "continues":
                chain = [m for m in group if m.stream == member.stream]
                group.append(Member(unit, relation, member.stream, sum(len(m.unit.lives) for m in chain)))
            else:
                group.append(Member(unit, relation, 1 + max(m.stream for m in group), member.first_life))
            return
    groups.append([Member(unit, "first", 0, 0)])


def _forbidden(a: Unit, b: Unit) -> bool:
    return a.identity is not None and b.identity is not None and a.identity != b.identity


def _relate(a: Unit, b: Unit) -> Relation | None:
    """How b belongs to the run of a, or None where it is another run."""
    if a.rank is not None and b.rank is not None and a.rank != b.rank:
        return "rank"
    ours, theirs = a.stats(), b.stats()
    common = sorted(ours.keys() & theirs.keys(), key=lambda tag: -min(ours[tag].n, theirs[tag].n))
    if not common or _folder(a) != _folder(b) or _split_name(a) != _split_name(b):
        return "part"
    main = a.staged.series[a.main].name
    tag = main if main in common else common[0]
    share = _agreement(a, b, tag)
    if share is not None and share >= _AGREE:
        return "repeats"
    if _continues(a, b):
        return "continues"
    if a.identity is not None and a.identity == b.identity:
        return "continues"
    return "part" if a.staged.source.format != b.staged.source.format else None


def _folder(unit: Unit) -> str:
    """The sub-folder a writer made; checkpoint folders and W&B's own do not tell series apart."""
    parts = PurePosixPath(unit.label).parent.parts
    return "/".join(part for part in parts if series_prefix(part))


def _split_name(unit: Unit) -> str:
    match = _SPLIT_NAMES.search(PurePosixPath(unit.label).stem)
    return match[1].lower() if match else ""


def series_prefix(folder: str) -> bool:
    """Whether a sub-folder's name is part of its series' names (add_scalars, train/, validation/)."""
    return not re.match(
        r"^(wandb|files|logs|tmp|runs|checkpoints|(offline-)?run-\d{8}_\d{6}-\w+|[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.*"
        r"|rank[-_]?\d+|(checkpoint|ckpt|global_?step|iter|step|model|state)[-_=]?\d+)$",
        folder,
        re.IGNORECASE,
    )


def _continues(a: Unit, b: Unit) -> bool:
    """Whether b begins where a had got to, after it in time."""
    before, after = a.lives[-1], b.lives[0]
    if after.first_step <= a.lives[0].first_step:
        return False
    if NO_TIME not in (before.ended, after.started):
        return after.started >= before.started and (
            after.started >= before.ended or after.first_step >= before.last_step
        )
    reach = before.max_step + max(1, (before.max_step - a.lives[0].first_step) // 5)
    return after.first_step <= reach and b.lives[-1].max_step > before.max_step


def _agreement(a: Unit, b: Unit, tag: str) -> float | None:
    """Share of common steps on which a series has the same value; None where the two share too few steps."""
    ours, theirs = read_series(a, tag), read_series(b, tag)
    steps, left, right = np.intersect1d(ours[0], theirs[0], return_indices=True)
    if len(steps) < 3 or len(steps) < 0.05 * min(len(ours[0]), len(theirs[0])):
        return None
    return same_values(ours[1][left], theirs[1][right])


def same_values(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Share of positions at which two arrays agree up to the rounding of logs; NaN agrees with NaN."""
    return float(np.mean(np.isclose(a, b, rtol=_TOLERANCE, atol=1e-6, equal_nan=True)))


def read_series(unit: Unit, tag: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The first points of a series: step and value."""
    wanted = next(i for i in unit.series if unit.staged.series[i].name == tag)
    steps, values, n = [], [], 0
    for block in unit.staged.spool.blocks(("series", "step", "value")):
        mask = block["series"] == wanted
        steps.append(block["step"][mask])
        values.append(block["value"][mask])
        n += len(steps[-1])
        if n >= _COMPARED_POINTS:
            break
    return np.concatenate(steps), np.concatenate(values)


def _units(staged: Staged) -> list[Unit]:
    by_run: dict[str, list[int]] = {}
    for i, series in enumerate(staged.series):
        if series.n:
            by_run.setdefault(series.run, []).append(i)
    units = []
    for run, ids in by_run.items():
        main = _main_series(staged, ids)
        units.append(Unit(staged, run, tuple(ids), main, _lives(staged, main)))
    return units


def _main_series(staged: Staged, ids: Sequence[int]) -> int:
    """The series whose steps tell process lives apart: the longest training loss, else the longest series."""

    def weight(i: int) -> tuple[bool, int]:
        series = staged.series[i]
        return (roles.resolve(series.name).role == "train_loss", series.n)

    return max(ids, key=weight)


@dataclass(slots=True)
class _Scan:
    """Rows at which the main series steps back or its importer says a new life begins."""

    starts: list[tuple[int, bool]] = field(default_factory=list)  # row, whether the importer said so
    small: int = 0


def _lives(staged: Staged, main: int) -> tuple[Life, ...]:
    seq, step, wall, segment = _read_main(staged, main)
    back = np.flatnonzero(np.diff(step) < 0) + 1
    if len(back) > max(8, _INTERLEAVED * len(step)):
        back = back[:0]
    said = np.flatnonzero(np.diff(segment) != 0) + 1
    cuts = np.union1d(back, said)
    bounds = [0, *(int(cut) for cut in cuts), len(step)]
    lives = []
    for start, end in pairwise(bounds):
        times = wall[start:end]
        known = times[times != NO_TIME]
        lives.append(
            Life(
                start=int(seq[start]) if start else 0,
                first_step=int(step[start]),
                last_step=int(step[end - 1]),
                max_step=int(step[start:end].max()),
                started=int(known[0]) if len(known) else NO_TIME,
                ended=int(known[-1]) if len(known) else NO_TIME,
            )
        )
    return tuple(lives)


def _read_main(staged: Staged, main: int) -> list[NDArray[np.int64]]:
    names = ("seq", "step", "wall_time", "segment")
    parts: list[list[NDArray[np.int64]]] = [[] for _ in names]
    for block in staged.spool.blocks(("series", "state", *names)):
        mask = (block["series"] == main) & (block["state"] != 1) & (block["state"] != 2)
        for part, name in zip(parts, names, strict=True):
            part.append(block[name][mask])
    return [np.concatenate(part) for part in parts]
