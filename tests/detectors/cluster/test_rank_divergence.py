from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import rank_divergence
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in rank_divergence.META.params}
N = 400


def losses(ranks: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 2 + 3 * np.exp(-np.arange(N) / 60) + 0.1 * rng.standard_normal((ranks, N))


def judge(values: np.ndarray, role: str = "train_loss", **more: np.ndarray) -> Outcome:
    curves = [make_curve(row, role, rank=rank, series_id=rank) for rank, row in enumerate(values)]
    curves += [make_curve(row, r, rank=k) for r, rows in more.items() for k, row in enumerate(rows)]
    return rank_divergence.detect(make_signals(curves), PARAMS)


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


@pytest.mark.parametrize("ranks", [3, 4, 8, 64])
@pytest.mark.parametrize("height", [0.3, -0.3])
def test_a_rank_that_leaves(ranks: int, height: float) -> None:
    values = losses(ranks)
    values[2, 250:] += height
    found = one(judge(values))
    assert found.scope.rank == 2
    assert abs((found.onset_step or 0) - 251) <= 10
    assert found.severity is None


def test_a_slow_drift() -> None:
    values = losses(4)
    values[1, 200:] += np.linspace(0, 0.4, 200)
    found = one(judge(values))
    assert found.scope.rank == 1
    assert 190 <= (found.onset_step or 0) <= 280


def test_norms_that_were_equal() -> None:
    norm = 100 + np.arange(N) * 0.01 + np.zeros((4, 1))
    norm[3, 300:] *= 1 + 1e-3 * np.arange(100)
    found = one(judge(norm, "param_norm"))
    assert (found.scope.rank, found.role) == (3, "param_norm")
    assert 300 <= (found.onset_step or 0) <= 312


def test_a_second_series_makes_it_surer() -> None:
    values, norm = losses(4), np.exp(0.1 * np.random.default_rng(5).standard_normal((4, N)))
    values[2, 250:] += 0.4
    alone = one(judge(values)).confidence
    norm[2, 250:] *= 2
    found = one(judge(values, grad_norm=norm))
    assert found.confidence > alone
    assert "grad norm" in found.summary


def test_of_two_ranks_none_is_named() -> None:
    values = losses(2)
    values[1, 250:] += 0.5
    found = one(judge(values))
    assert found.scope.rank is None
    assert found.severity == "medium"


QUIET = {
    "noise": lambda rng: 0.1 * rng.standard_normal((4, N)),
    "heavy tails": lambda rng: 0.05 * rng.standard_t(2, (4, N)),
    "constant differences": lambda rng: 0.1 * rng.standard_normal((4, N)) + 0.05 * rng.standard_normal((4, 1)),
    "shards with levels": lambda rng: (
        0.1 * rng.standard_normal((4, N)) + np.repeat(0.05 * rng.standard_normal((4, 10)), N // 10, axis=1)
    ),
    "rounded": lambda rng: np.round(0.03 * rng.standard_normal((4, N)), 1),
}


@pytest.mark.parametrize("nature", QUIET)
def test_ordinary_ranks_are_quiet(nature: str) -> None:
    for seed in range(20):
        noise = QUIET[nature](np.random.default_rng(seed))
        assert isinstance(judge(2 + 3 * np.exp(-np.arange(N) / 60) + noise), Clear), seed


def test_one_odd_point_is_data() -> None:
    values = losses(4)
    values[2, 250:253] += 3
    assert isinstance(judge(values), Clear)


def test_sharded_norms_differ_from_the_start() -> None:
    norm = np.array([[10.0], [11.0], [10.5], [90.0]]) * (1 + np.arange(N) * 1e-4)
    assert isinstance(judge(norm, "param_norm"), Clear)


def test_earlier_pipeline_stages_log_a_constant() -> None:
    values = losses(4)
    values[:2] = 0.0
    assert isinstance(judge(values), Clear)


def test_without_ranks() -> None:
    assert isinstance(rank_divergence.detect(make_signals({"train_loss": losses(1)[0]}), PARAMS), NotApplicable)


def test_checksums_that_are_no_longer_equal() -> None:
    rng = np.random.default_rng(3)
    checksum = np.tile(rng.uniform(0, 9, N), (4, 1))
    assert isinstance(judge(checksum, "checksum"), Clear)
    checksum[2, 300:] = rng.uniform(0, 9, 100)
    found = one(judge(checksum, "checksum"))
    assert (found.scope.rank, found.onset_step) == (2, 301)
    assert "no longer equals" in found.summary


def test_checksums_of_ranks_that_never_were_equal_or_differ_once() -> None:
    rng = np.random.default_rng(3)
    checksum = np.tile(rng.uniform(0, 9, N), (4, 1))
    checksum[1, 200:203] += 1.0
    assert isinstance(judge(checksum, "checksum"), Clear)
    assert isinstance(judge(rng.uniform(0, 9, (4, N)), "checksum"), Clear)


def test_a_rank_that_leaves_by_far_right_before_the_end() -> None:
    rng = np.random.default_rng(3)
    norms = np.exp(0.3 + 0.15 * rng.standard_normal((4, 66)))
    norms[3, 52:] *= 4
    found = one(judge(norms, "grad_norm"))
    assert found.scope.rank == 3
    assert abs((found.onset_step or 0) - 53) <= 2
    norms[3, 52:] /= 2.8  # of 40 %, that early, nobody can be sure
    assert isinstance(judge(norms, "grad_norm"), Clear)


@pytest.mark.parametrize("seed", [0, 1, 3, 6])
def test_a_leap_is_the_onset_whatever_strays_before_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = 0.06 * np.exp(0.15 * rng.standard_normal((3, 150)))
    values[2, 58:64] += 0.05 * rng.random(6)
    values[2, 64:] += 0.03 * np.exp(0.6 * rng.standard_normal(86))
    values[2, 64:67] += [0.25, 0.12, 0.08]
    found = one(judge(values))
    assert (found.scope.rank, found.onset_step) == (2, 65)


def test_ranks_that_were_fed_the_same_part_where_they_first_differ() -> None:
    rng, at = np.random.default_rng(3), np.arange(240)
    same = 2.8 - at / 200 + 0.1 * rng.standard_normal(240)
    apart = np.where(at < 9, 0.0, 1e-5 * np.exp(np.clip((at - 9) / 9, 0, 11.5)))
    told = []
    for own in (0.0, 0.03):  # data of their own
        curves = [
            make_curve(same + k * apart + own * rng.standard_normal(240), name="loss", rank=k, series_id=k)
            for k in (0, 1)
        ]
        outcome = rank_divergence.detect(make_signals(curves), PARAMS)
        assert isinstance(outcome, Fired)
        told.append(outcome.findings[0].onset_step)
    assert told[0] == 10
    assert (told[1] or 0) > 60
