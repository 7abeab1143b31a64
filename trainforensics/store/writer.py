"""Imports candidates into a store: each source staged, runs assembled, then written; the manifest last."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainforensics import registry
from trainforensics.discovery import Candidate
from trainforensics.errors import is_full
from trainforensics.importers import indexmap, manifest, runconfig
from trainforensics.importers.base import DAMAGE, NO_TIME, as_text
from trainforensics.model import Axis, Checkpoint, Event, Segment, Skipped
from trainforensics.store import schema
from trainforensics.store.assembly.copies import echoes
from trainforensics.store.assembly.counting import place_epochs, place_rows
from trainforensics.store.assembly.lives import Life
from trainforensics.store.assembly.paths import wandb_id
from trainforensics.store.assembly.placement import Member
from trainforensics.store.assembly.plans import Plan, assemble
from trainforensics.store.manifest import read_manifest, write_manifest
from trainforensics.store.staging import Block, Staged, stage

_STAGING = ".staging-"
_WITHOUT_METRICS = frozenset({runconfig.FORMAT, manifest.FORMAT, indexmap.FORMAT})
_WRITERS = 2  # blocks of a source that are encoded at a time

Part = tuple[Candidate, Path, Mapping[str, str]]  # what to read, where to stage it, --map


@dataclass(frozen=True, slots=True)
class Imported:
    """Runs written, in order, and sources that held nothing a run could use."""

    runs: tuple[str, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A run whose points are written, in a folder that is not its own yet; what it can borrow comes later."""

    plan: Plan
    folder: Path
    logs: Path


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """What one candidate gave: its runs, and everything that was read (the points set free); or why it gave nothing."""

    candidate: Candidate
    runs: tuple[Draft, ...]
    staged: tuple[Staged, ...]
    echoes: Mapping[Staged, str]
    failure: str = ""


# Calls `function` with each part, in order; the engine passes one that uses a process pool.
RunParts = Callable[[Callable[[Part], Drafts], Sequence[Part]], Iterable[Drafts]]


def import_candidates(
    candidates: Sequence[Candidate], store: Path, options: Mapping[str, str], run_parts: RunParts = map
) -> Imported:
    """Write every run of the candidates into `store`, replacing runs of the same name.

    Metrics files become runs; a candidate without a number lends its manifests, configuration and events to every run
    at or below its folder. Memory is bounded by the candidate that is being read.
    """
    staging = store / f"{_STAGING}{uuid.uuid4().hex[:8]}"
    parts = [(candidate, staging / f"{i:06d}", options) for i, candidate in enumerate(candidates)]
    staging.mkdir(parents=True)
    try:
        drafts = list(run_parts(import_candidate, parts))
        skipped = _lend(drafts)
        names = _commit(store, [draft for made in drafts for draft in made.runs])
        return Imported(names, tuple(skipped))
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def remove_abandoned(store: Path) -> None:
    """Remove what an import that was killed left half done. Nothing may be importing into the store."""
    for left in store.glob(f"{_STAGING}*"):
        shutil.rmtree(left, ignore_errors=True)


def import_candidate(part: Part) -> Drafts:
    """Read the sources of one candidate, decide which runs they are, and write their points.

    What fails here, other than writing, costs this candidate alone.
    """
    try:
        return _import_candidate(part)
    except (Exception, pl.exceptions.PanicException) as error:
        if isinstance(error, OSError) or is_full(error) or os.environ.get("TRAINFORENSICS_DEBUG"):
            raise
        return Drafts(part[0], (), (), {}, f"could not be imported ({type(error).__name__}: {error})")


def _import_candidate(part: Part) -> Drafts:
    from trainforensics.store.points import EarlyParts  # noqa: PLC0415  (heavy)

    candidate, staging, options = part
    staging.mkdir()
    alone = len(candidate.sources) == 1
    importers = {module.FORMAT: module for module in registry.importers().modules}
    files = [
        stage(
            importers[source.format],
            source,
            staging,
            f"{number:06d}",
            dict(options),
            EarlyParts(staging, "early") if alone else None,
        )
        for number, source in enumerate(candidate.sources)
    ]
    staged = tuple(log for file in files for log in (file, *file.inner.values()))
    place_rows(staged)
    place_epochs(staged)
    repeated = echoes(staged)
    runs = []
    for number, plan in enumerate(assemble(candidate.name, [log for log in staged if log not in repeated])):
        folder = staging / f"run-{number}"
        _write_series(folder, plan)
        runs.append(Draft(plan, folder, candidate.folder.absolute()))
    for source in staged:
        source.spool.discard()
    return Drafts(candidate, tuple(runs), staged, repeated)


