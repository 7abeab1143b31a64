"""Decides from the values which sources of a folder are one run, and where its process lives begin.

Sources of one folder are one run when they continue each other (restarts), repeat each other (the same run logged
twice, raw or smoothed), are its ranks, or complement each other (train and validation files). Two training losses that
do neither are of two runs, whatever their names and formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainforensics import roles
from trainforensics.importers.base import EMPTY, NO_TIME, NULL
from trainforensics.model import Checkpoint
from trainforensics.store.agreement import agreement
from trainforensics.store.kinship import Points, are_two_trainings
from trainforensics.store.staging import Block, SeriesStats, Staged

Relation = Literal["first", "continues", "repeats", "rank", "part"]

_RANK = re.compile(r"(?:^|[/._-])rank[-_]?(\d+)(?=$|[/._-])", re.IGNORECASE)
_LOCAL_RANK = re.compile(r"(?:^|(?<=/))attempt_\d+/(\d+)/")  # where torchrun's elastic agent keeps what is printed
_HELD_OUT = re.compile(r"(?:^|[._-])(val|valid|validation|eval|evaluation|test)(?=$|[._-])", re.IGNORECASE)
_ORDINARY_STEM = re.compile(
    r"^(metrics?|logs?|train|training|trainer|state|history|progress|results?|output|stdout|stderr|console|events|job|nohup"
    r"|slurm|scalars?|loss|run|data|export|summary|wandb|main|out|epochs?|steps?|iters?|batch|table|tb|rank|err"
    r"|[\d._-]|[._-])*$",
    re.IGNORECASE,
)
_WANDB_RUN = re.compile(r"(?:^|/)(?:offline-)?run-\d{8}_\d{6}-(\w+)(?=/|$)")
# Sub-folders that say nothing about a series: those of W&B, of Hugging Face, of MLflow, of ranks and of checkpoints.
_SILENT_FOLDER = re.compile(
    r"^(wandb|files|logs|tmp|runs|checkpoints|metrics|(offline-)?run-\d{8}_\d{6}-\w+|[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.*"
    r"|rank[-_]?\d+|(checkpoint|ckpt|global_?step|iter|step|model|state)[-_=]?\d+)$",
    re.IGNORECASE,
)
_WORD_END = re.compile(r"[._-]+")
_COMPARED_POINTS = 20_000
_LOSSES = 3  # of a file that are held against those of another
_AGREE = 0.6  # share of common steps that must carry the same value: a replay after a restart may differ
_INTERLEAVED = 0.05  # share of backward steps beyond which a series is unordered rather than restarted
_WHOLE = 0.95  # of the points of a copy that a text must have to stand for it
_FEW_RESTARTS = 8  # as many are restarts however short the series
_MOST_ANEW, _FOLD = 30, 5  # folds, seeds or trials that begin again where the log began; rows of each, at least
_STARTUP = 1_000_000  # microseconds; to load its framework and model takes a process longer
_FALSE_START = 0.1  # a life that got less far than this share of the next was given up and begun again


@dataclass(frozen=True, slots=True)
class Life:
    """One process life within a source: from row `start` on. Times in microseconds, NO_TIME where unknown.

    `naive`: they state no zone.
    """

    start: int
    first_step: int
    last_step: int
    max_step: int
    started: int
    ended: int
    naive: bool = False

    @property
    def timed(self) -> bool:
        """Whether it is known when it began."""
        return self.started != NO_TIME


def comparable(a: Life, b: Life) -> bool:
    """Whether the times of two lives are known, and of clocks that can be held against each other."""
    return a.timed and b.timed and a.naive == b.naive


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
        if (named := _path_says(self.label)[0]) is not None:
            return named
        stated = {series.rank for series in self.stats.values()}
        local = _LOCAL_RANK.search(self.label)
        return int(local[1]) if local and stated == {None} else stated.pop() if len(stated) == 1 else None

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
        return _path_says(self.label)[1]

    @property
    def folder(self) -> str:
        """The sub-folders that are part of its series' names."""
        return _path_says(self.label)[2]

    def by_name(self) -> dict[str, SeriesStats]:
        """Series by name."""
        return {series.name: series for series in self.stats.values()}


