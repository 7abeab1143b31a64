from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import imported, rows, write_jsonl

from trainforensics.discovery import SourceFile
from trainforensics.errors import UsageError
from trainforensics.importers.base import EMPTY, NULL, STRING, VALUE, Batches, Config, Points
from trainforensics.model import Event
from trainforensics.store import schema, staging
from trainforensics.store.reader import open_run
from trainforensics.store.staging import stage


def points(name: str, step: list[int], value: list[float], first_row: int = 0, **more: Any) -> Points:
    seq = np.arange(first_row, first_row + len(step))
    return Points(name, np.array(step, np.int64), np.array(value), seq, **more)


def staged(tmp_path: Path, *records: object, fail: bool = False) -> staging.Staged:
    def read(_: object) -> Any:
        yield from records
        if fail:
            raise RuntimeError("broken")

    source = SourceFile(tmp_path / "log", "log", "fake", 1.0)
    return stage(SimpleNamespace(read=read), source, tmp_path, "000000", {})  # type: ignore[arg-type]


def test_counts_follow_the_order_of_the_source(tmp_path: Path) -> None:
    state = np.array([VALUE, NULL, EMPTY, STRING, VALUE], np.uint8)
    made = staged(tmp_path, points("loss", [5, 6, 7, 8, 3], [1.0, np.nan, np.nan, np.nan, np.inf], state=state))
    (series,) = made.series
    assert (series.n, series.n_nonfinite, series.first_step, series.last_step) == (3, 2, 5, 3)


def test_a_reprinted_line_counts_once_also_across_chunks(tmp_path: Path) -> None:
    made = staged(
        tmp_path,
        points("loss", [1, 1, 2], [3.0, 3.0, np.nan]),
        points("loss", [2, 2, 3], [np.nan, 1.0, 1.0], first_row=3),
    )
    assert made.series[0].n == 4
    assert np.concatenate([b["step"] for b in made.spool.blocks()]).tolist() == [1, 2, 2, 3]


def test_names_that_no_encoding_holds_are_written_as_escapes(tmp_path: Path) -> None:
    log = tmp_path / "run" / "state.json"
    log.parent.mkdir()
    history = ",".join(f'{{"step": {i}, "loss": {3 - i / 100}, "\\ud800": {i}}}' for i in range(40))
    log.write_text(f"[{history}]")
    (run,) = imported(tmp_path / "store", tmp_path / "run").values()
    assert [stored.series.name for stored in run.series] == ["loss", "\\ud800"]


def test_what_came_before_a_failure_is_kept(tmp_path: Path) -> None:
    made = staged(tmp_path, points("loss", [1, 2], [3.0, 2.0]), Event("restart"), Config({"lr": 1}), fail=True)
    assert made.points == 2
    assert made.config == {"lr": 1}
    assert [w.kind for w in made.warnings] == ["importer-error"]


def test_a_long_source_is_spilled_and_read_back_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "BLOCK_ROWS", 10)
    monkeypatch.setattr(staging, "BLOCKS_IN_MEMORY", 2)
    chunks = [points("loss", [i, i + 1], [float(i), 0.5], first_row=i) for i in range(0, 100, 2)]
    made = staged(tmp_path, *chunks)
    assert list(tmp_path.glob("*.npz"))
    assert np.concatenate([b["step"] for b in made.spool.blocks()]).tolist() == list(range(100))


