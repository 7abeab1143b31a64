from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reading import read, sniff

from trainforensics.importers import manifest, table
from trainforensics.importers.base import Batches, Source
from trainforensics.importers.jsonlogs import jsonlines

ROWS: list[dict[str, Any]] = [
    {"step": s, "rank": r, "shard": 7 + r, "doc_ids": [10 * s + r, 3], "domain": "lib", "seq_len": 64.0, "author": "x"}
    for s in range(5)
    for r in range(2)
]


def as_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def as_parquet(path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(path)


def as_csv(path: Path, joiner: str = ";") -> None:
    lines = ["step,rank,shard,doc_ids,domain,seq_len,author"]
    for row in ROWS:
        docs = json.dumps(row["doc_ids"]) if joiner == "json" else joiner.join(map(str, row["doc_ids"]))
        lines.append(f'{row["step"]},{row["rank"]},{row["shard"]},"{docs}",{row["domain"]},{row["seq_len"]},x')
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("m.jsonl", as_jsonl),
        ("m.parquet", as_parquet),
        ("m.csv", as_csv),
        ("j.csv", lambda path: as_csv(path, "json")),
        ("c.csv", lambda path: as_csv(path, ",")),
        ("s.csv", lambda path: as_csv(path, " ")),
    ],
)
def test_the_same_rows_from_every_format(tmp_path: Path, name: str, make: Any) -> None:
    path = tmp_path / name
    make(path)
    assert sniff(manifest, path) > max(sniff(jsonlines, path), sniff(table, path))
    found = read(manifest, path)
    assert found.batches is not None and found.warnings == [] and found.series == {}
    wanted = [(r["step"], r["rank"], str(r["shard"]), [str(d) for d in r["doc_ids"]], "lib", 64.0, "x") for r in ROWS]
    assert found.batches.select("step", "rank", "shard", "doc", "domain", "seq_len", "author").rows() == wanted
    assert found.batches.schema["step"] == pl.Int64 and found.batches.schema["doc"] == pl.List(pl.String)


@pytest.mark.parametrize(
    ("columns", "canonical"),
    [
        ({"iteration": [1, 2], "file": ["a.bin", "b.bin"]}, {"step", "shard"}),
        ({"global_step": [1, 2], "sample_indices": [[1], [3, 4]], "lang": ["de", "en"]}, {"step", "doc", "language"}),
        ({"step": [1, 1], "batch_id": [0, 1], "shard_id": ["00013", "00014"], "source": ["web", "code"]},
         {"step", "batch_id", "shard", "domain"}),
        ({"Step": [1, 2], "Data/ShardID": [3, 4], "num_tokens": [10, 12]}, {"step", "shard", "tokens"}),
    ],
)  # fmt: skip
def test_columns_by_synonym(tmp_path: Path, columns: dict[str, Any], canonical: set[str]) -> None:
    path = tmp_path / "m.parquet"
    pl.DataFrame(columns).write_parquet(path)
    assert sniff(manifest, path) > 0.9
    found = read(manifest, path).batches
    assert found is not None and set(found.columns) == canonical


PAIRED = [(1, "a", ["1"]), (1, "b", ["2"])]
NESTED: list[tuple[dict[str, Any], list[tuple[Any, ...]]]] = [
    ({"step": 1, "batch": [{"shard": "a", "doc_id": 1}, {"shard": "b", "doc_id": 2}]}, PAIRED),
    ({"step": 1, "data": {"shard": "a", "doc_ids": [1, 2]}}, [(1, "a", ["1", "2"])]),
    ({"step": 1, "shards": ["a", "b"], "doc_ids": [1, 2]}, PAIRED),
    ({"step": 1, "shards": ["a", "b"], "doc_ids": [1, 2, 3]}, [(1, s, ["1", "2", "3"]) for s in ("a", "b")]),
]


