from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from factories import make_curve, make_signals
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.blame.alignment import align
from trainforensics.blame.manifest import Manifest, open_manifest
from trainforensics.signals import Signals


def grid(first: int, last: int, cadence: int = 1) -> np.ndarray:
    return np.arange(first, last + 1, cadence)


def test_same_axis_is_proven_by_common_ends() -> None:
    alignment = align(0, 999, grid(0, 999), 1)
    assert alignment is not None
    assert (alignment.offset, alignment.slack) == (0, 0)


def test_zero_against_one_based() -> None:
    alignment = align(0, 1299, grid(10, 1300, 10), 1)
    assert alignment is not None
    assert (alignment.offset, alignment.slack) == (1, 0)
    assert "from 0" in alignment.note


def test_a_manifest_of_a_part_is_taken_as_it_is_with_slack() -> None:
    alignment = align(300, 899, grid(0, 1199), 1)
    assert alignment is not None
    assert (alignment.offset, alignment.slack) == (0, 1)
    assert "do not prove" in alignment.note


def test_micro_steps() -> None:
    alignment = align(0, 3999, grid(1, 1000), 4)
    assert alignment is not None
    assert (alignment.factor, alignment.offset) == (4, 1)


def test_no_common_step_proves_nothing() -> None:
    assert align(50_000, 60_000, grid(0, 1000), 1) is None


def test_without_manifest_the_reason_is_said() -> None:
    assert "no batch manifest" in str(open_manifest(make_signals({"train_loss": np.ones(10)}), None))


def test_disjoint_axes_are_said() -> None:
    batches = pl.LazyFrame({"step": [5000, 5001], "shard": ["a", "b"]})
    assert "share no step" in str(open_manifest(make_signals({"train_loss": np.ones(10)}), batches))


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_loss_column_settles_the_offset(offset: int) -> None:
    rng = np.random.default_rng(0)
    loss = rng.normal(size=400)
    manifest_steps = np.arange(100, 300)
    signals = make_signals({"train_loss": loss}, step=np.arange(400))
    batches = pl.LazyFrame({"step": manifest_steps, "loss": loss[manifest_steps + offset]})
    manifest = open_manifest(signals, batches)
    assert isinstance(manifest, Manifest)
    assert manifest.alignment.slack == 0
    assert manifest.alignment.offset == offset


def test_micro_step_rows_reach_their_step() -> None:
    signals = make_signals({"train_loss": np.ones(100)}, config={"train": {"gradient_accumulation_steps": 4}})
    batches = pl.LazyFrame({"step": list(range(400)), "shard": [str(i) for i in range(400)]})
    manifest = open_manifest(signals, batches)
    assert isinstance(manifest, Manifest)
    assert manifest.rows(9, 10)["shard"].to_list() == ["36", "37", "38", "39"]


def noted(steps: list[int], log: np.ndarray, **config: object) -> str:
    signals = make_signals({"train_loss": np.ones(len(log))}, step=log, config=config)
    manifest = open_manifest(signals, pl.LazyFrame({"step": steps, "shard": ["a"] * len(steps)}))
    assert isinstance(manifest, Manifest)
    return manifest.alignment.note


@pytest.mark.parametrize(
    ("every", "cadence", "says"),
    [
        (4, 1, "holds one step in 4 (the log has one every step)"),
        (40, 10, "holds one step in 40 (the log has one every 10 steps)"),
        (10, 40, "holds one step in 10 (the log has one every 40 steps)"),
    ],
)
def test_a_manifest_that_leaves_steps_out_says_so(every: int, cadence: int, says: str) -> None:
    steps = [step for step in range(0, 8001, every) for _ in range(8)]  # several ranks
    assert says in noted(steps, grid(0, 8000, cadence))


def test_a_manifest_of_every_step_needs_no_word() -> None:
    steps = [step for step in range(8001) for _ in range(2) if step % 97]
    assert noted([0, *steps], grid(0, 8000, 10)) == ""
    micro = noted([*range(4000)], grid(1, 1000), gradient_accumulation_steps=4)
    assert micro == "the manifest counts micro-steps, 4 to a step"


@pytest.mark.parametrize(
    ("last", "log", "says"),
    [
        (3999, grid(1, 1000), "the manifest's steps reach 4 times as far as the log's: they may be micro-steps, 4"),
        (999, grid(4, 4000, 4), "the log's steps reach 4 times as far as the manifest's"),
    ],
)
def test_ranges_that_are_multiples_are_named(last: int, log: np.ndarray, says: str) -> None:
    assert says in noted([*range(last + 1)], log)
    assert "as far as" not in noted([*range(last + 1)], log[: int(0.7 * len(log))])


# --- manifests that count samples or tokens instead of steps ---------------------------------------------------------


def sampled(step: np.ndarray, count: np.ndarray, name: str = "consumed samples") -> Signals:
    loss = make_curve(np.ones(len(step)), step=step)
    return make_signals([loss, make_curve(count, "tokens_seen", name=name, step=step, series_id=1)])


