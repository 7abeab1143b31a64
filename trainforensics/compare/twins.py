"""Twins: two runs of the same settings whose losses part."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from trainforensics.blame.described import flat, leaf, setting
from trainforensics.blame.sampler import SYNONYMS
from trainforensics.compare.pairing import OF_THE_MACHINE, SETTING, importance, pairs
from trainforensics.compare.series import compare_curves
from trainforensics.compare.settings import compare_settings
from trainforensics.compare.together import SHARED, common, shared_noise, short_name
from trainforensics.kinds import KINDS
from trainforensics.model import Evidence, Finding, Incident, Scope
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.evaluations import point_noise
from trainforensics.signals.trend import level, moving_median, span

FEWEST_THIRD, FEWEST_ALIKE = 16, 2  # common points of a third of the log; series whose first rows are the same
FEWEST_TWIN, FEWEST_PART = 64, 5  # common points; those that tell a difference
BEGUN, VISIBLE = 0.5, 2.0  # noise widths: where the gap counts from, and what it must reach at the end
GROWN = 4.0  # times what rounding makes at first
DRIFTED = 1 / 3  # of the noise of independent runs, that of the difference; batches in one order share most of theirs
GROWS = 1.5  # the gap at the end in that halfway from the parting
AT_ONCE = 0.2  # of the noise of a difference; the median difference of independent runs is 0.67 of it
OTHER_LOSS = 0.2  # of the loss: what the first values of one seed and one loss do not differ by
ROUNDED = 1e-4  # of the loss: what another order of summation changes in its first values
FEWEST_SETTINGS = 5  # that say what a run was made of
TOGETHER = 0.1  # share of the common points before the parting
_MACHINE = re.compile(
    r"precision|dtype|fp\d+|float\d|bf16|tf32|(^|_)amp|loss_scal|determin|compile|kernel|flash|attn_impl|cudnn|quant"
    r"|world_size|n?gpus?|nodes?|devices?|parallel|hardware|cuda|driver|nccl|backend",
    re.IGNORECASE,
)
_PART = re.compile(r"(?<![a-z])(fold|split|shard|part|cv|seed|phase|stage|task|client)[-_= ]?(\d+)", re.IGNORECASE)
_SET = frozenset({"learning_rate", "weight_decay", "momentum", "beta2", "batch_size", "gradient_accumulation"})
_UNRELATED = frozenset({"monitoring", "cluster"})  # families whose alarms leave the loss as it is


@np.errstate(all="ignore")
def parted_twins(
    a: Signals, b: Signals, told: Mapping[str, Sequence[Incident]], *, alone: bool
) -> tuple[str, Finding] | None:
    """The twin with the worse loss, where two run together at first and end ever further apart; the second of two that
    are equal at first and part at once."""
    if not _are_twins(a, b, alone=alone) or any(_explains(i) for run in (a, b) for i in told[run.run]):
        return None
    step, mine, theirs = common(a.curve("train_loss"), b.curve("train_loss"))
    if alone and (drifted := _drift_apart(a, b, mine, theirs)) is not None:
        return b.run, _drifted(b, a, step, mine, theirs, drifted)
    if len(step) < FEWEST_TWIN:
        return None
    sudden = _sudden_parting(mine, theirs)
    if sudden is not None:
        return b.run, _parted_at(b, a, step, mine, theirs, sudden)
    if alone and _never_together(a, b, mine, theirs):
        return b.run, _apart_from_the_start(b, a, step, mine, theirs)
    gap = _growing_gap(mine, theirs)
    if gap is None:
        return None
    at, widths = gap
    tail = slice(-span(len(step)), None)
    if np.median(mine[tail] - theirs[tail]) < 0:
        a, b, mine, theirs = b, a, theirs, mine
    ends = float(np.median(mine[tail])), float(np.median(theirs[tail]))
    name, before = _loss_name(a), int(step[max(at - 1, 0)])
    shared = shared_noise(mine[:at], theirs[:at])
    start = f"up to there the noise of their difference is {shared:.2g} of that of independent runs"
    rows = (
        Evidence(name, int(step[at]), float(mine[at]), float(theirs[at]), start),
        Evidence(name, int(step[-1]), *ends, f"gap at the end {ends[0] - ends[1]:.3g}"),
    )
    summary = (
        f"{name} runs with that of {short_name(b)} up to step {before} and ends {widths:.2g} noise widths above it "
        f"({ends[0]:.4g} against {ends[1]:.4g}), the gap still growing"
    )
    return a.run, _nondeterminism(a, b, (before, int(step[at])), 0.6, summary, rows)


def _parted_at(b: Signals, a: Signals, step: Ints, mine: Floats, theirs: Floats, at: int) -> Finding:
    """Runs that were equal to the last digit and differ by their whole noise from one point to the next."""
    name, before, onset = _loss_name(b), int(step[at - 1]), int(step[at])
    rows = (Evidence(name, onset, float(theirs[at]), float(mine[at]), f"equal at all {at} points before"),)
    summary = (
        f"{name} equals that of {short_name(a)} to the last digit up to step {before} and differs by its whole noise "
        f"from step {onset} on: other data or another random state, not rounding"
    )
    return _nondeterminism(b, a, (before, onset), 0.8, summary, rows)


def _drift_apart(a: Signals, b: Signals, mine: Floats, theirs: Floats) -> int | None:
    """Index of the first difference of runs whose first rows are the same in every series, and of which much of the
    noise is not shared any more in the end: rounding that grew until they are two runs. Or that grows, where both were
    to repeat one another to the last digit."""
    differ, third = np.flatnonzero(mine != theirs), len(mine) // 3
    at = int(differ[0]) if len(differ) else 0
    if not 0 < at <= third or third < FEWEST_THIRD:
        return None
    apart = np.abs(mine - theirs)
    grows = np.median(apart[-third:]) > GROWN * np.median(apart[at : at + FEWEST_PART])
    if shared_noise(mine[-third:], theirs[-third:]) <= DRIFTED and not (grows and _to_repeat(a) and _to_repeat(b)):
        return None
    measured = [pair for pair in pairs(a, b)[0] if importance(pair[0].series) not in (SETTING, OF_THE_MACHINE)]
    first = [(one.value[0], other.value[0]) for one, other in measured if len(one) and len(other)]
    alike = sum(one == other for one, other in first)
    small = abs(mine[at] - theirs[at]) < point_noise(mine) / 2
    return at if small and alike >= FEWEST_ALIKE and alike == len(first) else None


def _to_repeat(run: Signals) -> bool:
    """Whether the settings ask for operations that always give the same result."""
    return any("determin" in leaf(key).lower() and value is True for key, value in flat(run.config))


def _drifted(b: Signals, a: Signals, step: Ints, mine: Floats, theirs: Floats, at: int) -> Finding:
    """Runs that began alike to the last digit and came to differ by their whole noise little by little."""
    name, before, onset, third = _loss_name(b), int(step[at - 1]), int(step[at]), len(step) // 3
    shared = shared_noise(mine[-third:], theirs[-third:])
    rows = (
        Evidence(name, onset, float(theirs[at]), float(mine[at]), f"first difference from {short_name(a)}"),
        Evidence(name, int(step[-1]), shared, 1.0, "noise of the difference in the end, in that of independent runs"),
    )
    far = "by its whole noise" if shared > SHARED else f"by {np.median(np.abs(mine - theirs)[-third:]):.2g}"
    summary = (
        f"{name} equals that of {short_name(a)} to the last digit up to step {before}, differs a little from step "
        f"{onset} on and {far} in the end: the order of summation, or kernels without a fixed one"
    )
    return _nondeterminism(b, a, (before, onset), 0.6, summary, rows)


def _never_together(a: Signals, b: Signals, mine: Floats, theirs: Floats) -> bool:
    """Whether runs of the same settings and seed differ in their first values already by more than the order of
    summation changes, and share no more of their noise later; unless their names say that they are other parts of one
    experiment."""
    settings = [dict(flat(run.config)) for run in (a, b)]
    seeds = [setting(run.config, SYNONYMS["seed"]) for run in (a, b)]
    if min(map(len, settings)) < FEWEST_SETTINGS or seeds[0] is None or seeds[0] != seeds[1]:
        return False
    if any(d.weight != "incidental" for d in compare_settings(a.config, b.config)):
        return False
    if _PART.findall(a.run) != _PART.findall(b.run):
        return False
    apart = np.abs(mine - theirs)[:FEWEST_PART] / np.abs(theirs)[:FEWEST_PART]
    differ = apart[1:] if apart[0] == 0 else apart  # of an untrained model, a loss may be the same on any data
    return bool((differ > ROUNDED).all() and apart.max() < OTHER_LOSS) and shared_noise(mine, theirs) > SHARED


def _apart_from_the_start(b: Signals, a: Signals, step: Ints, mine: Floats, theirs: Floats) -> Finding:
    """Runs of the same seed that were never equal."""
    at = int(mine[0] == theirs[0])
    name, onset = _loss_name(b), int(step[at])
    which, shared = ("second" if at else "first"), shared_noise(mine, theirs)
    rows = (
        Evidence(name, onset, float(theirs[at]), float(mine[at]), f"of {short_name(a)} at the {which} common step"),
        Evidence(name, int(step[-1]), shared, 1.0, "noise of the difference in that of independent runs"),
    )
    summary = (
        f"{name} differs from that of {short_name(a)} from the {which} common step {onset} on "
        f"({theirs[at]:.5g} against {mine[at]:.5g}) although settings and seed are the same: other data or another "
        "random state, not rounding"
    )
    return _nondeterminism(b, a, (onset, onset), 0.6, summary, rows)


def _nondeterminism(
    run: Signals, twin: Signals, between: tuple[int, int], sure: float, summary: str, rows: tuple[Evidence, ...]
) -> Finding:
    """A parting `between` two steps; `sure` where it is not known that both were configured alike."""
    return Finding(
        kind="nondeterminism",
        series=_loss_name(run),
        role="train_loss",
        onset_step=between[1],
        onset_interval=between,
        recovery="unrecovered",
        confidence=round(sure + (0.1 if run.config and twin.config else 0.0), 2),
        scope=Scope(sibling=twin.run),
        summary=summary,
        evidence=(*rows, *_machine_rows(run, twin)),
    )


def _loss_name(run: Signals) -> str:
    curve = run.curve("train_loss")
    return curve.name if curve is not None else "the loss"


def _sudden_parting(a: Floats, b: Floats) -> int | None:
    """Index of the first difference of runs equal until then, where it is at once as large as their noise: rounding
    errors grow over many steps."""
    differ = np.flatnonzero(a != b)
    at = int(differ[0]) if len(differ) else len(a)
    if at < max(TOGETHER * len(a), FEWEST_TWIN // 2) or len(a) - at < FEWEST_TWIN // 2 or np.ptp(a[:at]) == 0:
        return None
    near = slice(at, at + FEWEST_PART)
    whole = math.hypot(point_noise(a), point_noise(b))
    return (
        at if np.median(np.abs(a[near] - b[near])) > AT_ONCE * whole and shared_noise(a[at:], b[at:]) > SHARED else None
    )


def _are_twins(a: Signals, b: Signals, *, alone: bool) -> bool:
    """Whether nothing that was set on purpose differs; where a run does not say, only a pair by itself is taken for
    twins, since more runs are a search over settings."""
    if a.config and b.config:
        differing = (d for d in compare_settings(a.config, b.config) if d.weight != "incidental")
        if any(not _MACHINE.search(leaf(d.key)) for d in differing):
            return False
    elif not alone:
        return False
    settings = (compare_curves(*pair) for pair in pairs(a, b)[0] if pair[0].series.role in _SET)
    return all(s is None or s.relation in ("identical", "together", "unjudged") for s in settings)


def _explains(incident: Incident) -> bool:
    """Whether a run's own alarm already says why its loss leaves its twin's."""
    kind = KINDS.get(incident.kind)
    return incident.is_root_alarm and (kind is None or kind.family not in _UNRELATED)


def _growing_gap(a: Floats, b: Floats) -> tuple[int, float] | None:
    """Index from which the runs stand apart for good, and their distance at the end in widths of their own noise."""
    n, width = len(a), span(len(a))
    own = np.hypot(level(a).sigma, level(b).sigma)
    gap = moving_median(a - b, width) / own
    near = np.flatnonzero(np.abs(gap) < BEGUN)
    at = int(near[-1]) + 1 if len(near) else 0
    if at < max(TOGETHER * n, 2 * width) or n - at < 2 * width:
        return None
    half, end = float(np.median(gap[at : at + (n - at) // 2])), float(np.median(gap[-width:]))
    if abs(end) < VISIBLE or abs(end) < GROWS * abs(half) or shared_noise(a[:at], b[:at]) > SHARED:
        return None
    return at, abs(end)


def _machine_rows(a: Signals, b: Signals) -> Iterator[Evidence]:
    for difference in compare_settings(a.config, b.config):
        if difference.weight != "incidental":
            yield Evidence(
                difference.key, None, None, None, f"{difference.key}: {difference.a} here, {difference.b} there"
            )
