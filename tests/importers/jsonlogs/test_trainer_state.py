from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from reading import read, sniff

from trainforensics.importers import runconfig
from trainforensics.importers.jsonlogs import jsonlines, trainer_state


def state(**more: Any) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for i in range(1, 13):
        rows.append({"epoch": i / 4, "grad_norm": 1.5, "learning_rate": 1e-4, "loss": 3 - i / 10, "step": 10 * i})
        if i % 4 == 0:
            rows.append({"epoch": i / 4, "eval_loss": 2.5, "eval_runtime": 1.0, "step": 10 * i})
    rows.append({"epoch": 3.0, "step": 120, "total_flos": 5e14, "train_loss": 2.4, "train_runtime": 23.4})
    return {"best_metric": None, "global_step": 120, "log_history": rows, "logging_steps": 10, "max_steps": 120, **more}


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, indent=2))
    return path


def test_train_and_evaluation_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "trainer_state.json", state())
    found = read(trainer_state, path)
    assert sniff(trainer_state, path) > 0.9
    assert sniff(jsonlines, path) == sniff(runconfig, path) == 0.0
    assert found.series["loss"].step.tolist() == [10 * i for i in range(1, 13)]
    np.testing.assert_allclose(found.series["loss"].value, [3 - i / 10 for i in range(1, 13)])
    assert found.series["eval_loss"].step.tolist() == [40, 80, 120]
    assert found.warnings == []


def test_the_summary_row_is_no_point_but_configuration(tmp_path: Path) -> None:
    found = read(trainer_state, write(tmp_path / "trainer_state.json", state()))
    assert "train_loss" not in found.series and "train_runtime" not in found.series
    assert found.config["summary.train_loss"] == 2.4
    assert found.config["max_steps"] == 120
    assert "best_metric" not in found.config


def test_non_finite_values_are_points(tmp_path: Path) -> None:
    content = state()
    content["log_history"][3]["grad_norm"] = float("nan")
    found = read(trainer_state, write(tmp_path / "trainer_state.json", content))
    assert np.flatnonzero(np.isnan(found.series["grad_norm"].value)).tolist() == [3]


def test_a_damaged_file_keeps_its_whole_rows(tmp_path: Path) -> None:
    text = json.dumps(state(), indent=2)
    cut = tmp_path / "trainer_state.json"
    cut.write_text(text[: text.index('"step": 80')])
    found = read(trainer_state, cut)
    assert found.series["loss"].step.tolist() == [10, 20, 30, 40, 50, 60, 70]
    assert [w.kind for w in found.warnings] == ["damaged-file"]
    middle = text.index('"step": 80')
    cut.write_text(text[:middle] + "\x00\x00" + text[middle + 2 :])
    kept = read(trainer_state, cut).series["loss"].step.tolist()
    assert kept == [10, 20, 30, 40, 50, 60, 70, 90, 100, 110, 120]


def test_an_empty_history_is_configuration_alone(tmp_path: Path) -> None:
    found = read(trainer_state, write(tmp_path / "trainer_state.json", state(log_history=[])))
    assert found.series == {} and found.config["global_step"] == 120


def test_rows_that_name_their_shard_are_batches_too(tmp_path: Path) -> None:
    content = state()
    for row in content["log_history"][:3]:
        row["shard"] = "a.bin"
    found = read(trainer_state, write(tmp_path / "trainer_state.json", content))
    assert found.batches is not None
    assert found.batches["step"].to_list() == [10, 20, 30]
    assert len(found.series["loss"].step) == 12
