from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve

from trainforensics.signals.evaluations import higher_is_better, level_up_to, point_noise, usable


def test_noise_is_blind_to_level_and_slope() -> None:
    rng = np.random.default_rng(0)
    noise = 0.3 * rng.standard_normal(4000)
    assert point_noise(noise) == pytest.approx(0.3, rel=0.1)
    assert point_noise(noise + 5 + 0.01 * np.arange(4000)) == pytest.approx(point_noise(noise), rel=0.01)


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


def test_a_mere_metric_that_falls_through_decades_is_an_error() -> None:
    falls = np.geomspace(0.9, 0.001, 30)
    assert not higher_is_better(make_curve(falls, "val_metric", name="Test metric"))
    assert higher_is_better(make_curve(1 - falls, "val_metric", name="Test metric"))
    assert higher_is_better(make_curve(falls, "val_metric", name="test_accuracy"))
