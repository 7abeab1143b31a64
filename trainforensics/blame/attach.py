"""Blame for every incident that data can make, and for any step that someone asks about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from trainforensics.blame.described import accumulation_steps
from trainforensics.blame.grid import log_grid
from trainforensics.blame.logged import logged_manifest
from trainforensics.blame.manifest import KEYS, Manifest, open_manifest
from trainforensics.blame.megatron import index_maps
from trainforensics.blame.movers import RankMove, departed, first_mover
from trainforensics.blame.sampler import reconstruct
from trainforensics.blame.suspects import TYPES, Candidate, Marks, Neighbourhood, recurring
from trainforensics.blame.units import Units
from trainforensics.blame.windows import (
    BURST_KINDS,
    DATA_KINDS,
    NAN_KINDS,
    Window,
    core_window,
    group_of,
    occurrences,
    own_steps,
    report_window,
    symptom_steps,
)
from trainforensics.errors import UsageError
from trainforensics.model import Blame, Incident, Suspect, SuspectType
from trainforensics.signals import Signals
from trainforensics.signals.curve import Ints
from trainforensics.signals.run import stack

WHAT_TO_LOG = (
    "log one row per batch with step, rank, shard and document ids (Parquet, CSV or JSONL beside the log) to have the "
    "data named"
)
FROM_THIS_STEP = "judged from this step alone, not from what recurs over incidents as `analyze` does"
NEAR = 200  # windows to either side for a step asked about: an answer at once matters more than a fine comparison
MAX_BATCHES = 64
TRACED = 8  # convicted suspects whose rows are looked up in every window they fed
MAX_SUSPECTS = 20
IN_MEMORY = 1_000_000  # manifest rows, some 200 MB with eight documents a row
RANK_KINDS = frozenset({"rank-divergence", "straggler", "throughput-drop", "hang", "hardware-fault", "expert-collapse"})
SLOW_KINDS = frozenset({"straggler", "throughput-drop", "hang"})

# Odds that the data of the window made an incident of this kind, before any evidence. A burst or a NaN out of a quiet
# run has its cause in the batch about one time in eight; what builds up slowly hardly ever does.
PLAUSIBILITY: Mapping[str, float] = {
    "instant-burst": 0.125,
    "nan-onset": 0.125,
    "transient-nan": 0.2,
    "grad-nan": 0.2,
    "gradient-explosion": 0.1,
    "data-shift": 0.2,
    "divergence": 0.08,
    "scale-decay": 0.1,
    "skipped-steps": 0.1,
}
OTHERWISE = 0.03
LR_JUMP = 2.0  # a learning rate that doubles from one logged point to the next explains a burst by itself


def attach(incidents: tuple[Incident, ...], signals: Signals, batches: pl.LazyFrame | None) -> tuple[Incident, ...]:
    """The incidents with `blame`, where data or a rank can have made them; others unchanged."""
    if not any(i.kind in DATA_KINDS | RANK_KINDS for i in incidents):
        return incidents
    manifest = find_manifest(signals, batches)
    units = _units(manifest, log_grid(signals)) if isinstance(manifest, Manifest) else None
    pooled: dict[frozenset[str], Marks] = {}
    done = []
    for incident in incidents:
        if incident.onset_step is None or incident.kind not in DATA_KINDS | RANK_KINDS:
            done.append(incident)
            continue
        marks: Marks = {}
        if units is not None and incident.kind in DATA_KINDS:
            group = group_of(incident.kind)
            if group not in pooled:
                pooled[group] = _recurrence_marks(group, incidents, signals, units)
            marks = pooled[group]
        done.append(replace(incident, blame=_blame(incident, signals, manifest, units, marks)))
    return tuple(done)


def at_step(
    signals: Signals, batches: pl.LazyFrame | None, step: int, window: int | None = None, rank: int | None = None
) -> Blame:
    """Which data fed one step, without any incident.

    `window` counts the steps back from `step` (default: back to the point logged before it); `rank` keeps one rank's
    batches. Only the rows around the step are read, so a manifest of ten million rows answers within a second.

    Raises UsageError for a step outside log and manifest, and for a rank that the manifest does not have.
    """
    manifest = find_manifest(signals, batches)
    grid = log_grid(signals)
    _check_step(step, grid, manifest)
    first = min(step, 0)  # no step counts below it
    span = core_window(step, grid) if window is None else Window(max(step - max(1, window), first - 1), step)
    if not isinstance(manifest, Manifest):
        return Blame((span.after + 1, span.upto), None, note=f"{manifest}; {WHAT_TO_LOG}")
    move = first_mover(signals, span.after, span.upto) if rank is None else None
    near = Neighbourhood(Units(manifest, grid), span, rank, NEAR)
    suspects = _at_window(near, "")
    if move is not None and near.rank is None:
        mover = Neighbourhood(near.units, span, move.rank, NEAR)
        suspects = _joined(_at_window(mover, _first_alone(move)), suspects)
    shown = _ordered([*_rank_suspects(move), *suspects])
    note = manifest.alignment.note
    if near.own.is_empty():
        absent = _absent(manifest, span) if rank is None else _absent_rank(manifest, span, rank)
        note = "; ".join(filter(None, (absent, note)))
    elif rank is not None and "rank" not in manifest.columns:
        note = "; ".join(filter(None, (note, "the manifest names no ranks: these are the batches of all of them")))
    elif shown:
        note = "; ".join(filter(None, (note, FROM_THIS_STEP)))
    return Blame((span.after + 1, span.upto), manifest.basis, shown, _batches(near.own, shown), note)


def _at_window(near: Neighbourhood, singled_out: str) -> list[Suspect]:
    candidates = near.candidates(history=False)
    return [c.suspect(OTHERWISE, singled_out if key != "domain" else "") for key, cs in candidates.items() for c in cs]


def _first_alone(move: RankMove) -> str:
    return f"in the batch of rank {move.rank}, which moved first and alone"


def find_manifest(signals: Signals, batches: pl.LazyFrame | None) -> Manifest | str:
    """The manifest beside the run, in the log itself, or rebuilt from the sampler's configuration; else why not."""
    logged = open_manifest(signals, batches)
    if isinstance(logged, Manifest):
        return logged
    inside = logged_manifest(signals)
    if inside is not None:
        return open_manifest(signals, inside)
    mapped = index_maps(signals)
    if isinstance(mapped, Manifest):
        return mapped
    rebuilt = reconstruct(signals)
    if isinstance(rebuilt, Manifest):
        return rebuilt
    return "; ".join(reason for reason in (logged, mapped, rebuilt) if reason)


