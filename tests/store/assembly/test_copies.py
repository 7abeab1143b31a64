"""What a run printed is part of its W&B log, and may lie beside it once more."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
from logs import Row, imported, rows, write_wandb_run
from logwriters import write_wandb

from trainforensics.config import Settings
from trainforensics.discovery import discover
from trainforensics.model import Axis
from trainforensics.signals.load import judge_series, load
from trainforensics.store.reader import StoredRun, runs_of
from trainforensics.store.writer import import_candidates


def spoken(row: Row) -> str:
    noise = row["step"] % 7
    return f"step {row['step']} loss {row['loss']:.3f} grad_norm {1 + noise / 10:.2f}\nsaved checkpoint {row['step']}\n"


WANDB_FOLDER = "wandb/offline-run-20250101_000000-aaa111"


def test_what_a_wandb_run_printed_is_a_source_of_its_run(run: Path, tmp_path: Path) -> None:
    write_wandb_run(run / "a", "aaa111", rows(range(100)), printed=spoken)
    write_wandb_run(run / "b", "bbb222", rows(range(100), seed=1), printed=lambda _: "restarted\n")
    stored = imported(tmp_path / "store", run)
    first, second = stored["run/a"], stored["run/b"]
    assert {(s.path, s.format, s.points) for s in first.sources if s.points} == {
        ("run-aaa111.wandb", "wandb-offline", 100),
        ("run-aaa111.wandb#console", "console", 200),
    }
    assert first.axis == Axis("_step", "step")
    assert len([event for event in first.events if event.kind == "checkpoint-saved"]) == 100
    judged = judge_series(first, Settings())
    assert {(s.name, s.twin_of) for s in judged.series} == {
        ("train/loss", None),
        ("loss", "train/loss (run-aaa111.wandb)"),
        ("grad_norm", None),
    }
    assert [source.points for source in second.sources if "wandb" in source.path] == [100, 0]
    assert {event.kind for event in second.events} == {"start", "restart"}


@pytest.mark.parametrize(("lines", "counts"), [(100, "#console"), (60, "#console"), (300, "output.log")])
def test_of_the_text_in_the_log_and_beside_it_one_counts(run: Path, tmp_path: Path, lines: int, counts: str) -> None:
    folder = run / WANDB_FOLDER
    write_wandb_run(folder, "aaa111", rows(range(100)), printed=spoken)
    (folder / "files" / "output.log").write_text("".join(map(spoken, rows(range(lines)))))
    made = import_candidates(discover([run]).candidates, tmp_path / "store", {})
    stored = StoredRun(runs_of(tmp_path / "store")["run"])
    (text,) = [source.path for source in stored.sources if source.format == "console"]
    assert text.endswith(counts)
    assert len([event for event in stored.events if event.kind == "checkpoint-saved"]) == max(lines, 100)
    assert [entry.reason for entry in made.skipped] == (
        [f"repeats {WANDB_FOLDER}/run-aaa111.wandb#console"] if counts == "#console" else []
    )


def test_what_a_resumed_run_printed_is_continued_too(run: Path, tmp_path: Path) -> None:
    for day, steps in ((1, range(100)), (2, range(80, 200))):
        lines = rows(steps, seed=day)
        folder = run / f"wandb/offline-run-2025010{day}_000000-aaa111"
        write_wandb_run(folder, "aaa111", lines, 90_000 * day, printed=spoken)
    signals = load(imported(tmp_path / "store", run)["run"], Settings())
    for role in ("train_loss", "grad_norm"):
        (curve,) = signals.curves(role)
        assert curve.step.tolist() == list(range(200))
        assert curve.segment.tolist() == [0] * 80 + [1] * 120
        assert curve.superseded is not None
        assert len(curve.superseded) == 20


def test_output_beside_a_log_without_text_is_read(run: Path, tmp_path: Path) -> None:
    folder = run / WANDB_FOLDER
    write_wandb_run(folder, "aaa111", rows(range(100)))
    (folder / "files" / "output.log").write_text("".join(map(spoken, rows(range(100)))))
    stored = imported(tmp_path / "store", run)["run"]
    assert {PurePath(source.path).name: source.points for source in stored.sources} == {
        "run-aaa111.wandb": 100,
        "output.log": 200,
        "config.yaml": 0,
    }
    (loss,) = judge_series(stored, Settings()).signals.curves("train_loss")
    assert (len(loss), loss.segment.max()) == (100, 0)


def test_text_without_a_history_is_the_run(run: Path, tmp_path: Path) -> None:
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    records = [wandb_internal_pb2.Record() for _ in range(51)]
    records[0].config.update.add(key="lr", value_json="0.1")
    for record, row in zip(records[1:], rows(range(0, 500, 10)), strict=True):
        record.output_raw.line = spoken(row)
    run.mkdir()
    write_wandb(run / "run-aaa111.wandb", records)
    (stored,) = imported(tmp_path / "store", run).values()
    assert stored.axis == Axis("step", "step")
    assert stored.config["lr"] == 0.1
    assert {source.path: source.points for source in stored.sources} == {
        "run-aaa111.wandb": 0,
        "run-aaa111.wandb#console": 100,
    }
