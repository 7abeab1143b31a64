"""Runs of one folder held against each other: a loss that is a multiple of its sibling's, twins that part for good, and
runs that go on from another without joining it.

Lying in one folder proves nothing: a multiple must be whole and constant while evaluation agrees, and twins must show
each other's noise before they part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path, PurePosixPath

import numpy as np

from trainforensics import incidents
from trainforensics.blame.described import flat, leaf
from trainforensics.blame.siblings import ALIKE
from trainforensics.compare.continuation import broken_borders
from trainforensics.compare.pairing import pairs
from trainforensics.compare.series import compare_curves
from trainforensics.compare.settings import compare_settings
from trainforensics.compare.shared_bursts import shared_bursts
from trainforensics.compare.together import common, shared_noise
from trainforensics.kinds import KINDS
from trainforensics.model import CrossRunFinding, Evidence, Finding, Incident, RunResult, Scope
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.evaluations import point_noise
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.trend import level, moving_median, span

MOST_RUNS = 12  # a folder, up to which lying beside each other says something
MOST_ALIKE = 64  # runs of a folder that log the same series; every one is held against every other
MOST_POINTS = 4_000_000  # of these runs together; they are held in memory at once
FEWEST_SCALED, FEWEST_TWIN = 20, 64  # common points
WHOLE, LARGEST = 0.02, 64  # distance of the ratio from a whole number, and the largest looked for
NEAREST = 0.25  # and never more than this: beside large numbers 2 % would reach every ratio
SURE = 3.0  # standard errors
MEDIAN_ERROR = 1.2533  # standard error of a median, in standard errors of the mean
MOVED = 0.2  # log height above the end from which a fall counts: of two constants any ratio is constant
FEWEST_PART = 5  # points of the fall, and of each quarter
NOISE = 1.7  # factor by which the relative noise may differ (the bar within one run)
AGREES = 1.25  # evaluations nearer than this factor are not scaled
SHARED = 0.5  # noise of the difference in that of independent runs; 1 where they share nothing
BEGUN, VISIBLE = 0.5, 2.0  # noise widths: where the gap counts from, and what it must reach at the end
GROWS = 1.5  # the gap at the end in that halfway from the parting
AT_ONCE = 0.2  # of the noise of a difference; the median difference of independent runs is 0.67 of it
TOGETHER = 0.1  # share of the common points before the parting

_FACTORS = re.compile(r"accum|world_size|num_gpus|num_devices|n_gpu|batch_size", re.IGNORECASE)
_MACHINE = re.compile(
    r"precision|dtype|fp\d+|float\d|bf16|tf32|(^|_)amp|loss_scal|determin|compile|kernel|flash|attn_impl|cudnn|quant"
    r"|world_size|n?gpus?|nodes?|devices?|parallel|hardware|cuda|driver|nccl|backend",
    re.IGNORECASE,
)
_SET = frozenset({"learning_rate", "weight_decay", "momentum", "beta2", "batch_size", "gradient_accumulation"})
_UNRELATED = frozenset({"monitoring", "cluster"})  # families whose alarms leave the loss as it is


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Runs of one folder that log nearly the same series, pair by pair; `few` where the folder holds so few that they
    belong together, while of many only what their noise proves counts."""

    pairs: tuple[tuple[str, str], ...]
    few: bool

    @property
    def runs(self) -> tuple[str, ...]:
        """Their names, in order, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(self.pairs)))


@dataclass(frozen=True, slots=True)
class Departure:
    """How one run departs from another: the incident of the run, and what the index says of both."""

    run: str
    incident: Incident
    finding: CrossRunFinding


def candidates(results: Sequence[RunResult], logs: Mapping[str, Path]) -> list[Neighbours]:
    """Runs worth comparing, folder by folder: neighbours that log nearly the same series on the same axis.

    `logs`: where each run's logs were read from, by name. Folders with more than 64 such runs, and those whose runs
    hold more than four million points together, are left out.
    """
    folders: dict[object, list[RunResult]] = {}
    for result in results:
        folders.setdefault((logs[result.run].parent, PurePosixPath(result.run).parent), []).append(result)
    found = [Neighbours(tuple(_alike(folder)), len(folder) <= MOST_RUNS) for folder in folders.values()]
    points = {result.run: sum(source.points for source in result.sources) for result in results}
    return [
        near
        for near in found
        if 2 <= len(near.runs) <= MOST_ALIKE and sum(points[run] for run in near.runs) <= MOST_POINTS
    ]


def _alike(folder: Sequence[RunResult]) -> list[tuple[str, str]]:
    names = {r.run: {s.name for s in r.series} for r in folder if any(s.role == "train_loss" for s in r.series)}
    axes = {r.run: r.axis for r in folder}
    return [
        (a, b)
        for a, b in combinations(names, 2)
        if axes[a] == axes[b] and len(names[a] & names[b]) >= ALIKE * len(names[a] | names[b])
    ]


def departures(
    neighbours: Neighbours, runs: Mapping[str, Signals], told: Mapping[str, Sequence[Incident]]
) -> Iterator[Departure]:
    """What runs of one folder show beside each other alone, each run at most once a kind. `told`: each run's own
    incidents."""
    shared = [found for found in shared_bursts(neighbours.pairs, runs) if not _named(found, told)]
    apart = [*_apart(neighbours.pairs, runs, told)] if neighbours.few else []
    first: dict[tuple[str, str], tuple[str, Finding]] = {}
    for run, finding in sorted([*shared, *apart], key=lambda found: -found[1].confidence):
        first.setdefault((run, finding.kind), (run, finding))
    for run, finding in first.values():
        (built,) = incidents.build([finding], runs[run])
        incident = replace(built, id=f"{built.code}-sibling-{finding.onset_step}")
        rows = tuple(row.text for row in finding.evidence)
        steps = finding.occurrences or (() if finding.onset_step is None else (finding.onset_step,))
        text = f"{finding.kind} of {run}: {finding.summary}"
        yield Departure(run, incident, CrossRunFinding(text, (run, str(finding.scope.sibling)), steps, rows))


def _apart(
    neighbours: Sequence[tuple[str, str]], runs: Mapping[str, Signals], told: Mapping[str, Sequence[Incident]]
) -> Iterator[tuple[str, Finding]]:
    """What sets runs that belong together apart."""
    for a, b in neighbours:
        scaled = _scaled(runs[a], runs[b], told)
        if scaled is not None:
            yield scaled
    for a, b in neighbours:
        parted = _parted(runs[a], runs[b], told, alone=len(neighbours) == 1)
        if parted is not None:
            yield parted
    yield from (found for found in broken_borders(neighbours, runs) if not _named(found, told))


def _named(found: tuple[str, Finding], told: Mapping[str, Sequence[Incident]]) -> bool:
    """Whether the run's own incidents name the kind already."""
    run, finding = found
    return any(incident.kind == finding.kind for incident in told[run])


