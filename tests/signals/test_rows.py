from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.signals.rows import missing_rows, real_rows, with_rows

STEP = np.arange(100)
LOSS = 2 + 0.1 * np.sin(STEP)
RATE = make_curve(np.full(100, 1e-3), "learning_rate", step=STEP, series_id=9)


def test_rows_of_another_sort_are_taken_out() -> None:
    loss, rate = LOSS.copy(), np.full(100, 1e-3)
    loss[[10, 20, 30]] = np.nan
    rate[[10, 20]] = np.nan
    signals = make_signals({"train_loss": loss, "learning_rate": rate})
    kept = real_rows(signals, signals.curves("train_loss")[0])
    assert len(kept) == 98
    assert np.isnan(kept.value).sum() == 1


def test_rows_that_go_on_without_the_loss() -> None:
    loss = make_curve(LOSS[:80], step=STEP[:80])
    assert missing_rows(make_signals([loss, RATE]), loss).tolist() == list(range(80, 100))


def test_a_denser_series_says_nothing_of_missing_rows() -> None:
    sparse = make_curve(LOSS[:80:10], step=STEP[:80:10])
    assert not len(missing_rows(make_signals([sparse, RATE]), sparse))


def test_a_living_gradient_says_that_all_is_well() -> None:
    loss = make_curve(LOSS[:80], step=STEP[:80])
    norm = make_curve(np.ones(100), "grad_norm", step=STEP, series_id=8)
    assert not len(missing_rows(make_signals([loss, RATE, norm]), loss))


def test_rows_are_inserted_in_order() -> None:
    curve = with_rows(make_curve(LOSS[::2], step=STEP[::2]), np.array([1, 3, 99]))
    assert (np.diff(curve.step) > 0).all()
    assert np.isnan(curve.value[[1, 3, -1]]).all()