def _units(manifest: Manifest, grid: Ints) -> Units:
    """The manifest by logged intervals, held in memory where it is small: many incidents read it many times."""
    units = Units(manifest, grid)
    if units.rows > IN_MEMORY:
        return units
    return Units(replace(manifest, frame=manifest.frame.collect().lazy()), grid)


def _recurrence_marks(group: frozenset[str], incidents: tuple[Incident, ...], signals: Signals, units: Units) -> Marks:
    """What the events of one group of kinds have in common: the incidents alone, and with every symptom's step."""
    events = occurrences(i for i in incidents if i.kind in group)
    wider = np.union1d(events, symptom_steps(group, signals))
    pools = [events] if len(wider) == len(events) else [events, wider]
    shifts = {0}
    if group is not BURST_KINDS:
        shifts |= {1}  # a poisoned update shows one step later: in the next loss, in the next logged scale
    if units.manifest.alignment.slack:
        shifts |= {1, -1}
    return recurring(units, pools, sorted(shifts))


def _blame(incident: Incident, signals: Signals, manifest: Manifest | str, units: Units | None, marks: Marks) -> Blame:
    grid = log_grid(signals)
    window = report_window(incident, grid, accumulation_steps(signals.config))
    core = core_window(incident.onset_step or 0, grid, incident.onset_interval)
    roles = ("step_time",) if incident.kind in SLOW_KINDS else ("train_loss", "batch_loss", "grad_norm")
    move = first_mover(signals, core.after, core.upto, roles)
    ranks = _rank_suspects(move) or _scope_suspects(incident, signals)
    if units is None or isinstance(manifest, str):
        return Blame(window, None, tuple(ranks), note=f"{manifest}; {WHAT_TO_LOG}")
    if incident.kind not in DATA_KINDS:
        return Blame(window, manifest.basis, tuple(ranks))
    slack = manifest.alignment.slack
    core = Window(core.after - slack, core.upto + slack)
    suspects = _data_suspects(incident, signals, units, core, move, marks)
    shown = _ordered([*ranks, *suspects])
    fed = manifest.rows(window[0] - 1, window[1])
    rows = pl.concat([manifest.rows(core.after, core.upto), *_rows_of(shown, units), fed]).unique(maintain_order=True)
    batches = _batches(rows, shown)
    notes = [_absent(manifest, core) if rows.is_empty() else "", manifest.alignment.note]
    if len(batches) < len(rows):
        notes.append(
            f"the window holds {len(fed)} batches; listed are {len(batches)}, those of suspects and onset first"
        )
    return Blame(window, manifest.basis, shown, batches, "; ".join(filter(None, notes)))