@lru_cache(4096)
def _path_says(label: str) -> tuple[int | None, str, str]:
    """Rank, split and folder as a path names them; asked again for every pair of files."""
    path = PurePosixPath(label)
    rank, split = _RANK.search(label), _HELD_OUT.search(path.stem)
    parts = PurePosixPath(_LOCAL_RANK.sub("", label)).parent.parts
    folder = "/".join(part for part in parts if not _SILENT_FOLDER.match(part))
    return int(rank[1]) if rank else None, split[1].lower() if split else "", folder


@lru_cache(4096)
def wandb_id(label: str) -> str | None:
    """The run id in the name of the W&B folder that a file lies in."""
    match = _WANDB_RUN.search(label)
    return match[1] if match else None


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
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def series_prefix(self, unit: Unit) -> str:
        """What goes before the names of a unit's series: its sub-folder, and the split that only its file tells."""
        others = {member.unit.held_out for member in self.members}
        return "/".join(part for part in (unit.folder, unit.held_out if len(others) > 1 else "") if part)

    def rank_of(self, unit: Unit) -> int | None:
        """The rank of a unit's rows that name none; one that only its text tells counts beside another rank's."""
        if unit.rank is not None or len({member.unit.ranks for member in self.members}) == 1:
            return unit.rank
        return next(iter(unit.ranks)) if len(unit.ranks) == 1 else None


def assemble(name: str, staged: Sequence[Staged]) -> list[Plan]:
    """The runs that the sources of one candidate hold. Sources without a number are left out."""
    units = [unit for source in staged for unit in _units(source)]
    own = [unit for unit in units if unit.run or unit.rows]
    groups: list[list[Member]] = []
    whole = [unit for unit in units if not (unit.run or unit.rows)]
    zoned = any(life.timed and not life.naive for unit in whole for life in unit.lives)
    for unit in sorted(whole, key=lambda unit: (unit.staged.is_inner, *_started(unit, zoned))):
        _place(unit, groups)
    plans = [_plan(name, group, len(groups) > 1 or bool(own)) for group in groups]
    counts: dict[str, int] = {}
    for unit in own:
        counts[unit.label] = counts.get(unit.label, 0) + 1
        base = name if name.rsplit("/", 1)[-1] == unit.label else f"{name}/{unit.label}"
        reason = f"one run of the export {unit.label}" if unit.run else f"{unit.label} begins anew here"
        plans.append(Plan(f"{base}#{unit.run or counts[unit.label]}", [Member(unit, "first", 0, 0)], reason))
    return plans


def echoes(staged: Sequence[Staged]) -> dict[Staged, str]:
    """Sources that repeat another of the candidate, and what they repeat.

    W&B keeps what a run printed in its log and, as a terminal would have shown it, in output.log beside it. The former
    counts, unless part of it was lost.
    """
    found: dict[Staged, str] = {}
    for inner in (log for log in staged if log.is_inner):
        folder = inner.source.path.parent
        for log in staged:
            if log.source.path in (folder / "output.log", folder / "files" / "output.log"):
                whole = inner.points >= _WHOLE * log.points
                found[log if whole else inner] = (inner if whole else log).source.label
    return found


def _plan(name: str, group: list[Member], split: bool) -> Plan:
    first = group[0].unit.label
    name = f"{name}#{first}" if split else name
    if len(group) == 1:
        return Plan(name, group, f"{first} neither continues nor repeats its neighbours" if split else "")
    words = {"continues": "continues it", "repeats": "logs the same steps", "rank": "is a rank", "part": "adds series"}
    reasons = [f"{member.unit.label} {words[member.relation]}" for member in group[1:]]
    shown = "; ".join(reasons[:4]) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
    return Plan(name, group, f"{first} begins; {shown}")


def _started(unit: Unit, zoned: bool) -> tuple[bool, int]:
    """Sort by the first wall time (`zoned`: of those with a zone), else by the first step; then by the names' order."""
    known = [life.started for life in unit.lives if life.timed and not (zoned and life.naive)]
    return (not known, min(known, default=unit.lives[0].first_step))


