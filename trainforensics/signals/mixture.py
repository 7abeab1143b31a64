"""The mix of the training data: the share of each source, from the batch manifest or as the log has it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from trainforensics.model import Series
from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import stretches

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("domain", "source", "language")  # the first that is logged and says more than one thing
MOST = 24  # sources; more are documents by another name
FEWEST = 16  # points, without which no level is known
BATCHES = 20  # a point, of a mix that is drawn at random: a share of a half is known to a tenth
ORDERED = 0.1  # share of points at which the mix of ordered sources changes at most
WHOLE = 1e-3  # distance of the logged shares' sum from one
DRY = 4.0  # times the longest absence before

_SHARE = re.compile(r"(^|[^a-z])(mix|mixture|share|frac|fraction|ratio|prop|proportion|source|domain|data)([^a-z]|$)")
_LAST_WORD = re.compile(r"[/_.:\- ]?[^/_.:\- ]*$")


def logged_shares(signals: Signals) -> list[Curve]:
    """Series of one stem that add up to one at every point: "mix_code", "mix_prose"; empty where none do."""
    groups: dict[str, list[Curve]] = {}
    for curve in signals.unmapped:
        if len(curve) >= FEWEST and _SHARE.search(curve.name.lower()) and curve.finite.all() and curve.value.min() >= 0:
            groups.setdefault(_LAST_WORD.sub("", curve.name), []).append(curve)
    found = []
    for group in groups.values():
        together = 2 <= len(group) <= MOST and all(np.array_equal(c.step, group[0].step) for c in group)
        if together and np.allclose(np.sum([c.value for c in group], axis=0), 1.0, rtol=0, atol=WHOLE):
            found += group
    return found


def runs_dry(share: Floats) -> int | None:
    """Index from which on a share that was drawn from, at most points, is zero to the end; None where it is not."""
    drawn = np.flatnonzero(share > 0)
    if not len(drawn):
        return None
    first = int(drawn[-1]) + 1
    starts, ends = stretches(share[:first] == 0)
    longest = int((ends - starts + 1).max()) if len(starts) else 1
    enough = len(share) - first >= max(FEWEST, DRY * longest)
    return first if enough and first >= FEWEST and len(drawn) >= first / 2 else None


def shares(batches: pl.LazyFrame, loss: Curve) -> list[Curve]:
    """One curve a source: its share of the batches up to points of the loss, one in several where batches are few.

    Empty where the manifest names no sources, one, or more than `MOST`.
    """
    names = batches.collect_schema().names()
    step = np.unique(loss.step)
    for column in COLUMNS:
        if column in names and "step" in names and len(step) >= FEWEST:
            counted = _counted(batches, column)
            sources = counted["source"].unique().sort().to_list()
            if 2 <= len(sources) <= MOST:
                return _curves(counted, column, sources, step)
    return []


def _counted(batches: pl.LazyFrame, column: str) -> pl.DataFrame:
    """Batches by step and source."""
    import polars as pl  # noqa: PLC0415  (0.2 s, only where there is a manifest)

    named = batches.select("step", pl.col(column).cast(pl.String).alias("source")).drop_nulls()
    return named.group_by("step", "source").len().collect()


def _curves(counted: pl.DataFrame, column: str, sources: list[str], step: Ints) -> list[Curve]:
    row = np.searchsorted(np.array(sources), counted["source"].to_numpy().astype(str))
    at, number = np.searchsorted(step, counted["step"].to_numpy()), counted["len"].to_numpy()
    count = np.zeros((len(sources), len(step) + 1))
    np.add.at(count, (row, at), number)
    count = count[:, :-1]  # what came after the last point of the loss
    known = count.sum(axis=0) > 0
    step, count = step[known], count[:, known]
    if len(step) < FEWEST:
        return []
    moved = np.any(np.diff(count / count.sum(axis=0), axis=1) != 0, axis=0)
    width = 1 if moved.mean() <= ORDERED else math.ceil(BATCHES / float(np.median(count.sum(axis=0))))
    ends = np.arange(width - 1, len(step), width)
    count = np.add.reduceat(count, np.arange(0, len(step), width), axis=1)[:, : len(ends)]
    blank = np.full(len(ends), np.nan)
    return [
        Curve(
            Series(-1, f"share of {column} {name}", "batch manifest", "sampling_ratio", domain=name),
            step[ends],
            share,
            blank,
            np.zeros(len(ends), dtype=np.int32),
        )
        for name, share in zip(sources, count / count.sum(axis=0), strict=True)
    ]
