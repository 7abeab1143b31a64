from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from logs import rows, write_jsonl, write_scalars

from trainforensics import discovery
from trainforensics.discovery import Discovery, discover
from trainforensics.errors import UsageError
from trainforensics.model import Checkpoint


def log(path: Path) -> Path:
    return write_jsonl(path, rows(range(20)))


def found(discovery: Discovery) -> dict[str, list[str]]:
    return {c.name: [s.label for s in c.sources] for c in discovery.candidates if c.sources}


def reasons(discovery: Discovery) -> dict[str, str]:
    return {Path(s.path).name: s.reason for s in discovery.skipped}


def test_runs_are_named_from_the_argument_on(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log(tmp_path / "runs" / name / "metrics.jsonl")
    assert found(discover([tmp_path / "runs"])) == {"runs/a": ["metrics.jsonl"], "runs/b": ["metrics.jsonl"]}
    assert found(discover([tmp_path / "runs" / "a"])) == {"a": ["metrics.jsonl"]}
    assert list(found(discover(sorted((tmp_path / "runs").iterdir())))) == ["a", "b"]


def test_a_file_given_directly_is_a_run(tmp_path: Path) -> None:
    path = log(tmp_path / "runs" / "a" / "metrics.jsonl")
    assert found(discover([path])) == {"metrics.jsonl": ["metrics.jsonl"]}


def test_names_are_unique_across_arguments(tmp_path: Path) -> None:
    log(tmp_path / "x" / "run" / "metrics.jsonl")
    log(tmp_path / "y" / "run" / "metrics.jsonl")
    assert list(found(discover([tmp_path / "x" / "run", tmp_path / "y" / "run"]))) == ["run", "run-2"]


def test_what_two_arguments_share_is_read_once(tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a" / "metrics.jsonl")
    assert list(found(discover([tmp_path / "runs", tmp_path / "runs" / "a"]))) == ["runs/a"]


def test_lightning_versions_are_runs_of_their_own(tmp_path: Path) -> None:
    for version in ("version_0", "version_1"):
        log(tmp_path / "exp" / version / "metrics.jsonl")
    assert list(found(discover([tmp_path / "exp"]))) == ["exp/version_0", "exp/version_1"]


@pytest.mark.parametrize(
    "folder", ["rank_0", "rank-3", "wandb/offline-run-20250101_000000-abc123/files", "checkpoint-50"]
)
def test_folders_of_writers_join_their_parent(tmp_path: Path, folder: str) -> None:
    log(tmp_path / "run" / "metrics.jsonl")
    log(tmp_path / "run" / folder / "log.jsonl")
    assert found(discover([tmp_path / "run"])) == {"run": ["metrics.jsonl", f"{folder}/log.jsonl"]} or found(
        discover([tmp_path / "run"])
    ) == {"run": [f"{folder}/log.jsonl", "metrics.jsonl"]}


def test_what_torchrun_keeps_of_each_process_is_one_run(tmp_path: Path) -> None:
    for attempt, rank in ((0, 0), (0, 1), (1, 0), (1, 1)):
        log(tmp_path / "logs" / "none_k3" / f"attempt_{attempt}" / str(rank) / "stdout.log")
    log(tmp_path / "sweep" / "attempt_1" / "metrics.jsonl")
    log(tmp_path / "sweep" / "attempt_2" / "metrics.jsonl")
    files = {name.partition("/")[2]: len(labels) for name, labels in found(discover([tmp_path])).items()}
    assert files == {"logs/none_k3": 4, "sweep/attempt_1": 1, "sweep/attempt_2": 1}


def test_train_and_validation_are_halves_of_one_run(tmp_path: Path) -> None:
    for half in ("train", "validation"):
        write_scalars(tmp_path / "run" / half / "events.out.tfevents.1.host", range(20), "epoch_loss")
    assert list(found(discover([tmp_path / "run"]))) == ["run"]


def test_a_run_that_is_called_test_stays_a_run(tmp_path: Path) -> None:
    for name in ("test", "llm-7b"):
        log(tmp_path / "runs" / name / "metrics.jsonl")
    assert sorted(found(discover([tmp_path / "runs"]))) == ["runs/llm-7b", "runs/test"]


def test_add_scalars_folders_join_but_other_runs_below_do_not(tmp_path: Path) -> None:
    write_scalars(tmp_path / "tb" / "events.out.tfevents.1.host", range(20), "lr")
    write_scalars(tmp_path / "tb" / "Loss_train" / "events.out.tfevents.1.host", range(20), "Loss")
    write_scalars(tmp_path / "tb" / "second_run" / "events.out.tfevents.1.host", range(20), "Loss")
    discovery = found(discover([tmp_path / "tb"]))
    assert sorted(discovery) == ["tb", "tb/second_run"]
    assert "Loss_train/events.out.tfevents.1.host" in discovery["tb"]


def test_dated_folders_join_a_trainer_state(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trainer_state.json").write_text(
        '{"log_history": [{"loss": 1.0, "step": 1}], "global_step": 1}'
    )
    write_scalars(tmp_path / "run" / "runs" / "Jan01_10-00-00_host" / "events.out.tfevents.1.host", range(20))
    assert list(found(discover([tmp_path / "run"]))) == ["run"]


def test_checkpoints_are_noted_and_not_read(tmp_path: Path) -> None:
    log(tmp_path / "run" / "metrics.jsonl")
    (tmp_path / "run" / "checkpoint-500").mkdir()
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "epoch=1-step=1000.ckpt").write_bytes(b"\x00" * 10)
    (tmp_path / "run" / "step_1500.pt").write_bytes(b"\x00" * 10)
    (tmp_path / "run" / "model_2").mkdir()  # holds no weights: anything may be called that
    discovery = discover([tmp_path / "run"])
    assert discovery.candidates[0].checkpoints == (
        Checkpoint(500, "checkpoint-500"),
        Checkpoint(1000, "checkpoints/epoch=1-step=1000.ckpt"),
        Checkpoint(1500, "step_1500.pt"),
    )
    assert "weights" in reasons(discovery)["step_1500.pt"]


def test_every_file_left_aside_has_its_reason(tmp_path: Path) -> None:
    log(tmp_path / "metrics.jsonl")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "plot.png").write_bytes(b"\x89PNG")
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    (tmp_path / "core").write_bytes(b"\x7fELF\x00\x00\x00")
    (tmp_path / "result.json").write_text('{\n  "schema": "trainforensics/result/1",\n  "run": "a"\n}\n')
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jsonl")
    said = reasons(discover([tmp_path]))
    assert said["empty.jsonl"] == "empty file"
    assert "not a log" in said["plot.png"]
    assert "without recognisable metrics" in said["notes.txt"]
    assert "a saved result" in said["result.json"]
    assert "binary" in said["core"]
    assert said["gone.jsonl"] == "dangling link"
    assert "not a regular file" in said["pipe.jsonl"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a" / "metrics.jsonl")
    (tmp_path / "runs" / "a" / "up").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "0-latest").symlink_to(tmp_path / "runs" / "a")
    assert list(found(discover([tmp_path / "runs"]))) == ["runs/a"]