def _place(unit: Unit, groups: list[list[Member]]) -> None:
    """Add the unit to the group it has most to do with; a log within a file to the run of that file."""
    own = _own_file(unit, groups)
    found = [
        (*kin, group)
        for group in groups
        if not any(_forbidden(unit, member.unit) for member in group) and (own is None or own in group)
        if (kin := _kin(unit, group, own)) is not None
    ]
    if not found or (len(found) > 1 and all(kin[0] == "part" for kin in found) and _claims_a_loss(unit, found)):
        groups.append([Member(unit, "first", 0, 0)])
        return
    relation, member, group = min(found, key=lambda kin: (kin[0] == "part", not _alike(kin[1].unit, unit)))
    if relation == "continues":
        chain = [m for m in group if m.stream == member.stream]
        lives = max(m.first_life + len(m.unit.lives) for m in chain)
        stream, first_life = member.stream, lives - 1 if _runs_on(chain[-1].unit, unit) else lives
    else:
        stream, first_life = 1 + max(m.stream for m in group), member.first_life
    group.append(Member(unit, relation, stream, first_life if own is None else own.first_life))


def _runs_on(a: Unit, b: Unit) -> bool:
    """Whether one process went on in another file: the next step comes within its usual time, none comes again.

    What is beyond the usual time is less than a start takes, and than a step does.
    """
    old, new = a.lives[-1], b.lives[0]
    steps, gap = old.last_step - old.first_step, new.first_step - old.last_step
    if not comparable(old, new) or steps <= 0 or gap <= 0 or old.max_step > old.last_step:
        return False
    usual = gap * (old.ended - old.started) / steps
    return 0 <= new.started - old.ended <= usual + min(_STARTUP, usual)


def _kin(unit: Unit, group: Sequence[Member], own: Member | None) -> tuple[Relation, Member] | None:
    """The member that ties the unit to a group, and how; None where there is none, or what ties it is too little.

    Merely to add series to one member is not enough where another holds a loss that is not the unit's. To continue the
    same rank says more than to be another one.
    """
    added: tuple[Relation, Member] | None = None
    beside: tuple[Relation, Member] | None = None
    to_all = True
    for member in reversed(group):
        if own is not None and member is not own and not member.unit.staged.is_inner:
            continue
        relation = _relate(member.unit, unit)
        if relation is None:
            to_all = False
        elif relation == "rank":
            beside = beside or (relation, member)
        elif relation != "part":
            return relation, member
        else:
            added = added or (relation, member)
    return beside or (added if to_all else None)


def _claims_a_loss(unit: Unit, found: Sequence[tuple[Relation, Member, list[Member]]]) -> bool:
    """Whether every group found holds a loss that could be the unit's, so that nothing says whose it is."""
    return not any(_alike(member.unit, unit) for _, member, _ in found) and all(
        any(member.unit.folder == unit.folder and _rivals(member.unit, unit) for member in group)
        for _, _, group in found
    )


def _own_file(unit: Unit, groups: Sequence[Sequence[Member]]) -> Member | None:
    """The member that holds the rest of the file in which the unit is an inner log."""
    if not unit.staged.is_inner:
        return None
    path = unit.staged.source.path
    return next((member for group in groups for member in group if member.unit.staged.source.path == path), None)


def _forbidden(a: Unit, b: Unit) -> bool:
    return a.identity is not None and b.identity is not None and a.identity != b.identity


def _relate(a: Unit, b: Unit) -> Relation | None:
    """How b belongs to the run of a, or None where it is another run."""
    if a.rank is not None and b.rank is not None and a.rank != b.rank:
        return "rank"
    if a.ranks and b.ranks and a.ranks.isdisjoint(b.ranks) and _side_by_side(a, b):
        return "rank"
    if a.folder != b.folder:
        return "part"
    ours, theirs = a.by_name(), b.by_name()
    common = sorted(ours.keys() & theirs.keys(), key=lambda tag: -min(ours[tag].n, theirs[tag].n))
    if common and a.held_out != b.held_out:
        return "part" if _same_subject(a, b) else None
    main = a.stats[a.main].name
    names = [(name, name) for name in ([main] if main in common else common[:1])] or _rivals(a, b)
    return _related_by_values(a, b, names) if names else "part"


