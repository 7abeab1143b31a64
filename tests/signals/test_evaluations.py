from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.signals.evaluations import (
    condense,
    higher_is_better,
    level_up_to,
    mann_kendall,
    point_noise,
    sustained_rise,
    usable,
)


def test_noise_is_blind_to_level_and_slope() -> None:
    rng = np.random.default_rng(0)
    noise = 0.3 * rng.standard_normal(4000)
    assert point_noise(noise) == pytest.approx(0.3, rel=0.1)
    assert point_noise(noise + 5 + 0.01 * np.arange(4000)) == pytest.approx(point_noise(noise), rel=0.01)


def test_mann_kendall_holds_its_level() -> None:
    rng = np.random.default_rng(1)
    p = np.array([mann_kendall(rng.standard_normal(15)) for _ in range(2000)])
    assert np.mean(p < 0.01) < 0.02
    assert mann_kendall(np.arange(8.0)) < 0.001
    assert mann_kendall(np.ones(8)) == 1.0


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=5, max_size=40), st.floats(0.01, 100))
def test_a_rise_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    plain = sustained_rise(condense(make_curve(values, "val_loss")))
    scaled = sustained_rise(condense(make_curve(np.array(values) * factor, "val_loss")))
    assert (plain is None) == (scaled is None)
    if plain is not None and scaled is not None:
        assert scaled.z == pytest.approx(plain.z, rel=1e-3)


def test_training_level_between_evaluations_skips_what_is_not_finite() -> None:
    train = make_curve([1.0, 2.0, 3.0, np.nan, 9.0, np.inf], "train_loss", step=[1, 2, 3, 4, 11, 12])
    assert level_up_to(train, np.array([3, 5, 12])).tolist()[:1] == [2.0]
    assert np.isnan(level_up_to(train, np.array([3, 5, 12]))[1])
    assert level_up_to(train, np.array([3, 5, 12]))[2] == 9.0


def test_usable_points_are_finite_moderate_and_one_a_step() -> None:
    curve = usable(make_curve([1.0, 2.0, np.nan, 1e300, 4.0], "val_loss", step=[1, 1, 2, 3, 4]))
    assert curve.value.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("name", ["eval/accuracy", "val_f1", "test/bleu", "performance", "terror_recall_"])
def test_scores(name: str) -> None:
    assert higher_is_better(make_curve([1.0], "val_metric", name=name))


@pytest.mark.parametrize("name", ["val/error", "val_err", "eval_ppl", "test/perplexity", "dev_wer", "rmse", "fid"])
def test_errors(name: str) -> None:
    assert not higher_is_better(make_curve([1.0], "val_metric", name=name))


def test_the_noise_of_a_rise_is_that_since_the_lowest_evaluation() -> None:
    """A steep and wild start says nothing of how well later evaluations are known."""
    rng = np.random.default_rng(2)
    start = 1.7 - 1.4 * np.linspace(0, 1, 14) ** 2 + 0.05 * rng.standard_normal(14)
    late = 0.30 + np.linspace(0, 0.09, 14) + 0.008 * rng.standard_normal(14)
    rise = sustained_rise(condense(make_curve(np.append(start, late), "val_loss")))
    assert rise is not None
    assert rise.z > 6
