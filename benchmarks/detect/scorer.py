"""Holds alarms against labelled runs.

A truth is named by an alarm of its kind, or of one that its label accepts, at its onset. Truths of one chain (cause and
effect) count once. An alarm that answers no truth is false, unless the label excuses its kind or it follows another
alarm. One alarm may list many steps: what answers nothing counts 1, and one more for every ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainforensics.kinds import KINDS

# An occurrence of these is a point in time; of all others, a stretch that lasts to its end or that of the log.
POINTS = frozenset(
    {
        "instant-burst", "transient-nan", "grad-nan", "gradient-explosion", "val-jump", "hang", "checkpoint-failure",
        "data-shift", "resume-discontinuity", "lr-anomaly", "batch-size-change", "bad-start", "hardware-fault",
        "import-integrity", "skipped-steps", "scale-mismatch",
    }
)  # fmt: skip
SAMPLES = 2000  # of the bootstrap


@dataclass(frozen=True, slots=True)
class Truth:
    """What is wrong with a run. `onsets` holds every onset that is right; empty where the label gives none."""

    kind: str
    onsets: tuple[float, ...] = ()
    tolerance: float = 0
    end: float | None = None
    named_by: frozenset[str] = frozenset()
    primary: bool = True
    chain: str | None = None

    def near(self, step: float) -> bool:
        """Whether a step is this truth's onset."""
        return any(abs(step - onset) <= self.tolerance for onset in self.onsets)

    def covers(self, step: float | None) -> bool:
        """Whether a step belongs to what this truth describes."""
        if not self.onsets:
            return True
        if step is None:
            return False
        if self.near(step) or (self.end is None and self.kind in POINTS):
            return self.near(step)
        last = float("inf") if self.end is None else self.end + self.tolerance
        return min(self.onsets) - self.tolerance <= step <= last

    def accepts(self, kinds: Iterable[str]) -> bool:
        """Whether one of the kinds names this truth."""
        return any(kind == self.kind or kind in self.named_by for kind in kinds)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A run with its truth. `excused`: kinds that are no false alarm here."""

    run: str
    format: str = ""
    truths: tuple[Truth, ...] = ()
    excused: frozenset[str] = frozenset()
    healthy: bool = False


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a tool said of a run. `kinds`: every kind it may mean, its own first; `steps`: where, each occurrence.

    Without steps an alarm is taken to mean the right place. `span`: first and last step, where the tool gives a
    stretch; every onset within counts as met. `follower`: the tool itself calls it the effect of another alarm.
    """

    kinds: tuple[str, ...]
    steps: tuple[float, ...] = ()
    span: tuple[float, float] | None = None
    confidence: float | None = None
    follower: bool = False

    def near(self, truth: Truth) -> bool:
        """Whether it speaks of the truth's onset."""
        if not truth.onsets or not self.steps:
            return True
        if self.span is not None and any(
            self.span[0] - truth.tolerance <= onset <= self.span[1] + truth.tolerance for onset in truth.onsets
        ):
            return True
        return any(truth.near(step) for step in self.steps)

    def names(self, truth: Truth) -> bool:
        """Whether it says what and where."""
        return truth.accepts(self.kinds) and self.near(truth)

    def error(self, truth: Truth) -> float | None:
        """Distance from the onset in steps; None where either has none."""
        distances = [abs(step - onset) for step in self.steps for onset in truth.onsets]
        return min(distances, default=None)


@dataclass(slots=True)
class RunScore:
    """One tool on one run. `false_steps`: alarming steps that answer nothing; `rated`: (confidence, right or not)."""

    run: str
    read: bool
    healthy: bool
    hits: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    false_steps: Counter[str] = field(default_factory=Counter)
    errors: list[tuple[str, float]] = field(default_factory=list)
    rated: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def silent(self) -> bool:
        """Read, and nothing false was raised."""
        return self.read and not self.false


def labelled(row: Mapping[str, Any]) -> Labelled:
    """A line of truth.jsonl."""
    return Labelled(
        run=row["run"],
        format=row.get("format", ""),
        truths=tuple(_truth(entry) for entry in row.get("incidents", ())),
        excused=frozenset(row.get("also_acceptable", ())),
        healthy=bool(row.get("healthy")),
    )


