"""The gradient norm: when it moved, and the level it took."""

from __future__ import annotations

from typing import Literal

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.movement import BASELINE, CREPT_POINTS, LASTING_POINTS, MOVED, STILL, movement
from trainforensics.model import Precursor
from trainforensics.signals.noise import robust_sigma

NEGLIGIBLE_NORM = 1e-6  # of the loss; the last layer alone gives far more unless the loss is at its floor
QUIET = 1.5  # noise widths; a median of 20 points strays less than that from an unmoved level
SLOW_KINDS = frozenset({"gradual-rise", "divergence", "plateau", "oscillation"})

Order = Literal["led", "same", "quiet"]


@once
def order(case: Case) -> Order | None:
    """Whether the gradient norm moved before the loss, in the same point, or not at all; None where unknown."""
    move, named = case.movement("grad_norm"), precursor(case)
    if move is not None and move.lead >= CREPT_POINTS:
        return "led"
    if move is not None and move.widths >= MOVED and case.kind == "instant-burst":
        return "same"
    if named is not None and named.lead >= 2 * case.cadence:
        return "led"
    if move is None:
        return None
    if case.kind in SLOW_KINDS and move.widths < MOVED:
        return _slow_order(case)
    if move.widths >= MOVED:
        return "same"
    return "quiet" if move.widths < STILL else None


def _slow_order(case: Case) -> Order | None:
    """For what builds up slowly: whether the gradient norm stayed quiet until the peak, over 20 points at least."""
    curve = case.curve("grad_norm")
    if curve is None:
        return None
    at = int(np.searchsorted(curve.step, case.onset))
    points = max(2 * LASTING_POINTS, int(np.searchsorted(curve.step, case.incident.peak_step or case.onset)) - at)
    middle = int(curve.step[min(at + points // 2, len(curve) - 1)])
    if len(curve) - at < LASTING_POINTS:
        return None
    later = movement(curve.take((curve.step < case.onset) | (curve.step >= middle)), case.onset, points // 2)
    if later is None:
        return None
    return "quiet" if later.median_widths < QUIET else "same"


@once
def precursor(case: Case) -> Precursor | None:
    """The gradient norm among the precursors that the incident names."""
    norms = {c.name for c in case.signals.curves("grad_norm")}
    return next((p for p in case.incident.precursors if p.signal in norms), None)


@once
def lone_jump(case: Case) -> tuple[float, float, float] | None:
    """Gradient norm before the onset, at it, and one logged point on, where it jumped in that point alone.

    One batch does that: the next has an ordinary gradient again, also where the weights were harmed. Of the height
    (as logarithms) less than half is left. None where the norm did more, or is not known.
    """
    curve, move = case.curve("grad_norm"), case.movement("grad_norm")
    if curve is None or move is None or order(case) != "same" or precursor(case) is not None:
        return None
    at = int(np.searchsorted(curve.step, case.onset))
    here, after = (float(value) for value in curve.value[at : at + 2]) if at + 1 < len(curve) else (0.0, 0.0)
    if not (here == move.at and 0 < move.before < here < np.inf and after > 0):
        return None
    return (move.before, here, after) if after**2 < move.before * here else None


@once
def rescaled(case: Case) -> tuple[float, float] | None:
    """Levels of a gradient norm that left for another one in one logged point and is since the same but for a
    factor: no drift by more than a fifth of the step (as logarithms), and no more spread. None where it is not."""
    curve = case.curve("grad_norm") if case.kind == "gradient-explosion" else None
    curve = curve.take(curve.finite & (curve.value > 0)) if curve is not None else None
    if curve is None:
        return None
    value, at = np.log(curve.value), int(np.searchsorted(curve.step, case.onset))
    before, after = value[max(0, at - BASELINE) : at], value[at:]
    if len(before) < LASTING_POINTS or len(after) < LASTING_POINTS:
        return None
    low, high, third = float(np.median(before)), float(np.median(after)), len(after) // 3
    drift = abs(float(np.median(after[-third:]) - np.median(after[:third])))
    step = float(after[0] - before[-1])
    spreads = robust_sigma(np.diff(before)), robust_sigma(np.diff(after))
    same = drift < 0.2 * (high - low) and step > 0.8 * (high - low) and spreads[1] < 1.5 * spreads[0]
    level, _ = case.levels("grad_norm", float(np.exp(low)), 0.0)
    return (level, float(np.exp(high))) if same else None


def zero_share(case: Case) -> float:
    """Share of the logged points from the onset on at which the gradient norm is exactly 0."""
    curve = case.curve("grad_norm")
    after = curve.value[curve.step >= case.onset] if curve is not None else np.empty(0)
    return float(np.mean(after == 0.0)) if len(after) else 0.0


def level(case: Case) -> float | None:
    """Median gradient norm from the onset on; None where it is not logged."""
    curve = case.curve("grad_norm")
    if curve is None:
        return None
    after = curve.value[curve.finite & (curve.step >= case.onset)]
    return float(np.median(after)) if len(after) else None


def negligible(case: Case) -> tuple[float, float] | None:
    """Median norm over all parameters and median loss from the onset on, where the norm is all but 0; else None.

    Too little for the last layer alone, which a loss above its floor reaches directly.
    """
    curve, scope = case.curve("grad_norm"), case.incident.scope.layer
    if curve is None or case.loss is None or scope is not None or curve.series.layer is not None:
        return None
    loss = case.loss.only_finite()
    norm, heights = level(case), loss.value[loss.step >= case.onset]
    if norm is None or not len(heights):
        return None
    height = float(np.median(heights))
    return (norm, height) if norm < NEGLIGIBLE_NORM * abs(height) else None
