from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import straggler
from trainforensics.model import Clear, Event, Finding, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in straggler.META.params}
N = 400


def times(ranks: int = 4, seed: int = 0, noise: float = 0.04) -> np.ndarray:
    return 0.4 * np.exp(noise * np.random.default_rng(seed).standard_normal((ranks, N)))


def judge(values: np.ndarray, role: str = "step_time", **more: np.ndarray) -> Outcome:
    curves = [make_curve(row, role, rank=rank) for rank, row in enumerate(values)]
    curves += [make_curve(row, r, name=r, rank=k) for r, rows in more.items() for k, row in enumerate(rows)]
    return straggler.detect(make_signals(curves), PARAMS)


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


@pytest.mark.parametrize("factor", [1.2, 3.0])
@pytest.mark.parametrize("ranks", [2, 4, 32])
def test_a_slow_rank(ranks: int, factor: float) -> None:
    values = times(ranks)
    values[1, 250:] *= factor
    found = one(judge(values))
    assert found.scope.rank == 1
    assert abs((found.onset_step or 0) - 251) <= 2


def test_what_moved_with_it_is_told() -> None:
    values, heat = times(), np.full((4, N), 65.0)
    values[2, 250:] *= 1.5
    heat[2, 250:] = 88
    found = one(judge(values, gpu_temperature=heat))
    assert found.evidence[1].signal == "gpu_temperature"
    assert "from 65 to 88" in found.summary


def test_the_rank_that_is_waited_for() -> None:
    waits = 0.1 * times(seed=3) / 0.4
    waits[[0, 1, 3], 250:] *= 8
    found = one(judge(waits, "barrier_wait"))
    assert found.scope.rank == 2


def test_tokens_per_second() -> None:
    rate = 1 / times(seed=4)
    rate[3, 100:] *= 0.6
    assert one(judge(rate, "tokens_per_sec")).scope.rank == 3


@pytest.mark.parametrize("quiet", ["noise", "few percent", "rank 0 logs", "single slow steps", "faster"])
def test_ordinary_differences(quiet: str) -> None:
    for seed in range(10):
        values = times(seed=seed)
        if quiet == "few percent":
            values[1, 200:] *= 1.06
        elif quiet == "rank 0 logs":
            values[0] *= 1.12
        elif quiet == "single slow steps":
            values[1, ::25] *= 6
        elif quiet == "faster":
            values[1, 200:] *= 0.6
        assert isinstance(judge(values), Clear), seed


def test_without_ranks() -> None:
    assert isinstance(straggler.detect(make_signals({"step_time": times()[0]}), PARAMS), NotApplicable)


def waiting(longer: float, ranks: int = 3, seed: int = 0) -> Outcome:
    """Ranks that compute and then wait for the slowest; reducing takes 30 ms that all of them call waiting."""
    random = np.random.default_rng(seed)
    own = 25 * np.exp(0.15 * random.standard_normal((ranks, 200)))
    own[2, 90:] += longer
    step = own.max(axis=0) + 30 * np.exp(0.3 * random.standard_normal(200))
    curves = [make_curve(row, "barrier_wait", name="allreduce_wait_ms", rank=k) for k, row in enumerate(step - own)]
    curves += [make_curve(step, "step_time", name="step_ms", rank=k) for k in range(ranks)]
    return straggler.detect(make_signals(curves), PARAMS)


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_a_rank_that_waits_less_by_a_share_of_each_step(ranks: int) -> None:
    """Not half as long as the others: what is reduced takes most of the waiting."""
    found = one(waiting(15, ranks))
    assert found.scope.rank == 2
    assert abs((found.onset_step or 0) - 91) <= 6
    assert found.role == "barrier_wait"


def test_ordinary_waits_are_quiet() -> None:
    for seed in range(15):
        assert isinstance(waiting(0, seed=seed), Clear), seed
        assert isinstance(waiting(2, seed=seed), Clear), seed


def test_a_rank_that_the_trainer_calls_so() -> None:
    said = "STRAGGLER DETECTION WARNING: Some GPUs are slower. Affected ranks: StragglerId(rank=11, node='b')"
    event = Event("warning", 700, rank=11, text=said)
    found = one(straggler.detect(make_signals({"train_loss": np.ones(9)}, events=[event]), PARAMS))
    assert (found.scope.rank, found.onset_step) == (11, 700)
