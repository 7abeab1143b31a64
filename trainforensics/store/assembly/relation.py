"""How two sources of a folder belong together: as ranks, as a run and its restart, its copy or other series, or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trainforensics import roles
from trainforensics.store.agreement import agreement
from trainforensics.store.assembly.kinship import are_two_trainings
from trainforensics.store.assembly.lives import FALSE_START, comparable
from trainforensics.store.assembly.paths import may_be_of_one_run
from trainforensics.store.assembly.series import Points
from trainforensics.store.assembly.units import Unit
from trainforensics.store.staging import SeriesStats

Relation = Literal["first", "continues", "repeats", "rank", "part"]

_LOSSES = 3  # of a file that are held against those of another
_AGREE = 0.6  # share of common steps that must carry the same value: a replay after a restart may differ


def relate(a: Unit, b: Unit) -> Relation | None:
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
        return "part" if may_be_of_one_run(a.label, b.label) else None
    main = a.stats[a.main].name
    names = [(name, name) for name in ([main] if main in common else common[:1])] or rivals(a, b)
    return _related_by_values(a, b, names) if names else "part"


def _side_by_side(a: Unit, b: Unit) -> bool:
    """Whether two files tell of the same steps, as far as their clocks can be compared at the same time, in the same
    words: those of several ranks do."""
    ours, theirs = ({series.name for series in unit.stats.values()} for unit in (a, b))
    first, last = (max(u.lives[0].first_step for u in (a, b)), min(u.lives[-1].max_step for u in (a, b)))
    began, ended = max(u.lives[0].started for u in (a, b)), min(u.lives[-1].ended for u in (a, b))
    timed = all(unit.lives[0].timed for unit in (a, b))
    return bool(ours & theirs) and first <= last and (not timed or began <= ended)


def rivals(a: Unit, b: Unit) -> list[tuple[str, str]]:
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
    pairs = [(a.points(ours), b.points(theirs)) for ours, theirs in names]
    if any(_repeats(*pair) for pair in pairs) and (same_file or not _follows(a, b)):
        return "repeats"
    if same_file:
        return "part"
    if (_one_axis(a, b) and _continues(a, b)) or (a.identity is not None and a.identity == b.identity):
        return "continues"
    alike = a.staged.source.format == b.staged.source.format and all(ours == theirs for ours, theirs in names)
    if alike or not may_be_of_one_run(a.label, b.label):
        return None
    return None if _one_axis(a, b) and any(are_two_trainings(*pair) for pair in pairs) else "part"


def _one_axis(a: Unit, b: Unit) -> bool:
    """Whether the steps of two files count the same, as far as they say."""
    return a.staged.axis is None or b.staged.axis is None or a.staged.axis.unit == b.staged.axis.unit


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
        early = before.max_step - begin < FALSE_START * (b.lives[-1].max_step - after.first_step)
        return timed and early and after.started >= before.ended
    if timed:
        return after.started >= before.ended or (
            after.started >= before.started and after.first_step >= before.last_step
        )
    reach = before.max_step + max(1, (before.max_step - begin) // 5)
    started_alike = after.first_step - begin < FALSE_START * (before.max_step - begin)
    return not started_alike and after.first_step <= reach and b.lives[-1].max_step > before.max_step


def _repeats(ours: Points, theirs: Points) -> bool:
    """Whether two series have the same value on most of their common steps, and those are not too few."""
    found = agreement(ours, theirs)
    if found.common < 3 or found.common < 0.05 * min(len(ours[0]), len(theirs[0])):
        return False
    return found.share >= _AGREE
