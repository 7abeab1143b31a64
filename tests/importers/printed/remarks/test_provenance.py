"""Shards, files and documents that the lines of a console's records name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainforensics.importers import console
from trainforensics.importers.base import Batches, Source


def batches(folder: Path, line: str, n: int = 12) -> list[dict[str, Any]]:
    path = folder / "train.log"
    path.write_text("".join(line.format(i=i, loss=3 - i / 100, shard=i % 3) + "\n" for i in range(n)))
    read = console.read(Source(path, path.name))
    return [record.table.to_pydict() for record in read if isinstance(record, Batches)]


@pytest.mark.parametrize(
    "line",
    [
        "step {i} | loss {loss:.2f} | shard py-{shard}.bin | lr 0.001",
        "step={i} loss={loss:.2f} data_shard=py-{shard}.bin",
        "2026-01-01 00:00:00 INFO step {i}: loss {loss:.2f} file: py-{shard}.bin",
    ],
)
def test_shards_stand_at_the_steps_of_their_rows(line: str, tmp_path: Path) -> None:
    (found,) = batches(tmp_path, line)
    assert found["step"] == list(range(12))
    assert found["shard"] == [f"py-{i % 3}.bin" for i in range(12)]


def test_documents_are_lists(tmp_path: Path) -> None:
    (found,) = batches(tmp_path, "step {i} loss {loss:.2f} doc_ids=[{i}, 1{i}]")
    assert found["doc"][:2] == [["0", "10"], ["1", "11"]]


@pytest.mark.parametrize(
    "line", ["step {i} loss {loss:.2f} 1.5 samples/s", "step {i} loss {loss:.2f} file=model-{i}.pt", "shard-{i}: done"]
)
def test_rates_and_saved_files_are_no_data(line: str, tmp_path: Path) -> None:
    assert batches(tmp_path, line) == []


def test_what_few_rows_name_is_no_data(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    rows = [f"step {i} loss {3 - i / 100:.2f}" + f" shard s-{i}" * (i < 9) for i in range(40)]
    path.write_text("\n".join(rows) + "\n")
    assert not any(isinstance(record, Batches) for record in console.read(Source(path, path.name)))
