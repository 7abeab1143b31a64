"""Writes small text logs as trainings do, and imports them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from logwriters import START_TIME, history_record, scalar_event, version_event, write_events, write_wandb

from trainforensics.discovery import discover
from trainforensics.store.reader import StoredRun, runs_of
from trainforensics.store.writer import import_candidates

Row = Mapping[str, Any]


def rows(steps: Iterable[int], *, seed: int = 0, start: float | None = None, **more: Any) -> list[Row]:
    """A falling, noisy loss at each step; `start` adds wall times, one second a step, from that time on."""
    noise = np.random.default_rng(seed)
    made = []
    for number, step in enumerate(steps):
        row = {"step": step, "loss": 2 + 2 * float(np.exp(-step / 300)) + float(noise.normal(0, 0.02)), **more}
        if start is not None:
            row["timestamp"] = start + number
        made.append(row)
    return made


def write_jsonl(path: Path, lines: Iterable[Row]) -> Path:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_csv(path: Path, lines: Iterable[Row]) -> Path:
    """A table with a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = list(lines)
    text = [",".join(table[0]), *(",".join(str(value) for value in line.values()) for line in table)]
    path.write_text("\n".join(text) + "\n")
    return path


def write_scalars(path: Path, steps: Iterable[int], tag: str = "train/loss", offset: float = 0.0) -> Path:
    """A TensorBoard event file with one scalar; `offset` shifts its wall times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    events = [version_event(), *(scalar_event(tag, step, 2 + 1 / (step + 1)) for step in steps)]
    for event in events:
        event.wall_time += offset
    write_events(path, events)
    return path


def write_wandb_run(
    folder: Path, run_id: str, lines: Iterable[Row], offset: float = 0.0, printed: Callable[[Row], str] | None = None
) -> Path:
    """An offline run's folder as W&B leaves it: files/config.yaml and the log, with what was `printed` at each row."""
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    start = wandb_internal_pb2.Record(num=1)
    start.run.run_id = run_id
    start.run.start_time.seconds = int(START_TIME + offset)
    records = [start]
    for number, line in enumerate(lines):
        row = {"_step": line["step"], "_timestamp": START_TIME + offset + number, "train/loss": line["loss"]}
        records.append(history_record(row, number + 2))
        if printed is not None:
            records.append(wandb_internal_pb2.Record())
            records[-1].output_raw.line = printed(line)
            records[-1].output_raw.output_type = wandb_internal_pb2.OutputRawRecord.STDOUT
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "config.yaml").write_text(f"learning_rate:\n  value: 0.1\nname:\n  value: {run_id}\n")
    path = folder / f"run-{run_id}.wandb"
    write_wandb(path, records)
    return path


def imported(store: Path, *paths: Path) -> dict[str, StoredRun]:
    """Every run below the paths, from a new store."""
    names = import_candidates(discover(paths).candidates, store, {}).runs
    folders = runs_of(store)
    return {name: StoredRun(folders[name]) for name in names}


def segments(run: StoredRun) -> list[tuple[int, int, int]]:
    """Index, first and last step of its process lives."""
    return [(s.index, s.first_step, s.last_step) for s in run.segments]
