"""The simple rules that training frameworks and papers publish, on perfectly read logs.

Each rule gets the run as trainforensics read it (roles resolved, replays set aside). What a rule says is mapped to
every kind it might mean. Neighbouring points that fire are one occurrence, all occurrences of a rule one alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benchmarks.detect.scorer import Alarm
from trainforensics.signals import Curve, Signals

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SPIKE = ("instant-burst", "gradual-rise", "divergence", "resume-discontinuity", "oscillation")
GRADIENT = ("gradient-explosion", *SPIKE)
NOT_FINITE = ("nan-onset", "transient-nan", "loss-zero")
GRAD_NOT_FINITE = ("grad-nan", "nan-onset", "transient-nan")
STUCK = ("plateau", "loss-zero", "vanishing-gradient", "underflow", "bad-start")
OVERFIT = ("val-divergence", "val-jump", "double-descent", "eval-regression")
ONE_OCCURRENCE = 10  # points; firing again within so many is the same occurrence
FEWEST = 30  # points a window needs before it says anything


@dataclass(frozen=True, slots=True)
class Rule:
    """A published rule: its name in the tables, what it does, and its verdict on a run."""

    name: str
    what: str
    judge: Callable[[Signals], list[Alarm]]


def before(values: Floats, window: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation of up to `window` finite values before each point, shape (n,); NaN below 30."""
    padded = np.concatenate([np.full(window, np.nan), values])
    at = sliding_window_view(padded, window)[: len(values)]
    usable = np.isfinite(at)
    count = usable.sum(axis=1)
    clean = np.where(usable, at, 0.0)
    mean = clean.sum(axis=1) / np.maximum(count, 1)
    spread = np.sqrt((np.where(usable, at - mean[:, None], 0.0) ** 2).sum(axis=1) / np.maximum(count, 1))
    enough = count >= min(FEWEST, window)
    return np.where(enough, mean, np.nan), np.where(enough, spread, np.nan)


def alarm(curve: Curve, fires: Bools, kinds: tuple[str, ...]) -> list[Alarm]:
    """One alarm with the first step of each occurrence; none where nothing fires."""
    at = np.flatnonzero(fires)
    if not len(at):
        return []
    first = at[np.append(True, np.diff(at) > ONE_OCCURRENCE)]
    return [Alarm(kinds, tuple(float(step) for step in curve.step[first]))]


def not_finite(signals: Signals) -> list[Alarm]:
    """NaN and infinities of loss and grad norm, as frameworks check for them."""
    found = []
    for role, kinds in (("train_loss", NOT_FINITE), ("grad_norm", GRAD_NOT_FINITE)):
        curve = signals.curve(role)
        if curve is not None:
            found += alarm(curve, ~curve.finite, kinds)
    return found


def _on(
    role: str, kinds: tuple[str, ...], fires: Callable[[Floats], Bools], nan_check: bool = False
) -> Callable[[Signals], list[Alarm]]:
    def judge(signals: Signals) -> list[Alarm]:
        curve = signals.curve(role)
        found = alarm(curve, fires(curve.value), kinds) if curve is not None and len(curve) else []
        return found + (not_finite(signals) if nan_check else [])

    return judge


def _olmo2(values: Floats) -> Bools:
    mean, spread = before(values, 1000)
    return np.asarray(np.abs(values - mean) >= 7 * spread) & (spread > 0)


def _olmo_core(values: Floats) -> Bools:
    mean, spread = before(values, 128)
    return np.asarray(values > mean + 6 * spread) & (spread > 0)


def _kill_loss_spike(values: Floats) -> Bools:
    """Five losses in a row of twice the window's mean, or half a window above the first window's maximum."""
    window = max(100, round(len(values) / 20))
    mean, _ = before(values, window)
    high = np.asarray(values >= 2 * mean)
    high[:window] = False
    fires = np.zeros(len(values), dtype=bool)
    if len(values) > 4:
        fires[4:] = sliding_window_view(high, 5).all(axis=1)
    if len(values) > 2 * window:
        cap = min(10.0, float(np.nanmax(values[:window], initial=-np.inf)))
        share = sliding_window_view(values > cap, window).mean(axis=1)
        fires[window - 1 :] |= (share >= 0.5) & (np.arange(window - 1, len(values)) >= 2 * window)
    return fires


def _foundry_outlier(values: Floats) -> Bools:
    """7.5 times the mean over the points 1000 to 500 back."""
    mean, _ = before(values, 500)
    old = np.concatenate([np.full(min(500, len(values)), np.nan), mean[:-500]])[: len(values)]
    return np.asarray(values >= 7.5 * old) & (old > 0)


def _megatron(values: Floats) -> Bools:
    first = values[:100][np.isfinite(values[:100])]
    fires = values >= 10 * first.max(initial=-np.inf)
    fires[:100] = False
    return np.asarray(fires) if len(first) else np.zeros(len(values), dtype=bool)


def _fabric(values: Floats) -> Bools:
    padded = np.concatenate([np.full(10, np.nan), values])
    mean = sliding_window_view(padded, 10)[: len(values)].mean(axis=1)
    return np.asarray(np.abs(values - mean) >= 2 * np.abs(mean))


