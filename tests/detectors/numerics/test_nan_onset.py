from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.loss import loss_zero
from trainforensics.detectors.numerics import grad_nan, nan_onset, transient_nan
from trainforensics.model import Clear, Event, Finding, Fired, NotApplicable
from trainforensics.signals import Signals

RNG = np.random.default_rng(0)


def falling(n: int = 200, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 2 + 2 * np.exp(-np.arange(n) / 50) + 0.05 * rng.standard_normal(n)


def only(signals: Signals) -> Finding:
    """The one finding that all detectors of non-finite values together give."""
    found = [
        finding
        for module in (nan_onset, transient_nan, grad_nan, loss_zero)
        if isinstance(outcome := module.detect(signals, {}), Fired)
        for finding in outcome.findings
    ]
    assert len(found) == 1, [f.summary for f in found]
    return found[0]


def test_nan_to_the_end() -> None:
    loss, norm = falling(), np.abs(RNG.normal(1, 0.1, 200))
    loss[150:] = norm[150:] = np.nan
    found = only(make_signals({"train_loss": loss, "grad_norm": norm}))
    assert (found.kind, found.onset_step, found.onset_interval) == ("nan-onset", 151, (150, 151))
    assert found.end_step is None
    assert found.recovery == "unrecovered"
    assert found.confidence > 0.9


def test_without_a_training_loss_the_kl_and_other_losses_speak() -> None:
    kl, value = np.abs(RNG.normal(1e-3, 1e-4, 200)), falling()
    kl[150:] = value[151:] = np.nan
    found = only(make_signals({"kl": kl, "Value function loss": value}))
    assert (found.kind, found.onset_step, found.end_step) == ("nan-onset", 151, None)


def test_rewards_without_a_finished_episode_are_no_onset() -> None:
    reward = falling()
    reward[150:] = np.nan
    outcome = nan_onset.detect(make_signals({"reward": reward, "entropy": falling(seed=1)}), {})
    assert isinstance(outcome, NotApplicable)


def test_a_component_that_is_bad_at_the_end_did_not_come_back() -> None:
    part = falling(seed=1)
    part[199:] = np.inf
    outcome = transient_nan.detect(make_signals({"train_loss": falling(), "value_loss": part}), {})
    assert isinstance(outcome, Clear)


def test_the_first_bad_series_gives_the_onset() -> None:
    loss, norm = falling(), np.full(200, 1.0) + 0.1 * RNG.random(200)
    norm[140:] = np.inf
    loss[150:] = np.nan
    found = only(make_signals({"train_loss": loss, "grad_norm": norm}))
    assert (found.kind, found.onset_step, found.series) == ("nan-onset", 141, "grad_norm")


def test_zero_behind_a_filter() -> None:
    loss, norm = falling(), 1 + 0.1 * RNG.random(200)
    norm[120:] = np.nan
    loss[121:] = 0.0
    found = only(make_signals({"train_loss": loss, "grad_norm": norm}))
    assert (found.kind, found.onset_step) == ("nan-onset", 121)


def test_zero_with_a_gradient_norm_frozen_at_a_sentinel() -> None:
    loss, norm = falling(), 1 + 0.1 * RNG.random(200)
    norm[120:] = 1.0
    loss[120:] = 0.0
    assert only(make_signals({"train_loss": loss, "grad_norm": norm})).kind == "nan-onset"


def test_an_absurd_first_loss_and_zeros_after_it() -> None:
    loss = np.r_[318604.25, np.zeros(80)]
    found = only(make_signals({"train_loss": loss}, step=np.arange(10, 820, 10)))
    assert (found.kind, found.onset_step, found.onset_interval) == ("nan-onset", 20, (10, 20))


def test_a_loss_that_vanishes_from_its_rows() -> None:
    norm = 1 + 0.1 * RNG.random(200)
    norm[150:] = np.nan
    rate = np.linspace(1e-3, 1e-4, 200)
    found = only(make_signals({"train_loss": falling()[:150], "grad_norm": norm, "learning_rate": rate}))
    assert (found.kind, found.onset_step) == ("nan-onset", 151)


def test_the_first_rank_is_named() -> None:
    curves = []
    for rank in range(4):
        loss = falling(seed=rank)
        loss[100 if rank == 2 else 101 :] = np.nan
        curves.append(make_curve(loss, "train_loss", name="loss", rank=rank, series_id=rank))
    found = only(make_signals(curves))
    assert (found.kind, found.onset_step, found.scope.rank) == ("nan-onset", 101, 2)


def test_nan_from_the_first_row_on() -> None:
    found = only(make_signals({"train_loss": np.full(30, np.nan), "grad_norm": np.full(30, np.nan)}))
    assert (found.kind, found.onset_step, found.onset_interval) == ("nan-onset", 1, None)


def test_one_bad_point_at_the_end_is_less_certain() -> None:
    loss = falling()
    loss[-1] = np.nan
    found = only(make_signals({"train_loss": loss}))
    assert (found.kind, found.recovery) == ("nan-onset", "ongoing")
    assert found.confidence < 0.9


def test_a_life_that_was_given_up() -> None:
    loss = falling()
    loss[90:100] = np.nan
    segment = np.repeat([0, 1], 100)
    found = only(make_signals([make_curve(loss, segment=segment)]))
    assert (found.kind, found.onset_step, found.end_step, found.recovery) == ("nan-onset", 91, 100, "recovered")


def test_a_message_instead_of_a_value() -> None:
    event = Event("error", step=200, text="Loss is nan, stopping training")
    assert only(make_signals({"train_loss": falling()}, events=[event])).kind == "nan-onset"


def test_what_moved_before() -> None:
    norm = 1 + 0.05 * RNG.standard_normal(200)
    norm[130:150] = np.geomspace(2, 50, 20)
    loss = falling()
    loss[150:] = norm[150:] = np.nan
    found = only(make_signals({"train_loss": loss, "grad_norm": norm}))
    assert [(p.signal, p.lead) for p in found.precursors] == [("grad_norm", 20)]


# --- quiet -------------------------------------------------------------------------------------------------------


def silent(signals: Signals) -> None:
    for module in (nan_onset, transient_nan, grad_nan, loss_zero):
        outcome = module.detect(signals, {})
        assert not isinstance(outcome, Fired), outcome.findings


def test_nan_in_evaluation_only() -> None:
    silent(make_signals({"train_loss": falling(), "val_loss": np.full(20, np.nan)}))


def test_auxiliary_columns_that_are_nan_by_construction() -> None:
    sometimes = np.where(np.arange(200) % 3 == 0, np.nan, 0.9)
    silent(
        make_signals(
            [
                make_curve(falling(), "train_loss"),
                make_curve(np.full(200, np.nan), None, name="accuracy"),
                make_curve(sometimes, None, name="loss_mask_small"),
                make_curve(sometimes, "train_loss", name="loss/web", domain="web"),
            ]
        )
    )


def test_rows_of_another_sort_leave_the_loss_empty() -> None:
    loss, rate = falling(), np.full(200, 1e-3)
    loss[9::10] = rate[9::10] = np.nan
    loss[-1] = rate[-1] = np.nan
    silent(make_signals({"train_loss": loss, "learning_rate": rate}))


def test_a_second_account_of_the_loss_contradicts() -> None:
    broken = np.full(200, np.nan)
    silent(
        make_signals([make_curve(broken, name="train/loss_avg"), make_curve(falling(), name="train/loss", series_id=1)])
    )


def test_a_loss_that_another_stage_takes_over() -> None:
    later = make_curve(falling(60), "train_loss", name="stage2/loss", step=np.arange(151, 211), series_id=9)
    silent(
        make_signals(
            [
                make_curve(falling()[:150], "train_loss", name="loss"),
                later,
                make_curve(np.full(210, 1e-3), "learning_rate"),
            ]
        )
    )


@pytest.mark.parametrize("n", [1, 3])
def test_short_logs(n: int) -> None:
    assert isinstance(nan_onset.detect(make_signals({"train_loss": np.ones(n)}), {}), Clear)


def test_without_a_loss() -> None:
    assert isinstance(nan_onset.detect(make_signals({"grad_norm": np.ones(5)}), {}), NotApplicable)


def test_a_life_that_a_roll_back_replaced() -> None:
    gone = make_curve(np.r_[np.full(5, 2.1), np.full(15, np.nan)], step=np.arange(81, 101), segment=np.zeros(20))
    step = np.r_[np.arange(1, 81), np.arange(81, 201)]
    kept = make_curve(falling(), step=step, segment=np.repeat([0, 1], [80, 120]), superseded=gone)
    found = only(make_signals([kept]))
    assert (found.kind, found.onset_step, found.onset_interval) == ("nan-onset", 86, (85, 86))
    assert (found.end_step, found.recovery) == (100, "recovered")


def test_parts_of_no_known_meaning_that_turn_bad_together_are_the_loss() -> None:
    heat, pull, clock = np.linspace(4e-3, 2e-3, 60), np.linspace(1e-6, 1e-7, 60), np.full(60, 1.2)
    heat[40:] = pull[40:] = np.nan

    def parts(*values: np.ndarray) -> Signals:
        return make_signals([make_curve(v, None, name=f"stage{i}-heatmaps", series_id=i) for i, v in enumerate(values)])

    found = only(parts(clock, heat, pull))
    assert (found.kind, found.onset_step) == ("nan-onset", 41)
    assert isinstance(nan_onset.detect(parts(clock, heat), {}), NotApplicable)  # one alone may be a metric
    pull[50:] = 1e-7
    assert isinstance(nan_onset.detect(parts(clock, heat, pull), {}), NotApplicable)