def _side_by_side(a: Unit, b: Unit) -> bool:
    """Whether two files tell of the same steps, as far as their clocks can be compared at the same time, in the same
    words: those of several ranks do."""
    ours, theirs = ({series.name for series in unit.stats.values()} for unit in (a, b))
    first, last = (max(u.lives[0].first_step for u in (a, b)), min(u.lives[-1].max_step for u in (a, b)))
    began, ended = max(u.lives[0].started for u in (a, b)), min(u.lives[-1].ended for u in (a, b))
    timed = all(unit.lives[0].timed for unit in (a, b))
    return bool(ours & theirs) and first <= last and (not timed or began <= ended)


def _rivals(a: Unit, b: Unit) -> list[tuple[str, str]]:
    """Training losses of two files of one split, whatever they are called there."""
    if a.held_out != b.held_out:
        return []
    losses = [
        sorted((s for s in unit.stats.values() if _is_loss(s)), key=lambda series: -series.n)[:_LOSSES]
        for unit in (a, b)
    ]
    return [(ours.name, theirs.name) for ours in losses[0] for theirs in losses[1]]


def _is_loss(series: SeriesStats) -> bool:
    found = roles.resolve(series.name)
    return found.role == "train_loss" and not found.weak and found.domain is None


def _related_by_values(a: Unit, b: Unit, names: Sequence[tuple[str, str]]) -> Relation | None:
    same_file = a.staged.source.path == b.staged.source.path
    pairs = [(read_series(a, ours), read_series(b, theirs)) for ours, theirs in names]
    if any(_repeats(*pair) for pair in pairs) and (same_file or not _follows(a, b)):
        return "repeats"
    if same_file:
        return "part"
    if (_one_axis(a, b) and _continues(a, b)) or (a.identity is not None and a.identity == b.identity):
        return "continues"
    alike = a.staged.source.format == b.staged.source.format and all(ours == theirs for ours, theirs in names)
    if alike or not _same_subject(a, b):
        return None
    return None if _one_axis(a, b) and any(are_two_trainings(*pair) for pair in pairs) else "part"


def _one_axis(a: Unit, b: Unit) -> bool:
    """Whether the steps of two files count the same, as far as they say."""
    return a.staged.axis is None or b.staged.axis is None or a.staged.axis.unit == b.staged.axis.unit


def _same_subject(a: Unit, b: Unit) -> bool:
    """Whether the names of two files could be those of one run: alike, or one of them says nothing in particular."""
    return _alike(a, b) or any(_ORDINARY_STEM.match(_stem(unit)) for unit in (a, b))


def _alike(a: Unit, b: Unit) -> bool:
    """Whether two files have one name, but for the split and what says nothing in particular."""
    subjects = [[word for word in _WORD_END.split(_stem(u)) if not _ORDINARY_STEM.match(word)] for u in (a, b)]
    return subjects[0] == subjects[1]


def _stem(unit: Unit) -> str:
    return _HELD_OUT.sub("", PurePosixPath(unit.label).name.split(".")[0]).strip("._-")


def _follows(a: Unit, b: Unit) -> bool:
    """Whether b was certainly written after a: an exact replay after a restart agrees with what it replays."""
    before, after = a.lives[-1], b.lives[0]
    timed = comparable(before, after)
    return timed and after.started >= before.ended and after.first_step > a.lives[0].first_step


