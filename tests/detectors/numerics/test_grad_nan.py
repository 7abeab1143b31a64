from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.numerics import grad_nan, nan_onset
from trainforensics.model import Clear, Fired, NotApplicable
from trainforensics.signals import Signals

RNG = np.random.default_rng(2)
N = 400
LOSS = 2 + 2 * np.exp(-np.arange(N) / 80) + 0.05 * RNG.standard_normal(N)
NORM = 1 + 0.1 * RNG.random(N)


def nan_at(*at: int) -> np.ndarray:
    norm = NORM.copy()
    norm[list(at)] = np.nan
    return norm


def test_every_occurrence_is_listed() -> None:
    outcome = grad_nan.detect(make_signals({"train_loss": LOSS, "grad_norm": nan_at(25, 29, 140, 390)}), {})
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert found.occurrences == (26, 30, 141, 391)
    assert found.onset_interval == (25, 26)


def test_to_the_end_beside_a_flat_loss() -> None:
    norm = np.full(N, np.nan)
    flat = 1.9 + 0.1 * RNG.standard_normal(N)
    signals = make_signals({"train_loss": flat, "grad_norm": norm})
    outcome = grad_nan.detect(signals, {})
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 1
    assert isinstance(nan_onset.detect(signals, {}), Clear)


def test_ranks_that_see_the_same_step_are_one_occurrence() -> None:
    ranks = [make_curve(nan_at(100, 200), "grad_norm", name="grad_norm", rank=r, series_id=r) for r in range(4)]
    outcome = grad_nan.detect(make_signals([make_curve(LOSS, "train_loss"), *ranks]), {})
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].occurrences == (101, 201)


def with_scaler(scale: np.ndarray, *at: int) -> Signals:
    return make_signals({"train_loss": LOSS, "grad_norm": nan_at(*at), "loss_scale": scale})


def test_a_scaler_that_skips_and_recovers_is_quiet() -> None:
    scale = np.full(N, 65536.0)
    scale[100:250] = 32768.0
    assert isinstance(grad_nan.detect(with_scaler(scale, 99, 300), {}), Fired)  # 300 saw no back-off
    scale[301:] = 32768.0
    assert isinstance(grad_nan.detect(with_scaler(scale, 99, 300), {}), Clear)


def test_the_search_at_the_start_is_quiet() -> None:
    scale = 2.0 ** np.maximum(32 - np.arange(N), 20)
    assert isinstance(grad_nan.detect(with_scaler(scale, *range(12)), {}), Clear)


def test_rare_single_steps_of_an_unlogged_scaler_are_quiet() -> None:
    norm = np.tile(NORM, 10)
    norm[[0, 1, 2, 2000, 4000 - 7]] = np.inf
    loss = 2 + 0.05 * RNG.standard_normal(len(norm))
    signals = make_signals({"train_loss": loss, "grad_norm": norm}, config={"fp16": True})
    assert isinstance(grad_nan.detect(signals, {}), Clear)


def test_an_average_that_one_nan_entered_is_one_step() -> None:
    average = NORM.copy()
    average[200:300] = np.nan
    curves = [
        make_curve(LOSS, "train_loss"),
        make_curve(NORM, "grad_norm", name="grad_norm"),
        make_curve(average, "grad_norm", name="grad_norm_avg", series_id=5),
    ]
    signals = make_signals(curves)
    outcome = grad_nan.detect(signals, {})
    assert isinstance(outcome, Fired)
    assert (outcome.findings[0].occurrences, outcome.findings[0].end_step) == ((201,), 201)
    assert isinstance(nan_onset.detect(signals, {}), Clear)


def test_a_norm_that_was_never_computed_is_quiet() -> None:
    signals = make_signals({"train_loss": LOSS, "grad_norm": np.full(N, np.nan)})
    assert isinstance(grad_nan.detect(signals, {}), Clear)


@pytest.mark.parametrize("role", ["train_loss", "learning_rate"])
def test_without_gradients(role: str) -> None:
    assert isinstance(grad_nan.detect(make_signals({role: LOSS}), {}), NotApplicable)


def test_the_first_rows_of_a_run_whose_scale_is_not_logged_are_quiet() -> None:
    assert isinstance(grad_nan.detect(make_signals({"train_loss": LOSS, "grad_norm": nan_at(0, 1, 2)}), {}), Clear)


