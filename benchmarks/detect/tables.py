"""The benchmark's tables, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.detect.scorer import Figures, RunScore, figures, wilson
from benchmarks.page import table
from trainforensics.kinds import FAMILIES, KINDS

BINS = (0.0, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class ToolScore:
    """A tool's name and its score on every run."""

    name: str
    runs: tuple[RunScore, ...]


def share(value: float | None) -> str:
    """A share in two digits."""
    return "–" if value is None or np.isnan(value) else f"{value:.2f}"


def with_interval(found: Figures) -> str:
    """F1 and its 95 % interval."""
    low, high = found.f1_interval
    return "–" if found.f1 is None else f"{found.f1:.2f} [{share(low)}, {share(high)}]"


def errors(found: Figures) -> str:
    """Median and 90th percentile of the onset error."""
    if not found.errors:
        return "–"
    middle, high = np.quantile(found.errors, [0.5, 0.9])
    return f"{middle:.0f} / {high:.0f}"


def of_tools(tools: Sequence[ToolScore], points: Mapping[str, int]) -> str:
    """One row a tool. `points`: logged steps of each run."""
    rows = []
    for tool in tools:
        found = figures(tool.runs)
        healthy = [run for run in tool.runs if run.healthy]
        seen = sum(points[run.run] for run in healthy if run.read)
        loud = sum(run.false_steps.total() for run in healthy)
        rows.append(
            [
                tool.name,
                f"{sum(run.read for run in tool.runs)}/{len(tool.runs)}",
                share(found.precision),
                share(found.recall),
                with_interval(found),
                f"{sum(run.silent for run in healthy)}/{len(healthy)}",
                f"{1000 * loud / seen:.2f}" if seen else "–",
                errors(found),
            ]
        )
    header = ["tool", "runs read", "precision", "recall", "F1 [95 %]", "healthy silent", "per 1,000", "onset error"]
    return table(header, rows)


def of_kinds(tool: ToolScore) -> str:
    """One row a kind that was to be found or was raised."""
    rows = []
    for kind in KINDS:
        found = figures(tool.runs, [kind])
        if found.hits + found.misses + found.false:
            rows.append([kind, *_counts(found, sum(1 for r in tool.runs if r.hits[kind] + r.misses[kind]))])
    return table(["kind", *COUNTED], rows)


def of_families(tool: ToolScore) -> str:
    """One row a family."""
    rows = []
    for family in FAMILIES:
        kinds = _kinds_of(family)
        found = figures(tool.runs, kinds)
        runs = sum(1 for run in tool.runs if any(run.hits[k] + run.misses[k] for k in kinds))
        if found.hits + found.misses + found.false:
            rows.append([family, *_counts(found, runs)])
    return table(["family", *COUNTED], rows)


COUNTED = ["runs", "named", "missed", "false", "precision", "recall", "F1 [95 %]", "onset error"]


def _counts(found: Figures, runs: int) -> list[str]:
    numbers = [str(n) for n in (runs, found.hits, found.misses, found.false)]
    return [*numbers, share(found.precision), share(found.recall), with_interval(found), errors(found)]


def _kinds_of(family: str) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.family == family]


def families_of_tools(tools: Sequence[ToolScore]) -> str:
    """F1 of each tool in each family that has truths."""
    families = [f for f in FAMILIES if _has_truths(tools[0], _kinds_of(f))]
    rows = [[tool.name, *(share(figures(tool.runs, _kinds_of(f)).f1) for f in families)] for tool in tools]
    return table(["tool", *families], rows)


def _has_truths(tool: ToolScore, kinds: Sequence[str]) -> bool:
    return any(run.hits[kind] + run.misses[kind] for run in tool.runs for kind in kinds)


def calibration(rated: Sequence[tuple[float, bool]]) -> str:
    """Confidence of alarms against how often they were right."""
    rows = []
    for low, high in pairwise(BINS):
        inside = [(c, right) for c, right in rated if low <= c < high or (high == BINS[-1] and c == high)]
        if inside:
            right = sum(right for _, right in inside)
            edges = wilson(right, len(inside))
            mean = float(np.mean([c for c, _ in inside]))
            rate = f"{right / len(inside):.2f} [{edges[0]:.2f}, {edges[1]:.2f}]"
            rows.append([f"{low:g}–{high:g}", str(len(inside)), f"{mean:.2f}", rate])
    return table(["confidence", "alarms", "mean", "right [95 %]"], rows)
