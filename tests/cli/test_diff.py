from __future__ import annotations

import json
from pathlib import Path

import pytest
from logs import rows, write_jsonl
from shell import Run


def write_run(folder: Path, changed_from: int = 999, **config: object) -> Path:
    """A run whose loss and data change at a step."""
    lines = [dict(row) for row in rows(range(1, 301), seed=1)]
    for line in lines:
        line["loss"] += 0.5 * (line["step"] >= changed_from)
    write_jsonl(folder / "metrics.jsonl", lines)
    shards = (f"shard-{step % 8 if step < changed_from else 99}" for step in range(1, 301))
    table = ["step,shard", *(f"{step},{shard}" for step, shard in enumerate(shards, 1))]
    (folder / "batches.csv").write_text("\n".join(table) + "\n")
    (folder / "config.json").write_text(json.dumps({"seed": 1, "learning_rate": 3e-4, **config}))
    return folder


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return write_run(tmp_path / "a" / "run"), write_run(tmp_path / "b" / "run", 200, learning_rate=1e-3)


def test_the_table_says_where_two_runs_of_one_name_part(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    code, stdout, _ = run("diff", *two, "--out", tmp_path / "out")
    assert code == 0
    assert "loss parts at step 200" in stdout
    assert "first differing data at step 200: shard shard-0 in A, shard shard-99 in B" in stdout
    assert "learning_rate (0.0003, 0.001)" in stdout


def test_json_and_markdown(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    _, stdout, _ = run("diff", *two, "--format", "json", "--out", tmp_path / "out")
    found = json.loads(stdout)
    assert (found["a"], found["b"]) == tuple(map(str, two))
    assert found["data"]["step"] == 200
    assert [(d["key"], d["a"], d["b"]) for d in found["config"]] == [("learning_rate", 3e-4, 1e-3)]
    _, stdout, _ = run("diff", *two, "--format", "markdown", "--out", tmp_path / "out")
    assert "| `learning_rate` | 0.0003 | 0.001 |" in stdout


def test_saved_results_answer_from_their_stores(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    for path, out in zip(two, "ab", strict=True):
        run("analyze", path, "--no-plots", "--out", tmp_path / f"out-{out}")
        (path / "batches.csv").unlink()
    code, stdout, _ = run("diff", tmp_path / "out-a" / "run" / "result.json", tmp_path / "out-b")
    assert code == 0
    assert "loss parts at step 200" in stdout
    assert "shard shard-99 in B" in stdout


def test_a_saved_result_keeps_its_store_beside_logs_of_the_same_name(
    run: Run, two: tuple[Path, Path], tmp_path: Path
) -> None:
    run("analyze", two[0], "--no-plots", "--out", tmp_path / "out")
    assert "parts at step 200" in run("diff", tmp_path / "out", two[1], "--out", tmp_path / "out")[1]
    assert "equal on all of 300 common steps" in run("diff", tmp_path / "out", two[0], "--out", tmp_path / "out")[1]


def test_wrong_paths_are_usage_errors_and_leave_nothing(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, stderr = run("diff", two[0], tmp_path / "missing", "--out", tmp_path / "out")
    assert code == 2
    assert "missing: no such file or folder" in stderr
    assert not (tmp_path / "out").exists()
    code, _, stderr = run("diff", tmp_path / "a", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert "holds 2 runs" in stderr


def test_nothing_in_common_is_not_judged(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_jsonl(tmp_path / "c" / "m.jsonl", ({"step": s, "width": s % 7} for s in range(1, 50)))
    code, _, stderr = run("diff", two[0], other, "--out", tmp_path / "out")
    assert code == 4
    assert "nothing in common" in stderr
