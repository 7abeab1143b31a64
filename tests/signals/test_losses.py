import numpy as np
import pytest
from curves import burst, healthy, hump
from factories import make_curve, make_signals

from trainforensics.signals import Curve
from trainforensics.signals.losses import loss_events, unjudgeable


def test_a_warm_restart_is_structure() -> None:
    """The learning rate returns to its old peak; the loss rises a little and falls again."""
    n = 1200
    rate = 1e-3 * (0.5 + 0.5 * np.cos(np.pi * (np.arange(n) % 400) / 400))
    loss = healthy(n)
    for at in (400, 800):
        loss = hump(loss, at, 60, 0.6)
    assert len(loss_events(make_signals({"train_loss": loss}))) == 2
    assert loss_events(make_signals({"train_loss": loss, "learning_rate": rate})) == ()


@pytest.mark.parametrize("stays", [True, False])
def test_a_leap_of_the_rate_to_a_known_level_explains_a_burst_if_it_stays_up(stays: bool) -> None:
    n = 1200
    rate = 1e-3 * (0.51 + 0.49 * np.cos(np.pi * (np.arange(n) % 400) / 400))
    if not stays:
        rate = 1e-3 * (0.51 + 0.49 * np.cos(np.pi * np.arange(n) / n))
        rate[800] = 1e-3
    loss = burst(healthy(n), 800, 1.0, decay=20)
    events = loss_events(make_signals({"train_loss": loss, "learning_rate": rate}))
    assert len(events) == (0 if stays else 1)


def test_a_rate_never_known_before_is_no_restart() -> None:
    n = 1200
    rate = np.where(np.arange(n) < 500, 1e-4, 5e-3)
    loss = hump(healthy(n), 500, 60, 0.8)
    assert len(loss_events(make_signals({"train_loss": loss, "learning_rate": rate}))) == 1


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


def test_a_part_of_the_loss_given_more_weight_by_plan_is_structure() -> None:
    """KL annealing: the sum climbs while the weight does, and falls again once it stands."""
    n = 1200
    weight = np.clip((np.arange(n) - 300) / 250, 0, 1)
    loss = hump(healthy(n), 300, 300, 1.5)
    assert loss_events(make_signals({"train_loss": loss}))
    assert loss_events(make_signals({"train_loss": loss, "loss_weight": weight})) == ()
    assert loss_events(make_signals({"train_loss": loss, "loss_weight": np.full(n, 0.1)}))


def test_a_jump_where_the_stage_moves_on_is_announced() -> None:
    n = 600
    stage = (np.arange(n) // 200).astype(float)
    loss = healthy(n)
    for at in (200, 400):
        loss = burst(loss, at, 3.0, decay=20)
    assert [event.onset_step for event in loss_events(make_signals({"train_loss": loss}))] == [201, 401]
    assert loss_events(make_signals({"train_loss": loss, "stage": stage})) == ()
    assert len(loss_events(make_signals({"train_loss": loss, "stage": np.arange(n) // 2.0}))) == 2  # a plain count


def test_the_way_back_from_a_dip_is_no_divergence() -> None:
    loss = 2 + 0.1 * np.random.default_rng(0).normal(size=600)
    loss[400:440] -= 1.7
    assert loss_events(make_signals({"train_loss": loss})) == ()
    learnt = healthy(600)
    learnt[400:] += 3.0
    assert [event.lasting for event in loss_events(make_signals({"train_loss": learnt}))] == [True]


def test_where_a_reward_is_maximised_the_loss_may_climb_but_not_leap() -> None:
    n = 1200
    reward = np.linspace(0, 1, n)
    climbing = hump(healthy(n), 500, 200, 1.5)
    leaping = burst(healthy(n), 500, 4.0)
    assert loss_events(make_signals({"train_loss": climbing}))
    assert loss_events(make_signals({"train_loss": climbing, "reward": reward})) == ()
    assert loss_events(make_signals({"train_loss": leaping, "reward": reward}))


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


@pytest.mark.parametrize("phased_in", [1, 200])
@pytest.mark.parametrize("logged", [True, False])
def test_a_part_that_joins_lifts_the_total_by_its_own_size(phased_in: int, logged: bool) -> None:
    n, joins = 1600, 700
    rng = np.random.default_rng(phased_in)
    weight = np.clip((np.arange(n) - joins + 1) / phased_in, 0, 1)
    part = 0.5 + 0.02 * rng.normal(size=n)
    total = healthy(n) + weight * part
    later = make_curve(part[joins:], None, name="loss_flow", step=np.arange(joins, n))
    with_part = make_signals([make_curve(total, "train_loss"), *([later] if logged else [])])
    assert bool(loss_events(with_part)) is not logged


def test_a_part_that_joins_explains_no_more_than_its_own_size() -> None:
    n, joins = 1600, 700
    total = burst(healthy(n), joins, 3.0)
    later = make_curve(np.full(n - joins, 0.1), None, name="loss_flow", step=np.arange(joins, n))
    assert loss_events(make_signals([make_curve(total, "train_loss"), later]))


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


@pytest.mark.parametrize(("score", "told"), [(np.linspace(0.1, 0.8, 30), False), (np.full(30, 0.4), True)])
def test_a_sum_that_grows_while_the_score_gets_better_is_no_divergence(score: np.ndarray, told: bool) -> None:
    rng = np.random.default_rng(1)
    loss = np.r_[41.0, 7000 + 400 * rng.standard_normal(59)]
    step = np.arange(0, 6000, 100)
    evaluated = make_curve(score, "val_metric", name="accuracy", step=step[::2], series_id=1)
    events = loss_events(make_signals([make_curve(loss, step=step), evaluated]))
    assert bool(events) is told


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
