from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from incidents_factory import make_incident

from trainforensics.blame import cross_run
from trainforensics.model import Axis, RunResult, SeriesSummary


def result(name: str, *onsets: int, last: int = 3000, **config: object) -> RunResult:
    series = SeriesSummary("loss", "train_loss", "log.jsonl", None, last, 0, 0, last)
    incidents = tuple(make_incident(onset=onset) for onset in onsets)
    return RunResult(
        name, "unstable", Axis("step", "step"), "finished", (), config, series=(series,), incidents=incidents
    )


def batches(order: int, last: int = 3000) -> pl.LazyFrame:
    return pl.LazyFrame({"step": list(range(last)), "shard": [str(s * order % 97) for s in range(last)]})


def test_coincident_spikes_prove_a_common_order() -> None:
    found = cross_run([result("a", 919, 1106, 2000), result("b", 919, 1106), result("c", 500)])
    (data,) = [f for f in found if "data" in f.finding and len(f.steps) > 1]
    assert data.runs == ("a", "b")
    assert data.steps == (919, 1106)
    assert not any("c" in f.runs for f in found)


def test_clockwork_proves_nothing() -> None:
    assert cross_run([result("a", 500, 1000, 1500, 2000), result("b", 500, 1000, 1500, 2000)]) == ()


def test_runs_that_log_different_things_are_no_siblings() -> None:
    other = replace(result("b", 919, 1106), series=(SeriesSummary("wer", "val_metric", "x", None, 9, 0, 0, 3000),))
    assert cross_run([result("a", 919, 1106), other]) == ()


def test_a_run_full_of_spikes_coincides_by_chance() -> None:
    busy = result("a", *range(20, 3000, 37))
    assert cross_run([busy, result("b", 94, 1242, 2501)]) == ()


def test_one_coincidence_proves_nothing() -> None:
    assert cross_run([result("a", 919), result("b", 919)]) == ()


def test_equal_manifests_with_a_lonely_spike_point_at_the_model() -> None:
    runs = [result("a", 919), result("b")]
    (found,) = cross_run(runs, {"a": batches(3), "b": batches(3)})
    assert "optimiser or model state is likelier" in found.finding
    assert found.steps == (919,)
    assert "manifests agree" in found.evidence[0]


def test_different_manifests_prove_no_common_order() -> None:
    runs = [result("a", 919, 1106), result("b", 919, 1106)]
    assert cross_run(runs, {"a": batches(3), "b": batches(5)}) == ()


@pytest.mark.parametrize("steps", ["absent", "empty"])
def test_a_manifest_without_steps_proves_nothing(steps: str) -> None:
    whole = batches(3)
    broken = whole.drop("step") if steps == "absent" else whole.with_columns(step=pl.lit(None, pl.Int64))
    assert cross_run([result("a", 919), result("b")], {"a": whole, "b": broken}) == ()


def test_rows_without_a_step_are_left_out() -> None:
    holed = batches(3).with_columns(step=pl.when(pl.col("step") % 7 != 0).then("step"))
    (found,) = cross_run([result("a", 919), result("b")], {"a": batches(3), "b": holed})
    assert found.steps == (919,)


def test_the_sampler_s_configuration_proves_it() -> None:
    config = {
        "sampler": "DistributedSampler",
        "world_size": 8,
        "batch_size": 4,
        "dataset_size": 10_000,
        "seed": 1,
        "dataset": "books",
    }
    (found,) = cross_run([result("a", 919, **config), result("b", 919, **config)])
    assert found.steps == (919,)
    other = {**config, "seed": 2}
    assert cross_run([result("a", 919, **config), result("b", 919, **other)]) == ()
