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
from trainforensics.compare.shared_bursts import shared_bursts
from trainforensics.compare.together import SHARED, common, shared_noise, short_name
from trainforensics.compare.twins import parted_twins
from trainforensics.model import CrossRunFinding, Evidence, Finding, Incident, RunResult, Scope
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.evaluations import point_noise
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.trend import moving_median, span

MOST_RUNS = 12  # a folder, up to which lying beside each other says something
MOST_ALIKE = 64  # runs of a folder that log the same series; every one is held against every other
MOST_POINTS = 4_000_000  # of these runs together; they are held in memory at once
FEWEST_SCALED = 20  # common points
WHOLE, LARGEST = 0.02, 64  # distance of the ratio from a whole number, and the largest looked for
NEAREST = 0.25  # and never more than this: beside large numbers 2 % would reach every ratio
SURE = 3.0  # standard errors
MEDIAN_ERROR = 1.2533  # standard error of a median, in standard errors of the mean
MOVED = 0.2  # log height above the end from which a fall counts: of two constants any ratio is constant
FEWEST_PART = 5  # points of the fall, and of each quarter
NOISE = 1.7  # factor by which the relative noise may differ (the bar within one run)
AGREES = 1.25  # evaluations nearer than this factor are not scaled

_FACTORS = re.compile(r"accum|world_size|num_gpus|num_devices|n_gpu|batch_size", re.IGNORECASE)


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
        parted = parted_twins(runs[a], runs[b], told, alone=len(neighbours) == 1)
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
    ratio, other = float(np.median(mine / theirs)), short_name(b)
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