def shards_of(signals: Signals, frame: pl.LazyFrame, after: int, upto: int) -> list[str]:
    manifest = open_manifest(signals, frame)
    assert isinstance(manifest, Manifest), manifest
    rows = manifest.rows(after, upto)
    assert rows["at"].is_between(after + 1, upto).all()
    return rows["shard"].to_list()


@pytest.mark.parametrize("counts_its_own", [False, True])
def test_rows_by_consumed_samples_reach_their_step(counts_its_own: bool) -> None:
    signals = sampled(np.arange(1, 101), 8 * np.arange(1, 101))
    frame = pl.LazyFrame(
        {"consumed_samples": 8 * (np.arange(100) + counts_its_own), "shard": [str(i) for i in range(1, 101)]}
    )
    assert shards_of(signals, frame, 41, 43) == ["42", "43"]
    manifest = open_manifest(signals, frame)
    assert isinstance(manifest, Manifest)
    assert (manifest.first, manifest.last, manifest.alignment.slack) == (1, 100, 0)
    assert "consumed_samples" in manifest.alignment.note


def test_sample_ranges_meet_a_ramped_up_batch_logged_every_ten_steps() -> None:
    batch = np.repeat([4, 8, 16], [30, 30, 40])
    edge = np.append(0, np.cumsum(batch))
    step = np.arange(10, 101, 10)
    frame = pl.LazyFrame({"sample_start": edge[:-1], "sample_end": edge[1:], "shard": [str(i) for i in range(1, 101)]})
    signals = sampled(step, edge[step])
    assert shards_of(signals, frame, 30, 40) == [str(i) for i in range(31, 41)]
    assert shards_of(signals, frame, 60, 70) == [str(i) for i in range(61, 71)]


def test_a_row_a_sample_reaches_its_step() -> None:
    signals = sampled(np.arange(1, 51), 4 * np.arange(1, 51))
    frame = pl.LazyFrame({"sample_start": np.arange(200), "shard": [str(i) for i in range(200)]})
    assert shards_of(signals, frame, 9, 10) == ["36", "37", "38", "39"]


def test_consumed_tokens_and_a_configured_batch() -> None:
    signals = make_signals({"train_loss": np.ones(50)}, config={"global_batch_size": 4, "seq_length": 128})
    frame = pl.LazyFrame({"consumed_tokens": 512 * np.arange(50), "shard": [str(i) for i in range(1, 51)]})
    assert shards_of(signals, frame, 9, 10) == ["10"]


def test_rows_that_begin_late_may_be_a_step_off_and_say_so() -> None:
    signals = sampled(np.arange(1, 101), 8 * np.arange(1, 101))
    frame = pl.LazyFrame({"consumed_samples": 8 * np.arange(50, 90), "shard": ["a"] * 40})
    manifest = open_manifest(signals, frame)
    assert isinstance(manifest, Manifest)
    assert manifest.alignment.slack == 1


def test_samples_prove_what_unproven_steps_do_not() -> None:
    signals = sampled(np.arange(1, 101), 8 * np.arange(1, 101))
    frame = pl.LazyFrame(
        {"step": np.arange(300, 380), "consumed_samples": 8 * np.arange(80), "shard": [str(i) for i in range(1, 81)]}
    )
    assert shards_of(signals, frame, 9, 10) == ["10"]


@given(
    batches=st.lists(st.integers(1, 9), min_size=40, max_size=90),
    cadence=st.integers(1, 7),
    counted=st.sampled_from(["sample_start", "consumed_samples", "samples_seen"]),
    each=st.integers(1, 3),
)
def test_every_row_lands_in_the_interval_that_logged_it(
    batches: list[int], cadence: int, counted: str, each: int
) -> None:
    """Whatever the batches are, rows of a batch (or parts of it) meet the logged interval in which they were fed."""
    edge = np.append(0, np.cumsum(np.sort(batches)))  # batches that grow, as in a ramp-up
    step = np.arange(cadence, len(batches) + 1, cadence)
    starts = np.concatenate([np.arange(edge[i], edge[i + 1], each) for i in range(step[-1])])
    truth = np.searchsorted(edge, starts, side="right")
    frame = pl.LazyFrame({counted: starts, "shard": truth.astype(str)})
    manifest = open_manifest(sampled(step, edge[step]), frame)
    assert isinstance(manifest, Manifest)
    rows = manifest.frame.collect()
    assert rows.height == len(starts)
    np.testing.assert_array_equal(
        np.searchsorted(step, rows["at"]), np.searchsorted(step, rows["shard"].cast(pl.Int64))
    )


def test_samples_that_the_log_does_not_know_are_said() -> None:
    frame = pl.LazyFrame({"consumed_samples": [0, 8], "shard": ["a", "b"]})
    assert "not known" in str(open_manifest(make_signals({"train_loss": np.ones(10)}), frame))
    far = pl.LazyFrame({"consumed_samples": [80_000, 80_008], "shard": ["a", "b"]})
    assert "share nothing" in str(open_manifest(sampled(np.arange(1, 11), 8 * np.arange(1, 11)), far))
