from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import rl_collapse
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in rl_collapse.META.params}
N = 400
T = np.arange(N) / N


def run(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "reward": 0.6 * (1 - np.exp(-4 * T)) + 0.05 * rng.standard_normal(N),
        "kl": (1e-3 + 0.02 * T) * np.exp(0.3 * rng.standard_normal(N)),
        "entropy": 0.7 - 0.3 * T + 0.02 * rng.standard_normal(N),
    }


def judge(values: dict[str, np.ndarray]) -> Outcome:
    return rl_collapse.detect(make_signals(values), PARAMS)


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


def test_kl_first_then_reward() -> None:
    values = run()
    values["kl"][230:] *= np.geomspace(1, 60, N)[np.minimum(10 * np.arange(N - 230), N - 1)]
    values["reward"][260:] -= np.minimum(0.55, np.arange(N - 260) / 30)
    found = one(judge(values))
    assert found.role == "kl"
    assert 225 <= (found.onset_step or 0) <= 245
    assert found.precursors[0].signal == "kl"
    assert 15 <= found.precursors[0].lead <= 40


def test_answers_that_run_to_their_limit_are_evidence() -> None:
    values = run()
    values["kl"][230:] *= 60
    values["reward"][260:] -= 0.55
    length = np.where(np.arange(N) < 240, 840.0, 4096.0)
    curves = [make_curve(value, role, series_id=i) for i, (role, value) in enumerate(values.items())]
    curves += [make_curve(length, "seq_len", name="response_length/mean", series_id=8)]
    curves += [make_curve(length, "seq_len", name="global_seqlen/mean", series_id=9)]
    outcome = rl_collapse.detect(make_signals(curves), PARAMS)
    rows = {row.signal: (row.value, row.expected) for row in one(outcome).evidence}
    assert rows["response_length/mean"] == (4096.0, 840.0)
    assert "global_seqlen/mean" not in rows


def test_the_reward_alone() -> None:
    values = run()
    values["reward"][260:] -= 0.5
    found = one(judge(values))
    assert found.role == "reward"
    assert abs((found.onset_step or 0) - 261) <= 2


def test_a_surge_that_does_not_pay_is_medium() -> None:
    values = run()
    values["kl"][230:] *= 100
    values["reward"][230:] = values["reward"][200:230].mean() + 0.05 * np.random.default_rng(1).standard_normal(170)
    found = one(judge(values))
    assert (found.role, found.severity) == ("kl", "medium")


def test_an_entropy_that_is_spent_for_nothing() -> None:
    values = run()
    values["entropy"] = np.where(T < 0.4, 0.7, 0.7 * np.exp(-15 * np.minimum(T - 0.4, 0.3)))
    values["entropy"] *= np.exp(0.03 * np.random.default_rng(2).standard_normal(N))
    values["reward"] -= 0.3 * np.maximum(0, T - 0.5)
    found = one(judge(values))
    assert found.role == "entropy"
    assert 150 <= (found.onset_step or 0) <= 200


