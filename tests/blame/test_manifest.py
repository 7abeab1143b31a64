from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from factories import make_signals

from trainforensics.blame.manifest import Manifest, align, open_manifest


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
