from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import activation_outlier
from trainforensics.model import Clear, Fired

PARAMS = {p.name: p.default for p in activation_outlier.META.params}
RNG = np.random.default_rng(11)
N = 600
NOISE = np.exp(0.05 * RNG.standard_normal(N))
STALLED = make_curve(2.2 + 2 * np.exp(-np.arange(N) / 40) + 0.03 * RNG.standard_normal(N), series_id=9)
LEARNING = make_curve(2 + 2 * np.exp(-np.arange(N) / 200) + 0.01 * RNG.standard_normal(N), series_id=9)


def growing(at: int, factor: float) -> np.ndarray:
    return np.geomspace(1, factor, 40)[np.clip(np.arange(N) - at, 0, 39)] * NOISE


def test_growth_names_the_first_layer() -> None:
    curves = [
        make_curve(growing(at, 140), "activation_std", name=f"act/{i}", layer=f"layer{i}", series_id=i)
        for i, at in enumerate((400, 300, 350))
    ]
    outcome = activation_outlier.detect(make_signals([*curves, STALLED]), PARAMS)
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    assert found.scope.layer == "layer1"
    assert abs((found.onset_step or 0) - 301) <= 5


def test_neurons_that_die() -> None:
    dead = make_curve(np.where(np.arange(N) < 300, 0.1, 0.9), "dead_fraction")
    assert isinstance(activation_outlier.detect(make_signals([dead, STALLED]), PARAMS), Fired)


def test_a_residual_stream_that_grows_is_quiet() -> None:
    norm = make_curve(np.linspace(10, 60, N) * NOISE, "activation_norm")
    assert isinstance(activation_outlier.detect(make_signals([norm, LEARNING]), PARAMS), Clear)


def test_a_tenfold_change_of_a_model_that_learns_is_quiet() -> None:
    norm = make_curve(growing(200, 15), "activation_norm")
    assert isinstance(activation_outlier.detect(make_signals([norm, LEARNING]), PARAMS), Clear)
    assert isinstance(activation_outlier.detect(make_signals([norm, STALLED]), PARAMS), Fired)


def test_sparse_activations_from_the_start_are_quiet() -> None:
    dead = make_curve(np.full(N, 0.8), "dead_fraction")
    assert isinstance(activation_outlier.detect(make_signals([dead, STALLED]), PARAMS), Clear)


def test_counts_of_features_that_die() -> None:
    """Of how many is not said: they count where what they rebuild gets no better."""
    dead = make_curve(np.where(np.arange(N) < 200, RNG.integers(0, 5, N), 40 * np.arange(N) - 7900), "dead_fraction")
    stalled = make_curve(STALLED.value, None, name="losses/mse_loss", series_id=3)
    learning = make_curve(LEARNING.value, None, name="losses/mse_loss", series_id=3)
    outcome = activation_outlier.detect(make_signals([dead, LEARNING, stalled]), PARAMS)
    assert isinstance(outcome, Fired)
    assert abs((outcome.findings[0].onset_step or 0) - 201) <= 3
    assert isinstance(activation_outlier.detect(make_signals([dead, STALLED, learning]), PARAMS), Clear)