def _zclip(values: Floats) -> Bools:
    """Exponential mean and variance (0.97) after 25 steps; what stands out is clipped to its bound before it enters."""
    fires = np.zeros(len(values), dtype=bool)
    warm = values[:25][np.isfinite(values[:25])]
    if len(values) <= 25 or not len(warm):
        return fires
    mean, variance = warm.mean(), warm.var()
    for i in range(25, len(values)):
        value = values[i]
        if not np.isfinite(value):
            continue
        spread = variance**0.5
        z = (value - mean) / (spread + 1e-6)
        fires[i] = z > 2.5
        if fires[i]:
            value = mean + 2.5 * 2.5 / z * spread
        mean = 0.97 * mean + 0.03 * value
        variance = 0.97 * variance + 0.03 * (value - mean) ** 2
    return fires


def _olmo_core_both(signals: Signals) -> list[Alarm]:
    return [
        *_on("train_loss", SPIKE, _olmo_core, nan_check=True)(signals),
        *_on("grad_norm", GRADIENT, _olmo_core)(signals),
    ]


def _debugger(signals: Signals) -> list[Alarm]:
    """VanishingGradient 1e-7, ExplodingTensor, LossNotDecreasing 0.1 % in 10 steps, Overfit 10 %, DeadRelu half."""
    found = not_finite(signals)
    gradient, loss, dead = signals.curve("grad_norm"), signals.curve("train_loss"), signals.curve("dead_fraction")
    if gradient is not None:
        found += alarm(gradient, gradient.value < 1e-7, ("vanishing-gradient", "underflow", "loss-zero"))
    if loss is not None and len(loss) > 10:
        fires = np.zeros(len(loss), dtype=bool)
        fires[10:] = loss.value[:-10] - loss.value[10:] < 0.001 * np.abs(loss.value[:-10])
        found += alarm(loss, fires, STUCK)
    if dead is not None:
        found += alarm(dead, dead.value >= 0.5, ("activation-outlier", "vanishing-gradient", "plateau"))
    return found + _overfit(signals, 0.1)


def _overfit(signals: Signals, ratio: float) -> list[Alarm]:
    train, validation = signals.curve("train_loss"), signals.curve("val_loss")
    if train is None or validation is None or not len(train) or not len(validation):
        return []
    there = train.value[np.clip(np.searchsorted(train.step, validation.step, side="right") - 1, 0, None)]
    return alarm(validation, np.asarray(validation.value - there > ratio * np.abs(there)), OVERFIT)


def _autotrainer(signals: Signals) -> list[Alarm]:
    """Gradient ratio of first to last layer below 1e-3 with the first below 1e-4, above 70, dead units 70 %,
    accuracy swings of 3 % in a fifth of the epochs, accuracy that never gains 1 %."""
    found = not_finite(signals)
    layers = signals.layers("grad_norm")
    if layers is not None:
        first, last = layers.value[0], np.maximum(np.abs(layers.value[-1]), 1e-300)
        curve = Curve(layers.rows[0], layers.step, first, first * np.nan, np.zeros(len(first), np.int32))
        found += alarm(curve, (first / last < 1e-3) & (first < 1e-4), ("vanishing-gradient", "plateau", "underflow"))
        found += alarm(curve, first / last > 70, GRADIENT)
    dead = signals.curve("dead_fraction")
    if dead is not None:
        found += alarm(dead, dead.value >= 0.7, ("activation-outlier", "vanishing-gradient", "plateau"))
    accuracy = signals.curve("val_metric")
    if accuracy is not None and len(accuracy) > 3:
        found += _accuracy(accuracy)
    return found


def _accuracy(curve: Curve) -> list[Alarm]:
    value = curve.value
    inner = np.arange(1, len(value) - 1)
    highs = value[inner[(value[inner] >= value[inner - 1]) & (value[inner] >= value[inner + 1])]]
    lows = value[inner[(value[inner] <= value[inner - 1]) & (value[inner] <= value[inner + 1])]]
    both = min(len(highs), len(lows))
    found = []
    if np.sum(highs[:both] - lows[:both] >= 0.03) >= 0.2 * len(value):
        found.append(Alarm(("oscillation", *OVERFIT)))
    if np.max(np.diff(value), initial=0.0) < 0.01:
        found.append(Alarm(STUCK))
    return found


RULES: tuple[Rule, ...] = (
    Rule("NaN check", "loss or grad norm not finite", not_finite),
    Rule("OLMo-2 spike score", "7 SD from the mean of the last 1,000 losses", _on("train_loss", SPIKE, _olmo2)),
    Rule("OLMo-core", "loss or grad norm above mean + 6 SD of the last 128; NaN", _olmo_core_both),
    Rule(
        "llm-foundry KillLossSpike",
        "5 losses in a row of twice the window's mean; half a window above its first",
        _on("train_loss", SPIKE, _kill_loss_spike),
    ),
    Rule(
        "llm-foundry outlier", "7.5 times the mean of the points 1,000-500 back",
        _on("train_loss", SPIKE, _foundry_outlier),
    ),
    Rule("Megatron-LM", "10 times the maximum of the first 100; NaN", _on("train_loss", SPIKE, _megatron, True)),
    Rule("Lightning Fabric", "twice the mean of the last 10 away; NaN", _on("train_loss", SPIKE, _fabric, True)),
    Rule("ZClip", "grad norm above z = 2.5 of an exponential mean (0.97)", _on("grad_norm", GRADIENT, _zclip)),
    Rule("SageMaker Debugger", "built-in rules with default thresholds", _debugger),
    Rule("AutoTrainer", "thresholds of its detectors", _autotrainer),
)  # fmt: skip


def judge(rule: Rule, signals: Signals) -> list[Alarm]:
    """A rule's alarms on one run."""
    with np.errstate(all="ignore"):
        return rule.judge(signals)
