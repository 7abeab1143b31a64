"""Stretches of consecutive points, and one series seen at another's steps."""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Bools, Curve, Floats, Ints


def stretches(mask: Bools) -> tuple[Ints, Ints]:
    """First and last index of every run of true values; two int64 arrays of equal length."""
    padded = np.concatenate(([False], mask, [False]))
    edge = np.flatnonzero(padded[1:] != padded[:-1])
    return edge[::2], edge[1::2] - 1


def lasting_start(mask: Bools, share: float = 0.9) -> int | None:
    """Index of the earliest true value from which on at least `share` of the points are true, the last one included."""
    if not len(mask) or not mask[-1]:
        return None
    fraction = np.cumsum(mask[::-1])[::-1] / np.arange(len(mask), 0, -1)
    return int(np.flatnonzero(mask & (fraction >= share))[0])


def at_steps(curve: Curve, step: Ints) -> Floats:
    """Value of the curve's last point at or before each step and within one cadence of it; NaN elsewhere.

    An infinite or NaN value logged there is returned as infinity, so that NaN always means "nothing logged".
    """
    if not len(curve):
        return np.full(len(step), np.nan)
    at = np.searchsorted(curve.step, step, side="right") - 1
    near = (at >= 0) & (step - curve.step[at] < curve.cadence)
    value = np.where(curve.finite, curve.value, np.inf)[np.clip(at, 0, None)]
    return np.where(near, value, np.nan)


def contained(step: Ints, among: Ints) -> Bools:
    """Which of the steps also occur in `among`; both in order."""
    if not len(among):
        return np.zeros(len(step), dtype=bool)
    if np.array_equal(step, among):
        return np.ones(len(step), dtype=bool)
    at = np.minimum(np.searchsorted(among, step), len(among) - 1)
    found: Bools = among[at] == step
    return found


def middle(values: Floats) -> float:
    """Median of the finite values; NaN without any."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")
