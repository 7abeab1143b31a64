"""Where process lives begin within one source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from logs import imported, rows, segments, write_jsonl

from trainforensics.discovery import SourceFile
from trainforensics.importers.base import Points
from trainforensics.store import staging
from trainforensics.store.assembly.plans import assemble


def test_a_step_that_goes_back_within_a_file_begins_a_life(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", [*rows(range(0, 100)), *rows(range(70, 150), seed=1)])
    stored = imported(tmp_path / "store", run)
    assert segments(stored["run"]) == [(0, 0, 99), (1, 70, 149)]
    points = stored["run"].points()[stored["run"].series[0].series.id]
    assert points.segment.tolist() == [0] * 100 + [1] * 80


def test_lines_of_ranks_mixed_up_are_no_restarts(run: Path, tmp_path: Path) -> None:
    steps = [step + rank for step in range(0, 400, 10) for rank in (0, 10, 0, 10)]
    write_jsonl(run / "metrics.jsonl", rows(steps))
    assert len(imported(tmp_path / "store", run)["run"].segments) == 1


@pytest.mark.parametrize("block_rows", [1, 7, 64, 10_000])
def test_lives_are_the_same_however_the_points_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_rows: int
) -> None:
    monkeypatch.setattr(staging, "BLOCK_ROWS", block_rows)
    monkeypatch.setattr(staging, "BLOCKS_IN_MEMORY", 2)
    step = np.array([*range(100), *range(70, 150), *range(20, 160)])

    def read(_: object) -> Iterator[Points]:
        for part in np.array_split(np.arange(len(step)), 50):
            yield Points("loss", step[part], 1.0 * part, part, wall_time=1_000_000 * part)

    source = SourceFile(tmp_path / "log", "log", "fake", 1.0)
    staged = staging.stage(SimpleNamespace(read=read), source, tmp_path, "0", {})  # type: ignore[arg-type]
    (plan,) = assemble("run", [staged])
    lives = plan.members[0].unit.lives
    assert [(life.start, life.first_step, life.last_step) for life in lives] == [
        (0, 0, 99),
        (100, 70, 149),
        (180, 20, 159),
    ]
    assert [(life.started, life.ended) for life in lives] == [
        (0, 99_000_000),
        (100_000_000, 179_000_000),
        (180_000_000, 319_000_000),
    ]