@pytest.mark.parametrize("nature", ["plain", "dips", "flat", "noisy", "saturated", "wandering"])
def test_ordinary_runs_are_quiet(nature: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(100 + seed)
        values = run(seed)
        if nature == "dips":
            values["reward"] -= 0.4 * np.exp(-(((T - 0.5) / 0.03) ** 2))
        elif nature == "flat":
            values["reward"] = 0.1 * rng.standard_normal(N)
        elif nature == "noisy":
            values["reward"] += 0.5 * rng.standard_normal(N)
        elif nature == "saturated":
            values["reward"] = np.minimum(2 * values["reward"], 1)
            values["entropy"] = 0.7 * np.exp(-4 * T)
        elif nature == "wandering":
            values["reward"] += 0.1 * np.convolve(rng.standard_normal(N + 29), np.ones(30) / 30**0.5, "valid")
        assert isinstance(judge(values), Clear), seed


def test_rewards_of_preference_optimisation_are_not_judged() -> None:
    falling = np.where(np.arange(N) < 80, 0, -1) + 0.05 * np.random.default_rng(0).standard_normal(N)
    signals = make_signals([make_curve(falling, "reward", name="rewards/rejected")])
    assert isinstance(rl_collapse.detect(signals, PARAMS), Clear)


def test_too_short() -> None:
    assert isinstance(judge({role: value[:10] for role, value in run().items()}), NotApplicable)


def test_a_policy_that_breaks_away_while_the_reward_rises() -> None:
    values = run()
    n = len(values["kl"])
    at = n // 2
    values["kl"][at:] *= 50
    values["entropy"][at + 5 :] *= 0.005
    values["reward"][at:] += 5 * abs(values["reward"]).max()
    found = one(judge(values))
    assert "over-optimised" in found.summary
    assert found.severity == "medium"
    values["entropy"] = run()["entropy"]
    assert not isinstance(judge(values), Fired)


def short(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {
        "reward": -12 - 8 * np.exp(-6 * np.arange(n) / n) + 0.1 * rng.standard_normal(n),
        "kl": 0.02 * np.exp(0.4 * rng.standard_normal(n)),
    }


@pytest.mark.parametrize("n", [25, 200])
def test_one_update_that_wrecks_a_policy_which_comes_back(n: int) -> None:
    values, at = short(n), int(0.8 * n)
    values["reward"][at:] -= 5 * np.exp(-np.arange(n - at) / 2)
    assert not isinstance(judge({**values}), Fired)  # a dip without a surge
    values["kl"][at - 1 : at + 1] = 0.1, 0.45
    found = one(judge(values))
    assert abs((found.onset_step or 0) - at) <= 2
    assert (found.recovery, found.severity) == ("recovered", "medium")
    assert isinstance(judge({**values, "reward": short(n)["reward"]}), Clear)  # a surge without a fall


def test_a_short_log_that_ends_where_it_began() -> None:
    values = short(30)
    assert isinstance(judge(values), Clear)
    values["reward"][-4:] = -20.0
    found = one(judge(values))
    assert (found.role, found.recovery) == ("reward", "unrecovered")
    values["reward"][-4:] = -15.0
    assert isinstance(judge(values), Clear)


def test_a_slow_fall_begins_where_it_bends() -> None:
    rng = np.random.default_rng(4)
    reward = 1 - np.exp(-12 * T) + 0.01 * rng.standard_normal(N)
    reward[300:] -= np.linspace(0, 0.6, 100)
    found = one(judge({"reward": reward}))
    assert abs((found.onset_step or 0) - 300) <= 15


def test_a_reward_that_runs_away_is_dated_by_what_was_gained() -> None:
    x = np.arange(800)
    reward = np.minimum(x / 10, 35) + np.random.default_rng(4).standard_normal(800)
    reward[690:] -= np.exp(np.minimum((x[690:] - 690) / 8, 13))
    found = one(judge({"reward": reward}))
    assert 685 <= (found.onset_step or 0) <= 735


def test_advantages_that_vanish_at_once() -> None:
    """One reward of 24,000 in the running deviation, and nothing is left of all others."""
    rng = np.random.default_rng(5)
    advantages = 0.7 * np.exp(0.1 * rng.standard_normal(N))
    advantages[310:] /= 100
    values = {k: v for k, v in run().items() if k == "reward"}
    curve = make_curve(advantages, None, name="advantage_abs_mean", series_id=9)
    reward = make_curve(values["reward"], "reward")
    found = one(rl_collapse.detect(make_signals([reward, curve]), PARAMS))
    assert found.series == "advantage_abs_mean"
    assert abs((found.onset_step or 0) - 311) <= 1
    slowly = make_curve(np.geomspace(0.7, 0.007, N), None, name="advantage_abs_mean", series_id=9)
    assert isinstance(rl_collapse.detect(make_signals([reward, slowly]), PARAMS), Clear)


def test_a_policy_that_is_lost_for_a_while() -> None:
    values = run(3)
    values["reward"][260:310] -= 0.5
    found = one(judge(values))
    assert (found.onset_step, found.end_step, found.recovery, found.severity) == (261, 311, "recovered", "medium")
    values["reward"][160:200] -= 0.4  # it does so now and then
    assert isinstance(judge(values), Clear)


def alike(level: float, since: int) -> dict[str, np.ndarray]:
    values = run()
    spread = np.full(N, 0.2)
    values["reward"][since:], spread[since:] = level, 0.0
    return values | {"reward_std": spread}


def test_a_reward_without_spread_leaves_nothing_to_learn_from() -> None:
    found = one(judge({name: curve[:60] for name, curve in alike(0.0, 20).items()}))
    assert (found.onset_step, found.role) == (21, "reward")
    assert "no advantage" in found.summary


def test_a_solved_task_has_no_spread_either() -> None:
    assert isinstance(judge(alike(1.0, 200)), Clear)


def test_a_reward_that_is_learnt_lost_and_learnt_again() -> None:
    course = np.interp(np.arange(200), [0, 90, 125, 140, 199], [20.0, 320.0, 12.0, 12.0, 300.0])
    reward = course + np.random.default_rng(0).standard_normal(200)
    found = one(judge({"reward": reward}))
    assert found.recovery == "recovered"
    assert abs((found.onset_step or 0) - 92) <= 3


def test_a_reward_that_falls_all_along_however_noisy() -> None:
    noise = 0.04 * np.random.default_rng(3).standard_normal(24)
    found = one(judge({"reward": 0.5 - 0.2 * np.linspace(0, 1, 24) + noise}))
    assert found.role == "reward"
    assert isinstance(judge({"reward": 0.5 + noise}), Clear)


def test_rewards_whose_differences_overflow_raise_nothing() -> None:
    with np.errstate(all="ignore"):
        judge({"reward": np.where(np.random.default_rng(0).random(N) < 0.7, 1.7e308, -1.7e308)})


@pytest.mark.parametrize(("level", "paid", "told"), [(0.0, 6, True), (0.0, 0, True), (1.0, 0, False), (0.0, 40, False)])
def test_a_reward_that_hardly_any_sample_earns(level: float, paid: int, told: bool) -> None:
    reward, spread = np.full(160, level), np.zeros(160)
    at = np.linspace(3, 156, paid).astype(int)
    reward[at], spread[at] = 0.125, 0.35
    outcome = judge({"reward": reward, "reward_std": spread})
    assert isinstance(outcome, Fired) == told
    if told and paid:
        assert "154 of 160 updates" in one(outcome).summary


@pytest.mark.parametrize(("grows", "told"), [(False, True), (True, False)])
def test_rewards_that_come_ever_more_often_are_learnt(grows: bool, told: bool) -> None:
    reward = np.zeros(300)
    places = np.linspace(0, 1, 18)
    reward[(299 * (np.sqrt(places) if grows else places)).astype(int)] = 0.125
    assert isinstance(judge({"reward": reward, "reward_std": 2.8 * reward}), Fired) == told


def test_a_reward_paid_at_the_end_of_each_episode_that_grows_is_learnt() -> None:
    reward = np.zeros(400)
    reward[9::10] = np.linspace(0, 1, 40)
    assert not isinstance(judge({"reward": reward, "reward_std": 0.1 * reward}), Fired)


def test_a_level_that_is_lost_behind_a_far_lower_point() -> None:
    rng = np.random.default_rng(1)
    reward = -5.8 + 0.1 * rng.standard_normal(150)
    reward[125:] = -11 + 0.2 * rng.standard_normal(25)
    reward[125] = -2855
    found = one(rl_collapse.detect(make_signals({"reward": reward}), PARAMS))
    assert abs((found.onset_step or 0) - 126) <= 1


def test_an_entropy_that_leaps_is_dated_by_its_leap() -> None:
    values, rng = run(), np.random.default_rng(3)
    values["entropy"] = 0.15 * np.exp(0.08 * rng.standard_normal(N))
    values["entropy"][240:] = 0.05 * np.exp(0.3 * rng.standard_normal(N - 240) - np.linspace(0, 0.8, N - 240))
    values["entropy"][228:240] *= 0.97
    values["reward"][240:] = values["reward"][100]
    found = one(judge(values))
    assert abs((found.onset_step or 0) - 241) <= 1
