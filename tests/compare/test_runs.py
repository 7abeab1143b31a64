from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.compare import compare
from trainforensics.errors import CannotJudgeError
from trainforensics.signals import Signals

N = 600
STEP = np.arange(1, N + 1)
CONFIG = {"seed": 1, "learning_rate": 3e-4, "output_dir": "a"}


def loss(seed: int) -> NDArray[np.float64]:
    return 2 + 3 * np.exp(-STEP / 100) + np.random.default_rng(seed).normal(0, 0.05, N)


def run(values: NDArray[np.float64], config: dict[str, Any] | None = None, **more: NDArray[np.float64]) -> Signals:
    return make_signals({"train_loss": values, **more}, config=CONFIG if config is None else config)


def forked(at: int, lift: float = 0.5) -> NDArray[np.float64]:
    """The loss of seed 1, another one from step `at` on."""
    values = loss(1)
    values[at - 1 :] = loss(2)[at - 1 :] + lift
    return values


def manifest(changed_from: int = N + 1) -> pl.LazyFrame:
    shards = [f"shard-{step % 16 if step < changed_from else 99}" for step in STEP.tolist()]
    return pl.DataFrame({"step": STEP, "shard": shards}).lazy()


def test_the_summary_says_where_what_and_why() -> None:
    found = compare(run(loss(1)), run(forked(300), {**CONFIG, "learning_rate": 1e-3}), manifest(), manifest(290))
    assert found.summary.startswith("train_loss parts at step 300 (up to ")
    assert "first differing data at step 290: shard shard-2 in A, shard shard-99 in B" in found.summary
    assert "config differs in learning_rate (0.0003, 0.001)" in found.summary
    assert found.finding == ""


def test_twins_that_part_are_a_finding_of_nondeterminism() -> None:
    found = compare(run(loss(1)), run(forked(300), {**CONFIG, "output_dir": "b"}), manifest(), manifest())
    assert found.finding.startswith("nondeterminism: one configuration, seed 1, the same data on 600 steps")
    assert "train_loss differs from step 300 on" in found.finding
    assert "no difference in configuration that matters" in found.summary


@pytest.mark.parametrize(
    ("config", "changed_from"), [({**CONFIG, "seed": 2}, N + 1), ({**CONFIG, "clip": 1.0}, N + 1), (CONFIG, 290)]
)
def test_another_seed_setting_or_data_explains_a_parting(config: dict[str, Any], changed_from: int) -> None:
    assert compare(run(loss(1)), run(forked(300), config), manifest(), manifest(changed_from)).finding == ""


def test_unknown_seeds_and_unequal_starts_prove_no_twins() -> None:
    assert compare(run(loss(1), {"lr": 1}), run(loss(2), {"lr": 1})).finding == ""
    assert compare(run(loss(1), {}), run(forked(300), {})).finding == ""


def test_a_restart_where_they_part_is_named_before_nondeterminism() -> None:
    restarted = make_curve(forked(300), "train_loss", segment=(STEP >= 299).astype(np.int32))
    found = compare(run(loss(1)), make_signals([restarted], config=CONFIG))
    assert "B was restarted at step 299" in found.finding
    assert "nondeterminism" not in found.finding


def test_learning_series_lead_machine_series_never_do() -> None:
    slow = 100 + np.random.default_rng(5).normal(0, 1, N)
    faster = slow + 50
    faster[:50] -= 50
    found = compare(run(loss(1), tokens_per_sec=slow), run(forked(300), tokens_per_sec=faster))
    assert [series.role for series in found.series] == ["train_loss", "tokens_per_sec"]
    assert found.summary.startswith("train_loss parts at step 300")
    together = compare(run(loss(1), tokens_per_sec=slow), run(loss(1), tokens_per_sec=faster))
    assert together.summary.startswith("equal on all of 600 common steps")
    assert together.finding == ""


def test_the_series_that_parts_first_is_named_first() -> None:
    norm = np.exp(np.random.default_rng(6).normal(0, 0.1, N))
    later = norm.copy()
    later[249:] *= 3
    found = compare(run(loss(1), grad_norm=norm), run(forked(300), grad_norm=later))
    assert found.summary.startswith("grad_norm parts at step 250")
    assert "train_loss at step 300" in found.summary


def test_series_of_other_names_meet_by_role() -> None:
    a = make_signals([make_curve(loss(1), "train_loss", name="train/loss"), make_curve(loss(3), None, name="mine")])
    b = make_signals([make_curve(loss(1), "train_loss", name="loss"), make_curve(loss(3), None, name="yours")])
    found = compare(a, b)
    assert [(s.name, s.other, s.relation) for s in found.series] == [("train/loss", "loss", "identical")]
    assert (found.only_a, found.only_b) == (("mine",), ("yours",))


def test_nothing_in_common_cannot_be_judged() -> None:
    with pytest.raises(CannotJudgeError, match="share no step"):
        compare(run(loss(1)), make_signals({"train_loss": loss(1)}, step=STEP + 10_000))
    with pytest.raises(CannotJudgeError, match="no common series"):
        compare(make_signals([make_curve(loss(1), None, name="x")]), run(loss(1)))


def test_a_logged_rate_that_differs_is_no_same_configuration() -> None:
    def run(rate: float, seed: int) -> Signals:
        loss = 2 + np.exp(-np.arange(300) / 50) + np.random.default_rng(seed).normal(0, 0.02, 300)
        return make_signals({"train_loss": loss, "learning_rate": np.full(300, rate)}, config={"batch": 8})

    found = compare(run(1e-3, 1), run(3.0, 2))
    assert "same configuration" not in found.summary
    assert "logged settings differ: learning_rate (B is 3000 times A)" in found.summary
    assert "same configuration" in compare(run(1e-3, 1), run(1e-3, 2)).summary


@pytest.mark.parametrize(("score", "scaled"), [(0.7, True), (0.3, False)])
def test_losses_are_a_matter_of_scale_only_where_the_scores_agree(score: float, scaled: bool) -> None:
    def accuracy(level: float, seed: int) -> NDArray[np.float64]:
        return level + np.random.default_rng(seed).normal(0, 0.01, N)

    a = run(loss(1), val_metric=accuracy(0.7, 3))
    found = compare(a, run(8 * loss(2), val_metric=accuracy(score, 4)))
    assert ("scale, not learning" in found.summary) == scaled
