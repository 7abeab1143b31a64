from __future__ import annotations

from pathlib import Path

import pytest
from results import full_incident, make_run, save
from shell import Run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return save(tmp_path / "out", make_run(run="ok"), make_run(full_incident(), run="bad"))


def test_a_folder_of_results_is_judged_and_each_violation_is_a_line(run: Run, out: Path) -> None:
    code, stdout, _ = run("gate", out)
    assert code == 1
    assert stdout.splitlines() == [
        "bad: critical instant-burst (LOS101) at step 41 200: Loss went from 2.41 to 6.92 within one step",
        "gate: failed, 1 violation in 1 of 2 runs",
    ]


def test_a_single_result_is_judged_alone(run: Run, out: Path) -> None:
    code, stdout, _ = run("gate", out / "ok" / "result.json")
    assert code == 0
    assert stdout == "gate: passed, 1 run without an incident of severity high or above\n"


def test_what_could_not_be_looked_at_is_named(run: Run, out: Path) -> None:
    code, stdout, _ = run("gate", out / "ok", "--require", "val_loss", "--quiet")
    assert code == 4
    assert stdout == "ok: could not judge: required val_loss: not logged (or not recognised: --map NAME=ROLE)\n"


def test_a_missing_path_is_a_usage_error_in_one_line(run: Run, tmp_path: Path) -> None:
    code, stdout, stderr = run("gate", tmp_path / "nowhere")
    assert (code, stdout) == (2, "")
    assert "nowhere" in stderr
    assert len(stderr.splitlines()) == 1


def test_an_unknown_severity_is_a_usage_error(run: Run, out: Path) -> None:
    assert run("gate", out, "--fail-on", "severe")[0] == 2


def test_logs_are_analysed_without_figures(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "run"
    log.mkdir(parents=True)
    rows = (f'{{"step": {i}, "loss": {2 + 0.01 * (i * 7919 % 13):.4f}}}\n' for i in range(1, 300))
    (log / "metrics.jsonl").write_text("".join(rows))
    code, stdout, _ = run("gate", log, "--out", tmp_path / "out", "--no-progress")
    assert (code, stdout.splitlines()[-1].split(",")[0]) == (0, "gate: passed")
    assert not list((tmp_path / "out").rglob("*.png"))
    assert [file.name for file in log.iterdir()] == ["metrics.jsonl"]


def test_a_file_that_could_not_be_read_is_no_pass(run: Run, tmp_path: Path) -> None:
    rows = (f'{{"step": {i}, "loss": {2 + 0.01 * (i * 7919 % 13):.4f}}}\n' for i in range(1, 300))
    (tmp_path / "a.jsonl").write_text("".join(rows))
    (tmp_path / "b.jsonl").write_text("nothing\n")
    code, stdout, _ = run("gate", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--out", tmp_path / "out")
    assert code == 4
    assert "b.jsonl: could not judge: " in stdout
    assert stdout.splitlines()[-1] == "gate: could not read 1 file"


def test_the_last_line_tells_violations_beside_what_could_not_be_judged(run: Run, out: Path) -> None:
    code, stdout, _ = run("gate", out, "--require", "val_loss")
    assert code == 4
    assert stdout.splitlines()[-1] == "gate: could not judge 2 of 2 runs; 1 violation in 1 of 2 runs"
