from __future__ import annotations

import json
from pathlib import Path

import pytest
from results import full_incident, make_run, save
from shell import Run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return save(tmp_path / "out", make_run(run="ok"), make_run(full_incident(), run="bad"))


def test_a_single_result_gives_its_report(run: Run, out: Path) -> None:
    code, stdout, _ = run("report", out / "bad" / "result.json")
    assert code == 0
    assert stdout.startswith("# bad: **unstable** (1 critical)")
    assert "![" not in stdout


def test_figures_that_are_there_are_shown(run: Run, out: Path) -> None:
    (out / "bad" / "plots").mkdir()
    (out / "bad" / "plots" / "timeline.png").write_bytes(b"")
    assert "![Timeline of bad](plots/timeline.png)" in run("report", out / "bad")[1]


def test_a_folder_gives_the_overview(run: Run, out: Path) -> None:
    assert run("report", out)[1].startswith("# 2 training runs: 1 unstable, 1 stable")


def test_json_of_one_run_is_what_was_saved(run: Run, out: Path) -> None:
    assert run("report", out / "bad", "--format", "json")[1] == (out / "bad" / "result.json").read_text()


def test_json_of_a_folder_holds_every_result(run: Run, out: Path) -> None:
    document = json.loads(run("report", out, "--format", "json")[1])
    assert [entry["run"] for entry in document["runs"]] == ["ok", "bad"]
    assert document["runs"][1]["incidents"][0]["kind"] == "instant-burst"


def test_table(run: Run, out: Path) -> None:
    assert "instant-burst, recurring" in run("report", out, "--format", "table")[1]


def test_write_goes_to_files_and_leaves_stdout_empty(run: Run, out: Path, tmp_path: Path) -> None:
    code, stdout, _ = run(
        "report", out, "--write", f"markdown={tmp_path / 'a.md'}", "--write", f"json={tmp_path / 'a.json'}"
    )
    assert (code, stdout) == (0, "")
    assert (tmp_path / "a.md").read_text().startswith("# 2 training runs")
    assert "runs" in json.loads((tmp_path / "a.json").read_text())


@pytest.mark.parametrize("target", ["nowhere", "notes.json", "empty"])
def test_what_is_no_result_is_refused_in_one_line(run: Run, tmp_path: Path, target: str) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    code, stdout, stderr = run("report", tmp_path / target)
    assert (code, stdout) == (2, "")
    assert target in stderr
    assert len(stderr.splitlines()) == 1
