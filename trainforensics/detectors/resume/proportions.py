"""A training loss that stands at one multiple of validation all along, or at a fraction of it: a scale."""

from __future__ import annotations

import math

import numpy as np

from trainforensics.detectors.base import Params, change_at
from trainforensics.kinds import KINDS
from trainforensics.model import Evidence, Finding
from trainforensics.signals import Curve, Signals
from trainforensics.signals.evaluations import validation_curves
from trainforensics.signals.multiples import Proportion, proportion, same_units, setting_of, whole

KIND = KINDS["scale-mismatch"]
FEW_ROWS = 20  # rows of training below which levels are known too badly for a whole number


def against_validation(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """The finding for a training loss that stands at one multiple of validation, or at a fraction of it."""
    validation = next(iter(validation_curves(signals)), None)
    pair = proportion(loss, validation) if validation is not None and same_units(loss, validation) else None
    if validation is None or pair is None:
        return None
    k = _whole_multiple(pair, params) if len(loss) >= FEW_ROWS else None
    if k is None and not (_far_apart(pair, params) or _never_near(pair, params)):
        return None
    larger = max(pair.ratio, 1 / pair.ratio)
    names = (loss.name, validation.name) if pair.ratio > 1 else (validation.name, loss.name)
    times = f"{k}" if k is not None else f"about {larger:.3g}"
    text = f"{names[0]} is {times} times {names[1]} at all {len(pair.step)} evaluations (median {larger:.3f})"
    near = k if k is not None else round(larger)
    named = setting_of(signals, near)
    rows = (Evidence(loss.name, int(pair.step[0]), float(pair.train[0]), float(pair.validation[0]), text),)
    start = int(loss.step[0])
    summary = f"{text}; {named} is {near}" if named else text
    return change_at(KIND, loss, start, start, 0.8 if named else 0.65, summary, rows)


def _whole_multiple(pair: Proportion, params: Params) -> int | None:
    """The whole number that the ratio is at all evaluations; where nothing moved, any two constants have a ratio."""
    k = whole(pair.ratio, params["steady"], params["largest"])
    moved = float(np.ptp(np.log(pair.validation))) >= 4 * params["spread"]
    steady = moved and pair.spread <= params["spread"]
    return k if steady and whole(pair.first, params["whole"], params["largest"]) == k else None


def _far_apart(pair: Proportion, params: Params) -> bool:
    """Whether the two differ by a factor that only a scale has, from the first evaluation on, and fall together."""
    larger = max(pair.ratio, 1 / pair.ratio)
    off = abs(math.log(pair.first / pair.ratio))
    return (
        params["apart"] <= larger <= params["farthest"]
        and (len(pair.step) >= params["few"] or pair.fall >= params["tenfold"])
        and pair.spread <= params["wide"]
        and off <= max(3 * pair.spread, params["spread"], params["start"] * pair.fall)
        and pair.fall >= max(params["fallen"], 4 * pair.error)
        and abs(pair.drift) <= params["drift"] * pair.fall + pair.error
    )


def _never_near(pair: Proportion, params: Params) -> bool:
    """Whether validation lies so many times above training at each evaluation, the first included, while it falls by
    ten: it is measured on another scale or on data of another range, for no gap of generalisation opens so early."""
    higher = pair.validation / pair.train
    return bool(
        len(pair.step) >= params["few"]
        and higher.min() >= params["beyond"]
        and 1 / pair.ratio <= params["farthest"]
        and pair.fall >= params["tenfold"]
    )
