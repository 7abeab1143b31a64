from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.schedule import batch_size_change
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in batch_size_change.META.params}
N = 300
RNG = np.random.default_rng(4)
RATE = 1e-3 * 0.5 * (1 + np.cos(np.linspace(0, 3, N)))
Floats = NDArray[np.float64]


def findings(size: Floats, rate: Floats | None = None, config: Mapping[str, Any] | None = None) -> tuple[Finding, ...]:
    curves = [make_curve(size, "batch_size")]
    if rate is not None:
        curves.append(make_curve(rate, "learning_rate", series_id=1))
    outcome = batch_size_change.detect(make_signals(curves, config=config), PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("ratio", [0.5, 2.0, 1.5])
def test_a_lasting_change(noise: float, ratio: float) -> None:
    size = 1000 * np.exp(noise * RNG.standard_normal(N))
    size[150:] *= ratio
    assert [f.onset_step for f in findings(size, RATE)] == [151]


def test_an_unknown_learning_rate_makes_it_less_sure() -> None:
    size = np.repeat([16.0, 32.0], N // 2)
    assert findings(size)[0].confidence < findings(size, RATE)[0].confidence


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_learning_rate_that_follows(power: float) -> None:
    size, rate = np.repeat([16.0, 32.0], N // 2), RATE.copy()
    rate[N // 2 :] *= 2**power
    assert not findings(size, rate)


def test_a_ramp_is_a_plan() -> None:
    ramp = np.repeat([16.0, 32.0, 48.0, 64.0], N // 4)
    assert not findings(ramp, RATE)
    assert not findings(np.repeat([64.0, 80.0, 96.0], N // 3), RATE)
    assert not findings(np.repeat([16.0, 64.0], N // 2), RATE, {"rampup_batch_size": "16 16 1000"})


def test_last_batches_of_epochs_and_varying_sizes_are_silent() -> None:
    last = np.full(N, 64.0)
    last[49::50] = 17
    assert not findings(last, RATE)
    for _ in range(20):
        assert not findings(1000 * np.exp(0.3 * RNG.standard_normal(N)), RATE)


def _counted(size: Floats, every: int = 1, **more: Floats) -> Outcome:
    at = np.arange(0, len(size), every)
    curves = {"tokens_seen": np.cumsum(size)[at], **{role: value[at] for role, value in more.items()}}
    return batch_size_change.detect(make_signals(curves, step=at), PARAMS)


@pytest.mark.parametrize("every", [1, 5, 20])
@pytest.mark.parametrize("factor", [1 / 8, 2])
def test_a_counter_of_data_tells_the_batch_size(every: int, factor: float) -> None:
    size = np.full(1500, 32.0)
    size[900:] *= factor
    outcome = _counted(size, every, learning_rate=np.full(1500, 1e-3))
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert abs((found.onset_step or 0) - 900) <= every
    assert found.series == "tokens_seen per step"


@pytest.mark.parametrize("spread", [0.0, 0.2, 0.5])
def test_batches_of_varying_size(spread: float) -> None:
    size = np.exp(spread * np.random.default_rng(2).standard_normal(3000)) * 30_000
    assert isinstance(_counted(size, 5), Clear)
    size[1500:] *= 2
    outcome = _counted(size, 5)
    assert isinstance(outcome, Fired)
    assert abs((outcome.findings[0].onset_step or 0) - 1500) <= 5 * 32


@pytest.mark.parametrize("epochs", [2, 3, 6])
def test_sorted_samples_are_no_change(epochs: int) -> None:
    size = np.tile(np.linspace(2000, 9000, 600 // epochs), epochs)
    assert isinstance(_counted(size * np.exp(0.03 * np.random.default_rng(2).standard_normal(len(size)))), Clear)


def test_a_counter_printed_with_three_digits_does_not_tell() -> None:
    total = np.cumsum(np.full(3000, 512.0))[::10]
    printed = np.array([float(f"{value:.3g}") for value in total])
    signals = make_signals({"tokens_seen": printed}, step=np.arange(0, 3000, 10))
    assert isinstance(batch_size_change.detect(signals, PARAMS), NotApplicable)
