"""MLflow's file store: one file a metric, one a parameter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reading import read
from trainforensics.discovery import discover
from trainforensics.importers import mlflow
from trainforensics.importers.base import read_head

START = 1_764_000_002_000


def write_run(root: Path, losses: list[float]) -> Path:
    run = root / "mlruns" / "4129" / "a3f1"
    for folder in ("metrics/val", "params", "tags"):
        (run / folder).mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: a3f1\nstatus: FINISHED\n")
    lines = [f"{START + 2000 * i} {loss} {10 * i}" for i, loss in enumerate(losses)]
    (run / "metrics" / "loss").write_text("\n".join(lines) + "\n")
    (run / "metrics" / "val" / "loss").write_text(f"{START} 2.5 0\n{START + 9000} 2.0 50\n")
    (run / "params" / "lr").write_text("0.003")
    return run


def test_steps_values_and_wall_times_come_from_their_columns(tmp_path: Path) -> None:
    run = write_run(tmp_path, [2.0, 1.5, float("nan"), float("inf")])
    result = read(mlflow, run / "metrics" / "loss")
    loss = result.series["loss"]
    assert loss.step.tolist() == [0, 10, 20, 30]
    assert loss.value[:2].tolist() == [2.0, 1.5]
    assert np.isnan(loss.value[2])
    assert np.isposinf(loss.value[3])
    assert loss.wall is not None
    assert loss.wall.tolist() == [1000 * (START + 2000 * i) for i in range(4)]


def test_parameters_are_configuration(tmp_path: Path) -> None:
    run = write_run(tmp_path, [2.0])
    assert mlflow.sniff(read_head(run / "params" / "lr")) > 0.5
    assert read(mlflow, run / "params" / "lr").config == {"lr": "0.003"}


def test_a_run_of_the_store_is_one_candidate(tmp_path: Path) -> None:
    write_run(tmp_path, [2.0, 1.5])
    found = [c for c in discover([tmp_path]).candidates if c.sources]
    assert len(found) == 1
    formats = {source.label: source.format for source in found[0].sources}
    assert formats["metrics/loss"] == formats["metrics/val/loss"] == formats["params/lr"] == "mlflow"


def test_lines_of_another_form_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path, [2.0, 1.5])
    file = run / "metrics" / "loss"
    file.write_text(file.read_text() + "torn 1.2\n" + f"{START} 1.0 20\n")
    result = read(mlflow, file)
    assert result.series["loss"].step.tolist() == [0, 10, 20]
    assert [w.kind for w in result.warnings] == ["bad-line"]


@pytest.mark.parametrize("text", ["1764000002000 0.5 1\n", "a b c\n", "1 2 3\n"])
def test_a_file_outside_a_store_is_not_claimed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "loss"
    file.write_text(text)
    assert mlflow.sniff(read_head(file)) == 0.0
