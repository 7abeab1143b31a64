from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import rows, write_jsonl

from trainforensics import engine
from trainforensics.config import Settings
from trainforensics.engine import output
from trainforensics.errors import UsageError
from trainforensics.report import json as report_json
from trainforensics.store.reader import runs_of
from trainforensics.store.schema import STORE_SCHEMA


@pytest.fixture
def out(tmp_path: Path) -> Settings:
    return Settings(out=tmp_path / "out", plots=False)


def log(folder: Path, seed: int = 0) -> Path:
    return write_jsonl(folder / "metrics.jsonl", rows(range(0, 600, 5), seed=seed))


def test_a_folder_in_use_is_refused_until_it_is_free(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    engine.analyze([tmp_path / "a"], out)
    before = {path: path.read_bytes() for path in out.out.rglob("*") if path.is_file()}
    with output.claim(out.out):
        for start in (engine.analyze, engine.import_paths):
            with pytest.raises(UsageError, match="out: in use by another analysis"):
                start([tmp_path / "a"], out)
    assert {path: path.read_bytes() for path in out.out.rglob("*") if path.is_file()} == before
    engine.analyze([tmp_path / "a"], out)


def test_a_folder_is_in_use_until_the_results_are_written(
    tmp_path: Path, out: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path / "a")

    def write_index(*_: object) -> None:
        with pytest.raises(UsageError, match="in use"), output.claim(out.out):
            pass

    monkeypatch.setattr(output, "write_index", write_index)
    engine.analyze([tmp_path / "a"], out)


def test_what_a_killed_import_left_is_removed(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    engine.analyze([tmp_path / "a"], out)
    (out.out / "parquet" / ".staging-0123abcd" / "000000").mkdir(parents=True)
    engine.analyze([tmp_path / "a"], out)
    assert not list((out.out / "parquet").glob(".staging-*"))


def test_a_run_that_was_only_imported_stays_in_the_store(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        log(tmp_path / name)
    engine.import_paths([tmp_path / "a"], out)
    result = engine.analyze([tmp_path / "b"], out)
    assert result.notes == ()
    assert set(runs_of(out.out / "parquet")) == {"a", "b"}
    assert [run.run for run in result.index.runs] == ["b"]


def test_results_of_another_version_are_left_alone(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    engine.analyze([tmp_path / "a"], out)
    (out.out / ".trainforensics").write_text("trainforensics/result/0\n")
    before = {path: path.read_bytes() for path in out.out.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"holds results of another version .*'trainforensics/result/0'"):
        engine.analyze([tmp_path / "a"], out)
    assert {path: path.read_bytes() for path in out.out.rglob("*") if path.is_file()} == before


def test_a_store_of_another_version_is_made_anew(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        log(tmp_path / name)
    engine.analyze([tmp_path / "a", tmp_path / "b"], out)
    marker = out.out / ".trainforensics"
    assert marker.read_text() == f"trainforensics/result/1\n{STORE_SCHEMA}\n"
    written = marker.read_text()
    for older in ("trainforensics/result/1\n", "trainforensics/result/1\ntrainforensics/store/0\n"):
        marker.write_text(older)
        (out.out / "parquet" / "left.parquet").touch()
        result = engine.analyze([tmp_path / "a"], out)
        assert any("of another version were removed" in note for note in result.notes)
        assert marker.read_text() == written
        assert not (out.out / "parquet" / "left.parquet").exists()
        assert set(runs_of(out.out / "parquet")) == {"a"}
        assert {run.run for run in result.everything} == {"a", "b"}
    assert not any("another version" in note for note in engine.analyze([tmp_path / "a"], out).notes)


def test_a_result_that_cannot_be_read_is_named_and_costs_itself_alone(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b", "c"):
        log(tmp_path / name)
    engine.analyze([tmp_path / "a", tmp_path / "b"], out)
    (out.out / "a" / "result.json").write_text("{")
    result = engine.analyze([tmp_path / "c"], out)
    assert {run.run for run in result.everything} == {"b", "c"}
    (note,) = [note for note in result.notes if note.startswith("a: ")]
    assert "a/result.json cannot be read" in note
    assert (out.out / "a" / "report.md").is_file()
    assert set(runs_of(out.out / "parquet")) == {"a", "b", "c"}


@pytest.mark.parametrize("damage", ["parquet/manifest.json", "parquet/a/run.json", "result.json"])
@pytest.mark.parametrize("text", ["null", "{", None])
def test_results_outlive_a_damaged_store_or_index(tmp_path: Path, out: Settings, damage: str, text: str | None) -> None:
    for name in ("a", "b"):
        log(tmp_path / name)
    engine.analyze([tmp_path / "a"], out)
    (out.out / damage).unlink()
    if text is not None:
        (out.out / damage).write_text(text)
    result = engine.analyze([tmp_path / "b"], out)
    assert {run.run for run in result.everything} == {"a", "b"}
    assert not [note for note in result.notes if "dropped" in note or "cannot be read" in note]


@pytest.mark.parametrize("name", ["result.json", "report.md", "skip.json", "plots", "Plots", "parquet"])
def test_a_run_below_another_may_be_called_like_our_files(tmp_path: Path, name: str) -> None:
    log(tmp_path / "a", 1)
    log(tmp_path / "a" / name, 2)
    log(tmp_path / "a" / f"{name}~", 3)
    result = engine.analyze([tmp_path / "a"], Settings(out=tmp_path / "out"))
    assert {run.run for run in result.runs} == {"a", f"a/{name}", f"a/{name}~"}
    assert not [run.errored for run in result.runs if run.errored]
    _, saved = report_json.load(tmp_path / "out")
    assert {run.run for run in saved} == {"a", f"a/{name}", f"a/{name}~"}


@given(
    st.lists(st.text("aP.~/", min_size=1, max_size=6) | st.sampled_from(["plots", "plots~", "a/plots"]), unique=True)
)
def test_runs_of_different_names_have_different_folders(names: list[str]) -> None:
    assert len({output.run_folder(name) for name in names}) == len(names)


def test_a_result_that_cannot_be_written_costs_its_run_alone(tmp_path: Path, out: Settings) -> None:
    for name in ("a", "b"):
        log(tmp_path / name)
    engine.analyze([tmp_path / "b"], out)
    (out.out / "a").write_text("in the way")
    first, second = engine.analyze([tmp_path / "a", tmp_path / "b"], out).runs
    assert [error.detector for error in first.errored] == ["report"]
    assert not second.errored