def _data_suspects(
    incident: Incident, signals: Signals, units: Units, core: Window, move: RankMove | None, marks: Marks
) -> list[Suspect]:
    """Everything named in the onset's window, in the step before a NaN, and what recurs over later occurrences."""
    odds = _plausibility(incident, signals)
    near = Neighbourhood(units, core, move.rank if move else None)
    singled_out = _first_alone(move) if move is not None and near.rank is not None else ""
    found = _suspects(near, singled_out, marks, odds)
    if incident.kind in NAN_KINDS:  # the batch before the first NaN may have made it
        earlier = Neighbourhood(units, Window(core.after - 1, core.after), near.rank)
        found = _joined(found, _suspects(earlier, "", marks, odds / 2))
    return _joined(found, _from_other_windows(own_steps(incident, signals), units, marks, odds))


def _suspects(near: Neighbourhood, singled_out: str, marks: Marks, odds: float) -> list[Suspect]:
    """Everything named in a window with its probability."""
    found = []
    for key, named in near.candidates().items():
        for candidate in named:
            mark = marks.get((key, candidate.id))
            if mark is not None:
                candidate.recurrences.append(mark)
            found.append(candidate.suspect(odds, singled_out if key != "domain" else ""))
    return found


def _from_other_windows(steps: Ints, units: Units, marks: Marks, odds: float) -> list[Suspect]:
    """Names that recur over an incident's own steps, wherever in it they first turn up."""
    own = units.of(steps)
    found = []
    for (key, name), mark in marks.items():
        hits = np.array(mark.steps, dtype=np.int64)
        apart = np.abs(units.of(hits)[:, None] - own[None, :]).min(axis=1, initial=len(units.grid))
        if mark.p < 0.05 and bool((apart <= 1).any()):
            candidate = Candidate(TYPES[key], name, 0.0, tuple(hits[apart <= 1].tolist()), 1, recurrences=[mark])
            found.append(candidate.suspect(odds, ""))
    return found


def _joined(first: list[Suspect], more: list[Suspect]) -> list[Suspect]:
    """Both lists, a name in both only once, as the first has it."""
    seen = {(s.type, s.id) for s in first}
    return first + [s for s in more if (s.type, s.id) not in seen]


def _plausibility(incident: Incident, signals: Signals) -> float:
    """Odds that data made this incident, before the manifest is looked at."""
    odds = PLAUSIBILITY.get(incident.kind, OTHERWISE)
    onset = incident.onset_step or 0
    rate = signals.curve("learning_rate")
    if rate is not None:
        at = rate.at(onset)
        near = rate.value[max(0, at - 3) : at + 2]
        near = near[np.isfinite(near) & (near > 0)]
        if at > 3 and len(near) > 1 and float(np.max(near[1:] / near[:-1])) > LR_JUMP:
            odds /= 10
    curve = signals.curve("train_loss")
    if curve is not None and len(curve) > 1:
        restarts = curve.step[1:][np.diff(curve.segment) != 0]
        if len(restarts) and np.min(np.abs(restarts - onset)) <= 2 * curve.cadence:
            odds /= 4
    return odds


def _rank_suspects(move: RankMove | None) -> list[Suspect]:
    if move is None or move.rank < 0:
        return []
    how = "is not finite" if not np.isfinite(move.widths) else f"stands {move.widths:.0f} of its noise widths off"
    why = f"its {move.role} of step {move.step} ({move.value:.4g}, the others' median {move.others:.4g}) {how}, alone"
    return [Suspect("rank", str(move.rank), 0.9, None, (move.step,), why)]


def _scope_suspects(incident: Incident, signals: Signals) -> list[Suspect]:
    """The rank or expert in whose own series the incident was found, or which leaves the others there for good."""
    onset = incident.onset_step or 0
    steps = () if incident.onset_step is None else (onset,)
    own = f"the incident lies in its own series {incident.series}"
    rank, of_rank = incident.scope.rank, own
    expert, of_expert = incident.scope.expert, own
    if rank is None and incident.kind in RANK_KINDS:
        rank = departed(signals.ranks("step_time" if incident.kind in SLOW_KINDS else "train_loss"), onset)
        of_rank = "it leaves the other ranks at the onset and stays away"
    if expert is None and incident.kind == "expert-collapse":
        expert, of_expert = _busiest(signals, onset), "its share of the tokens grows most"
    named: tuple[tuple[SuspectType, int | None, str], ...] = (("rank", rank, of_rank), ("expert", expert, of_expert))
    return [Suspect(kind, str(number), 0.8, None, steps, why) for kind, number, why in named if number is not None]


