from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logs import rows, write_jsonl

import trainforensics
from trainforensics import engine
from trainforensics.config import Settings
from trainforensics.errors import CannotJudgeError, UsageError
from trainforensics.store import writer


@pytest.fixture
def out(tmp_path: Path) -> Settings:
    return Settings(out=tmp_path / "out", plots=False)


def log(folder: Path, seed: int = 0) -> Path:
    return write_jsonl(folder / "metrics.jsonl", rows(range(0, 600, 5), seed=seed))


def index_of(settings: Settings) -> dict[str, str]:
    document = json.loads((settings.out / "result.json").read_text())
    return {entry["run"]: entry["result"] for entry in document["runs"]}


def test_every_file_of_the_contract_is_written(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "runs" / "a")
    result = engine.analyze([tmp_path / "runs"], out)
    assert [run.run for run in result.runs] == ["runs/a"]
    for name in (".trainforensics", "result.json", "report.md", "parquet/manifest.json"):
        assert (out.out / name).is_file(), name
    for name in ("result.json", "report.md", "skip.json"):
        assert (out.out / "runs/a" / name).is_file(), name
    document = json.loads((out.out / index_of(out)["runs/a"]).read_text())
    assert document["run"] == "runs/a"
    assert document["options"]["out"] == str(out.out)
    assert {s["name"]: s["n"] for s in document["series"]}["loss"] == 120
    assert not document["errored"]


def test_a_spike_is_found_end_to_end(tmp_path: Path, out: Settings) -> None:
    lines = [dict(row) for row in rows(range(600))]
    lines[400]["loss"] += 3
    write_jsonl(tmp_path / "a" / "metrics.jsonl", lines)
    (run,) = engine.analyze([tmp_path / "a"], out).runs
    assert run.verdict == "unstable"
    assert [(i.kind, i.onset_step) for i in run.incidents if i.is_root_alarm] == [("instant-burst", 400)]


