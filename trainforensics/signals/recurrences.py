"""Bursts that come whenever one shard does: none of them may stand out of the noise as together they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainforensics.model import Series
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import lasting_start
from trainforensics.signals.trend import WINDOW

if TYPE_CHECKING:
    import polars as pl

FEWEST, FEWEST_SHARDS, TIMES = 64, 4, 2  # points of the loss; shards; how often one comes back
LONGEST = 0.125  # of the log, that a stretch of one shard takes
HIGH, VISIBLE = 3.0, 2.0  # standard errors of a stretch's level above both of its sides; widths of the points' noise
CHANCE = 1e-3  # that a shard is as high every time, by how often the others are
MEDIAN_ERROR = 1.2533  # standard error of a median against that of a mean


def shard_codes(batches: pl.LazyFrame, loss: Curve) -> Curve | None:
    """Which shard each point of the loss was of, as numbers, where one alone fed its step; None where none is named."""
    import polars as pl  # noqa: PLC0415  (0.2 s, only where there is a manifest)

    if len(loss) < FEWEST or not {"step", "shard"} <= set(batches.collect_schema().names()):
        return None
    named = batches.select("step", pl.col("shard").cast(pl.String)).drop_nulls().filter(pl.col("step").is_in(loss.step))
    by_step = named.group_by("step").agg(pl.col("shard").first(), pl.col("shard").n_unique().alias("shards"))
    single = by_step.filter(pl.col("shards") == 1).sort("step").collect()
    if len(single) < FEWEST:
        return None
    step = single["step"].to_numpy().astype(np.int64)
    code = np.unique(single["shard"].to_numpy().astype(str), return_inverse=True)[1].astype(np.float64)
    series = Series(-1, "shard", loss.series.source, "shard")
    nothing = np.full(len(step), np.nan)
    return Curve(series, step, code, nothing, np.zeros(len(step), dtype=np.int32))


def shard_bursts(signals: Signals, curve: Curve) -> tuple[Excursion, ...]:
    """The stretches of the one shard whose every return lifts the loss above the levels around, where that is no chance
    of as many shards; empty where none is."""
    codes = signals.curve("shard")
    if codes is None or len(curve) < FEWEST:
        return ()
    at = np.searchsorted(codes.step, curve.step)
    known = (at < len(codes)) & (codes.step[np.minimum(at, len(codes) - 1)] == curve.step)
    if known.sum() < FEWEST:
        return ()
    code = np.where(known, codes.value[np.minimum(at, len(codes) - 1)], -1.0)
    found = [s for s in _stretches(code, curve.value) if s[0] >= 0]
    shards = {shard for shard, _, _ in found}
    if len(shards) < FEWEST_SHARDS:
        return ()
    high = {shard: [e for own, e, up in found if own == shard and up] for shard in shards}
    often = {shard: sum(own == shard for own, _, _ in found) for shard in shards}
    whole = sum(map(len, high.values()))
    for shard in sorted(shards, key=lambda one: -len(high[one])):
        others = (whole - len(high[shard]) + 1) / (len(found) - often[shard] + 1)
        if len(high[shard]) == often[shard] >= TIMES and len(shards) * others ** often[shard] <= CHANCE:
            return tuple(high[shard])
    return ()


def _stretches(code: Floats, value: Floats) -> list[tuple[float, Excursion, bool]]:
    """The shard of each stretch after the first descent, its excursion, and whether it stands above both sides."""
    starts = np.append(0, np.flatnonzero(np.diff(code) != 0) + 1)
    ends = np.append(starts[1:], len(code))
    noise = robust_sigma(np.diff(value)) / np.sqrt(2)
    settled = _settled(value)
    found = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        before, after = value[max(0, start - WINDOW) : start], value[end : end + WINDOW]
        if start < settled or min(len(before), len(after)) < WINDOW // 2 or end - start > LONGEST * len(value):
            continue
        found.append((float(code[start]), *_judged(value, start, end, (before, after), noise)))
    return found


def _judged(value: Floats, start: int, end: int, sides: tuple[Floats, Floats], noise: float) -> tuple[Excursion, bool]:
    before, after = (float(np.median(side)) for side in sides)
    level, error = float(np.median(value[start:end])), noise * MEDIAN_ERROR / np.sqrt(end - start)
    height = level - max(before, after)
    excursion = Excursion.plain(
        value,
        start,
        start + int(np.argmax(value[start:end])),
        before=before,
        after=after,
        sigma=max(error, float(np.finfo(np.float64).tiny)),
        recovery="recovered",
        half=end,
        end=end,
        height=height,
        scale=end - start,
    )
    return excursion, height > max(HIGH * error, VISIBLE * noise)


def _settled(value: Floats) -> int:
    """From where on the loss is within a quarter of its range of its last level."""
    late = float(np.median(value[-len(value) // 4 :]))
    start = lasting_start(value < late + 0.25 * max(float(value[:3].max()) - late, 0.0), 0.9)
    return start if start is not None else len(value) // 4
