from __future__ import annotations

from pathlib import Path

import pytest
from results import full_incident, make_incident, make_index, make_run

from trainforensics.model import Blame, DetectorError, Event, NotJudged, RunResult, Scope, Suspect
from trainforensics.report import terminal
from trainforensics.report.markdown import render_index, render_run

RUNS = (
    make_run(run="ok"),
    make_run(full_incident(), make_incident(scope=Scope(rank=3)), run="bad", verdict="failed"),
    make_run(run="blank", verdict="undecided", not_judged=(NotJudged("coverage-gap", "no loss logged"),)),
)


def printed(capsys: pytest.CaptureFixture[str], form: str = "table", runs: tuple[RunResult, ...] = RUNS) -> str:
    terminal.show(make_index(runs), runs, form)
    return capsys.readouterr().out


def test_the_table_has_a_row_for_each_alarm_most_urgent_run_first(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in printed(capsys).splitlines() if line.strip()]
    assert " ".join(lines[0]) == "1 failed, 1 undecided, 1 stable"
    shown = [" ".join(line) for line in lines[3:]]
    assert shown == [
        "bad failed 12 400, 29 873, 41 200 instant-burst, recurring critical 0.97 bad-shard (0.83) "
        "shard shard-0117 (0.90)",
        "1200 instant-burst (rank 3) medium 0.90 - -",
        "blank undecided - no loss logged",
        "ok stable - -",
    ]


def test_a_run_whose_analysis_failed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    failed = (DetectorError("signals", "RuntimeError: boom"),)
    out = printed(capsys, runs=(make_run(run="a", verdict="undecided", errored=failed),))
    assert "the analysis failed (signals: RuntimeError: boom)" in out
    assert "no usable loss" not in out


def test_names_from_logs_cannot_colour_or_break_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, runs=(make_run(run="[red]a[/red]\x1b[31m\nb"),))
    assert "[red]a[/red] b" in out
    assert "\x1b" not in out


def test_stable_runs_beyond_twenty_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, runs=tuple(make_run(run=f"run{i:02}") for i in range(25)))
    assert "run19" in out
    assert "run20" not in out
    assert "and 5 more" in out


def test_markdown_is_the_index(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "markdown").startswith("# 3 training runs: 1 failed, 1 undecided, 1 stable\n")


def test_a_blame_answer_names_window_suspects_and_batches() -> None:
    suspects = (Suspect("shard", "s-1", 0.9, 1e-6, (7,), "fed 3 of 3"), Suspect("rank", "5", 0.4))
    quiet = tuple(Suspect("doc", name, 0.01, why="one of 12; nothing sets it apart") for name in "abcdefghijkl")
    suspects += quiet
    batches = tuple({"step": 7, "shard": "s-1", "doc": ["a", "b"], "loss": 2.34567, "domain": None} for _ in range(22))
    lines = list(terminal.blame_lines(Blame((5, 7), "logged", suspects, batches, "steps agree"), ["known incident 1"]))
    assert lines[:7] == [
        "steps 5 - 7 (logged)",
        "known incident 1",
        "steps agree",
        "  shard s-1 (0.90, p = 1e-6): fed 3 of 3",
        "  rank 5 (0.40)",
        "  doc a, b, c, d, e, f, g, h and 4 more (0.01 each): one of 12; nothing sets it apart",
        "  batch: step=7 shard=s-1 doc=a, b loss=2.346",
    ]
    assert lines[-1] == "  and 2 batches more"


def test_a_crash_is_named_with_or_without_alarms(capsys: pytest.CaptureFixture[str]) -> None:
    error = Event("oom", 990, text="CUDA out of memory. " + "Tried " * 40, source="slurm.out", line=104)
    runs = [make_run(*found, run="r", ended="crashed", failure=error) for found in ((), (make_incident(),))]
    for run in runs:
        assert "crashed: CUDA out of memory. Tried" in printed(capsys, runs=(run,))
        (said,) = [line for line in render_run(run).splitlines() if "The last error in the log" in line]
        assert "`slurm.out`, line 104" in said
        assert said.count("Tried") == 40
    assert "crashed: CUDA out of memory" in render_index(make_index(runs), runs)


def test_a_single_run_is_told_in_a_sentence_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    said = "Suspect: shard shard-0117 (0.90). Go back to the checkpoint of step 40 000."
    assert said in printed(capsys, runs=(make_run(full_incident()),))
    assert said not in printed(capsys)


def test_the_report_of_a_single_run_is_pointed_to() -> None:
    assert terminal.where_report(make_index(RUNS), Path("out")) == "Report: out/report.md"
    assert terminal.where_report(make_index(RUNS[:1]), Path("out")) == "Report: out/ok/report.md"


@pytest.mark.parametrize("width", [80, 81, 83, 100, 129, 130, 160])
def test_nothing_is_cut_whatever_the_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "WIDTH_OF_A_PIPE", width)
    shown = printed(capsys)
    assert max(map(len, shown.splitlines())) <= width
    cells = " ".join(shown.split())
    for word in ("bad-shard", "(0.83)", "shard-0117", "(0.90)", "critical", "0.97", "sure"):
        assert word in cells
