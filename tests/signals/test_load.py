from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from factories import make_curve
from hypothesis import given
from hypothesis import strategies as st
from logs import imported, rows, write_csv, write_jsonl

from trainforensics.config import Settings
from trainforensics.model import Checkpoint
from trainforensics.signals.load import join_lives, judge_series, load


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_later_life_supersedes_what_it_logged_again() -> None:
    step = [0, 10, 20, 30, 40, 20, 30, 40, 50]
    joined = join_lives(make_curve(range(9), step=step, segment=[0] * 5 + [1] * 4))
    assert joined.step.tolist() == [0, 10, 20, 30, 40, 50]
    assert joined.value.tolist() == [0, 1, 5, 6, 7, 8]
    assert joined.superseded is not None
    assert joined.superseded.value.tolist() == [2, 3, 4]


def test_a_life_that_got_less_far_still_undoes_the_one_before() -> None:
    joined = join_lives(make_curve(range(7), step=[0, 10, 20, 30, 10, 20, 15], segment=[0, 0, 0, 0, 1, 1, 2]))
    assert joined.step.tolist() == [0, 10, 15]
    assert joined.value.tolist() == [0, 4, 6]


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True).map(sorted), min_size=1, max_size=5))
def test_lives_lose_no_point(lives: list[list[int]]) -> None:
    step = [s for life in lives for s in life]
    segment = [i for i, life in enumerate(lives) for _ in life]
    joined = join_lives(make_curve(range(len(step)), step=step, segment=segment))
    assert np.all(np.diff(joined.step) >= 0)
    undone = joined.superseded.value.tolist() if joined.superseded else []
    assert sorted([*joined.value.tolist(), *undone]) == list(range(len(step)))
    assert joined.value[-1] == max(i for i, life in enumerate(segment) if life == len(lives) - 1)


def test_several_files_of_one_series_are_one_curve(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "log_1.jsonl", rows(range(0, 100), start=1.7e9))
    write_jsonl(run / "log_2.jsonl", rows(range(80, 200), start=1.7e9 + 500, seed=1))
    signals = load(imported(tmp_path / "store", run)["run"], Settings())
    (loss,) = signals.curves("train_loss")
    assert loss.step.tolist() == list(range(200))
    assert loss.segment.tolist() == [0] * 80 + [1] * 120
    assert loss.superseded is not None
    assert loss.superseded.step.tolist() == list(range(80, 100))


def test_the_same_metric_twice_is_judged_once_and_listed_twice(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(100)))
    write_csv(run / "table.csv", [{**row, "loss": round(row["loss"], 4)} for row in rows(range(120))])
    judged = judge_series(imported(tmp_path / "store", run)["run"], Settings())
    (loss,) = judged.signals.curves("train_loss")
    assert len(loss) == 120
    twins = {s.source: s.twin_of for s in judged.series if s.name == "loss"}
    assert twins == {"metrics.jsonl": "loss (table.csv)", "table.csv": None}
    assert not judged.warnings


@pytest.mark.parametrize("decimals", [2, 3])
def test_a_metric_printed_with_few_digits_is_still_the_same(run: Path, tmp_path: Path, decimals: int) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(100)))
    text = "".join(f"step {row['step']} loss {row['loss']:.{decimals}f}\n" for row in rows(range(100))[::5])
    (run / "train.log").write_text(text)
    judged = judge_series(imported(tmp_path / "store", run)["run"], Settings())
    assert [len(curve) for curve in judged.signals.curves("train_loss")] == [100]
    assert not judged.warnings


@pytest.mark.parametrize(("shift", "word"), [(1, "higher"), (-1, "lower")])
def test_one_that_counts_its_steps_from_1_is_the_same_metric(run: Path, tmp_path: Path, shift: int, word: str) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(10, 110)))
    write_csv(run / "table.csv", [{**row, "step": row["step"] + shift} for row in rows(range(10, 120))][20:])
    judged = judge_series(imported(tmp_path / "store", run)["run"], Settings())
    (loss,) = judged.signals.curves("train_loss")
    assert loss.step.tolist() == list(range(10, 120))
    assert loss.value.tolist() == pytest.approx([row["loss"] for row in rows(range(10, 120))])
    (warning,) = judged.warnings
    assert f"steps {word} by 1" in warning.message


def test_a_constant_is_no_proof_of_other_steps(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", [{"step": i, "loss": 1.0} for i in range(0, 100, 10)])
    write_csv(run / "table.csv", [{"step": i, "loss": 1.0} for i in range(0, 100, 5)])
    judged = judge_series(imported(tmp_path / "store", run)["run"], Settings())
    assert [len(curve) for curve in judged.signals.curves("train_loss")] == [20]
    assert not judged.warnings


def test_sources_that_disagree_are_said_to(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(100)))
    write_csv(run / "log.csv", rows(range(100), seed=3))
    judged = judge_series(imported(tmp_path / "store", run)["run"], Settings())
    assert [w.kind for w in judged.warnings] == ["cross-check"]


def test_null_is_no_point_and_nan_is_one(run: Path, tmp_path: Path) -> None:
    lines = rows(range(10))
    values = [None, float("nan"), "NaN", float("inf")]
    changed = [{**line, "loss": value} for line, value in zip(lines, values, strict=False)]
    write_jsonl(run / "metrics.jsonl", [*changed, *lines[4:]])
    (loss,) = load(imported(tmp_path / "store", run)["run"], Settings()).curves("train_loss")
    assert loss.step.tolist() == list(range(1, 10))
    assert np.isnan(loss.value[:2]).all()
    assert np.isinf(loss.value[2])


def test_a_mapping_needs_no_new_import(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", [{"step": i, "loss": 1.0 + i, "quux": 2.0 + i} for i in range(20)])
    stored = imported(tmp_path / "store", run)["run"]
    assert not load(stored, Settings()).has("val_loss")
    assert load(stored, Settings(map={"quux": "val_loss"})).has("val_loss")


def test_the_whole_loss_speaks_rather_than_its_components(run: Path, tmp_path: Path) -> None:
    write_jsonl(
        run / "metrics.jsonl",
        [{"step": i, "loss_cls": 0.4, "loss_box": 0.3, "loss": 0.7, "learning_rate": 0.1} for i in range(40)],
    )
    loss = load(imported(tmp_path / "store", run)["run"], Settings()).curve("train_loss")
    assert loss is not None
    assert loss.name == "loss"


def test_checkpoints_beside_and_in_the_log(run: Path, tmp_path: Path) -> None:
    (run / "checkpoint-50").mkdir(parents=True)
    path = write_jsonl(run / "log.jsonl", rows(range(30)))
    path.write_text(path.read_text() + "saving checkpoint at step 29\n")
    checkpoints = load(imported(tmp_path / "store", run)["run"], Settings()).checkpoints
    assert Checkpoint(50, "checkpoint-50") in checkpoints
    assert 29 in [checkpoint.step for checkpoint in checkpoints]
