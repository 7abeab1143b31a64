import numpy as np
import pytest
from curves import burst, healthy
from factories import make_curve, make_signals

from trainforensics.signals import Curve
from trainforensics.signals.losses import loss_events, unjudgeable


def test_a_burst_that_a_restart_undid_is_still_told() -> None:
    lost = burst(healthy(500, seed=1), 440, 4.0, decay=300)
    kept = healthy(800, seed=1)
    old = make_curve(lost[400:], step=np.arange(401, 501))
    segment = (np.arange(800) >= 400).astype(np.int32)
    curve = make_curve(kept, segment=segment, superseded=old)
    (event,) = loss_events(make_signals([curve]))
    assert event.rolled_back
    assert event.onset_step == 441


def test_a_climb_into_nan_never_came_back() -> None:
    loss = healthy(400)
    loss[395:] = [3.0, 4.0, 5.0, np.nan, np.nan]
    (event,) = loss_events(make_signals({"train_loss": loss}))
    assert event.lasting
    assert event.excursion.recovery == "diverging"


def test_adversarial_losses_are_not_judged() -> None:
    curve: Curve = make_curve(burst(healthy(), 300, 5.0), name="loss/G")
    signals = make_signals([curve])
    assert loss_events(signals) == ()
    reason = unjudgeable(signals)
    assert reason is not None
    assert "game" in reason.reason


def test_a_critic_that_runs_away_with_no_reward_to_follow() -> None:
    n = 120
    at = np.arange(n)
    noise = np.exp(0.4 * np.random.default_rng(0).standard_normal(n))
    away = make_curve((2 + 9 * np.exp(-at / 4)) * noise * np.exp(np.clip(at - 50, 0, None) / 6), name="critic_loss")
    (event,) = loss_events(make_signals([away]))
    assert event.lasting and 45 <= event.onset_step <= 62
    returns = make_curve(at.astype(float), "reward", series_id=1)
    assert loss_events(make_signals([away, returns])) == ()
    settles = make_curve(np.minimum(away.value, 500.0), name="critic_loss")
    assert loss_events(make_signals([settles])) == ()
    assert loss_events(make_signals([make_curve(away.value, name="loss/G")])) == ()


def test_a_loss_that_leaps_off_its_first_values_for_good_diverged_there() -> None:
    lost = np.append([1.28, 1.31], healthy(300) + 2)
    (event,) = loss_events(make_signals({"train_loss": lost}))
    assert (event.onset_step, event.lasting) == (3, True)
    assert loss_events(make_signals({"train_loss": healthy(300)})) == ()


@pytest.mark.parametrize("n", [20, 28, 60])
def test_a_smooth_climb_of_few_points_is_seen_whole(n: int) -> None:
    t = np.arange(n) / n
    loss = 4.5 + 6 * np.exp(-12 * t) + 3 * np.maximum(t - 0.35, 0) + 0.01 * np.random.default_rng(n).normal(size=n)
    (event,) = loss_events(make_signals({"train_loss": loss}))
    assert event.lasting
    assert abs(event.onset_step - 0.4 * n) <= 0.15 * n
    flat = 4.5 + 6 * np.exp(-12 * t) + 0.01 * np.random.default_rng(n).normal(size=n)
    assert loss_events(make_signals({"train_loss": flat})) == ()


def test_bursts_whose_aftermath_makes_the_level_wander_are_seen() -> None:
    """Each burst throws the loss back for a while, so that coarse medians wander; the leaps themselves do not."""
    rng = np.random.default_rng(4)
    at = np.arange(100, 1400, 90)
    loss = 0.05 * np.exp(rng.normal(0, 0.3, 1440))
    for place in at:
        loss[place:] += 0.3 * np.exp(-np.arange(1440 - place) / 30)
        loss[place : place + 3] = 5 * rng.uniform(0.8, 1.2, 3)
    events = loss_events(make_signals({"train_loss": loss}))
    assert {e.onset_step for e in events} == set(at + 1)


