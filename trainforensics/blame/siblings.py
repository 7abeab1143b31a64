"""Runs that provably share a data order: the same step spikes in several of them = data; in one alone = the model.

An order is shared only where manifests hold the same batches, the sampler's configuration is the same, or the spikes
themselves coincide beyond chance. Lying in one folder proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from trainforensics.blame.described import setting
from trainforensics.blame.enrichment import poisson_binomial_tail
from trainforensics.blame.sampler import SYNONYMS, Sampler
from trainforensics.blame.windows import BURST_KINDS, NAN_KINDS
from trainforensics.model import CrossRunFinding, RunResult
from trainforensics.signals.curve import Ints

BY_CHANCE = 1e-3  # coincident onsets less likely than this prove a common order, for all pairs looked at together
MIN_COINCIDENT = 2
ALIKE = 0.8  # of the series that either run logs
COMPARED = 64  # manifest steps compared between two runs
MIN_COMPARED = 4
DATA_NAMES = ("dataset", "data_path", "train_data", "dataset_name", "data")


@dataclass(frozen=True, slots=True)
class Spikes:
    """Onsets of a run's data-like incidents, the distance at which two count as one step, and what the run covers."""

    run: str
    steps: Ints
    reach: int
    first: int
    last: int
    logged: frozenset[str]


def cross_run(
    results: Sequence[RunResult], batches: Mapping[str, pl.LazyFrame | None] | None = None
) -> tuple[CrossRunFinding, ...]:
    """What runs that share their data order show together. `batches`: each run's manifest, by name."""
    batches = batches or {}
    by_run = {result.run: result for result in results}
    spikes = {result.run: _spikes(result) for result in results}
    pairs = list(combinations([s for s in spikes.values() if s.last > s.first], 2))
    proofs = {}
    for a, b in pairs:
        proof = _proof(by_run[a.run], by_run[b.run], batches)
        if proof == "":
            proof = _coincidence(a, b, len(pairs))
        if proof:
            proofs[a.run, b.run] = proof
    return tuple(finding for group in _groups(proofs) for finding in _findings([spikes[run] for run in group], proofs))


def _spikes(result: RunResult) -> Spikes:
    incidents = [i for i in result.incidents if i.kind in BURST_KINDS | NAN_KINDS and i.is_root_alarm]
    steps = {s for i in incidents for s in (i.onset_step, *i.occurrences) if s is not None}
    widths = [i.onset_interval[1] - i.onset_interval[0] for i in incidents if i.onset_interval]
    names = {s.name for s in result.series}
    losses = [s for s in result.series if s.role == "train_loss" and s.first_step is not None] or list(result.series)
    first = min((s.first_step for s in losses if s.first_step is not None), default=0)
    last = max((s.last_step for s in losses if s.last_step is not None), default=0)
    return Spikes(result.run, np.array(sorted(steps), dtype=np.int64), max([1, *widths]), first, last, frozenset(names))


def _proof(a: RunResult, b: RunResult, batches: Mapping[str, pl.LazyFrame | None]) -> str | None:
    """How manifests or the sampler's configuration prove a common order; empty where they do not, None where manifests
    disprove it."""
    mine, theirs = batches.get(a.run), batches.get(b.run)
    if mine is not None and theirs is not None:
        same, compared = _same_batches(mine, theirs)
        if compared >= MIN_COMPARED:
            return f"their manifests agree on all of {compared} steps compared" if same == compared else None
    first, second = Sampler.of(a.config), Sampler.of(b.config)
    data = [_said(result, DATA_NAMES) for result in (a, b)]
    seeds = [_said(result, SYNONYMS["seed"]) for result in (a, b)]
    if first is not None and first == second and None not in seeds and data[0] is not None and data[0] == data[1]:
        return f"the same sampler, seed {first.seed} and data {data[0]}"
    return ""


def _said(result: RunResult, names: Sequence[str]) -> str | None:
    value = setting(result.config, names)
    return None if value is None else str(value)


