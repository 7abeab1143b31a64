"""What the rooms pass to one another: frozen data, no behaviour beyond simple look-ups.

Field names that collide with Python keywords carry a trailing underscore here and lose it in JSON (`for_` -> "for").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from trainforensics.kinds import Severity, is_alarm

SCHEMA = "trainforensics/result/1"

Recovery = Literal["recovered", "partial", "unrecovered", "diverging", "ongoing"]
Verdict = Literal["stable", "unstable", "failed", "undecided"]
Ended = Literal["finished", "crashed", "ongoing", "unknown"]
Basis = Literal["logged", "reconstructed", "assumed"]
SuspectType = Literal["shard", "doc", "domain", "rank", "batch", "expert"]
AxisUnit = Literal["step", "epoch", "sample", "row"]
_EPOCH_LENGTH = re.compile(r"epoch x (\d+)")


@dataclass(frozen=True, slots=True)
class Series:
    """Identity of one logged series: (folder, tag) in `name`, with what the name or the log says of its origin.

    `naive_time`: its wall times state no zone; they measure pauses, but are not held against another clock's.
    """

    id: int
    name: str
    source: str
    role: str | None = None
    rank: int | None = None
    layer: str | None = None
    expert: int | None = None
    domain: str | None = None
    naive_time: bool = False


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """A series as result.json lists it. `n` counts numbers, NaN and infinities included."""

    name: str
    role: str | None
    source: str
    rank: int | None
    n: int
    n_nonfinite: int
    first_step: int | None
    last_step: int | None
    twin_of: str | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """The step axis of a run: the name of the column it came from, and its unit."""

    name: str
    unit: AxisUnit

    @property
    def epoch_length(self) -> int | None:
        """Steps of an epoch, which an axis made of epochs and iterations states (`epoch x 1299 + iteration`)."""
        found = _EPOCH_LENGTH.match(self.name)
        return int(found[1]) if found is not None else None


@dataclass(frozen=True, slots=True)
class ReadWarning:
    """Something of a source that could not be kept or believed, and where (byte, line or step)."""

    kind: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """One log file of a run: points kept and what was lost."""

    path: str
    format: str
    points: int
    warnings: tuple[ReadWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """One process life of the run. `started_at`: ISO time, if the log has wall times; without a zone where they are."""

    index: int
    first_step: int
    last_step: int
    started_at: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved checkpoint and where it is known from (an event line, a folder beside the log, the user)."""

    step: int
    source: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as the log says it: restart, checkpoint saved or failed, overflow message ...

    `naive_time`, which the store sets: its wall time states no zone.
    """

    kind: str
    step: int | None = None
    wall_time: float | None = None
    rank: int | None = None
    text: str = ""
    source: str = ""
    line: int | None = None
    naive_time: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that speaks: the value seen at a step of a signal, against the value expected there."""

    signal: str
    step: int | None
    value: float | None
    expected: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Precursor:
    """A signal that moved before the incident. `lead` is in steps of the run's axis."""

    signal: str
    step: int
    lead: int
    text: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an incident sits when it is not the whole run."""

    rank: int | None = None
    layer: str | None = None
    expert: int | None = None
    domain: str | None = None
    sibling: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a detector reports. Steps are on the run's axis; `confidence` is a probability of being right."""

    kind: str
    series: str
    role: str | None
    onset_step: int | None
    confidence: float
    summary: str
    severity: Severity | None = None  # None: the kind's usual severity
    onset_interval: tuple[int, int] | None = None
    occurrences: tuple[int, ...] = ()
    segment: int | None = None
    peak_step: int | None = None
    end_step: int | None = None
    recovery: Recovery | None = None
    scope: Scope = Scope()
    evidence: tuple[Evidence, ...] = ()
    precursors: tuple[Precursor, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """A ranked hypothesis with the evidence on both sides and the experiment that would settle it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"alias_generator": lambda name: name.rstrip("_")}

    cause: str
    confidence: float
    for_: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    test: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A shard, document, domain, rank, batch or expert that may have fed the incident."""

    type: SuspectType
    id: str
    confidence: float
    p_value: float | None = None
    steps: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Blame:
    """Which data fed the window of steps, how that is known, and who is suspected."""

    window: tuple[int, int] | None
    basis: Basis | None
    suspects: tuple[Suspect, ...] = ()
    batches: tuple[dict[str, Any], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    """A checkpoint to go back to and why it is believed clean."""

    step: int
    why: str


@dataclass(frozen=True, slots=True)
class SafeCheckpoint:
    """The newest checkpoint clearly before the first precursor, with older (or riskier) alternatives.

    `go_back`: whether the remedies ask to go back to it; else it is there should it be needed.
    """

    step: int | None
    why: str
    alternatives: tuple[CheckpointChoice, ...] = ()
    go_back: bool = False


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do, with this run's numbers, and what would confirm or refute it."""

    action: str
    why: str
    confirm: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What the incident cost, where the log allows to say: steps, tokens, seconds of wall time."""

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happened: the finding, its place in the chain, why, which data, what to do."""

    id: str
    code: str
    kind: str
    severity: Severity
    confidence: float
    caused_by: str | None
    onset_step: int | None
    onset_interval: tuple[int, int] | None
    occurrences: tuple[int, ...]
    segment: int | None
    peak_step: int | None
    end_step: int | None
    recovery: Recovery | None
    cost: Cost
    series: str
    role: str | None
    scope: Scope
    summary: str
    evidence: tuple[Evidence, ...] = ()
    precursors: tuple[Precursor, ...] = ()
    causes: tuple[Cause, ...] = ()
    blame: Blame | None = None
    safe_checkpoint: SafeCheckpoint | None = None
    remediation: tuple[Remedy, ...] = ()

    @property
    def is_root(self) -> bool:
        """Roots are counted; effects are not."""
        return self.caused_by is None

    @property
    def is_root_alarm(self) -> bool:
        """Whether gate, verdict and benchmark count this incident."""
        return self.is_root and is_alarm(self.severity)


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A kind that could not be decided, why, and what to log so that it can be next time."""

    kind: str
    reason: str
    log_next_time: str = ""


@dataclass(frozen=True, slots=True)
class DetectorError:
    """A detector that failed on this run; the others went on."""

    detector: str
    message: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything known of one run."""

    run: str
    verdict: Verdict
    axis: Axis
    ended: Ended
    sources: tuple[SourceSummary, ...]
    config: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    series: tuple[SeriesSummary, ...] = ()
    segments: tuple[Segment, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    incidents: tuple[Incident, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    errored: tuple[DetectorError, ...] = ()
    grouping: str = ""  # why these files are one run
    failure: Event | None = None  # the last error of a run that crashed
    schema: str = SCHEMA

    @property
    def alarms(self) -> int:
        """Number of root incidents of severity medium and above."""
        return sum(incident.is_root_alarm for incident in self.incidents)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A run in the index: where its own result lies, relative to the index."""

    run: str
    verdict: Verdict
    alarms: int
    result: str


@dataclass(frozen=True, slots=True)
class CrossRunFinding:
    """What only several runs together show."""

    finding: str
    runs: tuple[str, ...]
    steps: tuple[int, ...]
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was looked at and not imported, with the best guess and the reason.

    `unread`: it may hold a run, but could not be looked at; also a path given by name in which there is none.
    """

    path: str
    reason: str
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """The top-level result.json."""

    tool: Mapping[str, str]
    runs: tuple[IndexEntry, ...]
    cross_run: tuple[CrossRunFinding, ...] = ()
    store: str = "parquet"
    skipped: tuple[Skipped, ...] = ()
    schema: str = SCHEMA


# --- what a detector answers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fired:
    """The detector found something."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """The detector looked and found nothing."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The detector could not look: why, and what to log so that it can."""

    reason: str
    log_next_time: str = ""


Outcome = Fired | Clear | NotApplicable


# --- what a comparison of two runs, A and B, answers -------------------------------------------------------------

Relation = Literal["identical", "together", "parted", "scaled", "offset", "shifted", "unjudged"]
Weight = Literal["learning", "other", "incidental"]


@dataclass(frozen=True, slots=True)
class Parting:
    """A stretch in which a series of A and B stand apart.

    `step` is the first point of it, `interval` spans back to the common step before; `until` is the first common step
    at which they are together again, None to the end. `size` is their largest distance in widths of their noise, None
    where there is no noise or a value is not finite; `beyond` the first step at which it is at least one width. `a` and
    `b` are the values at `step`.
    """

    step: int
    interval: tuple[int, int]
    until: int | None
    size: float | None
    beyond: int | None
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class SeriesDifference:
    """One series of A against its counterpart in B on their `common` steps.

    `amount` is the factor (A = amount x B), the offset (A = B + amount) or the steps by which B lags, as `relation`
    says; partings are those that remain beside it. Of series that began equal, `equal_until` is the last step up to
    which they are and `unequal_from` the first at which they are not.
    """

    name: str
    other: str
    role: str | None
    rank: int | None
    common: int
    first_step: int
    last_step: int
    relation: Relation
    amount: float | None
    equal_until: int | None
    unequal_from: int | None
    partings: tuple[Parting, ...]
    text: str

    @property
    def parted(self) -> Parting | None:
        """The parting that goes on to the end, else the longest."""
        return max(self.partings, key=lambda p: float("inf") if p.until is None else p.until - p.step, default=None)


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """A key of the configuration whose value differs; `missing` names the run that does not state it."""

    key: str
    a: Any
    b: Any
    missing: Literal["a", "b"] | None
    weight: Weight


@dataclass(frozen=True, slots=True)
class DataDifference:
    """The data of A and B on the `compared` steps that both manifests cover.

    `step` is the first at which they differ, None where none does; `differing` counts such steps; `a` and `b` say what
    was fed there; `note` says what more is known, or why nothing could be compared (`compared` is 0 then).
    """

    compared: int
    step: int | None = None
    differing: int = 0
    a: str = ""
    b: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """What sets two runs apart. `finding` is not empty where twins that should be alike are not."""

    a: str
    b: str
    summary: str
    finding: str
    series: tuple[SeriesDifference, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    config: tuple[ConfigDifference, ...]
    data: DataDifference
    notes: tuple[str, ...] = ()
