"""Ranks that leave the others: deviations from the middle rank, judged by what all ranks ordinarily do.

Block medians along the run make small lasting differences visible; their spread over ranks and blocks nearby is the
scale, so that constant differences between ranks and slowly wandering data are part of what is ordinary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Bools, Floats
from trainforensics.signals.noise import MAD_TO_SIGMA, medians, resolution
from trainforensics.signals.stretches import stretches
from trainforensics.signals.trend import moving_median

MIN_POINTS = 24
BLOCKS, FEWEST_IN_BLOCK = (32, 12), 4  # fine ones for short departures, coarse ones for small differences
FEW_RANKS = 16  # up to here each rank is held against the others alone
FEW = 4
NEIGHBOURS = 8  # blocks either side that tell the ordinary spread
SURPLUS = 2.0  # widths beyond what the largest of as many normal offsets reaches
MIN_STRETCH = 4  # blocks: the shortest lasting departure
FEWEST_FAR, VERY_FAR = 3, 2.0  # the same where every one of them lies this many times beyond the bar
RETURNED_SHARE = 0.15  # of the log, for a departure that came back
CLEAR_OF = 2.0  # times the farthest stray before it
LASTING = 0.9  # share of blocks outside from the onset to the end


@dataclass(frozen=True, slots=True)
class RankDeparture:
    """Row `row` of a matrix left the others between the indices `first` and `last` of its steps.

    `size`: median deviation from the middle rank meanwhile, in the space of the values; `spread`: ordinary deviation of
    block medians there; `before`: the row's own deviation earlier (NaN where it was apart from the start); `ended`:
    it came back.
    """

    row: int
    first: int
    last: int
    size: float
    spread: float
    before: float
    ended: bool

    @property
    def z(self) -> float:
        """Size in widths of the ordinary spread."""
        return abs(self.size) / self.spread if self.spread > 0 else math.inf

    @property
    def from_start(self) -> bool:
        """Whether it was apart from the first block on."""
        return math.isnan(self.before)


def rank_departures(values: Floats) -> tuple[RankDeparture, ...]:
    """Rows that stay apart from the others, the earliest first; empty for fewer than 2 rows or 24 steps.

    `values` has shape (rank, step), in a space where ranks differ by distances (logarithms for times and norms).
    """
    ranks, n = values.shape
    if ranks < 2 or n < MIN_POINTS:
        return ()
    values = np.where(np.isfinite(values), values, np.nan)
    found: dict[int, list[RankDeparture]] = {}
    for size in sorted({max(FEWEST_IN_BLOCK, n // count) for count in BLOCKS}):
        for row, left in _at_size(values, size).items():
            found.setdefault(row, left)
    return tuple(sorted((d for left in found.values() for d in left), key=lambda d: (d.first, -d.z)))


def _at_size(values: Floats, size: int) -> dict[int, list[RankDeparture]]:
    """Departures by row, seen in blocks of `size` points."""
    ranks, floor = len(values), _grid(values)
    if ranks > FEW_RANKS:
        views = dict.fromkeys(range(ranks), _Apart(values, values, size, floor))
    else:
        views = {row: _Apart(values, np.delete(values, row, axis=0), size, floor) for row in range(ranks)}
    bar = SURPLUS + math.sqrt(2 * math.log(ranks))
    found = {row: [_departure(v, row, stretch, size) for stretch in _outside(v, row, bar)] for row, v in views.items()}
    left = {r: [d for d in ds if d.from_start or abs(d.size - d.before) > bar * d.spread] for r, ds in found.items()}
    return {row: departures for row, departures in left.items() if departures}


def unequal_ranks(values: Floats, equal: float) -> tuple[RankDeparture, ...]:
    """Rows that equalled the others up to some point, to a relative difference of `equal`, and hardly ever since.

    `values` has shape (rank, step). For what ranks must agree on whatever its size, as checksums: the distance of a row
    that parted has no sign and no level.
    """
    ranks, n = values.shape
    if ranks < 3 or n < MIN_POINTS:
        return ()
    found = []
    for row in range(ranks):
        others = np.delete(values, row, axis=0)
        middle = _middle(others, axis=0)
        known = np.isfinite(values[row]) & np.isfinite(middle)
        apart = known & (np.abs(values[row] - middle) > equal * np.abs(middle))
        first = _parted_at(apart)
        if first is not None:
            distance = np.abs(values[row] - middle)[first:]
            ordinary = np.abs(others[:, first:] - middle[first:])
            spread = max(float(np.nanmedian(ordinary)), _grid(values))
            found.append(RankDeparture(row, first, n - 1, float(np.nanmedian(distance)), spread, 0.0, ended=False))
    return tuple(found)


def _parted_at(apart: Bools) -> int | None:
    """First index from which nearly all are apart to the end, none to speak of before; None where there is none."""
    n = len(apart)
    if not apart.any():
        return None
    first = int(np.argmax(np.cumsum(np.where(apart, 1, -1)[::-1])[::-1]))
    if first < MIN_STRETCH or n - first < MIN_STRETCH:
        return None
    return first if np.mean(apart[first:]) >= LASTING and np.mean(apart[:first]) <= 1 - LASTING else None


class _Apart:
    """Distances of all ranks from the middle of `others`: `points` (rank, step), their block medians `blocks` (rank,
    block) and the ordinary `spread` of those among the others (block,)."""

    def __init__(self, values: Floats, others: Floats, size: int, floor: float) -> None:
        middle = _middle(others, axis=0)
        whole = values.shape[1] - values.shape[1] % size
        self.points = values - middle
        self.blocks = _medians(self.points[:, :whole], size)
        m = len(others)
        # a rank outside differs from the middle of m by more than those that make it
        wider = math.sqrt((1 + (0.5 if m <= 2 else math.pi / 2 / m)) / (1 - 1 / m)) if 1 < m < len(values) else 1.0
        self.spread = wider * _spread((others - middle)[:, :whole], size, floor) if m > 1 else _alone(self, size, floor)


def _outside(view: _Apart, row: int, bar: float) -> list[tuple[int, int, bool]]:
    height = moving_median(np.nan_to_num(view.blocks[row] / view.spread, nan=0.0), 3)
    found = []
    for sign in (1.0, -1.0):
        far = sign * height > bar
        least = FEWEST_FAR if far.any() and np.min(sign * height[far]) > VERY_FAR * bar else MIN_STRETCH
        stretch = _longest(far, least) if far.sum() >= least else None
        found += [stretch] if stretch is not None else []
    return found


def _medians(points: Floats, size: int) -> Floats:
    return _middle(points.reshape(len(points), -1, size), axis=2)


def _middle(values: Floats, axis: int) -> Floats:
    """Median without NaN; NaN where there is nothing else. Plain where all is finite, which is far faster."""
    if np.isfinite(values).all():
        return medians(np.ascontiguousarray(np.moveaxis(values, axis, -1)))
    empty = np.isnan(values).all(axis=axis, keepdims=True)
    middle = np.nanmedian(np.where(empty, 0.0, values), axis=axis)
    return np.where(np.squeeze(empty, axis=axis), np.nan, middle)


def _grid(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    scale = float(np.median(np.abs(finite))) if len(finite) else 0.0
    return max(resolution(finite[:20_000]) / 4 if len(finite) else 0.0, 1e-9 * scale, 1e-300)


def _spread(points: Floats, size: int, floor: float) -> Floats:
    """Ordinary deviation of block medians at each block, shape (block,): among ranks and blocks nearby, and never below
    what the noise of the points leaves in a median."""
    blocks = _medians(points, size)
    within = MAD_TO_SIGMA * _middle(np.abs(points.reshape(*blocks.shape, size) - blocks[:, :, None]), axis=2)
    error = 1.2533 * _middle(within, axis=0) / math.sqrt(size)
    # few ranks lie close together by chance: their far deviations tell more than the middle ones
    share, widths = (0.9, 1.645) if len(points) <= FEW else (0.5, 1 / MAD_TO_SIGMA)
    nearby = np.empty(blocks.shape[1])
    for at in range(len(nearby)):
        window = np.abs(blocks[:, max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1])
        known = window[np.isfinite(window)]
        nearby[at] = np.quantile(known, share) / widths if len(known) else np.nan
    return np.fmax(np.fmax(nearby, error), floor)


def _alone(view: _Apart, size: int, floor: float) -> Floats:
    """With one other rank only the earlier half of the log tells what is ordinary."""
    early = view.points[:, : max(size, view.blocks.shape[1] // 2 * size)]
    usual = _spread(early[np.abs(early).sum(axis=1) > 0][:1], size, floor) if np.abs(early).sum() > 0 else [floor]
    return np.full(view.blocks.shape[1], float(np.max(usual)))


def _longest(mask: Bools, least: int) -> tuple[int, int, bool] | None:
    """First and last block of the departure that lasts to the end, else of the longest one, and whether it ended."""
    share = np.cumsum(mask[::-1])[::-1] / np.arange(len(mask), 0, -1)
    to_end = np.flatnonzero(mask & (share >= LASTING))
    if len(to_end) and mask[-2:].any() and len(mask) - to_end[0] >= least:
        return int(to_end[0]), len(mask) - 1, False
    first, last = stretches(mask)
    if not len(first):
        return None
    at = int(np.argmax(last - first))
    length = int(last[at] - first[at]) + 1
    if length < max(2 * least, RETURNED_SHARE * len(mask)):
        return None
    return int(first[at]), int(last[at]), True


def _departure(view: _Apart, row: int, stretch: tuple[int, int, bool], size: int) -> RankDeparture:
    first, last, ended = stretch
    apart, blocks, spread = view.points[row], view.blocks[row], view.spread
    start, sign = first, np.sign(np.nanmedian(blocks[first : last + 1]))
    while start > 0 and sign * blocks[start - 1] > 1.5 * spread[start - 1]:
        start -= 1
    level = float(np.nanmedian(blocks[first : last + 1]))
    before = float(np.nanmedian(blocks[:start])) if start > 0 and np.isfinite(blocks[:start]).any() else math.nan
    onset = _split(apart, start, size, before, level) if start > 0 else 0
    onset += _leap(sign * (apart[onset : (first + 2) * size] - before)) if start > 0 else 0
    stop = min(len(apart), (last + 1) * size) - 1 if ended else len(apart) - 1
    return RankDeparture(row, onset, stop, level, float(np.median(spread[first : last + 1])), before, ended)


def _leap(away: Floats) -> int:
    """The first of the points that stray from a level at which they leap clear of all before them, for some points."""
    away = np.nan_to_num(away)
    bar = CLEAR_OF * np.maximum.accumulate(away)
    for at in range(1, len(away) - FEWEST_IN_BLOCK + 1):
        if bar[at - 1] > 0 and min(away[at], float(np.median(away[at : at + FEWEST_IN_BLOCK]))) > bar[at - 1]:
            return at
    return 0


def _split(apart: Floats, block: int, size: int, before: float, level: float) -> int:
    """The point within a block of `block` where the series best parts into the level before and the one it enters."""
    low, high = max(0, (block - 1) * size), min(len(apart), (block + 2) * size)
    near = np.nan_to_num(apart[low:high], nan=before)
    entered = float(np.median(near[-size:])) if abs(np.median(near[-size:]) - before) > 0 else level
    gain = np.abs(near - before) - np.abs(near - entered)
    after = np.append(np.cumsum(gain[::-1])[::-1], 0.0)
    return min(low + int(np.argmax(after)), len(apart) - 1)
