from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from factories import make_signals

from benchmarks.detect import rivals
from benchmarks.detect.rivals import RIVALS, Answer, convert, logs_of
from benchmarks.detect.scorer import Alarm

BY_NAME = {rival.name: rival for rival in RIVALS}


def command(folder: Path, name: str, document: object) -> Path:
    """A command that prints a document, and only for a file that exists."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(document)}\nEND\n")
    path.chmod(0o755)
    return folder


def test_converted_logs_keep_nan(tmp_path: Path) -> None:
    convert([make_signals({"train_loss": [2.0, np.nan], "grad_norm": [1.0, 1.0]})], tmp_path / "a" / "m.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a" / "m.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert np.isnan(lines[1]["loss"])


def test_manifest_and_configuration_are_no_logs(tmp_path: Path) -> None:
    for name in ("config.json", "batches.csv", "metrics.jsonl"):
        (tmp_path / name).touch()
    assert [path.name for path in logs_of(tmp_path)] == ["metrics.jsonl"]


def test_trainspotter(tmp_path: Path) -> None:
    found = {
        "detector": "spikes", "title": "Loss spike", "severity": "warning", "step_start": 10, "step_end": 12,
        "evidence": {"peak_step": 11},
    }  # fmt: skip
    bin_ = command(tmp_path, "trainspotter", {"findings": [found]})
    answer = BY_NAME["trainspotter"].ask(bin_, tmp_path / "m.jsonl")
    ((severity, alarm),) = answer.findings
    assert (severity, alarm.kinds[0], alarm.steps, alarm.span) == ("warning", "instant-burst", (10, 12, 11), (10, 12))


def test_runmedic_lists_steps_in_its_text(tmp_path: Path) -> None:
    found = {"check": "loss_spikes", "severity": "info", "step": 5, "evidence": ["worst at 9", "spike steps: 5, 30"]}
    bin_ = command(tmp_path, "runmedic", [{"findings": [found]}])
    ((_, alarm),) = BY_NAME["runmedic"].ask(bin_, tmp_path / "m.jsonl").findings
    assert alarm.steps == (5, 5, 30)


def test_trainproof_names_a_step_in_its_evidence(tmp_path: Path) -> None:
    found = [
        {"id": "TP-NAN", "level": "FAIL", "evidence": "Steps: [408.0, 409.0]..."},
        {"id": "TP-FLAT", "level": "FAIL", "evidence": "Variation 0"},
    ]
    bin_ = command(tmp_path, "trainproof", {"reports": [{"findings": found}]})
    answer = BY_NAME["trainproof"].ask(bin_, tmp_path / "m.jsonl")
    assert [alarm.steps for _, alarm in answer.findings] == [(408.0,), ()]


def test_losslint_folds_neighbours(tmp_path: Path) -> None:
    report = {
        "runs": [{"points": 5}],
        "findings": [{"check": "nan_inf", "severity": "error", "details": {"steps": [4, 5, 6, 90]}}],
    }
    ((_, alarm),) = BY_NAME["losslint"].ask(command(tmp_path, "losslint", report), tmp_path / "m.jsonl").findings
    assert alarm.steps == (4, 90)


def test_what_a_tool_cannot_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "losslint").write_text("#!/bin/sh\necho no >&2\n")
    (tmp_path / "losslint").chmod(0o755)
    assert BY_NAME["losslint"].ask(tmp_path, tmp_path / "m.jsonl") == Answer(False)
    assert BY_NAME["losslint"].installed(tmp_path)
    assert not BY_NAME["runmedic"].installed(tmp_path)


def test_severities_from_one_on() -> None:
    mild, grave = Alarm(("plateau",)), Alarm(("divergence",))
    answer = Answer(True, (("info", mild), ("error", grave)))
    assert rivals.alarms(BY_NAME["losslint"], answer, "info") == [mild, grave]
    assert rivals.alarms(BY_NAME["losslint"], answer, "warning") == [grave]
