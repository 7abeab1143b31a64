from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.signals import Curve
from trainforensics.signals.mixture import FEWEST, MOST, logged_shares, runs_dry, shares

N = 400
LOSS = make_curve(np.ones(N), step=5 * np.arange(1, N + 1))


def manifest(source: NDArray[np.str_], column: str = "domain") -> pl.LazyFrame:
    """One batch a step from step 1 on."""
    return pl.LazyFrame({"step": np.arange(1, len(source) + 1), column: source})


def by_name(curves: list[Curve]) -> dict[str | None, Curve]:
    return {curve.series.domain: curve for curve in curves}


@pytest.mark.parametrize("column", ["domain", "source", "language"])
def test_ordered_sources_change_at_the_point_of_the_loss_that_saw_the_other_first(column: str) -> None:
    found = by_name(shares(manifest(np.where(np.arange(1, 5 * N + 1) <= 1000, "a", "b"), column), LOSS))
    assert found["b"].step.tolist() == LOSS.step.tolist()
    assert found["b"].value.tolist() == np.where(LOSS.step <= 1000, 0.0, 1.0).tolist()
    assert found["a"].series.role == "sampling_ratio"
    assert found["a"].name == f"share of {column} a"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_random_mix_is_averaged_until_a_share_means_something(share: float) -> None:
    rng = np.random.default_rng(1)
    found = by_name(shares(manifest(np.where(rng.random(5 * N) < share, "a", "b")), LOSS))
    assert np.abs(found["a"].value - share).max() < 0.5
    assert found["a"].value + found["b"].value == pytest.approx(1.0)
    assert np.isin(found["a"].step, LOSS.step).all()


def test_one_source_many_documents_a_short_loss_or_no_step_say_nothing() -> None:
    two = np.where(np.arange(5 * N) < 900, "a", "b")
    assert shares(manifest(np.full(5 * N, "a")), LOSS) == []
    assert shares(manifest((np.arange(5 * N) % (MOST + 1)).astype(str)), LOSS) == []
    assert shares(manifest(two), make_curve(np.ones(FEWEST - 1))) == []
    assert shares(manifest(two).drop("step"), LOSS) == []
    assert shares(pl.LazyFrame({"step": [1, 2]}), LOSS) == []
    assert shares(manifest(two), make_curve(np.ones(N), step=10_000 + np.arange(N))) == []


def test_shares_that_the_log_has_add_up_to_one() -> None:
    code = np.random.default_rng(0).integers(0, 13, N) / 12
    names = {"mix_code": code, "mix_prose": 1 - code, "lr_mult": code}
    signals = make_signals([make_curve(v, None, name=k, series_id=i) for i, (k, v) in enumerate(names.items())])
    assert [curve.name for curve in logged_shares(signals)] == ["mix_code", "mix_prose"]
    alone = make_signals([make_curve(code, None, name="mix_code"), make_curve(code, None, name="mix_b", series_id=1)])
    assert logged_shares(alone) == []


def test_a_source_runs_dry_only_for_good() -> None:
    share = np.random.default_rng(1).integers(0, 4, N) / 4
    assert runs_dry(share) is None
    share[300:] = 0
    first = runs_dry(share)
    assert first is not None
    assert 295 <= first <= 300
    assert runs_dry(share[:310]) is None
    share[100:160] = 0  # such an absence went by
    assert runs_dry(share) is None
    assert runs_dry(np.zeros(N)) is None
