"""A metric that gives one value at every evaluation, or nothing: what is evaluated is not what is trained, or the model
answers alike, or nothing that counts is evaluated."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import higher_is_better, level_up_to, point_noise, usable, validation_curves
from trainforensics.signals.run import Signals

FEW, MANY = 4, 10  # evaluations of one value: three may agree in a small set; scores of a young model often are zero
FALLEN = 0.2  # share of its start by which the training loss must have fallen
HELD = 0.9  # of many evaluations: the weights of a lone other one were swapped, or restored
LATE = 0.1  # share of that fall in the later half; a loss that only learns class sizes is at rest
APART = 0.5  # training loss against that of always the same class: below it classes are told apart
SOLVED = 0.99  # of the best possible score: nothing is left to move

NOTHING = 0.005  # share found, or recalled: none but by chance
LENGTHY = 2.0  # words for each that was said: above, an error rate is given in per cent

_FOUND = re.compile(r"(^|[^a-z])(m?ap(_?50)?(-95)?|m?iou|dice|f1(_?score)?|recall|bleu)([^a-z0-9]|$)")
_MISSED = re.compile(r"(^|[^a-z])(wer|cer)([^a-z0-9]|$)")
_RIGHT = re.compile(r"(^|[^a-z])acc(uracy)?([^a-z]|$)")
_REFERENCE = re.compile(r"best|baseline|target|threshold|reference|chance")  # a metric that stands by its nature


@dataclass(frozen=True, slots=True, eq=False)
class FrozenMetric:
    """A metric of one value in those evaluations, how many it has `of` them in all, the training level there, and
    whether training goes on learning meanwhile."""

    curve: Curve
    of: int
    level: Floats
    still_falls: bool
    tells_apart: bool


def frozen_metric(signals: Signals, train: Curve) -> FrozenMetric | None:
    """The metric that never moved, but for one in ten of many evaluations, where no metric did; None where one has
    moved: a small set may show no difference between two models that both learnt."""
    curves = [c for c in validation_curves(signals, "val_metric") if not _REFERENCE.search(c.name.lower())]
    curves = [c for c in curves if len(c) >= FEW]
    held = [_held(c) for c in curves]
    if not curves or any(
        len(part) < (HELD if len(c) > MANY else 1) * len(c) for part, c in zip(held, curves, strict=True)
    ):
        return None
    found = next(((part, len(c)) for part, c in zip(held, curves, strict=True) if _may_move(part)), None)
    if found is None:
        return None
    curve, of = found
    level = level_up_to(train, curve.step)
    level = level[np.isfinite(level)]
    if len(level) < FEW:
        return None
    fall, late = float(level[0] - level[-1]), float(level[len(level) // 2] - level[-1])
    apart = _tells_classes_apart(level, float(curve.value[0]))
    falls = fall > max(FALLEN * abs(level[0]), 4 * point_noise(level)) and (late >= LATE * fall or apart)
    return FrozenMetric(curve, of, level, falls, apart)


def _held(curve: Curve) -> Curve:
    """The evaluations that came out as most of them did; the first alone where others lie at an end, since the model
    moved the metric there."""
    seen, times = np.unique(curve.value, return_counts=True)
    usual = curve.value == seen[times.argmax()]
    return curve.take(usual if usual[0] and usual[-1] else np.zeros(1, dtype=np.int64))


def finds_nothing(signals: Signals, least: int) -> tuple[Curve, str] | None:
    """A score of what was to be found that is nothing in every one of `least` evaluations or more, and that in words.

    Error rates of transcripts are scores of the same sort: at one nothing is heard.
    """
    for curve in (usable(c) for c in (*signals.curves("val_metric"), *signals.unmapped)):
        name, value = curve.name.lower(), curve.value
        if len(curve) < least:
            continue
        if _FOUND.search(name) and value.min() >= 0 and value.max() <= NOTHING:
            return curve, f"never exceeds {value.max():.3g} in {len(value)} evaluations"
        value = value / 100 if _MISSED.search(name) and value.min() > LENGTHY else value  # in per cent
        if _MISSED.search(name) and value.min() >= 1 - NOTHING and value.max() < LENGTHY:
            return curve, f"never falls below {value.min():.3g} in {len(value)} evaluations"
    return None


def nothing_to_find(signals: Signals) -> tuple[Curve, Curve] | None:
    """An accuracy of one in every evaluation beside a recall or F1 of zero: no sample that counts is evaluated."""
    curves = [c for c in validation_curves(signals, "val_metric") if len(c) >= FEW]
    right = next(
        (c for c in curves if _RIGHT.search(c.name.lower()) and set(c.value.tolist()) in ({1.0}, {100.0})), None
    )
    none = next((c for c in curves if _FOUND.search(c.name.lower()) and not c.value.any()), None)
    return (right, none) if right is not None and none is not None else None


def _tells_classes_apart(level: Floats, accuracy: float) -> bool:
    """Whether training ends far below the loss of a model that gives every sample the class it is right about so often.

    That loss is at least the entropy of two classes in these parts.
    """
    right = accuracy / 100 if accuracy > 1 else accuracy
    if not 0 < right < 1:
        return False
    entropy = -right * math.log(right) - (1 - right) * math.log1p(-right)
    return float(np.median(level[-3:])) < APART * entropy


def _may_move(curve: Curve) -> bool:
    """Whether a frozen metric is neither solved nor, after few evaluations, still at zero."""
    value = float(curve.value[0])
    if not higher_is_better(curve):
        return value != 0
    solved = any(SOLVED * best <= value <= best for best in (1.0, 100.0))
    return not solved and (value != 0 or len(curve) >= MANY)
