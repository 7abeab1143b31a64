"""A curve sits at a whole multiple of its counterpart: a scale, not learning.

What it detects:
    A training loss that steps to a whole multiple (or fraction) of its level within one logged point and keeps
    training there, its noise grown by the same factor (any large multiple where the gradient norm does not move); or
    one that lies at the same whole multiple of the validation loss from the first evaluation to the last.

Why it matters:
    Sums instead of means, losses multiplied by gradient accumulation or world size, a changed reduction after an
    upgrade: nothing happened to the model, but every threshold, clip and comparison is off by that factor.

Evidence:
    The ratio of the levels, the ratio of the noise, the evaluations at which the multiple holds; a setting of the
    configuration with that value.

False positives:
    Losses that really double do not double their noise at once, nor go on at the same slope, in proportion, as before.
    A fall where an epoch ends, or a step where the learning rate moves, may be learning. Validation above training by
    dropout, packing or over-fitting is no constant whole number.

Example:
    The loss goes from 1.21 to 4.86 between steps 500 and 505, 4.0 times, and falls on from there.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.evaluations import point_noise, usable, validation_curves
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.steps import lasting_steps

META = Meta(
    kind=KINDS["scale-mismatch"],
    needs=("train_loss",),
    uses=("val_loss", "learning_rate", "epoch", "grad_norm"),
    params=(
        Param("whole", 0.04, "distance of the ratio from a whole number; levels are known to a few per cent"),
        Param("unnamed", 0.12, "the same in full where no setting has that value: a quarter of all ratios lie as near"),
        Param("bend", 0.35, "change of slope over 32 points, in logarithms, that the noise need not explain"),
        Param("plain", 3.0, "multiple from which on a gradient norm that stays put stands in for a whole number"),
        Param("still", 1.3, "factor by which such a norm may move; it would follow a loss that really rose"),
        Param("steady", 0.015, "the same against validation, where many evaluations average"),
        Param("largest", 64.0, "largest multiple looked for; beyond it every ratio is near a whole number"),
        Param("noise", 1.7, "factor by which the noise may miss the multiple; it is known from 32 points a side"),
        Param("spread", 0.05, "spread of train against validation over the evaluations"),
    ),
)
SIDE = 32
CLIPPED = 0.03  # relative noise of a gradient norm below which it is held where it is
_UNITS = re.compile(r"bpb|bpc|bits|bytes?|chars?|ppl|perplexity|mse|mae|rmse|acc|err")  # no counterparts
FACTORS = ("accum", "world_size", "num_gpus", "num_devices", "batch_size", "n_gpu")


def detect(signals: Signals, params: Params) -> Outcome:
    """A step within the run first, then the training loss against validation."""
    curve = signals.curve("train_loss")
    loss = usable(curve) if curve is not None else None
    if loss is None or len(loss) < 20 or loss.value.min() <= 0:
        return Clear()
    found = list(_steps(signals, loss, params)) or list(_against_validation(signals, loss, params))
    return Fired(tuple(found)) if found else Clear()


def _whole(ratio: float, tolerance: float, params: Params) -> int | None:
    """The whole number (2 or more) that a ratio or its inverse is, if it is one."""
    if not 1 / params["largest"] <= ratio <= params["largest"]:
        return None
    larger = max(ratio, 1 / ratio)
    k = round(larger)
    return k if k >= 2 and abs(larger - k) <= min(tolerance * k, 0.3) else None


def _named(signals: Signals, k: int) -> str:
    """The setting that has the multiple's value."""
    names = [key for key, value in signals.config.items() if value == k and any(f in key.lower() for f in FACTORS)]
    return f"; {names[0]} is {k}" if names else ""


def _steps(signals: Signals, loss: Curve, params: Params) -> Iterator[Finding]:
    for at in lasting_steps(np.log(loss.value)):
        before, after = loss.value[max(0, at - SIDE) : at], loss.value[at : at + SIDE]
        ratio = float(np.median(after[:8]) / np.median(before[-8:]))
        k = _whole(ratio, params["whole"], params)
        if len(before) < SIDE // 2 or len(after) < SIDE // 2:
            continue
        named = _named(signals, k) if k is not None else ""
        drift, goes_on = _course(before, after, params["bend"])
        exact = float(np.median(after) / np.median(before)) * math.exp(-drift * (len(before) + len(after)) / 2)
        if k is not None and not named and abs(max(exact, 1 / exact) - k) > params["unnamed"]:
            k = None
        still = _gradient_agrees(signals, loss, at, ratio, params) if max(ratio, 1 / ratio) >= params["plain"] else None
        if not goes_on or (k is None and still is None):
            continue
        grown = point_noise(after) / max(point_noise(before), 1e-12)
        if abs(math.log(max(grown, 1e-12) / ratio)) > math.log(params["noise"]):
            continue
        if not named and _learnt(signals, loss, at, ratio):
            continue
        step = int(loss.step[at])
        about, times = ("", f"{k}") if k is not None else ("about ", f"{max(ratio, 1 / ratio):.2g}")
        way = f"{about}{times} times" if ratio > 1 else f"{about}1/{times} of"
        rows = (
            Evidence(loss.name, step, float(np.median(after[:8])), float(np.median(before[-8:])), f"ratio {ratio:.3f}"),
            Evidence(loss.name, step, grown, ratio, f"its point-to-point noise changes by {grown:.2g}"),
            *((still,) if still is not None else ()),
        )
        summary = f"{loss.name} is {way} its former level from step {step} on ({ratio:.3f}), noise included{named}"
        yield _finding(
            loss, step, int(loss.step[at - 1]), 0.9 if named else 0.8 if k is not None else 0.7, summary, rows
        )


