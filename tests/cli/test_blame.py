from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from results import make_incident, make_run
from shell import Run

from trainforensics.blame import FROM_THIS_STEP
from trainforensics.model import Blame, Suspect
from trainforensics.report.narrative import as_known


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    steps = range(1, 201)
    (folder / "metrics.jsonl").write_text("".join(f'{{"step": {i}, "loss": {2 + i % 7 * 0.01}}}\n' for i in steps))
    rows = ["step,batch_id,shard,doc_id"] + [f"{i},{i - 1},shard-{i % 5:04},{i * 3}" for i in steps]
    (folder / "batches.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_the_batch_of_a_step_is_named_without_any_incident(run: Run, log: Path, tmp_path: Path) -> None:
    code, stdout, _ = run("blame", log, "--step", "103", "--out", tmp_path / "out")
    assert code == 0
    assert stdout.splitlines()[0] == "step 103 (logged)"
    assert "shard=shard-0003" in stdout


def test_json_is_a_blame_entry_of_the_result(run: Run, log: Path, tmp_path: Path) -> None:
    _, stdout, _ = run("blame", log, "--step", "103", "--window", "3", "--format", "json", "--out", tmp_path / "out")
    answer = json.loads(stdout)
    assert next(iter(answer.items())) == ("schema", "trainforensics/blame/1")
    assert answer["window"] == [101, 103]
    assert {batch["shard"] for batch in answer["batches"]} == {"shard-0001", "shard-0002", "shard-0003"}


@pytest.mark.parametrize("form", ["markdown", "junit", "sarif"])
def test_a_format_that_it_does_not_speak_is_refused(run: Run, log: Path, tmp_path: Path, form: str) -> None:
    code, stdout, stderr = run("blame", log, "--step", "103", "--format", form, "--out", tmp_path / "out")
    assert (code, stdout) == (2, "")
    assert "'table', 'json'" in stderr


def test_a_saved_analysis_answers_from_its_store(run: Run, log: Path, tmp_path: Path) -> None:
    run("analyze", log, "--out", tmp_path / "out", "--no-plots")
    (log / "batches.csv").unlink()
    for target in (tmp_path / "out", tmp_path / "out" / "run", tmp_path / "out" / "run" / "result.json"):
        assert "shard=shard-0003" in run("blame", target, "--step", "103")[1]


def test_without_a_manifest_it_says_what_is_missing(run: Run, log: Path, tmp_path: Path) -> None:
    (log / "batches.csv").unlink()
    code, stdout, _ = run("blame", log, "--step", "103", "--out", tmp_path / "out")
    assert code == 0
    assert "manifest" in stdout
    assert "shard-" not in stdout


def test_a_manifest_above_the_run_serves_it(run: Run, log: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "runs").mkdir(parents=True)
    (log / "batches.csv").rename(project / "batches.csv")
    (project / "notes.json").write_text('{"step": 1, "shard": "of nothing"')
    inner = log.rename(project / "runs" / "one")
    code, stdout, _ = run("blame", inner, "--step", "103", "--out", tmp_path / "out")
    assert (code, "shard=shard-0003" in stdout) == (0, True)
    assert {file.name for file in project.iterdir()} == {"batches.csv", "notes.json", "runs"}


def test_of_two_manifests_the_one_beside_the_run_counts(run: Run, log: Path, tmp_path: Path) -> None:
    (tmp_path / "batches.csv").write_text("step,shard\n" + "".join(f"{i},other\n" for i in range(1, 201)))
    stdout = run("blame", log, "--step", "103", "--out", tmp_path / "out")[1]
    assert ("shard=shard-0003" in stdout, "other" in stdout) == (True, False)


def test_the_analysis_of_a_whole_tree_is_found_by_a_run_of_it(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "all" / "result.json" / "run"  # a folder of a name that results need themselves
    log.mkdir(parents=True)
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(2000)
    loss[1200:1206] += (4, 3, 2, 1, 0.5, 0.25)
    (log / "metrics.jsonl").write_text("".join(f'{{"step": {i}, "loss": {v:.5f}}}\n' for i, v in enumerate(loss)))
    out = tmp_path / "out"
    run("analyze", tmp_path / "all", "--out", out, "--no-plots")
    stdout = run("blame", log, "--step", 1200, "--out", out)[1]
    assert stdout.splitlines()[1].startswith("known incident 1: instant-burst at 1200")


def test_a_suspect_of_a_known_incident_has_the_figure_of_the_report(run: Run) -> None:
    step = Blame((100, 100), "logged", (Suspect("shard", "s1", 0.3), Suspect("shard", "s2", 0.01)), (), FROM_THIS_STEP)
    told = Suspect("shard", "s1", 0.99, 1e-6, (100, 200), "fed 8 of 8 events")
    incident = replace(make_incident("instant-burst", 100), blame=Blame((98, 100), "logged", (told,)))
    answer = as_known(step, make_run(incident), FROM_THIS_STEP)
    assert answer.suspects == (told, step.suspects[1])
    assert answer.note.startswith("the incident's suspects with its figures")
    assert as_known(step, make_run(), FROM_THIS_STEP) == step


def test_several_runs_are_refused_with_their_names(run: Run, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "metrics.jsonl").write_bytes((log / "metrics.jsonl").read_bytes())
    both = tmp_path / "both"
    both.mkdir()
    log.rename(both / "a")
    other.rename(both / "b")
    code, _, stderr = run("blame", both, "--step", "3", "--out", tmp_path / "out")
    assert code == 2
    assert "both/a, both/b" in stderr


@pytest.mark.parametrize("step", [0, 5000])
def test_a_step_outside_the_run_is_refused_with_the_steps_it_has(
    run: Run, log: Path, tmp_path: Path, step: int
) -> None:
    code, stdout, stderr = run("blame", log, "--step", step, "--out", tmp_path / "out")
    assert (code, stdout) == (2, "")
    assert f"--step {step}: not a step of this run; the log covers steps 1-200, the manifest covers" in stderr


def test_a_rank_that_the_manifest_does_not_have_is_refused_with_those_it_has(
    run: Run, log: Path, tmp_path: Path
) -> None:
    rows = ["step,rank,batch_id,shard"] + [f"{i},{rank},{i},s{rank}" for i in range(1, 201) for rank in (0, 1)]
    (log / "batches.csv").write_text("\n".join(row for row in rows if row != "150,1,150,s1") + "\n")
    code, stdout, stderr = run("blame", log, "--step", "103", "--rank", "9", "--out", tmp_path / "out")
    assert (code, stdout) == (2, "")
    assert "--rank 9: the manifest has no such rank; it has 0, 1" in stderr
    code, stdout, _ = run("blame", log, "--step", "150", "--rank", "1", "--out", tmp_path / "out")
    assert code == 0
    assert "rank 1 has no batch of steps 150-150 in the manifest; other ranks have" in stdout


def test_a_manifest_without_ranks_says_so(run: Run, log: Path, tmp_path: Path) -> None:
    _, stdout, _ = run("blame", log, "--step", "103", "--rank", "1", "--out", tmp_path / "out")
    assert "the manifest names no ranks: these are the batches of all of them" in stdout


def test_a_sampled_manifest_says_so_whether_or_not_it_holds_the_step(run: Run, log: Path, tmp_path: Path) -> None:
    rows = (log / "batches.csv").read_text().splitlines()
    (log / "batches.csv").write_text("\n".join([rows[0], *rows[4::4]]) + "\n")
    _, held, _ = run("blame", log, "--step", "104", "--out", tmp_path / "out")
    _, absent, _ = run("blame", log, "--step", "103", "--out", tmp_path / "out")
    assert "shard=" in held
    assert "no batch of steps 103-103" in absent
    assert all("holds one step in 4 (the log has one every step)" in text for text in (held, absent))


@pytest.mark.parametrize(("step", "known"), [(1200, True), (1195, True), (1206, True), (1150, False), (1300, False)])
@pytest.mark.parametrize("saved", [True, False])
def test_a_known_incident_at_the_step_is_pointed_to(
    run: Run, tmp_path: Path, step: int, known: bool, saved: bool
) -> None:
    log = tmp_path / "run"
    log.mkdir()
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(2000)
    loss[1200:1206] += (4, 3, 2, 1, 0.5, 0.25)
    (log / "metrics.jsonl").write_text("".join(f'{{"step": {i}, "loss": {v:.5f}}}\n' for i, v in enumerate(loss)))
    out = tmp_path / "out"
    assert "instant-burst" in run("analyze", log, "--out", out, "--no-plots")[1]
    target = out / "run" if saved else log
    lines = run("blame", target, "--step", step, "--out", out)[1].splitlines()
    assert any(line.startswith("known incident 1: instant-burst at 1200") for line in lines) is known
    note = json.loads(run("blame", target, "--step", step, "--format", "json", "--out", out)[1])["note"]
    assert note.startswith("known incident 1: instant-burst") is known


def test_an_analysis_of_other_logs_with_the_same_name_is_not_pointed_to(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for place, length in (("one", 2000), ("two", 1900)):
        log = tmp_path / place / "run"
        log.mkdir(parents=True)
        loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(length)
        loss[1200:1206] += (4, 3, 2, 1, 0.5, 0.25)
        (log / "metrics.jsonl").write_text("".join(f'{{"step": {i}, "loss": {v:.5f}}}\n' for i, v in enumerate(loss)))
    run("analyze", tmp_path / "one" / "run", "--out", out, "--no-plots")
    assert "known incident" not in run("blame", tmp_path / "two" / "run", "--step", 1200, "--out", out)[1]
    assert "known incident" in run("blame", tmp_path / "one" / "run", "--step", 1200, "--out", out)[1]


def test_a_window_that_is_none_or_longer_than_any_run(run: Run, log: Path, tmp_path: Path) -> None:
    assert run("blame", log, "--step", "103", "--window", "-1", "--out", tmp_path / "out")[0] == 2
    code, stdout, _ = run("blame", log, "--step", "3", "--window", "9" * 25, "--out", tmp_path / "out")
    assert (code, stdout.splitlines()[0]) == (0, "steps 0 - 3 (logged)")