def test_figures_only_where_wanted(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    engine.analyze([tmp_path / "a"], Settings(out=out.out))
    drawn = sorted((out.out / "a" / "plots").glob("*.png"))
    engine.analyze([tmp_path / "a"], out)
    assert sorted((out.out / "a" / "plots").glob("*.png")) == drawn != []
    assert "plots/timeline.png" in (out.out / "a" / "report.md").read_text()
    log(tmp_path / "a", seed=1)  # another log, of which the same is said
    engine.analyze([tmp_path / "a"], out)
    assert not (out.out / "a" / "plots").exists()


def test_a_run_given_from_further_down_keeps_its_name_and_its_place(
    tmp_path: Path, out: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c/d"):
        log(tmp_path / "runs" / name)
    engine.analyze([tmp_path / "runs"], out)
    monkeypatch.chdir(tmp_path / "runs" / "b")
    for given, name in ((tmp_path / "runs" / "a", "runs/a"), (Path(), "runs/b"), (tmp_path / "runs/c", "runs/c/d")):
        result = engine.analyze([given], out)
        assert [run.run for run in result.runs] == [name]
        assert [note for note in result.notes if "dropped" in note] == []
        assert set(index_of(out)) == {"runs/a", "runs/b", "runs/c/d"}
    log(tmp_path / "runs" / "later")
    assert [run.run for run in engine.analyze([tmp_path / "runs" / "later"], out).runs] == ["runs/later"]


def test_a_run_given_from_further_down_keeps_the_manifest_above_it(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "all" / "runs" / "a")
    table = "step,batch_id,shard\n" + "".join(f"{i},{i},s{i % 7}\n" for i in range(600))
    (tmp_path / "all" / "batches.csv").write_text(table)
    (whole,) = engine.analyze([tmp_path / "all"], out).runs
    (again,) = engine.analyze([tmp_path / "all" / "runs" / "a"], out).runs
    assert (again.run, again.sources) == (whole.run, whole.sources)
    assert [source.format for source in again.sources] == ["jsonl", "manifest"]
    (alone,) = engine.analyze([tmp_path / "all" / "runs" / "a"], replace(out, out=tmp_path / "new")).runs
    assert [source.format for source in alone.sources] == ["jsonl"]


def test_what_was_found_between_runs_stays_with_them(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        log(tmp_path / "runs" / name)
    log(tmp_path / "other")
    engine.analyze([tmp_path / "runs"], out)
    file = out.out / "result.json"
    finding = {"finding": "shared", "runs": ["runs/a", "runs/b"], "steps": [5], "evidence": ["as found"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"cross_run": [finding]}))
    assert [found.finding for found in engine.analyze([tmp_path / "other"], out).index.cross_run] == ["shared"]
    assert engine.analyze([tmp_path / "runs" / "a"], out).index.cross_run == ()


def test_a_run_given_from_further_up_is_said_to_be_renamed(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        log(tmp_path / "runs" / name)
    engine.analyze([tmp_path / "runs" / "a"], out)
    assert set(index_of(out)) == {"a"}
    result = engine.analyze([tmp_path / "runs"], out)
    assert "a: is runs/a now; dropped from the results" in result.notes
    assert set(index_of(out)) == {"runs/a", "runs/b"}


def test_a_run_whose_name_has_a_suffix_keeps_it(tmp_path: Path, out: Settings) -> None:
    for day, seed in (("one", 1), ("two", 2)):
        log(tmp_path / day / "runs" / "a", seed)
    engine.analyze([tmp_path / "one" / "runs", tmp_path / "two" / "runs"], out)
    assert [run.run for run in engine.analyze([tmp_path / "two" / "runs" / "a"], out).runs] == ["runs/a-2"]
    assert set(index_of(out)) == {"runs/a", "runs/a-2"}


def test_the_runs_of_one_folder_keep_their_names(tmp_path: Path, out: Settings) -> None:
    for name, seed in (("lr1", 1), ("lr2", 2)):
        write_jsonl(tmp_path / "runs" / "a" / f"{name}.jsonl", rows(range(0, 600, 5), seed=seed))
    log(tmp_path / "runs" / "b")
    engine.analyze([tmp_path / "runs"], out)
    names = set(index_of(out))
    assert any("#" in name for name in names)
    engine.analyze([tmp_path / "runs" / "a"], out)
    assert set(index_of(out)) == names


def test_analysing_again_replaces_and_drops(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        log(tmp_path / "runs" / name)
    log(tmp_path / "other")
    engine.analyze([tmp_path / "runs"], out)
    engine.analyze([tmp_path / "other"], out)
    assert set(index_of(out)) == {"runs/a", "runs/b", "other"}
    assert engine.analyze([tmp_path / "other", tmp_path / "runs"], out).notes == ()
    shutil.rmtree(tmp_path / "runs" / "b")
    result = engine.analyze([tmp_path / "runs"], out)
    assert set(index_of(out)) == {"runs/a", "other"}
    assert any("runs/b" in note and "dropped" in note for note in result.notes)
    assert f"1 older run kept in {out.out}" in result.notes
    assert not (out.out / "runs" / "b").exists()
    assert [run.run for run in result.runs] == ["runs/a"]
    assert {run.run for run in result.everything} == {"runs/a", "other"}


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    out.out.mkdir()
    (out.out / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="not empty and not ours"):
        engine.analyze([tmp_path / "a"], out)
    assert [path.name for path in out.out.iterdir()] == ["thesis.tex"]


def test_a_foreign_folder_is_refused_before_any_log_is_read(out: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    out.out.mkdir()
    (out.out / "thesis.tex").write_text("mine")
    monkeypatch.setattr(engine, "discover", lambda paths: pytest.fail("the logs were looked at"))
    with pytest.raises(UsageError, match="not empty and not ours"):
        engine.analyze([Path("a")], out)


def test_an_out_that_is_a_file_or_cannot_be_made(tmp_path: Path) -> None:
    path = log(tmp_path / "a")
    with pytest.raises(UsageError, match="is a file"):
        engine.analyze([tmp_path / "a"], Settings(out=path))
    with pytest.raises(UsageError, match="cannot be written"):
        engine.analyze([tmp_path / "a"], Settings(out=path / "below"))


def test_nothing_to_judge_says_what_was_looked_at(tmp_path: Path, out: Settings) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "notes.txt").write_text("hello\n")
    with pytest.raises(CannotJudgeError, match=r"notes.txt: text without recognisable metrics") as refused:
        engine.analyze([tmp_path / "docs"], out)
    assert "looked for: console, " in str(refused.value)
    assert "`step 10 loss 2.31`" in str(refused.value)
    assert not out.out.exists()


@pytest.mark.parametrize("line", ["step {} loss {}", "step={}, loss={}", '{{"step": {}, "loss": {}}}', "{},{}"])
def test_what_is_called_always_readable_is_read(tmp_path: Path, out: Settings, line: str) -> None:
    head = "step,loss\n" if line == "{},{}" else ""
    (tmp_path / "log").write_text(head + "".join(line.format(i, 2.31 + i % 7 / 100) + "\n" for i in range(1, 40)))
    assert engine.import_paths([tmp_path / "log"], out).runs == ("log",)


def test_runs_that_are_named_alike_are_told_apart(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b", "c-2", "c"):
        write_jsonl(tmp_path / name / "log.jsonl", rows(range(60)))
    files = [tmp_path / name / "log.jsonl" for name in ("a", "b")]
    result = engine.analyze([*files, tmp_path / "c", tmp_path / "c-2"], out)
    told = [note for note in result.notes if " is " in note]
    assert told == [f"log.jsonl is {files[0]}", f"log.jsonl-2 is {files[1]}"]


def test_a_run_that_takes_the_place_of_another_of_its_name_says_so(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "run" / "log.jsonl", rows(range(60)))
    assert not engine.analyze([tmp_path / "a" / "run"], out).notes
    assert not engine.analyze([tmp_path / "a" / "run"], out).notes
    (note,) = engine.analyze([tmp_path / "b" / "run"], out).notes
    assert note == f"run: its earlier result was of logs in {tmp_path / 'a' / 'run'}, and is replaced"


def test_runs_named_like_our_files_do_not_collide(tmp_path: Path, out: Settings) -> None:
    for name in ("parquet", "result.json"):
        log(tmp_path / name)
    engine.analyze([tmp_path / "parquet", tmp_path / "result.json"], out)
    assert index_of(out) == {"parquet": "parquet~/result.json", "result.json": "result.json~/result.json"}


def test_processes_find_the_same(tmp_path: Path, out: Settings) -> None:
    for seed in range(3):
        log(tmp_path / "runs" / str(seed), seed)
    alone = engine.analyze([tmp_path / "runs"], out)
    together = engine.analyze([tmp_path / "runs"], Settings(out=out.out, plots=False, jobs=2))
    assert [run.incidents for run in alone.runs] == [run.incidents for run in together.runs]
    assert [run.run for run in alone.runs] == [run.run for run in together.runs]


def test_a_manifest_reaches_the_result(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    write_jsonl(tmp_path / "a" / "manifest.jsonl", [{"step": i, "shard": f"s{i % 7}"} for i in range(600)])
    (run,) = engine.analyze([tmp_path / "a"], out).runs
    assert [source.format for source in run.sources] == ["jsonl", "manifest"]


def test_from_python(tmp_path: Path) -> None:
    log(tmp_path / "a")
    result = trainforensics.analyze(tmp_path / "a", out=str(tmp_path / "out"), plots=False)
    assert [(run.run, run.verdict) for run in result.runs] == [("a", "stable")]
    with pytest.raises(UsageError, match="unknown setting 'colour'"):
        trainforensics.analyze(tmp_path / "a", colour=True)


@pytest.mark.parametrize(("stage", "verdict"), [("judge", "undecided"), ("output.write_run", "stable")])
def test_a_run_that_fails_leaves_the_others_alone(
    tmp_path: Path, out: Settings, monkeypatch: pytest.MonkeyPatch, stage: str, verdict: str
) -> None:
    for name in ("a", "b"):
        log(tmp_path / "runs" / name)
    real = engine.output.write_run if stage.startswith("output") else engine.judge

    def fail(*args: Any, **more: Any) -> Any:
        if any("runs/a" in str(getattr(arg, "name", getattr(arg, "run", ""))) for arg in args):
            raise RuntimeError("boom")
        return real(*args, **more)

    monkeypatch.setattr(f"trainforensics.engine.{stage}", fail)
    analysed = engine.analyze([tmp_path / "runs"], out)
    first, second = analysed.runs
    assert (
        len([note for note in analysed.notes if note.startswith("runs/a: 1 part of the analysis failed, first ")]) == 1
    )
    assert not [note for note in analysed.notes if note.startswith("runs/b: ")]
    assert (first.verdict, [e.message for e in first.errored]) == (verdict, ["RuntimeError: boom"])
    assert (second.verdict, second.errored) == ("stable", ())
    assert json.loads((out.out / "runs/a/result.json").read_text())["errored"]


def test_a_run_that_cannot_be_imported_leaves_the_others_alone(
    tmp_path: Path, out: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        log(tmp_path / "runs" / name)
    real = writer.assemble

    def fail(name: str, staged: Any) -> Any:
        if name == "runs/a":
            raise RuntimeError("boom")
        return real(name, staged)

    monkeypatch.setattr(writer, "assemble", fail)
    analysed = engine.analyze([tmp_path / "runs"], out)
    assert [run.run for run in analysed.runs] == ["runs/b"]
    assert [entry.reason for entry in analysed.unread] == ["could not be imported (RuntimeError: boom)"]


def test_names_that_are_not_recognised_are_noted(tmp_path: Path, out: Settings) -> None:
    lines = [{"step": step, "objektiv": 2 / (1 + step), "heldout_obj": 3 / (1 + step)} for step in range(200)]
    path = write_jsonl(tmp_path / "a" / "metrics.jsonl", lines)
    (note,) = engine.analyze([path], out).notes
    assert "not recognised: objektiv, heldout_obj" in note
    assert not engine.analyze([path], Settings(out=out.out, plots=False, map={"objektiv": "train_loss"})).notes


def test_the_last_error_of_a_crash_is_in_the_result(tmp_path: Path, out: Settings) -> None:
    lines = [f"step {row['step']} loss {row['loss']:.4f}" for row in rows(range(1, 300))]
    lines += [
        "Traceback (most recent call last):",
        '  File "a.py", line 7, in main',
        "IndexError: index 3 is out of range",
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    (run,) = engine.analyze([tmp_path / "train.log"], out).runs
    assert run.ended == "crashed"
    assert run.failure is not None
    assert run.failure.text == "IndexError: index 3 is out of range"
    assert "IndexError" in (out.out / "train.log" / "report.md").read_text()


def test_a_file_given_by_name_that_holds_nothing_is_named(tmp_path: Path, out: Settings) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    result = engine.analyze([log(tmp_path / "a"), tmp_path / "notes.txt"], out)
    assert [Path(entry.path).name for entry in result.unread] == ["notes.txt"]
    assert any("notes.txt: not read: text without recognisable metrics" in note for note in result.notes)
    (tmp_path / "a" / "notes.txt").write_text("hello\n")
    assert not engine.analyze([tmp_path / "a"], out).unread, "in a folder it is one file among many"


def test_a_name_of_map_that_no_run_logs_is_named(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    known = {"loss": "train_loss", "step": "step"}
    assert not engine.analyze([tmp_path / "a"], replace(out, map=known)).notes
    (note,) = engine.analyze([tmp_path / "a"], replace(out, map=known | {"los": "val_loss"})).notes
    assert note == "--map los=val_loss changes nothing: no series is named so; did you mean loss?"