def _same_batches(a: pl.LazyFrame, b: pl.LazyFrame) -> tuple[int, int]:
    """Steps on which both manifests hold the same shards and documents, of the steps compared."""
    shared = set(a.collect_schema()) & set(b.collect_schema())
    keys = [key for key in ("rank", "shard", "doc", "batch_id") if key in shared]
    if "step" not in shared or not set(keys) & {"shard", "doc", "batch_id"}:
        return 0, 0
    a, b = (frame.filter(pl.col("step").is_not_null()) for frame in (a, b))
    steps = [frame.select(pl.col("step").unique()).collect()["step"].to_numpy() for frame in (a, b)]
    common = np.intersect1d(steps[0], steps[1])
    chosen = common[np.unique(np.linspace(0, len(common) - 1, COMPARED).astype(int))] if len(common) else common
    tables = []
    for frame in (a, b):
        rows = frame.filter(pl.col("step").is_in(chosen.tolist())).select("step", *keys).collect()
        tables.append({step[0]: sorted(map(str, part.rows())) for step, part in rows.group_by("step")})
    return sum(tables[0][step] == tables[1][step] for step in chosen.tolist()), len(chosen)


def _coincidence(a: Spikes, b: Spikes, pairs: int) -> str:
    """Whether the spikes themselves coincide beyond chance, between runs that log the same things.

    Spikes that come like clockwork in either run coincide by their clocks and prove nothing.
    """
    reach = max(a.reach, b.reach)
    mine, theirs = _apart(a.steps, 2 * reach), _apart(b.steps, 2 * reach)
    hits = min(len(_coincident(mine, theirs, reach)), len(_coincident(theirs, mine, reach)))
    if hits < MIN_COINCIDENT or not _alike(a, b) or _regular(mine) or _regular(theirs):
        return ""
    span = min(a.last, b.last) - max(a.first, b.first) + 1
    covered = min(1.0, len(theirs) * (2 * reach + 1) / max(1, span))
    p = poisson_binomial_tail(hits, np.full(len(mine), covered)) * pairs
    return f"{hits} of their spikes fall on the same steps (p = {p:.1g} by chance)" if p < BY_CHANCE else ""


def _alike(a: Spikes, b: Spikes) -> bool:
    """Whether two runs log nearly the same series, as runs of one recipe do."""
    return len(a.logged & b.logged) >= ALIKE * len(a.logged | b.logged)


def _regular(steps: Ints) -> bool:
    gaps = np.diff(steps)
    return len(gaps) > 1 and float(np.ptp(gaps)) <= 0.05 * float(np.median(gaps))


def _apart(steps: Ints, distance: int) -> Ints:
    """Steps with those left out that follow the one before within `distance`."""
    return steps[np.diff(steps, prepend=steps[:1] - distance - 1) > distance]


def _coincident(steps: Ints, others: Ints, reach: int) -> Ints:
    """Those of `steps` with one of `others` within `reach`."""
    if not len(others):
        return steps[:0]
    near = np.min(np.abs(others[None, :] - steps[:, None]), axis=1)
    found: Ints = steps[near <= reach]
    return found


def _groups(proofs: Mapping[tuple[str, str], str]) -> list[list[str]]:
    """Runs joined by proofs, each group sorted."""
    groups: list[set[str]] = []
    for pair in proofs:
        touching = [g for g in groups if g & set(pair)]
        groups = [g for g in groups if not g & set(pair)] + [set(pair).union(*touching)]
    return sorted(sorted(group) for group in groups)


def _findings(group: list[Spikes], proofs: Mapping[tuple[str, str], str]) -> list[CrossRunFinding]:
    names = {s.run for s in group}
    proof = tuple(f"{a} and {b}: {text}" for (a, b), text in proofs.items() if {a, b} <= names)
    reach = max(s.reach for s in group)
    shared: list[int] = []
    lonely: dict[str, list[int]] = {}
    for spikes in group:
        for step in spikes.steps.tolist():
            others = [s for s in group if s.run != spikes.run and s.first <= step <= s.last]
            hit = [s for s in others if len(_coincident(np.array([step]), s.steps, reach))]
            if hit and not any(abs(step - known) <= reach for known in shared):
                shared.append(step)
            elif others and not hit:
                lonely.setdefault(spikes.run, []).append(step)
    found = []
    if shared:
        runs = tuple(s.run for s in group if len(_coincident(np.array(shared), s.steps, reach)))
        text = "the same steps spike in runs that share their data order: the data of these steps is the cause"
        found.append(CrossRunFinding(text, runs, tuple(sorted(shared)), proof))
    for run, steps in lonely.items():
        text = (
            f"{run} alone spikes although its siblings met the same data: optimiser or model state is likelier, "
            "and skipping the data a workaround"
        )
        found.append(CrossRunFinding(text, (run, *sorted(names - {run})), tuple(steps), proof))
    return found
