"""To which run a source is added: the one it has most to do with, or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainforensics.store.assembly.lives import comparable
from trainforensics.store.assembly.paths import alike
from trainforensics.store.assembly.relation import Relation, relate, rivals
from trainforensics.store.assembly.units import Unit

_STARTUP = 1_000_000  # microseconds; to load its framework and model takes a process longer


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A unit in its run: which stream of points it continues, and the index of its first life there."""

    unit: Unit
    relation: Relation
    stream: int
    first_life: int


def place(unit: Unit, groups: list[list[Member]]) -> None:
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
    relation, member, group = min(found, key=lambda kin: (kin[0] == "part", not alike(kin[1].unit.label, unit.label)))
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
        relation = relate(member.unit, unit)
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
    return not any(alike(member.unit.label, unit.label) for _, member, _ in found) and all(
        any(member.unit.folder == unit.folder and rivals(member.unit, unit) for member in group)
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
