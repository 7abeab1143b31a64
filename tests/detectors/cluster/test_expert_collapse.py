from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import expert_collapse
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve

PARAMS = {p.name: p.default for p in expert_collapse.META.params}
N = 400


def shares(logit: np.ndarray, tokens: int = 512, seed: int = 0) -> list[Curve]:
    rng = np.random.default_rng(seed)
    likely = np.exp(logit) / np.exp(logit).sum(axis=0)
    count = np.vstack([rng.multinomial(tokens, likely[:, i]) for i in range(N)]).T
    return [make_curve(row, "expert_load", name=f"expert_{i}", expert=i) for i, row in enumerate(count)]


def judge(curves: list[Curve]) -> Outcome:
    return expert_collapse.detect(make_signals(curves), PARAMS)


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


@pytest.mark.parametrize("experts", [4, 8, 32])
def test_one_expert_takes_over(experts: int) -> None:
    logit = np.zeros((experts, N))
    logit[2, 200:] += np.minimum(4, np.arange(200) / 20)
    found = one(judge(shares(logit)))
    assert found.scope.expert == 2
    assert 195 <= (found.onset_step or 0) <= 235


def test_a_single_expert_in_use_is_one() -> None:
    logit = np.zeros((4, N))
    logit[2, 200:] += 30
    assert "1 of 4 experts is in effective use" in one(judge(shares(logit))).summary


def test_a_router_that_fails_at_once_does_so_at_its_leap() -> None:
    logit = np.zeros((6, N))
    logit[2] = np.interp(np.arange(N), [150, 300], [0.0, 0.5])  # its share creeps up before
    logit[2, 300:] += 30
    assert one(judge(shares(logit))).onset_step == 301


def test_collapsed_from_the_start() -> None:
    logit = np.zeros((8, N))
    logit[5] = 5
    found = one(judge(shares(logit)))
    assert (found.scope.expert, found.onset_step) == (5, 1)


def test_a_balance_loss_beside_it_is_evidence() -> None:
    logit = np.zeros((4, N))
    logit[2, 200:] += 4
    rng = np.random.default_rng(1)
    balance = np.where(np.arange(N) < 200, 1.0, 2.5) + 0.02 * rng.standard_normal(N)
    found = one(judge([*shares(logit), make_curve(balance, "load_balance_loss")]))
    assert any(row.signal == "load_balance_loss" for row in found.evidence)


@pytest.mark.parametrize("late", [2.0, 0.02])
def test_a_balance_loss_alone(late: float) -> None:
    rng = np.random.default_rng(0)
    course = np.where(np.arange(N) < 250, 1 + np.exp(-np.arange(N) / 30), late) * np.exp(0.02 * rng.standard_normal(N))
    found = one(judge([make_curve(course, "load_balance_loss", name="moe/lb_loss")]))
    assert abs((found.onset_step or 0) - 251) <= 2


def test_the_load_of_the_busiest_expert() -> None:
    rng = np.random.default_rng(0)
    load = (1.2 + 3 * np.clip((np.arange(N) - 250) / 50, 0, 1)) * np.exp(0.05 * rng.standard_normal(N))
    found = one(judge([make_curve(load, "expert_load", name="moe/max_load")]))
    assert 245 <= (found.onset_step or 0) <= 270


def quiet(nature: str, seed: int) -> list[Curve]:
    rng = np.random.default_rng(seed)
    logit = np.zeros((6, N))
    if nature == "uneven":
        logit += 0.3 * rng.standard_normal((6, 1))
    elif nature == "learning to route":
        logit[0] += 3 * np.exp(-np.arange(N) / 20)
    elif nature == "one dies":
        logit[1, 200:] = -9
    elif nature == "a burst":
        logit[0, 200:205] = 3
    return shares(logit, tokens=8 if nature == "tiny batches" else 512, seed=seed)


@pytest.mark.parametrize("nature", ["even", "uneven", "learning to route", "one dies", "a burst", "tiny batches"])
def test_ordinary_routing_is_quiet(nature: str) -> None:
    for seed in range(8):
        assert isinstance(judge(quiet(nature, seed)), Clear), seed


def test_a_balance_loss_that_settles_is_quiet() -> None:
    course = 1 + 2 * np.exp(-np.arange(N) / 60) + 0.05 * np.random.default_rng(0).standard_normal(N)
    assert isinstance(judge([make_curve(course, "load_balance_loss", name="moe/lb_loss")]), Clear)


def test_other_auxiliary_losses_are_not_judged() -> None:
    course = np.where(np.arange(N) < 250, 1.0, 3.0)
    assert isinstance(judge([make_curve(course, "load_balance_loss", name="aux_loss")]), NotApplicable)


@pytest.mark.parametrize(("scale", "alarm"), [(1.0, True), (100.0, True), (4096.0, False)])
def test_tokens_that_no_expert_has_room_for(scale: float, alarm: bool) -> None:
    dropped = np.where(np.arange(N) < 250, 0.1, 0.7) + 0.02 * np.random.default_rng(1).standard_normal(N)
    curves = [*quiet("even", 0), make_curve(scale * dropped, "dropped_tokens", series_id=99)]
    outcome = judge(curves)
    assert isinstance(outcome, Fired if alarm else Clear)
    few = make_curve(scale * dropped / 7, "dropped_tokens", series_id=99)
    assert isinstance(judge([*quiet("even", 0), few]), Clear)


def test_shares_that_part_at_once_do_so_at_their_own_point() -> None:
    for seed in range(10):
        logit = np.zeros((8, N))
        logit[3:, 200:] = -20  # five of eight can no longer be reached
        assert one(judge(shares(logit, seed=seed))).onset_step == 201


@pytest.mark.parametrize("narrows", [True, False])
def test_an_entropy_that_is_gone_counts_beside_shares_that_narrow(narrows: bool) -> None:
    gone = 0.003 + 0.6 / (1 + np.exp((np.arange(N) - 200) / 5))
    entropy = make_curve(gone * np.exp(0.05 * np.random.default_rng(2).standard_normal(N)), "router_entropy")
    logit = np.zeros((8, N))
    logit[5, 220:], logit[4, 220:] = narrows * 0.8, narrows * 0.6
    logit[:2, 220:] = -narrows * 0.7
    outcome = judge([*shares(logit, tokens=2048), entropy])
    assert isinstance(judge(shares(logit, tokens=2048)), Clear)
    if narrows:
        assert one(outcome).onset_step == pytest.approx(195, abs=15)
    else:
        assert isinstance(outcome, Clear)


def test_a_collapse_begins_where_the_share_leaves_for_the_top_not_where_it_wanders() -> None:
    logit = np.zeros((8, N))
    logit[1] = np.interp(np.arange(N), [0, 80, 130, 300, 330], [-3.0, -3.0, 0.3, 0.3, 6.0])  # starved at first
    assert 300 <= (one(judge(shares(logit))).onset_step or 0) <= 312