# --- a multiple --------------------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def _scaled(a: Signals, b: Signals, told: Mapping[str, Sequence[Incident]]) -> tuple[str, Finding] | None:
    """The run whose training loss is a whole multiple of its sibling's all along."""
    if any(i.kind == "scale-mismatch" for run in (a, b) for i in told[run.run]):
        return None
    step, mine, theirs = common(a.curve("train_loss"), b.curve("train_loss"))
    if len(step) < FEWEST_SCALED or min(mine.min(), theirs.min()) <= 0:
        return None
    if np.median(mine) < np.median(theirs):
        a, b, mine, theirs = b, a, theirs, mine
    k = _multiple(np.log(mine), np.log(theirs))
    curve = a.curve("train_loss")
    if k is None or curve is None or not _confirmed(a, b, k, mine, theirs):
        return None
    ratio, other = float(np.median(mine / theirs)), _short(b)
    rows = [
        Evidence(curve.name, int(step[0]), float(mine[0]), float(theirs[0]), f"ratio {ratio:.3f} to that of {other}")
    ]
    for role, text in (("grad_norm", "gradient norm"), ("val_loss", "validation loss")):
        there = _ratio(a, b, role)
        if there is not None:
            rows.append(Evidence(role, None, there, 1.0, f"{text}: {there:.3g} times that of {other}"))
    named = _factor_setting(a, b, k)
    held = "while evaluation is not scaled" if _ratio(a, b, "val_loss") is not None else "noise included"
    return a.run, Finding(
        kind="scale-mismatch",
        series=curve.name,
        role="train_loss",
        onset_step=int(step[0]),
        onset_interval=(int(step[0]), int(step[0])),
        peak_step=int(step[0]),
        confidence=0.9 if named else 0.8,
        scope=Scope(sibling=b.run),
        summary=(
            f"{curve.name} is {k} times that of {other} on all {len(step)} common steps ({ratio:.3f}), {held}{named}"
        ),
        evidence=tuple(rows),
    )


