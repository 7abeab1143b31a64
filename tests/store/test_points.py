from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs import imported, rows, write_jsonl

from trainforensics.importers.base import EMPTY, NO_TIME, NULL, STRING, VALUE
from trainforensics.store import points, staging
from trainforensics.store.staging import Spool


def test_a_part_holds_what_the_block_says(tmp_path: Path) -> None:
    block = {
        "series": np.array([0, 0, 1, 1], np.int32),
        "segment": np.zeros(4, np.int32),
        "seq": np.array([0, 5, 2, 7]),
        "step": np.array([-3, 2**62, 10, 4]),
        "wall_time": np.array([NO_TIME, 1_700_000_000_000_001, NO_TIME, 0]),
        "value": np.array([1.5, np.nan, -np.inf, 5e-324]),
        "state": np.array([VALUE, NULL, STRING, EMPTY], np.uint8),
    }
    file = tmp_path / "x.parquet"
    points.write(file, block, np.array([7, 3], np.int32), np.array([0, 5, 6]), first_life=2)
    table = pq.read_table(file)
    assert table["series"].to_pylist() == [7, 7, 3, 3]
    assert table["segment"].to_pylist() == [2, 3, 2, 4]
    assert table["seq"].to_pylist() == [0, 5, 2, 7]
    assert table["step"].to_pylist() == [-3, 2**62, 10, 4]
    assert table["wall_time"].type == pa.timestamp("us", "UTC")
    assert table["wall_time"].cast(pa.int64()).to_pylist() == [None, 1_700_000_000_000_001, None, 0]
    np.testing.assert_array_equal(table["value"].to_numpy(), block["value"])
    assert table["state"].to_pylist() == ["value", "null", "string", "empty"]


@pytest.mark.parametrize("block_rows", [3, 8, 100])
def test_a_column_that_appears_late_is_unknown_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_rows: int
) -> None:
    monkeypatch.setattr(staging, "BLOCK_ROWS", block_rows)
    spool = Spool(tmp_path, "x")
    for first, more in ((0, {}), (4, {"wall_time": np.arange(4)}), (8, {}), (12, {"state": np.full(4, NULL)})):
        seq = np.arange(first, first + 4)
        spool.append(first, {"seq": seq, "step": seq * 10, "value": seq / 2, **more})
    spool.finish()
    blocks = list(spool.blocks())
    whole = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    assert whole["seq"].tolist() == list(range(16))
    assert whole["series"].tolist() == [first for first in (0, 4, 8, 12) for _ in range(4)]
    assert whole["wall_time"].tolist() == [NO_TIME] * 4 + [0, 1, 2, 3] + [NO_TIME] * 8
    assert whole["state"].tolist() == [VALUE] * 12 + [NULL] * 4
    assert whole["segment"].tolist() == [0] * 16
    assert all(block[name].dtype == whole[name].dtype for block in blocks for name in whole)


@pytest.mark.parametrize("steps", [range(60), [*range(40), *range(30, 60)]], ids=["one life", "restarted"])
def test_parts_written_while_reading_are_those_written_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[int]
) -> None:
    monkeypatch.setattr(staging, "BLOCK_ROWS", 25)
    monkeypatch.setattr(staging, "BLOCKS_IN_MEMORY", 2)
    lines = [{**row, "lr": None if i % 7 == 3 else 1e-3} for i, row in enumerate(rows(steps, start=1.7e9))]
    write_jsonl(tmp_path / "run" / "metrics.jsonl", lines)
    imported(tmp_path / "early", tmp_path / "run")
    monkeypatch.setattr(points, "EarlyParts", lambda folder, stem: None)
    imported(tmp_path / "after", tmp_path / "run")
    early, after = (sorted((tmp_path / store).glob("*/points/*")) for store in ("early", "after"))
    assert [file.name for file in early] == [file.name for file in after]
    assert len(early) > 3
    for one, other in zip(early, after, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert not list((tmp_path / "early").glob(".staging-*"))


def test_early_parts_that_nobody_takes_are_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "x", points.EarlyParts(tmp_path, "early"))
    spool.append(0, {"seq": np.arange(4), "step": np.arange(4), "value": np.ones(4)})
    spool.finish()
    spool.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_cannot_be_written_is_an_error_of_the_one_who_takes_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "x", points.EarlyParts(tmp_path / "missing", "early"))
    spool.append(0, {"seq": np.arange(4), "step": np.arange(4), "value": np.ones(4)})
    spool.finish()
    assert spool.early is not None
    with pytest.raises(FileNotFoundError):
        spool.early.take()
    spool.discard()
