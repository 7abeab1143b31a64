from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from logs import rows, write_jsonl
from shell import Run

import trainforensics
from trainforensics import cli, engine
from trainforensics.cli.app import COMMANDS


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "a" / "metrics.jsonl", rows(range(0, 600, 5)))
    return tmp_path / "a"


def test_version_and_help(run: Run) -> None:
    assert run("--version") == (0, f"trainforensics {trainforensics.__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0
    for command in COMMANDS:
        assert command in out


def test_nothing_heavy_is_imported_for_help() -> None:
    heavy = ["numpy", "polars", "pyarrow", "matplotlib", "wandb", "tbparse", "scipy", "pandas", "pydantic"]
    code = "import sys; from trainforensics.cli.app import build; build()"
    code += f"; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments", [["analyze", "--no-such-option"], ["nonsense"], ["analyze"], ["analyze", "x", "--jobs", "a"]]
)
def test_a_wrong_command_line_is_one_line_and_exit_2(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("trainforensics: ")
    assert err.count("\n") == 1


def test_no_arguments_show_the_help(run: Run) -> None:
    code, out, err = run()
    assert code == 2
    assert "analyze" in out + err


def test_a_role_that_does_not_exist(run: Run, logs: Path, tmp_path: Path) -> None:
    code, out, err = run("analyze", logs, "--out", tmp_path / "out", "--map", "quux=tran_loss")
    assert (code, out) == (2, "")
    assert "train_loss" in err
    assert not (tmp_path / "out").exists()


def test_a_table_of_unknown_columns_is_read_once_they_are_mapped(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text('tick,"quux, smoothed"\n' + "".join(f"{i},{3 - i * 0.01:.4f}\n" for i in range(100)))
    code, _, err = run("analyze", log, "--out", tmp_path / "out", "--no-plots")
    assert (code, "columns tick, quux, smoothed)" in err) == (4, True)
    mapped = ("--map", "tick=step", "--map", "quux, smoothed=train_loss")
    code, out, _ = run("analyze", log, "--out", tmp_path / "out", "--no-plots", *mapped)
    assert (code, "stable" in out) == (0, True)


def test_a_path_that_is_not_there(run: Run, tmp_path: Path) -> None:
    code, out, err = run("analyze", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err == f"trainforensics: {tmp_path / 'nowhere'}: no such file or folder\n"


def test_a_folder_without_logs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = run("analyze", tmp_path / "empty", "--out", tmp_path / "out")
    assert (code, out) == (4, "")
    assert "no metrics found" in err


def test_a_run_without_a_usable_metric(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a" / "metrics.jsonl", [{"step": i, "learning_rate": 0.1} for i in range(30)])
    code, out, _ = run("analyze", tmp_path / "a", "--out", tmp_path / "out", "--no-plots")
    assert code == 4
    assert "undecided" in out


def test_analyze(run: Run, logs: Path, tmp_path: Path) -> None:
    code, out, err = run("analyze", logs, "--out", tmp_path / "out", "--no-plots")
    assert (code, err) == (0, "")
    assert "stable" in out
    assert str(tmp_path / "out" / "a" / "report.md") in out


@pytest.mark.parametrize("form", ["markdown", "json", "junit", "postmortem", "sarif"])
def test_runs_of_an_earlier_call_are_kept_and_not_printed(run: Run, logs: Path, tmp_path: Path, form: str) -> None:
    write_jsonl(tmp_path / "zebra" / "metrics.jsonl", [{"step": i, "loss": "NaN"} for i in range(300)])
    common = ("-o", tmp_path / "out", "--no-plots", "--format", form)
    assert "zebra" in run("analyze", tmp_path / "zebra", *common)[1]
    target = tmp_path / f"written.{form}"
    printed = run("analyze", logs, *common, "--write", f"{form}={target}")[1]
    assert printed
    assert "zebra" not in printed + target.read_text()
    assert "zebra" in (tmp_path / "out" / "result.json").read_text()


def test_the_sample_table_of_the_readme_is_what_analyze_prints(run: Run, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    sample = [line.split() for line in (root / "README.md").read_text().splitlines() if line.startswith(" runs/")]
    logs = [root / "fixtures" / row[0] for row in sample]
    printed = run("analyze", *logs, "--out", tmp_path / "out", "--no-plots", "--no-progress")[1].splitlines()
    rows = {name: cells for name, *cells in (line.split() for line in printed if " unstable " in line)}
    assert sample
    assert {row[0].removeprefix("runs/"): row[1:] for row in sample} == rows


def test_analyze_quietly_and_into_files(run: Run, logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "whole.json"
    code, out, err = run("analyze", logs, "-o", tmp_path / "out", "--no-plots", "--quiet", "--write", f"json={target}")
    assert (code, out, err) == (0, "", "")
    assert [entry["run"] for entry in json.loads(target.read_text())["runs"]] == ["a"]
    assert run("analyze", logs, "-o", tmp_path / "out", "--no-plots", "--write", "pdf=x")[0] == 2
    assert run("analyze", logs, "-o", tmp_path / "out", "--no-plots", "--write", f"json={logs}")[0] == 2


def test_json_on_stdout_is_json_alone(run: Run, logs: Path, tmp_path: Path) -> None:
    code, out, _ = run("analyze", logs, "--out", tmp_path / "out", "--no-plots", "--format", "json")
    assert code == 0
    assert json.loads(out)["runs"][0]["verdict"] == "stable"


def test_import_alone(run: Run, logs: Path, tmp_path: Path) -> None:
    code, out, _ = run("import", logs, "--out", tmp_path / "out")
    assert code == 0
    name, folder = out.rstrip("\n").split("\t")
    assert name == "a"
    assert (Path(folder) / "run.json").is_file()
    assert not (tmp_path / "out" / "result.json").exists()


def test_an_internal_error_is_exit_3_with_one_line(
    run: Run, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(engine, "analyze", fail)
    code, out, err = run("analyze", logs, "--out", tmp_path / "out")
    assert (code, out) == (3, "")
    assert err == "trainforensics: internal error: RuntimeError: boom (set TRAINFORENSICS_DEBUG=1 for the traceback)\n"


def test_an_interruption(run: Run, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)  # another thread may get the signal first

    monkeypatch.setattr(engine, "analyze", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        code, _, err = run("analyze", logs, "--out", tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, err) == (130, "trainforensics: interrupted\n")


def test_a_reader_that_hangs_up(logs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainforensics.cli.app", "explain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait() in (0, 141)
        assert process.stderr.read() == b""


@pytest.mark.parametrize("command", [(), ("analyze",), ("explain",)])
def test_a_short_option_gives_the_help_too(run: Run, command: tuple[str, ...]) -> None:
    assert run(*command, "-h") == run(*command, "--help")
    assert run(*command, "-h")[0] == 0


def test_an_interruption_while_the_command_line_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "trainforensics.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "trainforensics.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    assert capsys.readouterr().err == "trainforensics: interrupted\n"


def test_a_full_disk_is_no_fault_of_ours(run: Run, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", fail)
    code, _, err = run("analyze", logs, "--out", tmp_path / "out", "--no-plots")
    assert code == 2
    assert err == (
        "trainforensics: the results could not be written: [Errno 28] No space left on device; "
        "make room, or give another folder with --out\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
@pytest.mark.parametrize("arguments", [["--version"], ["explain"]])
def test_results_for_which_stdout_has_no_room(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "trainforensics.cli.app", *arguments]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 2
    assert b"could not be written" in ended.stderr


@pytest.mark.parametrize("command", ["analyze", "gate", "blame", "report"])
def test_an_empty_path_is_not_the_current_folder(run: Run, command: str) -> None:
    code, _, err = run(command, "", *(["--step", "1"] if command == "blame" else []))
    assert (code, "a path is empty" in err) == (2, True)


@pytest.mark.parametrize(
    "text", [f"map = {'[' * 5000}", f"map = {'{a=' * 5000}", f"jobs = {'9' * 5000}", 'out = "a\\u0000b"']
)
def test_a_configuration_that_cannot_be_used_is_a_usage_error(run: Run, logs: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    code, _, err = run("analyze", logs, "--config", file)
    assert (code, len(err.splitlines())) == (2, 1)
    assert str(file) in err


@pytest.mark.parametrize(("name", "meant"), [("compare", "diff"), ("analyse", "analyze")])
def test_a_command_of_another_name_is_named(run: Run, name: str, meant: str) -> None:
    code, _, stderr = run(name, "a", "b")
    assert (code, stderr) == (2, f"trainforensics: No such command '{name}'; did you mean {meant}?\n")