def _multiple(a: Floats, b: Floats) -> int | None:
    """The whole number (2 or more) that exp(a - b) is throughout, relative noise alike; None where there is none."""
    ratios = a - b
    ratio = math.exp(float(np.median(ratios)))
    k = round(ratio)
    if not 2 <= k <= LARGEST or abs(ratio - k) > min(WHOLE * k, NEAREST):
        return None
    trend = moving_median(b, span(len(b)))
    falling = trend > trend.min() + MOVED
    for part in (ratios[falling], *np.array_split(ratios, 4)):
        if len(part) < FEWEST_PART:
            return None
        error = MEDIAN_ERROR * robust_sigma(part) / math.sqrt(len(part))
        if error > WHOLE or abs(float(np.median(part)) - math.log(k)) > WHOLE + SURE * error:
            return None
    noise = max(point_noise(a), 1e-9) / max(point_noise(b), 1e-9)
    # a sum over k micro-batches has the relative noise of one, or of their mean
    return k if 1 / (NOISE * math.sqrt(k)) <= noise <= NOISE else None


def _confirmed(a: Signals, b: Signals, k: int, mine: Floats, theirs: Floats) -> bool:
    """Whether the model is the same under the multiple: evaluation agrees; where there is none, noise, gradients or a
    setting say so."""
    evaluated = _ratio(a, b, "val_loss")
    if evaluated is not None:
        return 1 / AGREES <= evaluated <= AGREES
    norm = _ratio(a, b, "grad_norm")
    if norm is not None and abs(norm / k - 1) < AGREES - 1:
        return True
    return shared_noise(np.log(mine), np.log(theirs)) <= SHARED or bool(_factor_setting(a, b, k))


def _ratio(a: Signals, b: Signals, role: str) -> float | None:
    """Median ratio of a role's curves; None where they have no positive values in common."""
    _, mine, theirs = common(a.curve(role), b.curve(role))
    positive = (mine > 0) & (theirs > 0)
    return float(np.median(mine[positive] / theirs[positive])) if positive.any() else None


def _factor_setting(a: Signals, b: Signals, k: int) -> str:
    """The setting that differs by the factor, or has its value in the run with the multiple alone."""
    there = dict(flat(b.config))
    for key, value in flat(a.config):
        numbers = [n for n in (value, there.get(key, 1)) if isinstance(n, int | float) and n > 0]
        if _FACTORS.search(leaf(key)) and len(numbers) == 2 and max(numbers) == k * min(numbers):
            return f"; {key} is {value} here, {there.get(key, 'not set')} there"
    return ""


# --- twins -------------------------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def _parted(
    a: Signals, b: Signals, told: Mapping[str, Sequence[Incident]], *, alone: bool
) -> tuple[str, Finding] | None:
    """The twin with the worse loss, where two run together at first and end ever further apart; the second of two that
    are equal at first and part at once."""
    if not _are_twins(a, b, alone=alone) or any(_explains(i) for run in (a, b) for i in told[run.run]):
        return None
    step, mine, theirs = common(a.curve("train_loss"), b.curve("train_loss"))
    if len(step) < FEWEST_TWIN:
        return None
    sudden = _sudden_parting(mine, theirs)
    if sudden is not None:
        return b.run, _parted_at(b, a, step, mine, theirs, sudden)
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
        f"{name} runs with that of {_short(b)} up to step {before} and ends {widths:.2g} noise widths above it "
        f"({ends[0]:.4g} against {ends[1]:.4g}), the gap still growing"
    )
    return a.run, _nondeterminism(a, b, (before, int(step[at])), 0.6, summary, rows)


def _parted_at(b: Signals, a: Signals, step: Ints, mine: Floats, theirs: Floats, at: int) -> Finding:
    """Runs that were equal to the last digit and differ by their whole noise from one point to the next."""
    name, before, onset = _loss_name(b), int(step[at - 1]), int(step[at])
    rows = (Evidence(name, onset, float(theirs[at]), float(mine[at]), f"equal at all {at} points before"),)
    summary = (
        f"{name} equals that of {_short(a)} to the last digit up to step {before} and differs by its whole noise "
        f"from step {onset} on: other data or another random state, not rounding"
    )
    return _nondeterminism(b, a, (before, onset), 0.8, summary, rows)


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


def _short(run: Signals) -> str:
    return PurePosixPath(run.run).name
