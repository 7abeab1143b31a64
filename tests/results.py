"""Builds results as the engine gives them to reports and to the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainforensics.kinds import KINDS
from trainforensics.model import (
    Axis,
    Blame,
    Cause,
    CheckpointChoice,
    Cost,
    Evidence,
    Incident,
    Index,
    IndexEntry,
    Precursor,
    Remedy,
    RunResult,
    SafeCheckpoint,
    Scope,
    SeriesSummary,
    SourceSummary,
    Suspect,
)
from trainforensics.report.json import dump_index, dump_run

LONG = 41_200


def make_incident(kind: str = "instant-burst", onset: int | None = 1200, **changes: Any) -> Incident:
    """A bare incident of a kind."""
    known = KINDS[kind]
    incident = Incident(
        id=f"{kind}-{onset}", code=known.code, kind=kind, severity=known.severity, confidence=0.9, caused_by=None,
        onset_step=onset, onset_interval=None if onset is None else (onset, onset),
        occurrences=() if onset is None else (onset,), segment=0, peak_step=None, end_step=None, recovery=None,
        cost=Cost(), series="train/loss", role="train_loss", scope=Scope(), summary=f"Something of kind {kind}",
    )  # fmt: skip
    return replace(incident, **changes)


def full_incident(**changes: Any) -> Incident:
    """An incident with everything a report can show."""
    incident = make_incident(
        onset=LONG, severity="critical", confidence=0.97, onset_interval=(41_191, LONG),
        occurrences=(12_400, 29_873, LONG), peak_step=41_201, end_step=41_236, recovery="unrecovered",
        cost=Cost(1236, 2_600_000_000, 11_400.0), summary="Loss went from 2.41 to 6.92 within one step",
        evidence=(Evidence("train/loss", LONG, 6.92, 2.41, "150 noise widths above trend"),),
        precursors=(Precursor("loss_scale", 41_198, 2, "halved"),),
        causes=(
            Cause("bad-shard", 0.83, ("same-step jump",), ("fed 640 other batches",), "replay 41190-41210"),
            Cause("numeric-overflow", 0.12, (), ("follows, does not lead",)),
        ),
        blame=Blame(
            (41_188, LONG), "logged",
            (Suspect("shard", "shard-0117", 0.9, 3e-11, (LONG,), "fed 3 of 3 bursts"),),
            ({"step": LONG, "batch_id": "329590", "shard": "shard-0117", "doc": ["a", "b"]},),
        ),
        safe_checkpoint=SafeCheckpoint(
            40_000, "lies before the first precursor", (CheckpointChoice(39_000, "older"),), go_back=True
        ),
        remediation=(Remedy("resume from 40 000 with skip.json", "it is clean", "no burst by 41 210"),),
    )  # fmt: skip
    return replace(incident, **changes)


def make_run(*incidents: Incident, run: str = "runs/a", **changes: Any) -> RunResult:
    """A run with these incidents: unstable with an alarm, else stable."""
    alarm = any(incident.is_root_alarm for incident in incidents)
    result = RunResult(
        run=run, verdict="unstable" if alarm else "stable", axis=Axis("step", "step"), ended="finished",
        sources=(SourceSummary("log.jsonl", "jsonl", 82_500),),
        series=(
            SeriesSummary("train/loss", "train_loss", "log.jsonl", None, 41_250, 0, 1, 41_250),
            SeriesSummary("grad_norm", "grad_norm", "log.jsonl", None, 41_250, 0, 1, 41_250),
        ),
        incidents=incidents,
    )  # fmt: skip
    return replace(result, **changes)


def make_index(results: Sequence[RunResult], **changes: Any) -> Index:
    """The index over runs."""
    entries = tuple(IndexEntry(r.run, r.verdict, r.alarms, f"{r.run}/result.json") for r in results)
    return replace(Index({"name": "trainforensics", "version": "0"}, entries), **changes)


def save(out: Path, *results: RunResult) -> Path:
    """Results as an --out folder."""
    for result in results:
        (out / result.run).mkdir(parents=True)
        (out / result.run / "result.json").write_bytes(dump_run(result))
    (out / "result.json").write_bytes(dump_index(make_index(results)))
    (out / ".trainforensics").write_text("trainforensics/result/1\n")
    return out