def test_a_link_to_a_folder_is_followed_only_where_it_is_named(tmp_path: Path) -> None:
    log(tmp_path / "elsewhere" / "metrics.jsonl")
    log(tmp_path / "runs" / "a" / "metrics.jsonl")
    (tmp_path / "runs" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs" / "a" / "more.jsonl").symlink_to(tmp_path / "elsewhere" / "metrics.jsonl")
    discovery = discover([tmp_path / "runs"])
    assert found(discovery) == {"runs/a": ["metrics.jsonl", "more.jsonl"]}
    assert reasons(discovery) == {"b": "a link to a folder; name it to follow it"}
    assert found(discover([tmp_path / "runs" / "b"])) == {"b": ["metrics.jsonl"]}


@pytest.mark.parametrize("beside", ["a", "train"])  # the latter has its siblings looked at too
def test_links_that_lead_nowhere_but_to_themselves_are_skipped(tmp_path: Path, beside: str) -> None:
    log(tmp_path / "runs" / beside / "metrics.jsonl")
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs" / "loop")
    discovery = discover([tmp_path / "runs"])
    assert len(found(discovery)) == 1
    assert reasons(discovery)["loop"].startswith("cannot be opened (")


def test_our_own_output_is_not_read(tmp_path: Path) -> None:
    log(tmp_path / "a" / "metrics.jsonl")
    log(tmp_path / "out" / "metrics.jsonl")
    (tmp_path / "out" / ".trainforensics").touch()
    discovery = discover([tmp_path])
    assert list(found(discovery)) == [f"{tmp_path.name}/a"]
    assert reasons(discovery)["out"] == "output of trainforensics"


def test_logs_of_the_wandb_client_are_none_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "wandb" / "offline-run-20250101_000000-abc"
    for name in ("logs/debug.log", "logs/debug-internal.log", "logs/debug-core.log", "files/debug_me.log"):
        log(folder / name)
    log(folder.parent / "debug-cli.me.log")
    log(tmp_path / "run" / "debug.log")
    kept = ["debug.log", f"wandb/{folder.name}/files/debug_me.log"]
    assert found(discover([tmp_path / "run"])) == {"run": kept}
    assert len(reasons(discover([tmp_path / "run"]))) == 4
    assert found(discover([folder / "logs" / "debug.log"])) == {"debug.log": ["debug.log"]}


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        discover([tmp_path / "nowhere"])


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/ab\xff"))
    log(odd / "metrics.jsonl")
    assert list(found(discover([tmp_path]))) == [f"{tmp_path.name}/ab\\udcff"]


def test_the_surer_reader_wins_and_the_other_is_named(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "manifest.jsonl", [{"step": i, "shard": f"s{i}", "doc_ids": [i]} for i in range(20)])
    (candidate,) = discover([tmp_path]).candidates
    assert [(s.format, s.others) for s in candidate.sources] == [("manifest", ("jsonl",))]


def test_a_reader_that_is_much_less_sure_is_not_worth_a_word(tmp_path: Path) -> None:
    log(tmp_path / "metrics.jsonl")
    (candidate,) = discover([tmp_path]).candidates
    assert [(s.format, s.others) for s in candidate.sources] == [("jsonl", ())]  # text with numbers is console, too


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_a_table_of_unknown_columns_is_skipped_with_their_names(tmp_path: Path, form: str) -> None:
    table = pl.DataFrame({"tick": range(50), "quux": [1.0 / (i + 1) for i in range(50)], "foo": [3] * 50})
    file = tmp_path / f"log.{form}"
    if form == "parquet":
        table.write_parquet(file)
    else:
        table.write_csv(file, separator="," if form == "csv" else "\t")
    said = reasons(discover([tmp_path]))[file.name]
    assert "columns tick, quux, foo)" in said
    assert "--map NAME=step" in said
    (candidate,) = discover([tmp_path], {"tick": "step", "quux": "train_loss"}).candidates
    assert [s.format for s in candidate.sources] == ["table"]


def test_of_many_unknown_columns_the_first_are_named(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}x" for i in range(40)) + "\n" + ",".join("7" * 40) + "\n")
    assert "c11x and 28 more)" in reasons(discover([tmp_path]))["wide.csv"]


@pytest.mark.parametrize("name", ["x²", "①", "x٣", "x½"])
def test_digits_that_are_no_decimal_numbers_are_names_like_others(tmp_path: Path, name: str) -> None:
    for folder in ("x10", "x2", name):
        log(tmp_path / folder / "metrics.jsonl")
    names = list(found(discover([tmp_path])))
    assert sorted(names) == sorted(f"{tmp_path.name}/{folder}" for folder in ("x10", "x2", name))
    assert names.index(f"{tmp_path.name}/x2") < names.index(f"{tmp_path.name}/x10")


def test_folders_below_very_many_others_are_named_rather_than_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_DEEPEST", len(tmp_path.parts) + 2)
    for place in ("m.jsonl", "a/b/m.jsonl", "a/b/c/m.jsonl"):
        write_jsonl(tmp_path / place, rows(range(20)))
    found = discover([tmp_path])
    assert len(found.candidates) == 2
    assert [(Path(entry.path).name, entry.unread) for entry in found.skipped] == [("c", True)]


def test_whatever_lies_in_a_checkpoint_belongs_to_the_run_above(tmp_path: Path) -> None:
    for place in ("m.jsonl", "checkpoint-10/a/b/log.jsonl", "other/a/log.jsonl"):
        write_jsonl(tmp_path / "run" / place, rows(range(20)))
    found = discover([tmp_path / "run"])
    labels = {candidate.name: [source.label for source in candidate.sources] for candidate in found.candidates}
    assert labels == {"run": ["checkpoint-10/a/b/log.jsonl", "m.jsonl"], "run/other/a": ["log.jsonl"]}
