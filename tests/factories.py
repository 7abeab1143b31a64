"""Builds the view of a run that detectors get from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trainforensics.model import Axis, Checkpoint, Event, Series
from trainforensics.signals import Curve, Signals


def make_curve(
    value: ArrayLike,
    role: str | None = "train_loss",
    *,
    name: str | None = None,
    step: ArrayLike | None = None,
    time: ArrayLike | None = None,
    segment: ArrayLike | None = None,
    series_id: int = 0,
    superseded: Curve | None = None,
    **origin: Any,
) -> Curve:
    """A curve from values; steps default to 1..n, wall times to unknown, the segment to 0."""
    values = np.asarray(value, dtype=np.float64)
    n = len(values)
    steps = np.arange(1, n + 1) if step is None else np.asarray(step)
    times = np.full(n, np.nan) if time is None else np.asarray(time, dtype=np.float64)
    lives = np.zeros(n, dtype=np.int32) if segment is None else np.asarray(segment, dtype=np.int32)
    series = Series(series_id, name or role or "metric", "log.jsonl", role, **origin)
    return Curve(series, steps.astype(np.int64), values, times, lives, superseded)


def make_signals(
    curves: Mapping[str, ArrayLike | Curve] | Sequence[Curve],
    *,
    step: ArrayLike | None = None,
    events: Sequence[Event] = (),
    checkpoints: Sequence[Checkpoint] = (),
    config: Mapping[str, Any] | None = None,
) -> Signals:
    """A run from curves, or from arrays keyed by role."""
    if isinstance(curves, Mapping):
        built = [
            given if isinstance(given, Curve) else make_curve(given, role, step=step, series_id=i)
            for i, (role, given) in enumerate(curves.items())
        ]
    else:
        built = list(curves)
    by_role: dict[str, list[Curve]] = {}
    for curve in built:
        if curve.series.role is not None:
            by_role.setdefault(curve.series.role, []).append(curve)
    return Signals(
        run="run",
        axis=Axis("step", "step"),
        by_role={role: tuple(sorted(group, key=len, reverse=True)) for role, group in by_role.items()},
        unmapped=tuple(curve for curve in built if curve.series.role is None),
        events=tuple(events),
        checkpoints=tuple(checkpoints),
        config=config or {},
    )
