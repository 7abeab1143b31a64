from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from logs import rows, write_jsonl
from results import full_incident, make_incident, make_run, save
from shell import Run

from trainforensics import discovery
from trainforensics.importers.base import Head, Record, Source, read_head
from trainforensics.importers.jsonlogs import jsonlines


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


def test_a_pass_names_what_it_tolerated(run: Run, tmp_path: Path) -> None:
    out = save(tmp_path / "out", make_run(make_incident("instant-burst"), run="a"))
    code, stdout, _ = run("gate", out)
    assert code == 0
    told, last = stdout.splitlines()
    assert told.startswith("tolerated: a: medium instant-burst (LOS101) at step ")
    assert last.endswith("; 1 lesser incident tolerated (--fail-on medium would fail)")
    assert run("gate", out, "--quiet")[1] == ""


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
    assert stdout.splitlines()[-1] == "gate: could not read 1 path"


def test_the_last_line_tells_violations_beside_what_could_not_be_judged(run: Run, out: Path) -> None:
    code, stdout, _ = run("gate", out, "--require", "val_loss")
    assert code == 4
    assert stdout.splitlines()[-1] == "gate: could not judge 2 of 2 runs; 1 violation in 1 of 2 runs"


def test_a_run_below_a_folder_that_cannot_be_opened_is_no_pass_then_or_later(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        write_jsonl(tmp_path / "runs" / name / "m.jsonl", rows(range(300)))

    def refuse(path: Path) -> Head:
        if path.parent.name == "b":
            raise PermissionError(13, "Permission denied")
        return read_head(path)

    monkeypatch.setattr(discovery, "read_head", refuse)
    code, _, stderr = run("analyze", tmp_path / "runs", "--out", tmp_path / "out", "--no-plots")
    assert (code, "b/m.jsonl: not read: cannot be opened (Permission denied)" in stderr) == (0, True)
    for given in (tmp_path / "runs", tmp_path / "out"):
        code, stdout, _ = run("gate", given, "--out", tmp_path / "out")
        assert code == 4
        assert stdout.splitlines()[-1] == "gate: could not read 1 path"


@pytest.mark.parametrize("data", [b"", b"PAR1 and what a torn copy left", b"nothing\n"])
def test_a_folder_given_by_name_without_a_run_is_named(run: Run, tmp_path: Path, data: bytes) -> None:
    write_jsonl(tmp_path / "a" / "m.jsonl", rows(range(300)))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "m.parquet").write_bytes(data)
    code, stdout, _ = run("gate", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert code == 4
    assert len(stdout.splitlines()) == 2
    assert f"{tmp_path / 'b'}" in stdout.splitlines()[0]


def test_a_folder_given_twice_or_in_part_is_looked_at(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a" / "m.jsonl", rows(range(300)))
    (tmp_path / "link").symlink_to("a")
    given = (tmp_path / "a", tmp_path / "link", tmp_path / "a" / "m.jsonl", tmp_path)
    assert run("gate", *given, "--out", tmp_path / "out")[0] == 0


def test_a_log_whose_importer_failed_midway_is_no_pass(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real = write_jsonl(tmp_path / "a" / "m.jsonl", rows(range(300))), jsonlines.read

    def torn(source: Source) -> Iterator[Record]:
        yield from real(source)
        raise RuntimeError("broken")

    monkeypatch.setattr(jsonlines, "read", torn)
    code, stdout, _ = run("gate", log, "--out", tmp_path / "out")
    assert code == 4
    assert "m.jsonl was not read to its end" in stdout
