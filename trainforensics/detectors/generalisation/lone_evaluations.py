"""Single evaluations that are out of line: far above all others, worse than the untrained model, or the last one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from trainforensics.detectors.base import Params
from trainforensics.model import Evidence, Finding, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.evaluations import higher_is_better, level_up_to, point_noise, validation_curves
from trainforensics.signals.jumps import (
    last_apart,
    lone_peak,
    lone_summit,
    lost_for_one,
    outlying,
    spikes,
    standing_out,
    worse_than_at_first,
)
from trainforensics.signals.stretches import at_steps

_ERROR_RATE = re.compile(r"(^|[^a-z])[wc]er([^a-z]|$)", re.IGNORECASE)
FEWEST = 3  # evaluations that two series have in common
FEWEST_SPIKES = 3
FEWEST_LAST = 8  # evaluations that show how far they ordinarily move
MOST_TOLD = 6  # steps and rows of evidence


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Positions of a curve, what tells them beside their height, and how sure that is."""

    curve: Curve
    at: Ints
    text: str
    confidence: float


def lone(signals: Signals, curve: Curve, train: Curve | None, params: Params) -> Finding | None:
    """Evaluations of a loss out of line with all others, while training goes as before."""
    if not len(curve):
        return None
    whole = curve.series.domain is None or not _whole_beside(signals, curve)
    found = _far_above(curve, train, params) if whole and curve.series.role == "val_loss" else None
    if found is None and curve.series.domain is None:
        found = _with_another(signals, curve, train, params)
    if found is None and curve.series.role == "val_metric":
        found = _lost(curve, train, params)
    if found is None and curve.series.role == "val_loss" and curve.series.domain is None:
        found = _decoded(signals, curve, train, params)
    return _finding(found) if found is not None else None


def _whole_beside(signals: Signals, part: Curve) -> bool:
    """Whether the loss that a part belongs to is evaluated at the same steps: that one says what is out of line."""
    whole = (c for c in validation_curves(signals) if c.series.domain is None)
    return any(np.isin(part.step, c.step).all() for c in whole)


def _far_above(curve: Curve, train: Curve | None, params: Params) -> _Found | None:
    """One or a few evaluations far above all others, or several above calm ones."""
    if len(curve) < params["lone_points"]:
        return None
    at = outlying(curve, params["lone"], params["lone_size"])
    at = at if len(at) else lone_summit(curve, params["lone"], params["calm_size"])
    at = at if len(at) else spikes(curve, params["spike"], FEWEST_SPIKES)
    if not len(at) or not _quiet(train, curve, at, params):
        return None
    return _Found(curve, at, "training rises far less", 0.75)


def _with_another(signals: Signals, curve: Curve, train: Curve | None, params: Params) -> _Found | None:
    """Evaluations at which a second series says the same: both are worse than at first, highest, or end apart."""
    for one, other in combinations([curve, *validation_curves(signals, "val_metric")], 2):
        pair = _errors(one, other)
        if pair is None:
            continue
        where, first, second = pair
        at, text = where[:0], "worse than at the first evaluation"
        if one.series.role == "val_loss":
            at = where[worse_than_at_first(first, second, params["worse"], params["lost"])]
        if not len(at) and len(where) >= FEWEST_LAST and not (_is_score(one) or _is_score(other)):
            peak, same = (lone_peak(errors, params["calm_size"], params["peak"]) for errors in (first, second))
            if peak is not None and peak == same:
                at, text = where[[peak]], "highest there"
        if not len(at) and len(where) >= FEWEST_LAST:
            away, along = (last_apart(errors, params["gap"]) for errors in (first, second))
            if min(away * along, abs(away), abs(along)) > np.log1p(params["calm_size"]):
                at, text = where[-1:], "as far from all before"
        if len(at) and _unmoved(train, one, at, params):
            return _Found(one, at, f"{other.name} is {text} as well", 0.75)
    return None


def _errors(curve: Curve, other: Curve) -> tuple[Ints, Floats, Floats] | None:
    """Where two series were evaluated together (positions in the first), and both as positive errors."""
    step, where, there = np.intersect1d(curve.step, other.step, return_indices=True)
    if len(step) < FEWEST or other.name == curve.name:
        return None
    errors = [_error(c)[i] for c, i in ((curve, where), (other, there))]
    if any(e.min() <= 0 or not np.isfinite(e).all() for e in errors):
        return None
    return where, errors[0], errors[1]


def _is_score(curve: Curve) -> bool:
    return curve.series.role == "val_metric" and higher_is_better(curve)


def _error(curve: Curve) -> Floats:
    """The values of an error, or what grows as a score falls."""
    if not _is_score(curve):
        return curve.value
    inverse: Floats = 1 / np.maximum(curve.value, 1e-9 * np.abs(curve.value).max())
    return inverse


