"""What speaks against each shard, document and domain of a window, and how much.

Each kind of evidence gives a p-value against chance as this very manifest shows it: recurrence over all events; a
concentration, a first appearance or an outlying length that few other windows of the same width have. A p-value can
raise the odds by no more than `bayes_bound` allows; what the kind of incident makes plausible is the starting point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from trainforensics.blame.enrichment import (
    MAX_EVENTS,
    bayes_bound,
    benjamini_hochberg,
    empirical_tail,
    recurrence,
)
from trainforensics.blame.manifest import KEYS
from trainforensics.blame.units import Units
from trainforensics.blame.windows import Window
from trainforensics.model import Suspect, SuspectType
from trainforensics.signals.curve import Bools, Floats, Ints

TYPES: Mapping[str, SuspectType] = {"shard": "shard", "doc": "doc", "domain": "domain"}
REACH = 1000  # windows to either side that a single window is compared with
FEATURES = 4  # kinds of single-window evidence, for which p-values are multiplied
SINGLED_OUT = 2.0  # odds for the data of the one rank that moved first in that very step
NOT_METADATA = frozenset({"step", "at", "rank", "unit", "epoch", "batch_id", "row", "consumed_samples", *KEYS})
OWN_LOSS = "loss"
TELLING = 0.05  # an adjusted p-value below which a recurrence explains events, so that bystanders need not
ENOUGH_ROWS = 20  # rows of a column below which nothing can be called outlying


@dataclass(frozen=True, slots=True)
class Mark:
    """One piece of evidence against a candidate: its corrected p-value and the sentence that says it."""

    p: float
    text: str
    steps: tuple[int, ...] = ()


Marks = Mapping[tuple[str, str], Mark]


@dataclass(slots=True)
class Candidate:
    """A shard, document or domain of the window. `share` of the window's appearances, `steps` where it turned up.

    `marks` come from the window itself, `recurrences` from the other events.
    """

    type: SuspectType
    id: str
    share: float
    steps: tuple[int, ...]
    rivals: int
    marks: list[Mark] = field(default_factory=list)
    recurrences: list[Mark] = field(default_factory=list)

    def suspect(self, plausibility: float, singled_out: str) -> Suspect:
        """The candidate with a probability: prior odds shared among its rivals, raised by its strongest marks.

        Recurrence over other events and what the window itself shows are independent, so both count.

        `plausibility`: odds that data made an incident of this kind. `singled_out`: why this window is narrowed to the
        batches of one rank, empty if it is not.
        """
        prior = min(SINGLED_OUT, 16 * plausibility) if singled_out else plausibility
        idle = prior / (1 + prior) / self.rivals
        best = [min(marks, key=lambda mark: mark.p) for marks in (self.recurrences, self.marks) if marks]
        telling = sorted((mark for mark in best if bayes_bound(mark.p) > 1), key=lambda mark: mark.p)
        odds = max(idle / (1 - idle), plausibility) * math.prod(bayes_bound(mark.p) for mark in telling)
        why = "; ".join(text for text in (*(mark.text for mark in telling), singled_out) if text)
        return Suspect(
            self.type,
            self.id,
            round(min(0.99, odds / (1 + odds)) if telling else idle, 4),
            telling[0].p if telling else None,
            tuple(sorted({*self.steps, *(step for mark in telling for step in mark.steps)})),
            why or f"one of {self.rivals} in the window; nothing sets it apart",
        )


def recurring(units: Units, pools: Sequence[Ints], shifts: Sequence[int]) -> Marks:
    """Recurrence marks by (key, name): the best of several pools of event steps and shifts, corrected for their number.

    A shift of 1 asks whether the batch one step before the symptom is the common one.
    """
    marks: dict[tuple[str, str], Mark] = {}
    for steps in pools:
        for shift in shifts:
            events = np.intersect1d(units.of(steps - shift), units.population)[:MAX_EVENTS]
            shards: list[_Test] = []
            for key in (k for k in KEYS if k in units.manifest.columns and len(events) > 1):
                tests = _explained_away(_tests(units, key, events, shards if key == "doc" else []), events, units)
                shards = [t for t in tests if t.q < TELLING] if key == "shard" else shards
                for test in tests:
                    mark = test.mark(units, events, len(pools) * len(shifts))
                    if (key, test.name) not in marks or mark.p < marks[key, test.name].p:
                        marks[key, test.name] = mark
    return marks


@dataclass(frozen=True, slots=True)
class _Test:
    """One name's recurrence over the events: units that hold it, events it fed, adjusted p-value."""

    key: str
    name: str
    held: Ints
    hit: Bools
    q: float
    looked_at: int

    def mark(self, units: Units, events: Ints, tries: int) -> Mark:
        hits, holds, every = int(self.hit.sum()), len(self.held), len(units.population)
        p = min(1.0, self.q * tries)
        text = (
            f"fed {hits} of {len(events)} events against {holds / every:.2%} of all logged intervals "
            f"(p = {p:.1g} after correction for {self.looked_at} {self.key}s); "
            f"{_count(holds - hits, 'other interval')} with it stayed quiet"
        )
        return Mark(p, text, tuple(units.grid[events[self.hit]].tolist()))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tests(units: Units, key: str, events: Ints, shards: list[_Test]) -> list[_Test]:
    """Every name that two events share, the likeliest first. A document must also stand out within a guilty shard."""
    names = units.shared_by_two(key, events)
    if not names:
        return []
    looked_at = units.looked_at(key)
    found = {name: (held, *recurrence(held, events, units.population)) for name, held in units.held(key, names).items()}
    raised = {name: max(p, _within(held, hit, events, shards)) for name, (held, p, hit) in found.items()}
    adjusted = benjamini_hochberg(np.array(list(raised.values())), looked_at)
    tests = [
        _Test(key, name, found[name][0], found[name][2], float(q), looked_at)
        for name, q in zip(raised, adjusted, strict=True)
    ]
    return sorted(tests, key=lambda test: (test.q, test.name))  # polars groups in no order


