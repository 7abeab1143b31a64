import numpy as np
import pytest
from curves import burst, healthy, hump
from factories import make_curve, make_signals

from trainforensics.signals.losses import loss_events


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


@pytest.mark.parametrize(("score", "told"), [(np.linspace(0.1, 0.8, 30), False), (np.full(30, 0.4), True)])
def test_a_sum_that_grows_while_the_score_gets_better_is_no_divergence(score: np.ndarray, told: bool) -> None:
    rng = np.random.default_rng(1)
    loss = np.r_[41.0, 7000 + 400 * rng.standard_normal(59)]
    step = np.arange(0, 6000, 100)
    evaluated = make_curve(score, "val_metric", name="accuracy", step=step[::2], series_id=1)
    events = loss_events(make_signals([make_curve(loss, step=step), evaluated]))
    assert bool(events) is told


@pytest.mark.parametrize("gains", [True, False])
def test_a_training_loss_that_climbs_while_validation_gets_better_is_asked_for_more(gains: bool) -> None:
    """Teacher forcing is phased out: what the model sees in training gets as hard as in evaluation."""
    epoch, rng = np.arange(50), np.random.default_rng(0)
    forced = np.maximum(0, 1 - epoch / 35)
    loss = 1.1 + 2.6 * np.exp(-epoch / 5.5) + 0.55 * (1 - forced) * (1 - np.exp(-epoch / 5)) + rng.normal(0, 0.015, 50)
    val = 2.3 + 2.2 * np.exp(-epoch / 5.5) + 0.45 * (1 - forced) * (-1 if gains else 1) + rng.normal(0, 0.02, 50)
    assert bool(loss_events(make_signals({"train_loss": loss, "val_loss": val}))) is not gains


@pytest.mark.parametrize("ramped", [True, False])
def test_the_last_point_of_a_ramp_of_weights_is_no_burst(ramped: bool) -> None:
    fall = 0.3 + 0.5 * np.exp(-np.arange(40) / 6)
    fall[6:11] += np.array([0.03, 0.06, 0.09, 0.12, 0.3])
    weight = np.clip((np.arange(40) - 5) / 5, 0, 1) if ramped else np.ones(40)
    signals = make_signals({"train_loss": fall, "loss_weight": 0.85 * weight})
    assert bool(loss_events(signals)) != ramped