def _busiest(signals: Signals, onset: int) -> int | None:
    """The expert whose load grows most after a step."""
    matrix = stack([c for c in signals.curves("expert_load") if c.series.expert is not None])
    if matrix is None or not (matrix.step < onset).any() or not (matrix.step >= onset).any():
        return None
    before, after = matrix.value[:, matrix.step < onset], matrix.value[:, matrix.step >= onset]
    growth = np.nanmedian(after[:, :64], axis=1) - np.nanmedian(before[:, -64:], axis=1)
    return matrix.rows[int(np.nanargmax(growth))].expert


def _ordered(suspects: list[Suspect]) -> tuple[Suspect, ...]:
    """By confidence, then by p-value, then by how often they turned up."""
    named = [s for s in suspects if s.type != "domain" or s.p_value is not None]  # one of two domains is no suspect
    ranked = sorted(named, key=lambda s: (-s.confidence, 1.0 if s.p_value is None else s.p_value, -len(s.steps)))
    return tuple(ranked[:MAX_SUSPECTS])


def _batches(rows: pl.DataFrame, suspects: tuple[Suspect, ...]) -> tuple[dict[str, Any], ...]:
    """The window's rows as plain values, those that hold the first suspects first."""
    weight: dict[tuple[str, str], float] = {(s.type, s.id): s.confidence for s in reversed(suspects)}

    def guilt(row: Mapping[str, Any]) -> float:
        names = [("shard", row.get("shard")), ("domain", row.get("domain"))]
        names += [("doc", doc) for doc in row.get("doc") or ()]
        return max(weight.get((kind, str(name)), 0.0) for kind, name in names)

    plain = rows.drop("unit", strict=False).rename({"at": "log_step"})
    temporal = [c for c, kind in plain.schema.items() if kind.is_temporal()]
    records = plain.with_columns(pl.col(temporal).cast(pl.String)).to_dicts() if temporal else plain.to_dicts()
    records = [{k: v for k, v in row.items() if v is not None} for row in records]
    return tuple(sorted(records, key=guilt, reverse=True)[:MAX_BATCHES])


def _rows_of(suspects: tuple[Suspect, ...], units: Units) -> list[pl.DataFrame]:
    """The rows with which convicted shards and documents fed their events."""
    convicted = [s for s in suspects if s.type in KEYS and s.confidence >= 0.5 and s.steps][:TRACED]
    found = []
    for suspect in convicted:
        key = pl.col(suspect.type)
        holds = key.list.contains(suspect.id) if suspect.type == "doc" else key == suspect.id
        found.append(units.rows_in(units.of(np.array(suspect.steps)), holds))
    return found


def _check_step(step: int, grid: Ints, manifest: Manifest | str) -> None:
    spans = {"log": (int(grid[0]), int(grid[-1]))} if len(grid) else {}
    if isinstance(manifest, Manifest):
        spans["manifest"] = manifest.first, manifest.last
    if spans and not any(first <= step <= last for first, last in spans.values()):
        known = ", ".join(f"the {name} covers steps {first}-{last}" for name, (first, last) in spans.items())
        raise UsageError(f"--step {step}: not a step of this run; {known}")


def _absent_rank(manifest: Manifest, window: Window, rank: int) -> str:
    """Why a rank has no batch in the window. Raises UsageError where it has none at all."""
    if "rank" not in manifest.columns or manifest.rows(window.after, window.upto).is_empty():
        return _absent(manifest, window)
    ranks = manifest.frame.select(pl.col("rank").unique().sort()).drop_nulls().collect()["rank"].to_list()
    if rank not in ranks:
        shown = ", ".join(map(str, ranks[:8])) + (f" ... {ranks[-1]}" if len(ranks) > 8 else "")
        raise UsageError(f"--rank {rank}: the manifest has no such rank; it has {shown or 'none'}")
    return f"rank {rank} has no batch of steps {window.after + 1}-{window.upto} in the manifest; other ranks have"


def _absent(manifest: Manifest, window: Window) -> str:
    span = f"steps {window.after + 1}-{window.upto}"
    return f"no batch of {span} is in the manifest, which covers steps {manifest.first}-{manifest.last}"