def _lend(drafts: Sequence[Drafts]) -> list[Skipped]:
    """What has no numbers itself is lent to the runs it serves, or skipped."""
    runs = [draft for made in drafts for draft in made.runs]
    skipped = []
    for made in drafts:
        if made.failure:
            skipped += [Skipped(as_text(str(s.path)), made.failure, unread=True) for s in made.candidate.sources]
        served = [draft.plan for draft in _served(made.candidate, runs)]
        for plan in served:
            plan.checkpoints += made.candidate.checkpoints
        for source in made.staged:
            if source in made.echoes:
                if not source.is_inner:
                    skipped.append(Skipped(as_text(str(source.source.path)), f"repeats {made.echoes[source]}"))
                continue
            if source.points:
                continue
            users = _users(source, served) if source.has_context else []
            for plan in users:
                plan.context.append(source)
            if not users and not source.is_inner:
                skipped.append(Skipped(as_text(str(source.source.path)), _unused(source), _is_damaged_log(source)))
    return skipped


def _users(source: Staged, served: list[Plan]) -> list[Plan]:
    """Of the runs a source could serve, those of its own file, or else of its own W&B run where it lies in a folder of
    one."""
    same_file = [plan for plan in served if any(m.unit.staged.source.path == source.source.path for m in plan.members)]
    if same_file:
        return same_file
    identity = wandb_id(source.source.label)
    own = [plan for plan in served if identity and any(member.unit.identity == identity for member in plan.members)]
    return own or served


def _served(candidate: Candidate, runs: Sequence[Draft]) -> list[Draft]:
    """Runs at or below the folder; failing that, the only run at or below the nearest folder above that has any."""
    here = candidate.folder.absolute()
    for folder in (here, *here.parents):
        near = [draft for draft in runs if draft.logs.is_relative_to(folder)]
        if near and folder != here:
            argument = candidate.name.split("/")[0]
            return near if len(near) == 1 and near[0].plan.name.split("/")[0] == argument else []
        if near:
            return near
    return []


def _is_damaged_log(source: Staged) -> bool:
    """Whether there may have been metrics in the source, had it not been damaged."""
    return source.source.format not in _WITHOUT_METRICS and any(w.kind in DAMAGE for w in source.warnings)


def _unused(source: Staged) -> str:
    if source.warnings:
        return f"{source.source.format}: no metrics; {source.warnings[0].message}"
    what = "metadata that no run uses" if source.has_context else "nothing that can be judged"
    return f"read as {source.source.format}: {what}"


def _unique(name: str, taken: set[str]) -> str:
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name}-{count}"
    taken.add(unique)
    return unique


# --- one run -----------------------------------------------------------------------------------------------------


def _commit(store: Path, drafts: Sequence[Draft]) -> tuple[str, ...]:
    """Complete the runs and move each to its place; the manifest last."""
    taken: set[str] = set()
    for draft in drafts:
        draft.plan.name = _unique(draft.plan.name, taken)
        _complete(draft)
        final = store / schema.encode(draft.plan.name)
        shutil.rmtree(final, ignore_errors=True)
        draft.folder.rename(final)
    names = tuple(draft.plan.name for draft in drafts)
    write_manifest(store, {**read_manifest(store), **{name: schema.encode(name) for name in names}})
    return names


def _write_series(folder: Path, plan: Plan) -> None:
    """The points of a run and the table of its series."""
    (folder / schema.POINTS_FOLDER).mkdir(parents=True)
    series: list[dict[str, Any]] = []
    for number in range(len(plan.members)):
        _write_points(folder / schema.POINTS_FOLDER, number, plan, series)
    pl.DataFrame(series, schema.SERIES).write_parquet(folder / schema.SERIES_FILE)


