"""Healthy runs: a falling loss with noise or structure of one nature, and the series that are logged beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from trainforensics.model import Axis, Series
from trainforensics.signals import Curve, Signals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rng = np.random.Generator
CADENCES = (1, 10, 50)  # steps from one logged point to the next


def descent(rng: Rng, t: Floats) -> Floats:
    """Exponential start, slow end."""
    floor, height = rng.uniform(0.5, 3), rng.uniform(2, 8)
    return np.asarray(floor + height * np.exp(-t * rng.uniform(6, 40)) + 0.2 * floor * (1 - t))


@dataclass(slots=True)
class Run:
    """A run in the making: values by role, `sigma` the scale of the loss's noise, `every`: points from one validation
    to the next, `validated`: validation without its noise, `lives`: process life of each point."""

    step: Ints
    sigma: float
    every: int
    values: dict[str, Floats]
    validated: Floats
    lives: NDArray[np.int32]
    config: dict[str, object] = field(default_factory=dict)

    def signals(self) -> Signals:
        """The run as detectors see it."""
        curves = [self._curve(i, role, values) for i, (role, values) in enumerate(self.values.items())]
        return Signals(
            run="simulated",
            axis=Axis("step", "step"),
            by_role={c.series.role: (c,) for c in curves if c.series.role is not None},
            unmapped=tuple(c for c in curves if c.series.role is None),
            config=self.config,
        )

    def _curve(self, number: int, role: str, values: Floats) -> Curve:
        at = np.arange(self.every - 1, len(self.step), self.every) if role.startswith("val_") else slice(None)
        step = self.step[at]
        mapped = None if role == "other" else role
        return Curve(
            Series(number, role, "simulated", mapped), step, values, np.full(len(step), np.nan), self.lives[at]
        )


@dataclass(frozen=True, slots=True)
class Nature:
    """How healthy losses look: `shape` gives the noiseless loss from progress 0..1, `noise` has unit scale."""

    name: str
    noise: Callable[[Rng, int], Floats] = lambda rng, n: rng.normal(size=n)
    shape: Callable[[Rng, Floats], Floats] = descent
    finish: Callable[[Floats], Floats] = np.asarray
    rate: Callable[[Floats], Floats] = lambda t: np.minimum(1, t / 0.02) * (0.55 + 0.45 * np.cos(np.pi * t))


def make(nature: Nature, n: int, seed: int) -> Run:
    """A healthy run of `n` logged points; the seed chooses level, noise, cadence and all else.

    Odd seeds were interrupted once and resumed as if nothing had happened.
    """
    rng = np.random.default_rng([seed, n, *map(ord, nature.name)])
    t = (np.arange(n) + 0.5) / n
    shape = nature.shape(rng, t)
    sigma = float(np.exp(rng.uniform(np.log(0.005), np.log(0.1)))) * max(float(np.median(np.abs(shape))), 1e-3)
    loss = nature.finish(shape + sigma * nature.noise(rng, n))
    every = max(1, n // 40)
    validated = shape[every - 1 :: every] + 0.02 * np.abs(shape[every - 1 :: every])
    values = {
        "train_loss": loss,
        "val_loss": validated + 0.3 * sigma * rng.normal(size=len(validated)),
        "grad_norm": np.exp(rng.normal(-0.5, 0.3, n)) * (1 + 4 * np.exp(-30 * t)),
        "learning_rate": 3e-4 * nature.rate(t),
        "loss_scale": loss_scale(rng, n),
        "tokens_per_sec": 50_000 * np.exp(rng.normal(0, 0.02, n)),
        "other": rng.standard_t(3, n),
    }
    step = CADENCES[seed % len(CADENCES)] * np.arange(1, n + 1, dtype=np.int64)
    lives = np.zeros(n, dtype=np.int32)
    if seed % 2:
        lives[int(rng.uniform(0.1, 0.9) * n) :] = 1
    return Run(step, sigma, every, values, validated, lives)


# --- shapes ----------------------------------------------------------------------------------------------------------


def stairs(rng: Rng, t: Floats) -> Floats:
    """Drops at every new epoch, as memorised data return."""
    epochs = int(rng.integers(3, 12))
    return np.asarray(descent(rng, t) * 0.85 ** np.floor(t * epochs))


def shelves(rng: Rng, t: Floats) -> Floats:
    """Drops where the learning rate drops by ten."""
    return np.asarray(descent(rng, t) - 0.25 * (t > 0.5) * (1 - np.exp(-(t - 0.5) * 60)) - 0.1 * (t > 0.75))


def restarts(rng: Rng, t: Floats) -> Floats:
    """Cosine cycles: the loss rises a little within the first points after each restart and ends lower."""
    phase = (4 * t) % 1
    lag = 1 - np.exp(-phase * len(t) / 4 / rng.uniform(0.5, 20))
    return np.asarray(descent(rng, t) + 0.15 * lag * (1 + np.cos(np.pi * phase)) / 2 * (t > 0.25))


def slow_start(rng: Rng, t: Floats) -> Floats:
    """Flat at chance through the warm-up, then a fall."""
    return np.asarray(1.5 + rng.uniform(3, 8) / (1 + np.exp((t - rng.uniform(0.05, 0.3)) * 60)))


def early_peak(rng: Rng, t: Floats) -> Floats:
    """The first points lie far above the rest, as with large initial logits."""
    return descent(rng, t) + rng.uniform(5, 30) * np.exp(-t * len(t) / 3)


def negative(rng: Rng, t: Floats) -> Floats:
    """A log likelihood or a contrastive objective that falls below zero."""
    return 3 - rng.uniform(6, 12) * (1 - np.exp(-4 * t))


def level(rng: Rng, t: Floats) -> Floats:
    """No trend at all: policy gradients, diffusion."""
    return np.full(len(t), rng.uniform(0.1, 3))


def vanishing(rng: Rng, t: Floats) -> Floats:
    """Over-parametrised: the loss falls over decades."""
    return 3 * np.exp(-t * rng.uniform(5, 14))


def phase_change(rng: Rng, t: Floats) -> Floats:
    """A plateau, then a sudden fall once something is learnt."""
    fall = rng.uniform(0.4, 1.6) / (1 + np.exp((t - rng.uniform(0.3, 0.7)) * 200))
    return np.asarray(1.2 + 2 * np.exp(-30 * t) + fall)


# --- noise -----------------------------------------------------------------------------------------------------------


def student(degrees: float) -> Callable[[Rng, int], Floats]:
    """Heavy tails on both sides."""
    return lambda rng, n: rng.standard_t(degrees, size=n)


def skewed(rng: Rng, n: int) -> Floats:
    """Exponential: the tail is above."""
    return rng.exponential(size=n) - 1


def lognormal(rng: Rng, n: int) -> Floats:
    """Few very hard batches."""
    return np.exp(rng.normal(0, 0.8, n)) - 1.38


def autocorrelated(r: float) -> Callable[[Rng, int], Floats]:
    """First-order autoregressive of unit variance."""
    return lambda rng, n: np.asarray(lfilter([np.sqrt(1 - r * r)], [1, -r], rng.normal(size=n + 200))[200:])


def running_mean(width: int) -> Callable[[Rng, int], Floats]:
    """A logger that prints the mean of the last `width` losses."""
    return lambda rng, n: np.asarray(
        np.convolve(rng.normal(size=n + width - 1), np.ones(width) / np.sqrt(width), "valid")
    )


def clusters(rng: Rng, n: int) -> Floats:
    """Stormy and quiet stretches."""
    return rng.normal(size=n) * np.exp(0.6 * autocorrelated(0.98)(rng, n))


def two_sorts(rng: Rng, n: int) -> Floats:
    """Two kinds of batches, far apart."""
    return rng.normal(size=n) + 6 * (rng.random(n) < 0.3)


def hard_batches(rng: Rng, n: int) -> Floats:
    """One batch in ten is harder, all through the run."""
    return rng.normal(size=n) + (rng.random(n) < 0.1) * rng.exponential(4, n)


def shrinking(rng: Rng, n: int) -> Floats:
    """Noise that shrinks by five over the run."""
    return rng.normal(size=n) * np.geomspace(3, 0.6, n)


def growing(rng: Rng, n: int) -> Floats:
    """Noise that slowly doubles over the run."""
    return rng.normal(size=n) * np.linspace(1, 2, n)


def rounded(decimals: int) -> Callable[[Floats], Floats]:
    """Printed to few decimals."""
    return lambda loss: np.round(loss, decimals)


def coarse(loss: Floats) -> Floats:
    """On the grid of bfloat16: 8 bits of mantissa."""
    grid = 2.0 ** (np.floor(np.log2(np.abs(loss) + 1e-9)) - 7)
    return np.round(loss / grid) * grid


def loss_scale(rng: Rng, n: int) -> Floats:
    """Dynamic scaling: it doubles after a window without overflow, and halves where the scaled gradients overflow."""
    window = max(20, n // 15)
    largest = 2.0 ** rng.uniform(17, 20) * np.exp(rng.normal(0, 0.1, n))
    scale, since, out = 2.0**16, 0, np.empty(n)
    for i in range(n):
        since += 1
        if scale > largest[i]:
            scale, since = scale / 2, 0
        elif since >= window:
            scale, since = scale * 2, 0
        out[i] = scale
    return out


NATURES: tuple[Nature, ...] = (
    Nature("normal"),
    Nature("Student t, 5 degrees", student(5)),
    Nature("Student t, 3 degrees", student(3)),
    Nature("Student t, 2 degrees", student(2)),
    Nature("skewed (exponential)", skewed),
    Nature("lognormal", lognormal),
    Nature("autocorrelated 0.5", autocorrelated(0.5)),
    Nature("autocorrelated 0.9", autocorrelated(0.9)),
    Nature("autocorrelated 0.98", autocorrelated(0.98)),
    Nature("running mean of 10", running_mean(10)),
    Nature("running mean of 50", running_mean(50)),
    Nature("volatility clusters", clusters),
    Nature("two sorts of batches", two_sorts),
    Nature("hard batches, 1 in 10", hard_batches),
    Nature("noise shrinks by five", shrinking),
    Nature("noise doubles", growing),
    Nature("4 decimals", finish=rounded(4)),
    Nature("2 decimals", finish=rounded(2)),
    Nature("bfloat16 grid", finish=coarse),
    Nature("epoch stairs", shape=stairs),
    Nature("learning-rate drops", shape=shelves, rate=lambda t: np.where(t < 0.5, 1.0, np.where(t < 0.75, 0.1, 0.01))),
    Nature("warm restarts", shape=restarts, rate=lambda t: 0.5 * (1 + np.cos(np.pi * ((4 * t) % 1))) + 0.01),
    Nature("warm-up at chance", shape=slow_start, rate=lambda t: np.minimum(1, t / 0.3)),
    Nature("high first losses", shape=early_peak),
    Nature("negative loss", shape=negative),
    Nature("no trend", shape=level),
    Nature("no trend, t 3", student(3), level),
    Nature("falls over decades", shape=vanishing),
    Nature("phase change", shape=phase_change),
)