def _within(held: Ints, hit: Bools, events: Ints, shards: list[_Test]) -> float:
    """p of a document among the units of a shard that feeds all its events; 0 without such a shard."""
    for shard in shards:
        if shard.hit[: len(hit)][hit].all():
            inside, _ = recurrence(np.intersect1d(held, shard.held), events[shard.hit], shard.held)
            return inside / shard.looked_at  # rivals are the documents of one shard, not all
    return 0.0


def _explained_away(tests: list[_Test], events: Ints, units: Units) -> list[_Test]:
    """Names that only keep company with a likelier one lose their mark: they are held against the events it leaves.

    A name that feeds all the events the likeliest one feeds is as good an explanation and stays.
    """
    if not tests or tests[0].q >= TELLING:
        return tests
    leader, kept = tests[0].hit, []
    explained = leader.copy()
    for test in tests:
        if test.q >= TELLING or test.hit[leader].all():
            kept.append(test)
            continue
        p, _ = recurrence(test.held, events[~explained], units.population) if not explained.all() else (1.0, None)
        q = max(test.q, min(1.0, p * test.looked_at))
        if q < TELLING:
            explained |= test.hit
        kept.append(replace(test, q=q))
    return kept


class Neighbourhood:
    """One window against up to `reach` others of its own width on either side."""

    def __init__(self, units: Units, window: Window, rank: int | None = None, reach: int = REACH) -> None:
        manifest, grid = units.manifest, units.grid
        width = max(1, window.upto - window.after)
        reach = min(reach, units.affordable(width))
        at = int(units.of(np.array([window.upto]))[0])
        low = int(grid[max(0, at - reach)]) - width
        high = max(window.upto, int(grid[min(len(grid) - 1, at + reach)]))
        self.units, self.window = units, window
        self.rank = rank if "rank" in manifest.columns else None
        # windows of the same width laid out from the incident's own, which is number 0
        number = ((pl.col("at") - window.after - 1) // width).alias("unit")
        self.frame = manifest.rows(low, high, self.rank).with_columns(number)
        self.own = self.frame.filter(pl.col("unit") == 0)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The key columns in which the window's rows name something."""
        return tuple(k for k in KEYS if k in self.own.columns and len(_appearances(self.own, k)))

    def candidates(self, history: bool = True) -> dict[str, list[Candidate]]:
        """Everything named in the window, by key, with the marks that the window itself gives.

        `history=False` leaves out first appearances, for which the whole manifest before the window must be read.
        """
        named = {key: self._named(key) for key in self.keys}
        for key, candidates in named.items():
            self._mark_concentration(key, candidates)
            if history:
                self._mark_new(key, candidates)
        self._mark_outlying(named)
        return named

    def _named(self, key: str) -> list[Candidate]:
        own = _appearances(self.own, key)
        table = own.group_by(key, maintain_order=True).agg(pl.len(), pl.col("at").unique().sort())
        return [
            Candidate(TYPES[key], str(name), count / len(own), tuple(steps), len(table))
            for name, count, steps in table.iter_rows()
        ]

    def _mark_concentration(self, key: str, named: list[Candidate]) -> None:
        """Mark names that dominate the window as few windows around are dominated by any name."""
        if self.rank is not None or len(named) < 2:
            return
        counts = _appearances(self.frame.filter(pl.col("unit") != 0), key).group_by("unit", key).len()
        tops = counts.group_by("unit").agg(pl.col("len").max() / pl.col("len").sum())["len"].to_numpy()
        for candidate in named:
            p = empirical_tail(candidate.share, tops)
            text = (
                f"{candidate.share:.0%} of what the window was fed; "
                f"{int(np.sum(tops >= candidate.share))} of {len(tops)} windows around are fed as much by one {key}"
            )
            candidate.marks.append(Mark(min(1.0, p * FEATURES), text))

    def _mark_new(self, key: str, named: list[Candidate]) -> None:
        """Mark what appears for the first time in the window, where something new has become rare by then."""
        start, here = self.units.of(np.array([self.window.after + 1, self.window.upto])).tolist()
        first_seen = self.units.first_seen(key)
        new = [c for c in named if first_seen.get(c.id, -1) >= start]
        span = min(REACH, here // 2)  # the recent past; at the beginning everything is new
        if not new or span < ENOUGH_ROWS:
            return
        before = np.array([unit for unit in first_seen.values() if start - span <= unit < start])
        fresh = len(np.unique(before))
        p = (1 + fresh) / (1 + span)
        text = f"first seen in this window; {fresh} of the {span} logged intervals before brought a new {key}"
        for candidate in new:
            candidate.marks.append(Mark(min(1.0, p * FEATURES * len(new)), text))

    def _mark_outlying(self, named: Mapping[str, list[Candidate]]) -> None:
        """Mark the names of the row whose metadata, or own loss, few other windows reach."""
        columns = [c for c, kind in self.frame.schema.items() if kind.is_numeric() and c not in NOT_METADATA]
        for column in columns:
            found = _outlying(self.frame.drop_nulls(column).drop_nans(column), column)
            if found is None:
                continue
            row, p, text = found
            factor = 1 if column == OWN_LOSS else FEATURES * len(columns)
            for key, candidates in named.items():
                if key == "domain":  # an odd batch says nothing of a whole domain
                    continue
                here = row[key]
                names = set(here) if isinstance(here, list) else {here}
                for candidate in candidates:
                    if candidate.id in names:
                        candidate.marks.append(Mark(min(1.0, p * factor * len(names)), text))


def _appearances(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    """Columns unit, at, key: one row an appearance."""
    frame = frame.select("unit", "at", key)
    return (frame.explode("doc") if key == "doc" else frame).drop_nulls(key)


def _outlying(frame: pl.DataFrame, column: str) -> tuple[dict[str, object], float, str] | None:
    """The window's row furthest from the column's median: (row, p against the furthest of every window, sentence)."""
    values: Floats = frame[column].cast(pl.Float64).to_numpy()
    if len(values) < ENOUGH_ROWS:
        return None
    centre = float(np.median(values))
    distance = values - centre if column == OWN_LOSS else np.abs(values - centre)
    frame = frame.with_columns(pl.Series("distance", distance))
    tops = frame.filter(pl.col("unit") != 0).group_by("unit").agg(pl.col("distance").max())["distance"].to_numpy()
    own = frame.filter(pl.col("unit") == 0).sort("distance", descending=True)
    if not len(own) or not len(tops):
        return None
    furthest = float(own["distance"][0])
    text = (
        f"its batch has {column} {own[column][0]:.4g} against a median of {centre:.4g}; "
        f"{int(np.sum(tops >= furthest))} of {len(tops)} windows around have one as far off"
    )
    return own.row(0, named=True), empirical_tail(furthest, tops), text
