"""A store holds the runs that its manifest names, as far as they are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from logs import imported, rows, write_jsonl

from trainforensics.errors import UsageError
from trainforensics.store import schema
from trainforensics.store.manifest import drop_runs
from trainforensics.store.reader import open_run, runs_of


def test_a_store_without_its_manifest_is_none(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(20)))
    imported(tmp_path / "store", tmp_path / "run")
    assert open_run(tmp_path / "store", "run").name == "run"
    with pytest.raises(UsageError, match="no run 'other'"):
        open_run(tmp_path / "store", "other")
    (tmp_path / "store" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="not a trainforensics store"):
        runs_of(tmp_path / "store")


@pytest.mark.parametrize("text", ["null", "[]", "5", '{"schema": 1}', "{", "\x00"])
def test_a_damaged_manifest_is_none_and_is_replaced(tmp_path: Path, text: str) -> None:
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(20)))
    imported(tmp_path / "store", tmp_path / "run")
    (tmp_path / "store" / "manifest.json").write_text(text)
    with pytest.raises(UsageError, match="not a trainforensics store"):
        runs_of(tmp_path / "store")
    assert list(imported(tmp_path / "store", tmp_path / "run")) == ["run"]


@pytest.mark.parametrize("runs", [None, 5, [], {"run": 5}, {"run": ".."}, {"run": None}, {"gone": "gone"}])
def test_a_manifest_lists_only_what_is_there(tmp_path: Path, runs: object) -> None:
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(20)))
    imported(tmp_path / "store", tmp_path / "run")
    (tmp_path / "store" / "manifest.json").write_text(json.dumps({"schema": schema.STORE_SCHEMA, "runs": runs}))
    drop_runs(tmp_path / "store", ["run", "gone"])
    assert (tmp_path / "run" / "metrics.jsonl").is_file()
    assert (tmp_path / "store" / "run" / "run.json").is_file()
    assert list(imported(tmp_path / "store", tmp_path / "run")) == ["run"]


def test_importing_again_replaces_and_dropping_removes(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(20)))
    imported(tmp_path / "store", tmp_path / "run")
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(30)))
    run = imported(tmp_path / "store", tmp_path / "run")["run"]
    assert {s.n for s in run.series} == {30}
    drop_runs(tmp_path / "store", ["run"])
    assert json.loads((tmp_path / "store" / "manifest.json").read_text())["runs"] == {}
    assert not run.folder.exists()