def _truth(entry: Mapping[str, Any]) -> Truth:
    onsets = entry.get("onset_any_of") or ([] if entry.get("onset") is None else [entry["onset"]])
    return Truth(
        entry["kind"],
        tuple(onsets),
        entry.get("onset_tol") or 0,
        entry.get("end"),
        frozenset(entry.get("named_by", ())),
        entry.get("primary", True),
        entry.get("chain"),
    )


def score_run(label: Labelled, alarms: Sequence[Alarm], read: bool = True) -> RunScore:
    """One tool's alarms on one run."""
    score = RunScore(label.run, read, label.healthy)
    for truth in _spoken_for(label.truths, alarms):
        named = [alarm for alarm in alarms if alarm.names(truth)]
        (score.hits if named else score.misses)[truth.kind] += 1
        errors = [error for alarm in named if (error := alarm.error(truth)) is not None]
        if errors:
            score.errors.append((truth.kind, min(errors)))
    for alarm in alarms:
        _judge(alarm, label, score)
    return score


def _spoken_for(truths: Sequence[Truth], alarms: Sequence[Alarm]) -> list[Truth]:
    """One truth of each chain: the first that is named, else the primary one."""
    chosen: list[Truth] = []
    chains = dict.fromkeys(truth.chain for truth in truths if truth.chain)
    for chain in chains:
        members = [truth for truth in truths if truth.chain == chain]
        named = (truth for truth in members if any(alarm.names(truth) for alarm in alarms))
        primary = (truth for truth in members if truth.primary)
        chosen.append(next(named, None) or next(primary, members[0]))
    return chosen + [truth for truth in truths if not truth.chain and truth.primary]


def _judge(alarm: Alarm, label: Labelled, score: RunScore) -> None:
    """Right, excused or false."""
    right = any(alarm.names(truth) for truth in label.truths)
    if alarm.follower or label.excused.intersection(alarm.kinds):
        return
    if alarm.confidence is not None:
        score.rated.append((alarm.confidence, right))
    own = [truth for truth in label.truths if truth.accepts(alarm.kinds)]
    if not alarm.steps:
        loose = 0 if own else 1
    else:
        loose = sum(not any(truth.covers(step) for truth in own) for step in alarm.steps)
        if loose and alarm.span is not None and right:
            loose = 0
    if loose:
        score.false[alarm.kinds[0]] += min(loose, 1 + loose // 10)
        score.false_steps[alarm.kinds[0]] += loose


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts over runs, and what follows from them. Intervals are 95 %, from resampling whole runs."""

    hits: int
    misses: int
    false: int
    f1_interval: tuple[float, float]
    errors: tuple[float, ...]

    @property
    def precision(self) -> float | None:
        """Right alarms among all; None without any."""
        return self.hits / (self.hits + self.false) if self.hits + self.false else None

    @property
    def recall(self) -> float | None:
        """Truths named among all; None without any."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both; None where nothing was to be found and nothing was said."""
        whole = 2 * self.hits + self.misses + self.false
        return 2 * self.hits / whole if whole else None


def figures(scores: Sequence[RunScore], kinds: Iterable[str] | None = None) -> Figures:
    """Counts of some kinds (default: all) over runs."""
    wanted = set(KINDS) if kinds is None else set(kinds)
    counts = np.array(
        [
            [sum(n for kind, n in counter.items() if kind in wanted) for counter in (s.hits, s.misses, s.false)]
            for s in scores
        ]
    ).reshape(-1, 3)
    total = counts.sum(axis=0)
    errors = tuple(error for s in scores for kind, error in s.errors if kind in wanted)
    return Figures(int(total[0]), int(total[1]), int(total[2]), _f1_interval(counts), errors)


def _f1_interval(counts: np.ndarray) -> tuple[float, float]:
    """95 % interval of F1 over bootstrap samples of runs."""
    counts = counts[counts.any(axis=1)]
    if not len(counts):
        return (float("nan"), float("nan"))
    draws = np.random.default_rng(0).integers(0, len(counts), (SAMPLES, len(counts)))
    hits, misses, false = counts[draws].sum(axis=1).T
    f1 = 2 * hits / np.maximum(2 * hits + misses + false, 1)
    low, high = np.quantile(f1, [0.025, 0.975])
    return (float(low), float(high))


def wilson(right: int, n: int) -> tuple[float, float]:
    """95 % interval of a share."""
    if not n:
        return (0.0, 1.0)
    z, share = 1.96, right / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return (max(0.0, float(centre - half)), min(1.0, float(centre + half)))
