"""Console text within `.wandb` files: the grammar of console logs, on the steps of the run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logwriters import history_record, points_of, write_wandb
from wandb.proto import wandb_internal_pb2 as pb

from trainforensics.importers import wandb
from trainforensics.importers.base import Config, Inner, Points, Record, Source
from trainforensics.importers.wandb import leveldb
from trainforensics.model import Axis, Event, ReadWarning

OUT, ERR = 1, 0


def output(text: str, stream: int = OUT, *, time: int = 0, raw: bool = True) -> Any:
    record = pb.Record()
    said = record.output_raw if raw else record.output
    said.line, said.output_type = text, stream
    said.timestamp.seconds = time
    return record


def printed(line: str, stream: int = OUT) -> list[Any]:
    """A line as `print` writes it."""
    return [output(line, stream), output("\n", stream)]


def row(step: int, **values: float) -> Any:
    return history_record({"_step": step, **values})


def read(folder: Path, records: Sequence[Any]) -> tuple[list[Record], list[Any]]:
    """The records of the history, and those of the text."""
    path = folder / "run-abc.wandb"
    write_wandb(path, records)
    found = list(wandb.read(Source(path, path.name)))
    inner = [record for record in found if isinstance(record, Inner)]
    assert {record.format for record in inner} <= {"console"}
    return [record for record in found if not isinstance(record, Inner)], [record.record for record in inner]


def events(records: Sequence[Any]) -> list[tuple[str, int | None]]:
    return [(record.kind, record.step) for record in records if isinstance(record, Event)]


def test_printed_metrics_are_points_beside_the_history(tmp_path: Path) -> None:
    lines = [
        (i, row(i, loss=3 / (i + 1)), printed(f"step {i} | loss {3 / (i + 1):.4f} | norm {1 + i}")) for i in range(50)
    ]
    history, text = read(tmp_path, [record for _, logged, said in lines for record in (logged, *said)])
    assert [step for step, _ in points_of(history)["loss"]] == [*range(50)]
    assert points_of(text) == {
        "loss": [(i, round(3 / (i + 1), 4)) for i in range(50)],
        "norm": [(i, 1.0 + i) for i in range(50)],
    }
    assert not [record for record in text if isinstance(record, Axis)]


@pytest.mark.parametrize("raw", [True, False])
def test_fragments_become_lines_and_streams_stay_apart(tmp_path: Path, raw: bool) -> None:
    parts = [("step 1 lo", OUT), ("WARNING: something\n", ERR), ("ss 2.5\nstep 2 ", OUT), ("loss 2.25\n", OUT)]
    _, text = read(tmp_path, [output(part, stream, raw=raw) for part, stream in parts])
    assert points_of(text) == {"loss": [(1, 2.5), (2, 2.25)]}
    assert [event.text for event in text if isinstance(event, Event)] == ["WARNING: something"]


def test_a_line_that_never_ended_counts(tmp_path: Path) -> None:
    _, text = read(tmp_path, [*printed("step 1 loss 2.5"), output("step 2 loss 2.25")])
    assert points_of(text) == {"loss": [(1, 2.5), (2, 2.25)]}


def test_progress_bars_give_printed_dictionaries_their_step(tmp_path: Path) -> None:
    records: list[Any] = []
    for i in range(10, 210, 10):
        bar = f"\r {i // 2:>3}%|{'#' * (i // 20):<10}| {i}/200 [00:{i // 10:02}<00:20,  1.00it/s]"
        records += [output(bar, ERR), output("\r" + " " * 60 + "\r", ERR)]
        records += printed(f"{{'loss': {3 / i:.4f}, 'learning_rate': {i}e-05}}")
        records += [output(bar, ERR), history_record({"_step": i // 10, "train/global_step": i, "train/loss": 3 / i})]
    history, text = read(tmp_path, records)
    assert points_of(text)["loss"] == [(i, round(3 / i, 4)) for i in range(10, 210, 10)]
    assert [step for step, _ in points_of(history)["train/loss"]] == [*range(10, 210, 10)]


def test_what_happened_becomes_events_and_settings_become_configuration(tmp_path: Path) -> None:
    records = [output("python train.py --lr 0.1 --batch-size 8 --seed 3\n")]
    for i in range(20):
        records += [row(i, loss=1.0), *printed(f"step {i} loss 1.0")]
        if i == 10:
            records += printed("saved checkpoint to ckpt-10")
            records += printed("OVERFLOW! Skipping step. Attempted loss scale: 65536, reducing to 32768")
    trace = ["Traceback (most recent call last):\n", '  File "t.py", line 1\n', "RuntimeError: CUDA out of memory.\n"]
    _, text = read(tmp_path, [*records, *(output(line, ERR, time=1_700_000_009) for line in trace)])
    assert events(text) == [("checkpoint-saved", 10), ("overflow", 11), ("oom", 19)]
    (oom,) = [event for event in text if isinstance(event, Event) and event.kind == "oom"]
    assert (oom.wall_time, oom.source) == (1_700_000_009.0, "run-abc.wandb#console")
    (config,) = [record for record in text if isinstance(record, Config)]
    assert config.values == {"lr": 0.1, "batch_size": 8, "seed": 3}


def test_a_traceback_that_the_end_cuts_off(tmp_path: Path) -> None:
    _, text = read(
        tmp_path, [row(7, loss=1.0), output('Traceback (most recent call last):\n  File "t.py", line 1\n', ERR)]
    )
    assert events(text) == [("traceback", 7)]


def test_without_any_history_the_printed_count_is_the_axis(tmp_path: Path) -> None:
    _, text = read(tmp_path, [record for i in range(0, 500, 50) for record in printed(f"step {i}: loss {3 - i / 500}")])
    assert points_of(text) == {"loss": [(i, 3 - i / 500) for i in range(0, 500, 50)]}
    assert [record for record in text if isinstance(record, Axis)] == [Axis("step", "step")]


def test_text_that_is_denser_than_the_history_keeps_its_steps(tmp_path: Path) -> None:
    records: list[Any] = []
    for i in range(0, 1000, 10):
        records += printed(f"iter {i}: loss {2.0 - i / 1000:.3f}")
        if i % 200 == 0:
            records.append(history_record({"_step": i // 200, "iter": i, "val/loss": 2.0}))
    _, text = read(tmp_path, records)
    assert [step for step, _ in points_of(text)["loss"]] == [*range(0, 1000, 10)]
    assert not [record for record in text if isinstance(record, ReadWarning)]


def test_text_that_counts_otherwise_stands_at_the_rows_around_it(tmp_path: Path) -> None:
    """The history counts calls, one in a hundred steps; the text counts steps."""
    records: list[Any] = []
    for i in range(40):
        records += [
            row(i, loss=3.0),
            *printed(f"step {100 * i + 50} loss 9.0"),
            *printed(f"step {100 * i + 100} loss {i}"),
        ]
        if i == 20:
            records += printed("OVERFLOW! Skipping step. Attempted loss scale: 65536, reducing to 32768")
    _, text = read(tmp_path, records)
    assert points_of(text)["loss"] == [(i, float(i)) for i in range(40)]
    assert events(text) == [("overflow", 20)]
    (warning,) = [record for record in text if isinstance(record, ReadWarning)]
    assert (warning.kind, "not those of _step" in warning.message) == ("other-axis", True)


def test_times_are_those_of_the_records(tmp_path: Path) -> None:
    lines = [output(f"2023-01-01 00:00:0{i} step {i} loss 1.{i}\n", time=1_700_000_000 + i) for i in range(5)]
    _, text = read(tmp_path, lines)
    (points,) = [record for record in text if isinstance(record, Points)]
    assert points.wall_time is not None
    assert points.wall_time.tolist() == [(1_700_000_000 + i) * 1_000_000 for i in range(5)]


def test_text_over_many_batches_keeps_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = partial(leveldb.read_batches, read_bytes=1 << 18)
    monkeypatch.setattr(wandb.leveldb, "read_batches", small)
    noise = np.random.default_rng(0).normal(size=6000).round(4).tolist()
    lines = [(row(i, other=1.0), *printed(f"step {i} loss {v} {'x' * 60}")) for i, v in enumerate(noise)]
    _, text = read(tmp_path, [record for line in lines for record in line])
    assert points_of(text)["loss"] == [*enumerate(noise)]
    with (tmp_path / "run-abc.wandb").open("rb") as stream:
        assert len(list(small(stream, wandb._HEADER))) > 2
    seqs = np.concatenate([record.seq for record in text if isinstance(record, Points) and record.name == "loss"])
    assert (np.diff(seqs) > 0).all()


@pytest.mark.parametrize(("time", "kinds"), [(0, ["naive-time"]), (1_700_000_000, [])])
def test_printed_times_count_where_the_records_have_none(tmp_path: Path, time: int, kinds: list[str]) -> None:
    lines = [output(f"2023-01-01 00:00:0{i} step {i} loss 1.{i}\n", time=time) for i in range(5)]
    _, text = read(tmp_path, lines)
    assert [record.kind for record in text if isinstance(record, ReadWarning)] == kinds