def test_of_many_restarts_the_one_that_undid_a_burst_is_told() -> None:
    """A hundred roll-backs of ten points each; one of the replaced ends holds a burst."""
    kept = healthy(2000, seed=1)
    starts = np.arange(400, 1400, 10)
    segment = np.searchsorted(starts, np.arange(2000), side="right").astype(np.int32)
    rows = np.arange(400, 1400)
    again = healthy(2000, seed=2)[400:1400]
    again[600:610] += 4.0
    old = make_curve(again, step=rows + 1, segment=((rows - 400) // 10).astype(np.int32))
    (event,) = loss_events(make_signals([make_curve(kept, segment=segment, superseded=old)]))
    assert event.rolled_back
    assert event.onset_step == 1001


def test_batches_of_two_kinds_are_no_bursts_but_what_towers_over_both_is() -> None:
    rng = np.random.default_rng(0)
    loss = healthy(2000) + 0.5 * (rng.random(2000) < 0.15)
    assert loss_events(make_signals({"train_loss": loss})) == ()
    loss = burst(loss, 1200, 4.0)
    events = loss_events(make_signals({"train_loss": loss}))
    assert len(events) == 1
    assert 1199 <= events[0].onset_step <= 1203


def test_a_climb_in_a_log_of_a_few_epochs() -> None:
    climbing = [0.70, 0.60, 0.52, 0.62, 0.64, 0.61, 0.81, 0.76, 0.83, 0.85, 0.88]
    (event,) = loss_events(make_signals({"train_loss": climbing}))
    assert event.lasting
    wandering = [0.70, 0.60, 0.52, 0.58, 0.54, 0.57, 0.53, 0.56, 0.55, 0.58, 0.56]
    assert loss_events(make_signals({"train_loss": wandering})) == ()


def test_a_burst_that_others_took_longer_to_come_back_from() -> None:
    loss = healthy(900)
    for at in (300, 500, 700):
        loss[at:] += 4 * np.exp(-np.arange(900 - at) / 15)
    cut = loss[:706]
    events = loss_events(make_signals({"train_loss": cut}))
    assert [event.lasting for event in events] == [False, False, False]
    alone = np.append(healthy(900)[:700], cut[700:])
    assert [event.lasting for event in loss_events(make_signals({"train_loss": alone}))] != [False]


@pytest.mark.parametrize(
    ("loss", "onset", "lasting"),
    [
        ([0.66, 0.80, 4.27, 0.77, 0.56, 0.82], 3, False),
        ([1.59, 1.41, 3.32, 6.44, 5.48, 4.86, 4.87, 4.60], 3, True),
        ([1.70, 11.5, 11.8, 11.5, 11.5, 12.2, 10.0], 2, True),
        ([1.70, 1.55, 1.62, 1.50, 1.48, 1.52, 1.41], None, False),
        ([2.2, 1.9], None, False),
    ],
)
def test_a_handful_of_points(loss: list[float], onset: int | None, lasting: bool) -> None:
    events = loss_events(make_signals({"train_loss": np.array(loss)}))
    assert [(e.onset_step, e.lasting) for e in events] == ([] if onset is None else [(onset, lasting)])


@pytest.mark.parametrize("shared", [True, False])
def test_a_second_row_far_out_with_its_validation(shared: bool) -> None:
    loss = np.append([1.85, 2.98], 1.96 * np.exp(-np.arange(22) / 60))
    evaluated = np.append([2.20, 5.11 if shared else 2.21], 2.25 * np.exp(-np.arange(22) / 60))
    events = loss_events(make_signals({"train_loss": loss, "val_loss": evaluated}))
    assert [e.onset_step for e in events] == ([2] if shared else [])


@pytest.mark.parametrize("first", [[1.05], [1.05, 1.06]])
def test_a_first_row_of_one_step_divided_by_the_interval_is_no_level_to_leap_from(first: list[float]) -> None:
    fall = [10.35, 9.94, 9.57, 9.24, 8.93, 8.65]
    step = np.array([0] * len(first) + [10 * i for i in range(1, 7)])
    assert loss_events(make_signals([make_curve(np.array([*first, *fall]), step=step)])) == ()
    lost = make_curve(np.array([2.05] * len(first) + fall), step=step)  # what was loaded is gone
    assert loss_events(make_signals([lost])) != ()
