from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
