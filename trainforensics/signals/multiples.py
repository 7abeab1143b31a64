"""A curve against its counterpart: whole multiples, steps that keep a curve's course, and constant proportions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.epochs import epoch_ends
from trainforensics.signals.evaluations import point_noise, usable, validation_curves
from trainforensics.signals.noise import median, medians_of, robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.steps import lasting_steps

SIDE = 32  # points either side of a step
LEVEL = 8  # points whose median is a level
FEWEST = 5  # evaluations
FOLLOWS = 0.5  # of a step, in logarithms
NEAREST = 0.3  # of one: beyond a distance of that every ratio would be near a whole number
CLIPPED = 0.03  # relative noise of a gradient norm below which it is held where it is
MEDIAN_ERROR = 1.2533  # standard error of a median against that of a mean

_UNITS = re.compile(r"bpb|bpc|bits|bytes?|chars?|ppl|perplexity|mse|mae|rmse|acc|err")
_FACTORS = ("accum", "world_size", "num_gpus", "num_devices", "batch_size", "n_gpu")


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step at point `at` of a positive curve: `before` and `after` are up to `SIDE` values either side.

    `ratio`: between the levels right after and before; `exact`: the same from all values, the course taken out;
    `bend`: change of slope per point, in logarithms, and `error`, its standard error; `noise`: factor by which the
    noise grows.
    """

    at: int
    before: Floats
    after: Floats
    ratio: float
    exact: float
    bend: float
    error: float
    noise: float


@dataclass(frozen=True, slots=True)
class GradientLevels:
    """Median gradient norm over up to `SIDE` points before and after a step, and the name of its series."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, eq=False)
class Proportion:
    """A training loss against a validation loss, at the evaluations where both are known (shape (n,)).

    `ratio`: training over validation, median of the later half, for early on training lags behind over each stretch;
    `first`: at the first evaluation; `spread`: robust standard deviation of its logarithm; `drift`: its change in
    logarithms from there to the last third, `fall` how far validation fell meanwhile, `error` their standard error.
    """

    step: Ints
    train: Floats
    validation: Floats
    ratio: float
    first: float
    spread: float
    drift: float
    fall: float
    error: float


def whole(ratio: float, tolerance: float, largest: float) -> int | None:
    """The whole number, 2 to `largest`, that a ratio or its inverse is within a relative tolerance, if it is one."""
    larger = max(ratio, 1 / ratio)
    k = round(larger) if larger <= largest else 0
    return k if k >= 2 and abs(larger - k) <= min(tolerance * k, NEAREST) else None


def setting_of(signals: Signals, k: int) -> str | None:
    """The setting that multiplies losses where its value is the multiple: accumulation, devices, batch size."""
    names = (key for key, value in signals.config.items() if value == k)
    return next((key for key in names if any(factor in key.lower() for factor in _FACTORS)), None)


def same_units(one: Curve, other: Curve) -> bool:
    """Whether two names speak of the same measure, so that their levels can be held against each other."""
    return set(_UNITS.findall(one.name.lower())) == set(_UNITS.findall(other.name.lower()))


def steps(curve: Curve) -> Iterator[Step]:
    """The lasting steps of a positive curve that half of `SIDE` points lie around."""
    for at in lasting_steps(np.log(curve.value)):
        before, after = curve.value[max(0, at - SIDE) : at], curve.value[at : at + SIDE]
        if min(len(before), len(after)) >= SIDE // 2:
            yield _step(at, before, after)


def _step(at: int, before: Floats, after: Floats) -> Step:
    slopes = [
        float(np.log(median(side[-LEVEL:]) / median(side[:LEVEL]))) / (len(side) - LEVEL) for side in (before, after)
    ]
    noise = max(point_noise(np.log(side)) for side in (before, after))
    drift = sum(slopes) / 2 * (len(before) + len(after)) / 2
    return Step(
        at,
        before,
        after,
        ratio=median(after[:LEVEL]) / median(before[-LEVEL:]),
        exact=median(after) / median(before) * math.exp(-drift),
        bend=abs(slopes[1] - slopes[0]),
        error=MEDIAN_ERROR * noise * math.sqrt(2 / LEVEL) * math.sqrt(2) / (SIDE - LEVEL),
        noise=point_noise(after) / max(point_noise(before), 1e-12),
    )


def gradient_across(signals: Signals, step: int) -> GradientLevels | None:
    """The levels of the gradient norm around a step, where it is logged on both sides and free to move."""
    logged = signals.curve("grad_norm")
    norm = usable(logged) if logged is not None else None
    if norm is None or not len(norm) or norm.value.min() <= 0:
        return None
    border = int(np.searchsorted(norm.step, step))
    before, after = norm.value[max(0, border - SIDE) : border], norm.value[border : border + SIDE]
    if min(len(before), len(after)) < SIDE // 2 or min(point_noise(np.log(s)) for s in (before, after)) < CLIPPED:
        return None
    return GradientLevels(norm.name, float(np.median(before)), float(np.median(after)))


def evaluation_follows(signals: Signals, loss: Curve, step: Step) -> bool:
    """Whether the validation loss makes half of the step or more, in logarithms, from one evaluation to the next: then
    the model has changed, not the scale."""
    before, after = int(loss.step[step.at - 1]), int(loss.step[step.at])
    for curve in validation_curves(signals):
        old, new = curve.value[curve.step <= before], curve.value[curve.step >= after]
        if len(old) and len(new) and min(old[-1], new[0]) > 0:
            return math.log(new[0] / old[-1]) / math.log(step.ratio) > FOLLOWS
    return False


def learnt(signals: Signals, loss: Curve, step: Step) -> bool:
    """Whether the learning rate moves there, or a fall lies where an epoch ends: then the model itself has changed."""
    first, last = int(loss.step[max(step.at - 3, 0)]), int(loss.step[min(step.at + 1, len(loss) - 1)])
    rate = signals.curve("learning_rate")
    if rate is not None:
        near = rate.value[(rate.step >= first) & (rate.step <= last) & (rate.value > 0)]
        if len(near) and near.max() > 1.5 * near.min():
            return True
    return step.ratio < 1 and epoch_ends(signals, first, last, int(loss.step[-1]))


def proportion(loss: Curve, validation: Curve) -> Proportion | None:
    """How the training loss stands to a validation loss; None for fewer than five evaluations or values <= 0."""
    if len(validation) < FEWEST or validation.value.min() <= 0 or loss.value.min() <= 0:
        return None
    level = level_around(loss, validation.step)
    known = np.isfinite(level)
    if known.sum() < FEWEST:
        return None
    train, value = level[known], validation.value[known]
    ratios, n, third = np.log(train / value), len(train), max(2, len(train) // 3)
    spread = robust_sigma(ratios)
    drift, moved = (float(np.median(v[-third:]) - v[0]) for v in (ratios, np.log(value)))
    return Proportion(
        step=validation.step[known],
        train=train,
        validation=value,
        ratio=math.exp(float(np.median(ratios[n // 2 :]))),
        first=math.exp(float(ratios[0])),
        spread=spread,
        drift=drift,
        fall=-moved,
        error=spread * math.sqrt(1 + MEDIAN_ERROR**2 / third),
    )


def level_around(loss: Curve, step: Ints) -> Floats:
    """Median training loss within a quarter of the usual distance between evaluations; NaN where none was logged."""
    reach = int(np.median(np.diff(step))) // 4
    low, high = np.searchsorted(loss.step, step - reach), np.searchsorted(loss.step, step + reach, side="right")
    return medians_of(loss.value, low, high)
