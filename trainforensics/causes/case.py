"""What a hypothesis looks at: one incident, the run around it, and how to look things up there."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np

from trainforensics.blame.described import matching
from trainforensics.causes.movement import Movement, movement
from trainforensics.model import Evidence, Incident
from trainforensics.signals import Curve, Signals

PACE_KINDS = frozenset({"throughput-drop", "straggler", "hang", "memory-growth"})
NEAR_POINTS = 10  # logged points of the training loss after the onset, up to which another incident begins with it

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """An incident with its run and the incidents beside it. What is known of it is in the rooms of `facts`."""

    incident: Incident
    signals: Signals
    incidents: tuple[Incident, ...]
    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def kind(self) -> str:
        """The incident's kind."""
        return self.incident.kind

    @property
    def onset(self) -> int:
        """Onset step, 0 where the incident has none."""
        return self.incident.onset_step or 0

    @cached_property
    def loss(self) -> Curve | None:
        """The training loss."""
        return self.curve("train_loss")

    @cached_property
    def cadence(self) -> int:
        """Steps between logged points of the training loss."""
        return self.loss.cadence if self.loss else 1

    @property
    def root(self) -> Incident | None:
        """The incident that `caused_by` leads to, None for a root."""
        by_id = {i.id: i for i in self.incidents}
        here, seen = self.incident, {self.incident.id}
        while here.caused_by and here.caused_by in by_id and here.caused_by not in seen:
            here = by_id[here.caused_by]
            seen.add(here.id)
        return None if here is self.incident else here

    def beside(self, *kinds: str, after: int | None = None) -> Incident | None:
        """Another incident of one of these kinds that begins no later than ten logged points after this one.

        `after`: no earlier than this many steps after it either.
        """
        for other in self.incidents:
            known = other is not self.incident and other.kind in kinds and other.onset_step is not None
            distance = (other.onset_step or 0) - self.onset
            if known and distance <= NEAR_POINTS * self.cadence and (after is None or distance >= after):
                return other
        return None

    def curve(self, role: str) -> Curve | None:
        """The series that speaks for a role, as the process life of the incident saw it."""
        return self.derive(("curve", role), lambda: self._curve(role))

    def _curve(self, role: str) -> Curve | None:
        curve = self.signals.curve(role)
        return None if curve is None else _in_life(curve, self.onset, self.incident.segment)

    def movement(self, role: str) -> Movement | None:
        """How the role's series moved around the onset; None where it is not logged or has too little before."""
        return self.derive(("movement", role), lambda: self._movement(role))

    def _movement(self, role: str) -> Movement | None:
        curve = self.curve(role)
        return None if curve is None else movement(curve, self.onset)

    def told(self, role: str) -> Evidence | None:
        """What the incident's evidence says of a role's level now and before, so that a cause repeats its numbers."""
        curve = self.curve(role)
        names = {role} if curve is None else {role, curve.name}
        rows = (row for row in self.incident.evidence if row.signal in names)
        return next((row for row in rows if row.value is not None and row.expected is not None), None)

    def levels(self, role: str, before: float, now: float) -> tuple[float, float]:
        """A role's level before and its value, as the incident's evidence says them, else as they were measured."""
        told = self.told(role)
        if told is None or told.expected is None or told.value is None:
            return before, now
        return told.expected, told.value

    def said(self, pattern: str) -> str:
        """The first line of the log's own text that matches, empty without one."""
        found = re.compile(pattern, re.IGNORECASE)
        return next((" ".join(e.text.split())[:120] for e in self.signals.events if found.search(e.text)), "")

    def configured(self, pattern: str) -> tuple[str, Any] | None:
        """The first configuration entry whose last key part matches."""
        return next(matching(self.signals.config, pattern), None)

    def derive(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What follows from the case alone, computed once per key."""
        if key not in self._cache:
            self._cache[key] = compute()
        return cast("T", self._cache[key])


def once(find: Callable[[Case], T]) -> Callable[[Case], T]:
    """A fact that several causes ask for: found once per case."""

    @wraps(find)
    def found(case: Case) -> T:
        return case.derive(find, lambda: find(case))

    return found


def _in_life(curve: Curve, onset: int, segment: int | None) -> Curve:
    """The curve with the points that a later life logged again, where the incident lies in those."""
    old = curve.superseded
    at = curve.at(onset)
    if old is None or segment is None or at < 0 or curve.segment[at] <= segment:
        return curve
    own = old.take(old.segment <= segment)
    if not len(own) or not own.step[0] <= onset <= own.step[-1]:
        return curve
    before = curve.take((curve.segment <= segment) & (curve.step < own.step[0]))
    step, value, time, life = (
        np.concatenate([getattr(before, name), getattr(own, name)]) for name in ("step", "value", "time", "segment")
    )
    return Curve(curve.series, step, value, time, life)