def _lost(curve: Curve, train: Curve | None, params: Params) -> _Found | None:
    """One evaluation of a score that keeps next to nothing of what those before and after it keep."""
    if not higher_is_better(curve) or len(curve) < params["lone_points"]:
        return None
    at = lost_for_one(curve.value, params["kept"])
    if not len(at) or not _unmoved(train, curve, at, params):
        return None
    return _Found(curve, at, "the score is back at once", 0.75)


def _decoded(signals: Signals, loss: Curve, train: Curve | None, params: Params) -> _Found | None:
    """Evaluations whose rate of wrong words or characters stands alone although their loss does not: it averages over
    so many that it repeats within a few hundredths, and what went astray is the decoding."""
    for rate in validation_curves(signals, "val_metric"):
        if _ERROR_RATE.search(rate.name) is None or rate.series.domain is not None:
            continue
        beside = at_steps(loss, rate.step)
        at = standing_out(rate.value, params["astray"])
        at = np.array([i for i in at if beside[i] <= np.max(beside[[i - 1, i + 1]])], dtype=np.int64)
        if len(at) and _unmoved(train, rate, at, params):
            return _Found(rate, at, f"{loss.name} goes on as before", 0.75)
    return None


def _quiet(train: Curve | None, curve: Curve, at: Ints, params: Params) -> bool:
    """Whether the training loss rises far less, in proportion, over the stretches that end at these evaluations."""
    level = level_up_to(train, curve.step)
    known = level[np.isfinite(level)]
    if len(known) < params["lone_points"] / 2:
        return False
    for i, usual, height in _heights(curve, level, at):
        allowed = max(params["train_share"] * abs(height * usual), params["train_z"] * point_noise(known))
        if not level[i] - usual <= allowed:
            return False
    return True


def _unmoved(train: Curve | None, curve: Curve, at: Ints, params: Params) -> bool:
    """Whether the training loss does not leave both its neighbours by a share, in logarithms, of what validation does;
    where it is not known, or zero, nothing says so."""
    level = np.pad(level_up_to(train, curve.step), 1, constant_values=np.nan)
    for i, _, height in _heights(curve, level[1:-1], at):
        with np.errstate(all="ignore"):  # a training loss of zero
            moves = np.copysign(1.0, height) * np.log(level[i + 1] / level[[i, i + 2]])
        known = moves[np.isfinite(moves)]
        if len(known) and known.min() > params["train_share"] * abs(np.log1p(height)):
            return False
    return True


def _heights(curve: Curve, level: Floats, at: Ints) -> Iterator[tuple[int, float, float]]:
    """Positions, the training level near each, and how far validation lies above its own there, as a share."""
    for i in at:
        near = np.setdiff1d(np.arange(max(0, i - 3), min(len(curve), i + 4)), at)
        yield int(i), float(np.median(level[near])), float(curve.value[i] / np.median(curve.value[near]) - 1)


def _finding(found: _Found) -> Finding:
    curve, at = found.curve, found.at
    kept = np.delete(np.arange(len(curve)), at)
    first = int(at[0])
    around = float(np.median(np.delete(curve.value, at)[max(0, first - 3) : first + 3]))
    worst = int(at[np.argmax(np.abs(curve.value[at] - around))])
    ends = int(at[-1]) == len(curve) - 1
    onset, end = int(curve.step[first]), None if ends else int(curve.step[int(at[-1]) + 1])
    steps = ", ".join(str(int(step)) for step in curve.step[at[:MOST_TOLD]])
    sides = [curve.value[side] for side in (kept[kept < first][-3:], kept[kept > at[-1]][:3]) if len(side)]
    levels = " before and ".join(f"{np.median(side):.4g}" for side in sides) + ("" if ends else " after it")
    text = f"{curve.name} stands at {curve.value[worst]:.4g} at step {curve.step[worst]} beside evaluations of about"
    return Finding(
        kind="val-jump",
        series=curve.name,
        role=curve.series.role,
        onset_step=onset,
        onset_interval=(int(curve.step[max(first - 1, 0)]), onset),
        occurrences=tuple(int(step) for step in curve.step[at]),
        peak_step=int(curve.step[worst]),
        end_step=end,
        recovery="ongoing" if ends else "recovered",
        severity="medium",
        confidence=found.confidence,
        scope=Scope(domain=curve.series.domain),
        summary=f"{text} {levels}; {found.text}" + (f" ({len(at)} such evaluations: {steps})" if len(at) > 1 else ""),
        evidence=tuple(
            Evidence(curve.name, int(curve.step[i]), float(curve.value[i]), around, "evaluation far from all others")
            for i in at[:MOST_TOLD]
        ),
    )
