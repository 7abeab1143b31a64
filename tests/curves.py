"""Training-like curves with known noise and injected events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIGMA = 0.1


def healthy(n: int = 600, seed: int = 0, noise: str = "normal") -> Floats:
    """A loss that falls from 8 to about 1.6 with stationary noise of width 0.1."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / n
    return 2 + 6 * np.exp(-15 * t) - 0.4 * t + SIGMA * draw(rng, n, noise)


def grad_norm(n: int = 600, seed: int = 13) -> Floats:
    """A gradient norm around one with log-normal noise of width 0.2."""
    return np.exp(0.2 * np.random.default_rng(seed).standard_normal(n))


def draw(rng: np.random.Generator, n: int, noise: str) -> Floats:
    """Noise of unit scale and the given nature."""
    if noise == "normal":
        return rng.normal(size=n)
    if noise == "heavy":
        return rng.standard_t(3, size=n)
    if noise == "skewed":
        return rng.exponential(size=n) - 1
    if noise == "running-mean":
        return 5 * np.convolve(rng.normal(size=n + 49), np.ones(50) / 50, "valid")
    if noise == "wandering":
        steps = rng.normal(size=n)
        out = np.zeros(n)
        for i in range(1, n):
            out[i] = 0.9 * out[i - 1] + 0.436 * steps[i]
        return out
    raise ValueError(noise)


def burst(values: Floats, at: int, height: float, decay: float = 5.0) -> Floats:
    """The curve with a jump of `height` at `at` that decays within `decay` points."""
    out = values.copy()
    out[at:] += height * np.exp(-np.arange(len(out) - at) / decay)
    return out


def hump(values: Floats, at: int, width: int, height: float) -> Floats:
    """The curve with a climb over `width` points and as long a way back."""
    out = values.copy()
    shape = np.concatenate([np.linspace(0, 1, width), np.linspace(1, 0, width)])[: len(out) - at]
    out[at : at + len(shape)] += height * shape
    return out


def ramp(values: Floats, at: int, height: float) -> Floats:
    """The curve with a climb from `at` to the end."""
    out = values.copy()
    out[at:] += np.linspace(0, height, len(out) - at)
    return out


def step(values: Floats, at: int, height: float) -> Floats:
    """The curve lifted for good from `at` on."""
    out = values.copy()
    out[at:] += height
    return out
