from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.compare.shared_bursts import shared_bursts
from trainforensics.model import Finding
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats

N = 3_000
FALL = 3.4 + 4 * np.exp(-np.arange(N) / 300)
AT = (700, 731, 1500, 2222)  # no clock


def batches(seed: int = 1) -> Floats:
    """What each batch adds to the loss of any model: tails of 3 degrees of freedom and four batches far out."""
    odd = 0.05 * np.random.default_rng(seed).standard_t(3, N)
    odd[list(AT)] = 1.0, 1.4, 0.9, 1.2
    return odd


def run(name: str, loss: Floats) -> Signals:
    signals: Signals = replace(make_signals([make_curve(loss, "train_loss", name="loss")]), run=name)
    return signals


def own(seed: int) -> Floats:
    """What differs between models."""
    return 0.01 * np.random.default_rng(100 + seed).normal(size=N)


def found(*runs: Signals) -> dict[str, Finding]:
    names = [(a.run, b.run) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    return dict(shared_bursts(names, {r.run: r for r in runs}))


def test_batches_that_stand_out_in_two_models_are_told_of_both() -> None:
    told = found(run("x/a", FALL + batches() + own(1)), run("x/b", FALL - 0.1 + batches() + own(2)))
    assert sorted(told) == ["x/a", "x/b"]
    for finding, other in ((told["x/a"], "x/b"), (told["x/b"], "x/a")):
        assert (finding.kind, finding.scope.sibling) == ("instant-burst", other)
        assert {step - 1 for step in finding.occurrences} >= set(AT)
        assert len(finding.occurrences) < 0.01 * N
        assert finding.peak_step == 732
        assert other[2:] in finding.summary


def test_a_third_run_in_another_order_shows_nothing_of_it() -> None:
    shared = run("a", FALL + batches() + own(1)), run("b", FALL + batches() + own(2))
    assert sorted(found(*shared, run("c", FALL + batches(7)[::-1] + own(3)))) == ["a", "b"]


def test_independent_runs_share_no_burst_even_where_one_coincides() -> None:
    assert not found(run("a", FALL + batches(1)), run("b", FALL + batches(2)))


def test_one_run_logged_twice_is_no_second_witness() -> None:
    loss = FALL + batches()
    assert not found(run("a", loss), run("b", loss))
    assert not found(run("a", loss), run("b", np.where(np.arange(N) < 2_900, loss, loss + 0.1)))


def test_without_a_batch_far_out_in_both_nothing_is_told() -> None:
    calm = 0.05 * np.random.default_rng(3).normal(size=N)
    alone = calm.copy()
    alone[list(AT)] += 1.0
    assert not found(run("a", FALL + calm + own(1)), run("b", FALL + calm + own(2)))
    assert not found(run("a", FALL + alone + own(1)), run("b", FALL + calm + own(2)))


@pytest.mark.parametrize("every", [250, 600])
def test_what_comes_like_clockwork_is_the_epochs_or_the_schedule(every: int) -> None:
    calm = 0.05 * np.random.default_rng(3).normal(size=N)
    calm[every::every] += 1.2
    assert not found(run("a", FALL + calm + own(1)), run("b", FALL + calm + own(2)))


def test_too_few_common_points_prove_no_common_order() -> None:
    loss = FALL + batches()
    assert not found(run("a", (loss + own(1))[:350]), run("b", (loss + own(2))[:350]))