def test_skips_of_a_scaler_with_hysteresis_are_quiet() -> None:
    scale, skipped = np.where(np.arange(N) < 200, 2048.0, 4096.0), np.zeros(N)
    skipped[300] = 1
    curves = {"train_loss": LOSS, "grad_norm": nan_at(300), "loss_scale": scale, "skipped_steps": skipped}
    assert isinstance(grad_nan.detect(make_signals(curves), {}), Clear)


def test_a_norm_that_grew_until_it_overflowed_is_told_as_an_explosion() -> None:
    norm = np.exp(0.1 * RNG.standard_normal(N) + np.maximum(0, np.arange(N) - 150) / 2)
    norm[norm > 1e30] = np.inf
    flat = 2 + 0.05 * RNG.standard_normal(N)
    assert isinstance(grad_nan.detect(make_signals({"train_loss": flat, "grad_norm": norm}), {}), Clear)


def test_probes_of_a_scaler_that_fail_between_two_rows_are_quiet() -> None:
    scale = np.full(N, 65536.0)
    scale[100:] = 131072.0
    norm = NORM.copy()
    norm[120::36] = np.inf
    probing = make_signals({"train_loss": LOSS, "grad_norm": norm, "loss_scale": scale})
    assert isinstance(grad_nan.detect(probing, {}), Clear)
    norm[120::6] = np.inf
    often = make_signals({"train_loss": LOSS, "grad_norm": norm, "loss_scale": scale})
    assert isinstance(grad_nan.detect(often, {}), Fired)
    assert isinstance(grad_nan.detect(make_signals({"train_loss": LOSS, "grad_norm": norm}), {}), Fired)


def test_what_is_often_so_begins_with_the_first_row() -> None:
    outcome = grad_nan.detect(make_signals({"train_loss": LOSS, "grad_norm": nan_at(0, *range(5, N, 6))}), {})
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 1


def test_a_second_loss_that_dies_while_the_first_lives_is_told() -> None:
    second = LOSS.copy()
    second[300:] = np.nan
    curves = [make_curve(LOSS, "train_loss", name="loss"), make_curve(second, "train_loss", name="train_loss")]
    outcome = grad_nan.detect(make_signals(curves), {})
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert (found.series, found.onset_step, found.recovery) == ("train_loss", 301, "ongoing")
    assert "while the training loss (loss) stays finite" in found.summary


def test_an_average_that_keeps_the_one_nan_of_the_loss_is_no_second_fault() -> None:
    loss, mean = LOSS.copy(), LOSS.copy()
    loss[300], mean[300:] = np.nan, np.nan
    curves = [make_curve(loss, "train_loss", name="loss"), make_curve(mean, "train_loss", name="avg_loss")]
    assert not isinstance(grad_nan.detect(make_signals(curves), {}), Fired)


@pytest.mark.parametrize(("apart", "quiet"), [(40, True), (31, False)])
def test_overflows_of_a_scale_that_is_not_logged_come_when_it_grows(apart: int, quiet: bool) -> None:
    norm = NORM.copy()
    norm[[20, 20 + apart, 20 + 3 * apart, 20 + 5 * apart]] = np.inf
    step = np.arange(0, 50 * N, 50)
    signals = make_signals([make_curve(LOSS, step=step), make_curve(norm, "grad_norm", step=step, series_id=1)])
    assert isinstance(grad_nan.detect(signals, {}), Clear) is quiet


@pytest.mark.parametrize("waits", [True, False])
def test_a_learning_rate_that_waits_tells_of_a_skipped_update(waits: bool) -> None:
    at = [5, 90]
    moves = np.ones(N)
    moves[at] = 0.0 if waits else 1.0
    rate = 1e-4 - 1e-7 * np.cumsum(moves)
    signals = make_signals({"train_loss": LOSS, "grad_norm": nan_at(*at), "learning_rate": rate})
    assert isinstance(grad_nan.detect(signals, {}), Clear) is waits


def test_means_that_skipped_updates_entered_are_quiet() -> None:
    scale = np.where(np.arange(N) // 40 % 2, 32768.0, 65536.0)
    average = NORM.copy()
    average[100::50] = np.nan
    for moved, told in ((scale, Clear), (np.full(N, 65536.0), Fired)):
        curves = [
            make_curve(LOSS, "train_loss"),
            make_curve(NORM, "grad_norm", name="grad_norm (current)"),
            make_curve(average, "grad_norm", name="train_grad_norm", series_id=5),
            make_curve(moved, "loss_scale", series_id=6),
        ]
        assert isinstance(grad_nan.detect(make_signals(curves), {}), told)