@pytest.mark.parametrize("form", ["lines", "array", "parquet"])
@pytest.mark.parametrize(("row", "wanted"), NESTED)
def test_nested_rows_unfold(tmp_path: Path, form: str, row: dict[str, Any], wanted: list[tuple[Any, ...]]) -> None:
    path = tmp_path / f"m.{form}"
    if form == "parquet":
        pl.DataFrame([row]).write_parquet(path)
    else:
        path.write_text(json.dumps([row], indent=1) if form == "array" else json.dumps(row))
    assert sniff(manifest, path) > 0.9
    found = read(manifest, path).batches
    assert found is not None and found.select("step", "shard", "doc").rows() == wanted


def test_ids_are_kept_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,shard,doc_id\n1,00013,my doc 7\n2,00014,\n")
    found = read(manifest, path).batches
    assert found is not None
    assert found.rows() == [(1, "00013", ["my doc 7"]), (2, "00014", None)]


@pytest.mark.parametrize("cell", ["a b;c", " a b ; c ", "['a b', 'c']", '["a b","c"]', "a b;;c;"])
def test_joined_ids(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "m.parquet"
    pl.DataFrame({"step": [1], "doc_ids": [cell]}).write_parquet(path)
    found = read(manifest, path).batches
    assert found is not None and found["doc"].to_list() == [["a b", "c"]]


def test_a_column_that_appears_late_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainforensics.importers.manifest._BLOCK_BYTES", 200)
    path = tmp_path / "m.jsonl"
    rows: list[dict[str, Any]] = [
        {"step": i, "shard": i % 3, **({"quality": 0.5} if i > 30 else {})} for i in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = [pl.DataFrame(r.table) for r in manifest.read(Source(path, path.name)) if isinstance(r, Batches)]
    whole = pl.concat(tables, how="diagonal")
    assert whole["step"].to_list() == list(range(40))
    assert whole["quality"].to_list() == [0.5 if i > 30 else None for i in range(40)]


def test_losses_of_batches_and_losses_of_steps(tmp_path: Path) -> None:
    batches = tmp_path / "batches.csv"
    batches.write_text("step,rank,shard,loss\n" + "".join(f"{s},{r},4,2.5\n" for s in range(9) for r in range(2)))
    assert sniff(manifest, batches) > sniff(table, batches)
    found = read(manifest, batches).batches
    assert found is not None and found.schema["loss"] == pl.Float64
    curve = tmp_path / "log.csv"
    curve.write_text("step,shard,loss,lr\n" + "".join(f"{s},4,2.5,0.1\n" for s in range(9)))
    assert sniff(table, curve) > sniff(manifest, curve)
    logged = read(table, curve)
    assert logged.batches is not None and logged.batches.select("step", "shard").rows() == [(s, "4") for s in range(9)]
    assert logged.series["loss"].step.tolist() == list(range(9))


def test_bad_lines_are_counted_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    as_jsonl(path)
    lines = path.read_text().splitlines()
    lines[3] = lines[3][:20]
    path.write_text("\n".join(lines) + "\n")
    found = read(manifest, path)
    assert found.batches is not None and found.batches.height == len(ROWS) - 1
    assert [(w.kind, w.where) for w in found.warnings] == [("bad-line", "line 4")]


def test_epoch_and_batch_of_the_epoch(tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    rows = [{"epoch": e, "batch": b, "indices": [e, b]} for e in range(3) for b in range(4)]
    pl.DataFrame(rows).write_parquet(path)
    found = read(manifest, path).batches
    assert found is not None and found["step"].to_list() == list(range(12))


@pytest.mark.parametrize(
    "header",
    ["step,loss,lr", "name,shard,size", "step,file_count,loss", "epoch,train_loss,val_loss", "step,path_length,loss"],
)
def test_metrics_and_other_tables_are_no_manifests(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(header + "\n" + "1,2,3\n" * 5)
    assert sniff(manifest, path) == 0.0
