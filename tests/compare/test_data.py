from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from factories import make_signals

from trainforensics.compare.data import compare_data
from trainforensics.model import DataDifference

N = 200
SIGNALS = make_signals({"train_loss": np.linspace(3, 2, N)})


def manifest(shard: Callable[[int], str], steps: Sequence[int] = range(1, N + 1), **more: object) -> pl.LazyFrame:
    columns = {"step": list(steps), "shard": [shard(step) for step in steps]}
    return pl.DataFrame({**columns, **more}).lazy()


def cycled(step: int) -> str:
    return f"shard-{step * 7 % 13:02}"


def compared(a: pl.LazyFrame | None, b: pl.LazyFrame | None) -> DataDifference:
    return compare_data(SIGNALS, SIGNALS, a, b)


def test_the_same_data() -> None:
    assert compared(manifest(cycled), manifest(cycled)) == DataDifference(N)


def test_the_first_step_with_other_data_and_what_was_fed_there() -> None:
    found = compared(manifest(cycled), manifest(lambda step: "other" if step in (120, 150) else cycled(step)))
    assert (found.compared, found.step, found.differing) == (N, 120, 2)
    assert (found.a, found.b) == (f"shard {cycled(120)}", "shard other")


def test_neither_the_order_of_rows_nor_the_rank_is_a_difference() -> None:
    docs = [[f"{step}-{i}" for i in range(3)] for step in range(1, N + 1)]
    one = manifest(cycled, doc=docs, rank=[0] * N)
    two = manifest(cycled, doc=[d[::-1] for d in docs], rank=[1] * N)
    assert compared(one, two.reverse()).step is None


def test_documents_are_told_where_the_shards_agree() -> None:
    docs = [[str(step)] for step in range(1, N + 1)]
    others = [[str(step if step != 50 else 7777)] for step in range(1, N + 1)]
    found = compared(manifest(cycled, doc=docs), manifest(cycled, doc=others))
    assert (found.step, found.a, found.b) == (50, "doc 50", "doc 7777")


def test_an_order_that_runs_behind_is_recognised() -> None:
    def unique(step: int) -> str:
        return f"batch-{step}"

    def delayed(step: int) -> str:
        return unique(step) if step < 80 else unique(step - 5)

    found = compared(manifest(unique), manifest(delayed))
    assert found.step == 80
    assert "5 steps later" in found.note


def test_other_data_sets_are_said() -> None:
    found = compared(manifest(cycled), manifest(lambda step: f"web-{step % 3}"))
    assert "no shard in common" in found.note


def test_batch_numbers_count_only_where_nothing_else_tells() -> None:
    ids = pl.DataFrame({"step": range(1, N + 1), "batch_id": [str(i) for i in range(N)]}).lazy()
    others = ids.with_columns(pl.when(pl.col("step") == 9).then(pl.lit("x")).otherwise("batch_id").alias("batch_id"))
    assert compared(ids, others).step == 9
    with_shards = (manifest(cycled, batch_id=[f"{prefix}{i}" for i in range(N)]) for prefix in "ab")
    assert compared(*with_shards).step is None


def test_a_missing_manifest_is_no_difference() -> None:
    found = compared(manifest(cycled), None)
    assert (found.compared, found.step) == (0, None)
    assert "B: no batch manifest" in found.note
