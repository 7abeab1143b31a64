"""One source may hold several runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from logs import imported, rows, write_jsonl


def test_runs_appended_to_one_file_are_runs_of_their_own(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", [*rows(range(1, 101)), *rows(range(1, 201), seed=1)])
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run/metrics.jsonl#1", "run/metrics.jsonl#2"]
    assert [next(s for s in r.series if s.series.name == "loss").n for r in stored.values()] == [100, 200]


@pytest.mark.parametrize(("folds", "epochs"), [(10, 10), (12, 6)])
def test_many_short_folds_are_runs_of_their_own(folds: int, epochs: int, run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", [row for fold in range(folds) for row in rows(range(epochs), seed=fold)])
    assert len(imported(tmp_path / "store", run)) == folds
