"""Decides which sources of a folder are one run.

Sources of one folder are one run when they continue each other (restarts), repeat each other (the same run logged
twice, raw or smoothed), are its ranks, or complement each other (train and validation files). Two training losses that
do neither are of two runs, whatever their names and formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainforensics.model import Checkpoint
from trainforensics.store.assembly.placement import Member, place
from trainforensics.store.assembly.units import Unit, units_of
from trainforensics.store.staging import Staged


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
    units = [unit for source in staged for unit in units_of(source)]
    own = [unit for unit in units if unit.run or unit.rows]
    groups: list[list[Member]] = []
    whole = [unit for unit in units if not (unit.run or unit.rows)]
    zoned = any(life.timed and not life.naive for unit in whole for life in unit.lives)
    for unit in sorted(whole, key=lambda unit: (unit.staged.is_inner, *_started(unit, zoned))):
        place(unit, groups)
    plans = [_plan(name, group, len(groups) > 1 or bool(own)) for group in groups]
    counts: dict[str, int] = {}
    for unit in own:
        counts[unit.label] = counts.get(unit.label, 0) + 1
        base = name if name.rsplit("/", 1)[-1] == unit.label else f"{name}/{unit.label}"
        reason = f"one run of the export {unit.label}" if unit.run else f"{unit.label} begins anew here"
        plans.append(Plan(f"{base}#{unit.run or counts[unit.label]}", [Member(unit, "first", 0, 0)], reason))
    return plans


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