def test_manifest_parts_whose_columns_change(tmp_path: Path) -> None:
    made = staged(
        tmp_path,
        Batches(pa.table({"step": [1, 2], "shard": ["a", "b"]})),
        Batches(pa.table({"step": [3], "shard": ["c"], "domain": ["web"]})),
    )
    assert [pl.read_parquet(path).columns for path in made.batches] == [["step", "shard"], ["step", "shard", "domain"]]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_values_survive_the_store(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    folder = tmp_path_factory.mktemp("values")
    lines = [{"step": 2 * i, "loss": value} for i, value in enumerate(values)]
    write_jsonl(folder / "run" / "metrics.jsonl", lines)
    run = imported(folder / "store", folder / "run")["run"]
    (series,) = [s for s in run.series if s.series.name == "loss"]
    kept = run.points()[series.series.id]
    np.testing.assert_array_equal(kept.value, np.array(values))
    assert kept.step.tolist() == [line["step"] for line in lines]
    assert series.n_nonfinite == int(np.sum(~np.isfinite(values)))


def test_parts_are_readable_without_us(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "runs" / "a b#1" / "metrics.jsonl", rows(range(20), start=1.7e9))
    imported(tmp_path / "store", tmp_path / "runs")
    (file,) = (tmp_path / "store").glob("*/points/*.parquet")
    assert file.parent.parent.name == "runs%2Fa b%231"
    table = pl.read_parquet(file, hive_partitioning=False)
    assert dict(table.schema) == {
        "series": pl.Int32,
        "segment": pl.Int32,
        "seq": pl.Int64,
        "step": pl.Int64,
        "wall_time": pl.Datetime("us", "UTC"),
        "value": pl.Float64,
        "state": pl.String,
    }
    assert table["wall_time"].dt.timestamp("us").min() == 1_700_000_000_000_000
    names = pl.read_parquet(file.parent.parent / "series.parquet")
    assert set(names.columns) >= {"id", "name", "source", "rank", "layer", "expert", "domain"}


@pytest.mark.parametrize("text", ["null", "[]", "{", '{"schema": "trainforensics/store/0"}'])
def test_a_run_whose_description_is_damaged_says_so(tmp_path: Path, text: str) -> None:
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(20)))
    (run,) = imported(tmp_path / "store", tmp_path / "run").values()
    (run.folder / "run.json").write_text(text)
    with pytest.raises(UsageError, match=r"run.json: damaged .*analyse the logs again"):
        open_run(tmp_path / "store", "run")


def test_tables_that_are_damaged_or_gone_say_so(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "run" / "metrics.jsonl", rows(range(20)))
    write_jsonl(tmp_path / "run" / "manifest.jsonl", [{"step": i, "shard": f"s{i}"} for i in range(20)])
    (run,) = imported(tmp_path / "store", tmp_path / "run").values()
    for file in run.folder.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-20])
    (run.folder / "series.parquet").unlink()
    for read in (lambda: run.series, lambda: run.events, run.points, run.batches):
        with pytest.raises(UsageError, match=r"parquet: damaged .*analyse the logs again"):
            read()
    shutil.rmtree(run.folder / "points")
    with pytest.raises(UsageError, match=r"points: damaged .*analyse the logs again"):
        run.points()


def test_names_too_long_for_a_file_system_stay_apart() -> None:
    a, b = schema.encode("a" * 400), schema.encode("b" + "a" * 399)
    assert a != b
    assert len(a) < 255
    assert schema.encode(".hidden").startswith("%2E")


@pytest.mark.parametrize(
    ("time", "naive", "started"),
    [
        ("2025-03-01 05:00:00", True, "2025-03-01T05:00:00"),
        ("2025-03-01T05:00:00+01:00", False, "2025-03-01T04:00:00Z"),
    ],
)
def test_wall_times_that_state_no_zone_are_marked(tmp_path: Path, time: str, naive: bool, started: str) -> None:
    lines = [{**row, "time": time, "message": "checkpoint saved"} for row in rows(range(20))]
    write_jsonl(tmp_path / "run" / "metrics.jsonl", lines)
    stored = imported(tmp_path / "store", tmp_path / "run")["run"]
    assert pl.read_parquet(stored.folder / "series.parquet")["naive_time"].to_list() == [naive]
    assert [series.series.naive_time for series in stored.series] == [naive]
    assert {event.naive_time for event in stored.events} == {naive}
    assert [segment.started_at for segment in stored.segments] == [started]
    assert [warning.kind for source in stored.sources for warning in source.warnings] == ["naive-time"] * naive
