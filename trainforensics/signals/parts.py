"""Parts of a loss: their sum where no total is logged, and those that join the training later (a task added on the
way, a discriminator that starts to count)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trainforensics import roles
from trainforensics.model import Series
from trainforensics.signals.curve import Curve
from trainforensics.signals.run import Signals

FEWEST_BEFORE = 16  # points of the total that tell its course without the part
FEWEST_SINCE = 8  # points of the part: what is logged once or twice is no part of the loss
RARER = 2  # times the total's logging interval: what is logged less often is an evaluation
OWN_SIZE = 1.5  # times the size of the part: with a weight of one it adds its own size, its noise on top


def sum_of_parts(curves: Sequence[Curve]) -> list[Curve]:
    """The total of a detector's losses, where the curves of a role are its parts and none of them is the whole.

    Parts are of one source and logged in the same rows; one curve, or none.
    """
    parts = [c for c in curves if roles.is_summand(c.series.domain) and c.series.rank is None]
    if len(parts) < 2 or any(c.series.domain is None and c.series.rank is None for c in curves):
        return []
    first = max(parts, key=len)
    same = [c for c in parts if c.series.source == first.series.source and np.array_equal(c.step, first.step)]
    if len(same) < len(parts):
        return []
    name = " + ".join(c.name for c in same)
    series = replace(first.series, id=-1, name=name, domain=None)
    value = np.sum([c.value for c in same], axis=0)
    return [Curve(series, first.step, value, first.time, first.segment, _superseded(same, series))]


def _superseded(parts: Sequence[Curve], series: Series) -> Curve | None:
    undone = [part.superseded for part in parts if part.superseded is not None]
    if len(undone) < len(parts) or any(not np.array_equal(c.step, undone[0].step) for c in undone):
        return None
    first = undone[0]
    return Curve(series, first.step, np.sum([c.value for c in undone], axis=0), first.time, first.segment)


def joining(signals: Signals, total: Curve) -> tuple[Curve, ...]:
    """Parts that are not there from the start, each from the point on at which it joins.

    A part is another training loss by its name ("loss_depth", "train/g_loss"), logged about as often as the total.
    Before it joins, it is either not logged or exactly zero from its first point on.
    """
    return signals.derive(("joining", total.name), lambda: tuple(_joining(signals, total)))


def _joining(signals: Signals, total: Curve) -> list[Curve]:
    found = []
    for curve in (*signals.curves("train_loss"), *signals.curves("load_balance_loss"), *signals.unmapped):
        if curve.name == total.name or curve.series.rank is not None or not is_loss(curve.name):
            continue
        active = np.flatnonzero(curve.value != 0)
        if len(active) < FEWEST_SINCE:
            continue
        since = curve.take(np.arange(active[0], len(curve)))
        if since.cadence <= RARER * total.cadence and total.at(int(since.step[0]) - 1) + 1 >= FEWEST_BEFORE:
            found.append(since)
    return found


def is_loss(name: str) -> bool:
    """Whether a series calls itself a loss."""
    return bool({"loss", "losses"} & set(re.split(r"[^a-z]+", name.lower())))


def part_adds(signals: Signals, total: Curve, span: tuple[int, int], height: float) -> bool:
    """Whether a part that joins within `span` of steps, by its own size up to the end of it, accounts for a rise or a
    swing of the total by `height`.

    A part that is logged less often than the total may have joined as much as one of its own gaps earlier than seen.
    """
    first, last = span
    return any(
        first < part.step[0] < last + part.cadence
        and height <= OWN_SIZE * float(np.nanquantile(np.abs(part.value[: max(part.at(last), 0) + 1]), 0.9))
        for part in joining(signals, total)
    )