def _continues(a: Unit, b: Unit) -> bool:
    """Whether b begins where a had got to, or begins again after a false start; after it in time."""
    before, after, begin = a.lives[-1], b.lives[0], a.lives[0].first_step
    timed = comparable(before, after)
    if after.first_step <= begin:
        early = before.max_step - begin < _FALSE_START * (b.lives[-1].max_step - after.first_step)
        return timed and early and after.started >= before.ended
    if timed:
        return after.started >= before.ended or (
            after.started >= before.started and after.first_step >= before.last_step
        )
    reach = before.max_step + max(1, (before.max_step - begin) // 5)
    started_alike = after.first_step - begin < _FALSE_START * (before.max_step - begin)
    return not started_alike and after.first_step <= reach and b.lives[-1].max_step > before.max_step


def _repeats(ours: Points, theirs: Points) -> bool:
    """Whether two series have the same value on most of their common steps, and those are not too few."""
    found = agreement(ours, theirs)
    if found.common < 3 or found.common < 0.05 * min(len(ours[0]), len(theirs[0])):
        return False
    return found.share >= _AGREE


def read_series(unit: Unit, tag: str) -> Points:
    """The first points of a series: step and value."""
    return _read(unit.staged, next(i for i, series in unit.stats.items() if series.name == tag))


def read_points(staged: Staged, tag: str) -> Points:
    """The same of a source."""
    return _read(staged, next(i for i, series in enumerate(staged.series) if series.name == tag and series.n))


def _read(staged: Staged, wanted: int) -> Points:
    steps, values, n = [], [], 0
    for block in staged.spool.blocks(("series", "step", "value")):
        mask = block["series"] == wanted
        steps.append(block["step"][mask])
        values.append(block["value"][mask])
        n += len(steps[-1])
        if n >= _COMPARED_POINTS:
            break
    return np.concatenate(steps), np.concatenate(values)


# --- the runs and lives within one source ------------------------------------------------------------------------


def _units(staged: Staged) -> list[Unit]:
    by_run: dict[str, dict[int, SeriesStats]] = {}
    for i, series in enumerate(staged.series):
        if series.n:
            by_run.setdefault(series.run, {})[i] = series
    units = []
    for run, stats in by_run.items():
        main = main_series(stats)
        units += _split_anew(Unit(staged, run, stats, main, _lives(staged, main)))
    return units


def main_series(stats: Mapping[int, SeriesStats]) -> int:
    """The series whose steps tell process lives apart: the longest training loss, else the longest series."""
    return max(stats, key=lambda i: (roles.resolve(stats[i].name).role == "train_loss", stats[i].n))


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
        if _extent(groups[i]) < _FALSE_START * _extent(groups[i + 1]):
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


def _lives(staged: Staged, main: int) -> tuple[Life, ...]:
    """Process lives: a new one where the main series steps back, or where the importer says so."""
    lives = _scan_lives(staged, main, by_step=True)
    lives = lives if lives is not None else _scan_lives(staged, main, by_step=False) or []
    return tuple(replace(life, naive=True) for life in lives) if staged.naive_times else tuple(lives)


def _scan_lives(staged: Staged, main: int, *, by_step: bool) -> list[Life] | None:
    """One pass over the main series; None where it steps back so often that it is unordered rather than restarted."""
    lives: list[Life] = []
    n = back = anew = 0
    last_step = last_segment = 0
    for block in staged.spool.blocks(("series", "state", "seq", "step", "wall_time", "segment")):
        rows = np.flatnonzero((block["series"] == main) & ~np.isin(block["state"], (NULL, EMPTY)))
        if not len(rows):
            continue
        step, segment = block["step"][rows], block["segment"][rows]
        cut = np.diff(segment, prepend=last_segment if lives else segment[0]) != 0
        backward = np.diff(step, prepend=last_step if lives else step[0]) < 0
        begins = backward & (step <= (lives[0].first_step if lives else step[0]))
        n, back, anew = n + len(rows), back + int(np.sum(backward)), anew + int(np.sum(begins))
        if by_step:
            if back - (anew if anew <= min(_MOST_ANEW, n // _FOLD) else 0) > max(_FEW_RESTARTS, _INTERLEAVED * n):
                return None
            cut |= backward
        for start, end in pairwise(sorted({0, *np.flatnonzero(cut).tolist(), len(rows)})):
            life = _life(block, rows[start:end])
            lives.append(life if cut[start] or not lives else _joined(lives.pop(), life))
        last_step, last_segment = int(step[-1]), int(segment[-1])
    return [replace(lives[0], start=0), *lives[1:]] if lives else lives


def _life(block: Block, rows: NDArray[np.int64]) -> Life:
    step, wall = block["step"][rows], block["wall_time"][rows]
    known = wall[wall != NO_TIME]
    started, ended = (int(known[0]), int(known[-1])) if len(known) else (NO_TIME, NO_TIME)
    return Life(int(block["seq"][rows[0]]), int(step[0]), int(step[-1]), int(step.max()), started, ended)


def _joined(a: Life, b: Life) -> Life:
    """One life that two blocks hold in turn."""
    return Life(
        a.start,
        a.first_step,
        b.last_step,
        max(a.max_step, b.max_step),
        b.started if a.started == NO_TIME else a.started,
        a.ended if b.ended == NO_TIME else b.ended,
    )