def _gradient_agrees(signals: Signals, loss: Curve, at: int, ratio: float, params: Params) -> Evidence | None:
    """The gradient norm across the step, where it is logged, free to move and stays: the model met no other task.

    Or it falls by the same factor: the gradient of a part of a loss is that part of its gradient.
    """
    logged = signals.curve("grad_norm")
    norm = usable(logged) if logged is not None else None
    if norm is None or not len(norm) or norm.value.min() <= 0:
        return None
    border = int(np.searchsorted(norm.step, loss.step[at]))
    before, after = norm.value[max(0, border - SIDE) : border], norm.value[border : border + SIDE]
    if min(len(before), len(after)) < SIDE // 2 or min(point_noise(np.log(s)) for s in (before, after)) < CLIPPED:
        return None
    moved = float(np.median(after) / np.median(before))
    stays, follows = (1 / params["still"] <= f <= params["still"] for f in (moved, moved / ratio))
    if not stays and not (follows and ratio < 1):
        return None
    text = "does not move" if stays else "falls by the same factor"
    return Evidence(norm.name, int(loss.step[at]), float(np.median(after)), float(np.median(before)), text)


def _course(before: Floats, after: Floats, bend: float) -> tuple[float, bool]:
    """Slope of the logarithm per point, and whether it is the same on both sides: a factor does not bend the course.

    A model that was hurt comes back instead, and one that has learnt something learns on.
    """
    slopes = [float(np.log(np.median(side[-8:]) / np.median(side[:8]))) / (len(side) - 8) for side in (before, after)]
    noise = max(point_noise(np.log(side)) for side in (before, after))
    error = 1.2533 * noise * math.sqrt(2 / 8) * math.sqrt(2) / (SIDE - 8)
    return sum(slopes) / 2, abs(slopes[1] - slopes[0]) <= max(bend / SIDE, 3 * error)


def _learnt(signals: Signals, loss: Curve, at: int, ratio: float) -> bool:
    """Whether the learning rate moves there, or a fall lies where an epoch ends: then the model itself has changed."""
    first, last = int(loss.step[max(at - 3, 0)]), int(loss.step[min(at + 1, len(loss) - 1)])
    rate = signals.curve("learning_rate")
    if rate is not None:
        near = rate.value[(rate.step >= first) & (rate.step <= last) & (rate.value > 0)]
        if len(near) and near.max() > 1.5 * near.min():
            return True
    return ratio < 1 and _epoch_ends(signals, first, last, int(loss.step[-1]))


def _epoch_ends(signals: Signals, first: int, last: int, total: int) -> bool:
    """Whether an epoch ends between two steps: as logged, else where a whole number of equal epochs would end."""
    logged = signals.curve("epoch")
    epoch = usable(logged) if logged is not None else None
    if epoch is not None and min(epoch.at(first), epoch.at(last)) >= 0:
        before, after = float(epoch.value[epoch.at(first)]), float(epoch.value[epoch.at(last)])
        return math.floor(after + 0.02) > math.floor(before - 0.02)  # logged epochs are rounded
    slack = 0.01 * total
    return any(first - slack <= total * k / n <= last + slack for n in (2, 3, 4, 5) for k in range(1, n))


def _against_validation(signals: Signals, loss: Curve, params: Params) -> Iterator[Finding]:
    for curve in validation_curves(signals)[:1]:
        units = [set(_UNITS.findall(series.name.lower())) for series in (loss, curve)]
        if len(curve) < 5 or curve.value.min() <= 0 or units[0] != units[1]:
            continue
        level = _level_around(loss, curve.step)
        known = np.isfinite(level)
        ratios: Floats = level[known] / curve.value[known]
        if len(ratios) < 5 or float(np.ptp(np.log(curve.value[known]))) < 4 * params["spread"]:
            continue  # where nothing moved, any two constants have a constant ratio
        ratio = float(np.median(ratios[len(ratios) // 2 :]))  # early on, training lags behind over each stretch
        k = _whole(ratio, params["steady"], params)
        if k is None or robust_sigma(np.log(ratios)) > params["spread"]:
            continue
        if _whole(float(ratios[0]), params["whole"], params) != k:
            continue
        step, named = int(loss.step[0]), _named(signals, k)
        pair = (loss.name, curve.name) if ratio > 1 else (curve.name, loss.name)
        text = f"{pair[0]} is {k} times {pair[1]} at all {len(ratios)} evaluations (median {max(ratio, 1 / ratio):.3f})"
        rows = (Evidence(loss.name, int(curve.step[0]), float(level[known][0]), float(curve.value[known][0]), text),)
        yield _finding(loss, step, step, 0.8 if named else 0.65, text + named, rows)


def _level_around(loss: Curve, step: Ints) -> Floats:
    """Median training loss within a quarter of the usual distance between evaluations; NaN where none was logged."""
    reach = int(np.median(np.diff(step))) // 4
    low, high = np.searchsorted(loss.step, step - reach), np.searchsorted(loss.step, step + reach, side="right")
    return np.array([np.median(loss.value[a:b]) if b > a else np.nan for a, b in zip(low, high, strict=True)])


def _finding(
    loss: Curve, step: int, before: int, confidence: float, summary: str, rows: tuple[Evidence, ...]
) -> Finding:
    return Finding(
        kind="scale-mismatch",
        series=loss.name,
        role="train_loss",
        onset_step=step,
        onset_interval=(before, step),
        occurrences=(step,),
        peak_step=step,
        confidence=confidence,
        summary=summary,
        evidence=rows,
    )