def _complete(draft: Draft) -> None:
    """Everything of a run but its points: events, manifest, and what run.json says."""
    plan, folder = draft.plan, draft.folder
    everything = list(dict.fromkeys([*(member.unit.staged for member in plan.members), *plan.context]))
    _write_events(folder / schema.EVENTS_FILE, everything)
    _link_batches(folder / schema.BATCHES_FOLDER, [path for staged in everything for path in staged.batches])
    sources = [_source_entry(member.unit.staged, member) for member in plan.members]
    document = {
        "schema": schema.STORE_SCHEMA,
        "run": plan.name,
        "logs": str(draft.logs),
        "axis": asdict(_axis(plan)),
        "grouping": plan.grouping,
        "sources": [*sources, *(_source_entry(staged) for staged in plan.context)],
        "segments": [asdict(segment) for segment in _segments(plan.members)],
        "checkpoints": [asdict(checkpoint) for checkpoint in _in_order(plan.checkpoints)],
        "config": _merged_config(everything),
    }
    text = json.dumps(document, ensure_ascii=False, default=str, indent=1)
    (folder / schema.RUN_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")


def _source_entry(staged: Staged, member: Member | None = None) -> dict[str, Any]:
    """A source as run.json lists it; without a member it only lends what it says."""
    stats = member.unit.stats.values() if member is not None else ()
    return {
        "path": staged.source.label,
        "format": staged.source.format,
        "points": sum(series.n for series in stats),
        "stream": member.stream if member is not None else None,
        "series": len(stats),
        "warnings": [asdict(warning) for warning in staged.warnings],
    }


def _in_order(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    return sorted(dict.fromkeys(checkpoints), key=lambda checkpoint: checkpoint.step)


def _write_points(folder: Path, number: int, plan: Plan, series: list[dict[str, Any]]) -> None:
    """Parts of one source: the unit's rows in its order, ids of the run, segments of the run."""
    from trainforensics.store import points  # noqa: PLC0415  (heavy)

    member = plan.members[number]
    unit, prefix, rank = member.unit, plan.series_prefix(member.unit), plan.rank_of(member.unit)
    whole = unit.rows is None and len(unit.stats) == len(unit.staged.series)
    ids = np.full(len(unit.staged.series), -1, np.int32)
    for local in unit.stats:
        ids[local] = len(series)
        series.append(_series_row(len(series), member, local, prefix, rank))
    starts = np.array([life.start for life in unit.lives])
    early = unit.staged.spool.early
    first = member.first_life == 0 and ids.tolist() == list(range(len(ids)))
    if early is not None and whole and first and len(starts) == 1:
        for part, file in enumerate(early.take()):
            file.rename(folder / f"{number:04d}-{part:06d}.parquet")
        return

    def write(part: int, block: Block) -> None:
        kept = block if whole else _rows_of(block, ids, unit.rows)
        if not len(kept["step"]):
            return
        points.write(folder / f"{number:04d}-{part:06d}.parquet", kept, ids, starts, member.first_life)

    with ThreadPoolExecutor(_WRITERS) as pool:
        writing: deque[Future[None]] = deque()
        for part, block in enumerate(unit.staged.spool.blocks()):
            if len(writing) == _WRITERS:
                writing.popleft().result()
            writing.append(pool.submit(write, part, block))
        for written in writing:
            written.result()


def _rows_of(block: Block, ids: NDArray[np.int32], rows: tuple[int, int] | None) -> Block:
    keep = ids[block["series"]] >= 0
    if rows is not None:
        keep &= (block["seq"] >= rows[0]) & (block["seq"] < rows[1])
    return {name: column[keep] for name, column in block.items()}


def _series_row(number: int, member: Member, local: int, prefix: str, rank: int | None) -> dict[str, Any]:
    stats = member.unit.stats[local]
    return {
        "id": number,
        "name": stats.name if f"{stats.name}/".startswith(f"{prefix}/") or not prefix else f"{prefix}/{stats.name}",
        "source": member.unit.label,
        "rank": stats.rank if stats.rank is not None else rank,
        "layer": None,
        "expert": None,
        "domain": None,
        "naive_time": member.unit.staged.naive_times,
        "n": stats.n,
        "n_nonfinite": stats.n_nonfinite,
        "first_step": stats.first_step,
        "last_step": stats.last_step,
    }


def _axis(plan: Plan) -> Axis:
    stated = [member.unit.staged.axis for member in plan.members if member.unit.staged.axis is not None]
    return stated[0] if stated else Axis("step", "step")


def _segments(members: Iterable[Member]) -> list[Segment]:
    """Lives of the longest chain of sources; one that goes on in another file is one."""
    chains: dict[int, list[tuple[int, Life]]] = {}
    for member in members:
        chain = chains.setdefault(member.stream, [])
        chain += [(member.first_life + i, life) for i, life in enumerate(member.unit.lives)]
    longest = max(chains.values(), key=len)
    found: dict[int, Segment] = {}
    for i, life in longest:
        began = found.get(i) or Segment(i, life.first_step, life.last_step, _iso(life.started, life.naive))
        found[i] = replace(began, last_step=life.last_step)
    return list(found.values())


def _iso(wall: int, naive: bool) -> str | None:
    if wall == NO_TIME:
        return None
    text = datetime.fromtimestamp(wall / 1e6, UTC).isoformat(timespec="seconds").removesuffix("+00:00")
    return text if naive else f"{text}Z"


def _merged_config(staged: Iterable[Staged]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for source in staged:
        merged = {**source.config, **merged}
    return merged


def _write_events(file: Path, staged: Iterable[Staged]) -> None:
    rows = [_event_row(event, source) for source in staged for event in source.events]
    pl.DataFrame(rows, schema.EVENTS).write_parquet(file)


def _event_row(event: Event, staged: Staged) -> dict[str, Any]:
    row = asdict(event)
    row["naive_time"] = staged.naive_times
    row["wall_time"] = None if event.wall_time is None else int(event.wall_time * 1e6)
    row["source"] = event.source or staged.source.label
    row["text"] = as_text(event.text)
    return row


def _link_batches(folder: Path, parts: list[Path]) -> None:
    """Give the run its manifest parts; a manifest that serves many runs takes its space once where links work."""
    if not parts:
        return
    folder.mkdir()
    for part in parts:
        target = folder / f"{part.parent.name}-{part.name}"
        try:
            os.link(part, target)
        except OSError:
            shutil.copyfile(part, target)
