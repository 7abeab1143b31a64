from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.numerics import grad_nan, nan_onset, transient_nan
from trainforensics.model import Clear, Event, Fired
from trainforensics.signals import Signals

RNG = np.random.default_rng(1)
LOSS = 2 + 0.1 * RNG.standard_normal(300)
NORM = 1 + 0.1 * RNG.random(300)


def fired(signals: Signals) -> Fired:
    outcome = transient_nan.detect(signals, {})
    assert isinstance(outcome, Fired)
    assert isinstance(nan_onset.detect(signals, {}), Clear)
    return outcome


def test_an_infinite_loss_that_comes_back() -> None:
    loss, norm = LOSS.copy(), NORM.copy()
    loss[[100, 200]] = np.inf
    norm[[100, 200]] = np.nan
    signals = make_signals({"train_loss": loss, "grad_norm": norm})
    (found,) = fired(signals).findings
    assert found.occurrences == (101, 201)
    assert (found.end_step, found.recovery) == (201, "recovered")
    assert isinstance(grad_nan.detect(signals, {}), Clear)


def test_one_rank() -> None:
    ranks = [make_curve(LOSS.copy(), "train_loss", name="loss", rank=r, series_id=r) for r in range(4)]
    ranks[3].value[50:53] = np.nan
    (found,) = fired(make_signals(ranks)).findings
    assert (found.onset_step, found.end_step, found.scope.rank) == (51, 53, 3)


def test_one_component_once() -> None:
    part = LOSS.copy() / 4
    part[120] = np.nan
    curves = [make_curve(LOSS, "train_loss"), make_curve(part, None, name="loss_bbox")]
    (found,) = fired(make_signals(curves)).findings
    assert (found.series, found.onset_step) == ("loss_bbox", 121)


def test_a_component_that_is_often_nan_is_quiet() -> None:
    part = np.where(RNG.random(300) < 0.3, np.nan, 0.4)
    curves = [make_curve(LOSS, "train_loss"), make_curve(part, None, name="loss_rare_class")]
    assert isinstance(transient_nan.detect(make_signals(curves), {}), Clear)


def test_a_table_that_fills_evaluation_rows_with_nan_is_quiet() -> None:
    loss = LOSS.copy()
    loss[::50] = np.nan
    val = np.full(300, np.nan)
    val[::50] = 2.1
    assert isinstance(transient_nan.detect(make_signals({"train_loss": loss, "val_loss": val}), {}), Clear)


def test_a_placeholder_in_the_first_row_is_quiet() -> None:
    loss = LOSS.copy()
    loss[0] = np.nan
    assert isinstance(transient_nan.detect(make_signals({"train_loss": loss}), {}), Clear)


def test_rows_that_lose_their_loss_for_a_while() -> None:
    step = np.arange(300)
    norm = NORM.copy()
    norm[150] = np.nan
    kept = step != 150
    curves = [make_curve(LOSS[kept], step=step[kept]), make_curve(norm, "grad_norm", step=step, series_id=1)]
    (found,) = fired(make_signals(curves)).findings
    assert (found.onset_step, found.end_step) == (150, 150)
    scale = make_curve(np.where(step < 150, 2048.0, 1024.0), "loss_scale", step=step, series_id=2)
    assert isinstance(transient_nan.detect(make_signals([*curves, scale]), {}), Clear)


def test_a_batch_that_was_left_out_for_its_loss() -> None:
    skips = [
        Event("update-skipped", 25, text="[WARNING] NaN loss detected! Skipping batch."),
        Event("update-skipped", 80, text="skipping update: gradient norm is nan, loss 2.3"),
    ]
    (found,) = fired(make_signals({"train_loss": LOSS}, events=skips)).findings
    assert (found.occurrences, found.end_step, found.recovery) == ((25,), 25, "recovered")
    assert "no row holds" in found.summary
    assert isinstance(transient_nan.detect(make_signals({"train_loss": LOSS}, events=skips[1:]), {}), Clear)


@pytest.mark.parametrize(("name", "told"), [("number of nan iterations", True), ("nan grads", False)])
def test_an_iteration_that_is_counted_as_nan(name: str, told: bool) -> None:
    count = np.where(np.arange(200) == 120, 1.0, 0.0)
    loss, row = 2 + 0.1 * np.sin(np.arange(200)), np.arange(200) != 120
    curves = [
        make_curve(loss[row], step=np.arange(200)[row]),
        make_curve(count, "nan_count", name=name, step=np.arange(200), series_id=1),
    ]
    outcome = transient_nan.detect(make_signals(curves), {})
    assert isinstance(outcome, Fired) is told
    assert not isinstance(outcome, Fired) or outcome.findings[0].onset_step == 120
