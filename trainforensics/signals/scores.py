"""Accuracies beside the loss, or without one: of the training's own batches, and as evaluated."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import validation_curves
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals

_SCORE = re.compile(r"(^|[^a-z])(acc|accuracy|top[-_]?\d)([^a-z]|$)", re.IGNORECASE)
FEWEST, MOST = 5, 64  # points of a stretch that tell its score; of those before it
CLEAR, LARGE = 4.0, 0.1  # standard errors of a difference, and share of the score before
_SPLIT = frozenset({"train", "training", "trn", "tr", "epoch"})
_SPLIT |= {"val", "valid", "validation", "eval", "evaluation", "test", "tst", "dev"}
_MEAN = frozenset({"avg", "average", "mean", "current"})
FEWEST_WRONG = 1e-3  # of all answers: where none is wrong, fewer than a batch or an evaluation can show


def accuracy_gains(signals: Signals, first: int, risen: int, last: int) -> bool:
    """Whether every accuracy is better from step `risen` to `last` than before step `first`, by a tenth, beyond its
    noise and at the end of that stretch too: a model gone astray does not get more answers right."""
    named = (c for c in (*signals.unmapped, *signals.curves("val_metric")) if is_accuracy(c.name))
    curves = [c.only_finite() for c in named if c.series.rank is None]
    told = []
    for curve in curves:
        before = curve.value[: max(1, int(np.searchsorted(curve.step, first)))][-MOST:]
        since = curve.value[(curve.step >= risen) & (curve.step <= last)]
        if len(since) >= FEWEST:
            told.append(_higher(before, since) and _higher(before, since[-max(FEWEST, len(since) // 4) :]))
    return bool(told) and all(told)


def wrong_answers(signals: Signals) -> tuple[Curve, Curve] | None:
    """Shares of wrong answers, in evaluations and in the training, where no loss is logged: of the first accuracy that
    both have under one name."""
    if signals.has("train_loss") or signals.has("val_loss"):
        return None
    trained = [c.only_finite() for c in signals.unmapped if is_accuracy(c.name) and c.series.rank is None]
    for score in validation_curves(signals, "val_metric"):
        both = [c for c in trained if len(c) and alike(c, score)]
        if is_accuracy(score.name) and len(score) and both:
            own = max(both, key=lambda c: ("train" in c.name.lower(), len(c)))
            return _wrong(score), _wrong(own)
    return None


def is_accuracy(name: str) -> bool:
    """Whether a series is called an accuracy."""
    return _SCORE.search(name) is not None


def alike(one: Curve, other: Curve) -> bool:
    """Whether two series have one name but for the part of the data that they are of, and that they are means."""
    return _words(one.name) == _words(other.name)


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z\d]+", name.lower())) - _SPLIT - _MEAN


def _wrong(score: Curve) -> Curve:
    whole = 1.0 if score.value.max() <= 1 else 100.0
    return replace(score, value=np.maximum(1 - score.value / whole, FEWEST_WRONG), superseded=None)


def _higher(before: Floats, since: Floats) -> bool:
    noise = robust_sigma(np.diff(np.concatenate([before, since]))) / math.sqrt(2)
    error = 1.2533 * noise * math.sqrt(1 / len(before) + 1 / len(since))
    was = float(np.median(before))
    return float(np.median(since)) - was > max(CLEAR * error, LARGE * was)
