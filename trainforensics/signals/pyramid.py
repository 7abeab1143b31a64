"""Candidates on a pyramid of time scales: medians of 1, 2, 4 ... points, all seen through the same window."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import median, medians
from trainforensics.signals.tails import chance_height, rare_height
from trainforensics.signals.trend import WINDOW, Level, level, sides, span

MIN_HEIGHT = 5.0  # noise widths; a normal series of 200,000 points stays below
MIN_BLOCK_HEIGHT = 4.5  # the same for medians of blocks, which have no heavy tails
MIN_COMPANION = 3.0  # what stands out together with a higher burst, above a gap that the tail does not explain
CHANCE = 0.01  # of healthy noise to show a burst at one scale
ROUNDED = 1 - 1e-9  # a bar that was computed from a height must not exclude it by its last digit
FINE = 0.05  # of the level: noise of means over many samples
KNOWN, UNEVEN = 200, 1.5  # points that show how noise is spread; times as far to one side as to the other
MIN_JUMP = 6.0  # the same for the difference of two levels, in standard errors
FEWEST_BLOCKS = 20  # four levels of five
WANDER_SCALE, WANDER_BLOCKS = 8, 64  # scales from the one on, with at least so many blocks, show slow wandering
EXACT_SCALE = 8  # block medians up to here are exact, beyond it medians of eight block medians


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stretch of points [start, stop) that stands out at `scale`: above both sides, or as a jump of the level."""

    start: int
    stop: int
    scale: int
    jump: bool


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """A finite series and its candidates: first those above both sides from fine to coarse, then jumps, coarse to fine.

    `wander`: how far the series moves slowly by itself, the noise of its coarse blocks (0.0 for short series).
    """

    values: Floats
    finest: Level
    wander: float
    candidates: tuple[Candidate, ...]


def pyramid(values: Floats, *, logged: bool = False) -> Pyramid:
    """Build all scales of a finite series; linear in its length. `logged`: the values are logarithms."""
    blocks, levels = {1: values}, {1: level(values)}
    while len(values) // (2 * max(blocks)) >= FEWEST_BLOCKS:
        scale = 2 * max(blocks)
        fine = 1 if scale <= EXACT_SCALE else scale // 8
        blocks[scale] = _block_medians(blocks[fine], scale // fine)
        levels[scale] = level(blocks[scale])
    persistence = levels[1].persistence
    fine = median(levels[1].sigma) <= FINE * (1.0 if logged else abs(median(values))) and _is_even(values, levels[1])
    bursts = [c for scale in blocks for c in _bursts(blocks[scale], levels[scale], scale, fine=fine)]
    jumps = [c for s in reversed(blocks) for c in _jumps(blocks[s], levels[s], persistence(s), s)]
    return Pyramid(values, levels[1], _wander(levels), tuple(bursts + jumps))


def _is_even(values: Floats, around: Level) -> bool:
    """Whether noise reaches about as far above its middle as below: a long tail of its own shows in the bulk as well.
    Fewer points don't tell."""
    apart = values - (around.left + around.right) / 2
    apart = apart[len(values) // 4 :]
    apart = apart[np.isfinite(apart)]
    if len(apart) < KNOWN:
        return True
    low, middle, high = np.quantile(apart, (0.2, 0.5, 0.8))
    return bool(high - middle <= UNEVEN * (middle - low))


def _wander(levels: dict[int, Level]) -> float:
    """Noise of coarse blocks beyond what independent points would leave in their medians."""
    alone = median(levels[1].sigma) * 1.2533
    wide = {s: at for s, at in levels.items() if s >= WANDER_SCALE and len(at.sigma) >= WANDER_BLOCKS}
    excess = [median(at.sigma) ** 2 - alone**2 / s for s, at in wide.items()]
    return math.sqrt(max([0.0, *excess]))


def _block_medians(values: Floats, size: int) -> Floats:
    whole = len(values) - len(values) % size
    return medians(values[:whole].reshape(-1, size))


def _bursts(values: Floats, levels: Level, scale: int, *, fine: bool) -> list[Candidate]:
    """Stretches above the higher of their two sides, highest first."""
    z = np.nan_to_num((values - np.fmax(levels.left, levels.right)) / levels.upward, nan=0.0)
    z[np.isnan(levels.left)] = 0.0
    if scale > 1:
        z[np.isnan(levels.right)] = 0.0  # coarse blocks at the end of the log are judged as jumps
    usual = median(z)  # below zero on a slope, where the higher side is the one before
    highest = MIN_HEIGHT if scale == 1 else MIN_BLOCK_HEIGHT
    bar = chance_height(_peaks(z - usual), highest - usual, MIN_COMPANION, CHANCE) + usual
    if scale == 1 and fine:
        dips = np.nan_to_num((np.fmin(levels.left, levels.right) - values) / levels.sigma, nan=0.0)
        bar = min(bar, rare_height(_peaks(z), float(dips.max()), len(z)))
    stretches = _stretches(z, bar)
    return [Candidate(start * scale, stop * scale, scale, jump=False) for start, stop in stretches]


def _jumps(values: Floats, levels: Level, persistence: float, scale: int) -> list[Candidate]:
    """Places where the level behind stands above the level before, highest first."""
    window = min(WINDOW, len(values) // 4)
    left, right = (levels.left, levels.right) if window == span(len(values)) else sides(values, window)
    error = (
        levels.sigma[1:] * persistence * 1.2533 * np.sqrt(2 / window)
    )  # standard error of a difference of two medians
    jump = np.append(0.0, np.nan_to_num((right[:-1] - left[1:]) / error, nan=0.0))
    tops = [start + int(np.argmax(jump[start:stop])) for start, stop in _stretches(jump, MIN_JUMP)]
    return [Candidate(top * scale, (top + WINDOW) * scale, scale, jump=True) for top in tops]


def _peaks(z: Floats) -> Floats:
    """Heights with every stretch above 3 reduced to its highest point."""
    high = np.flatnonzero(z > 3)
    if not len(high):
        return z
    starts = np.append(0, np.flatnonzero(np.diff(high) > 3) + 1)
    return np.append(z[z <= 3], np.maximum.reduceat(z[high], starts))


def _stretches(z: Floats, bar: float) -> list[tuple[int, int]]:
    """Runs of values above half of `bar` that hold one above it, gaps of up to two points closed; highest first."""
    at = np.flatnonzero(z > bar / 2)
    if not len(at):
        return []
    starts = np.append(0, np.flatnonzero(np.diff(at) > 3) + 1)
    heights = np.maximum.reduceat(z[at], starts)
    first, last = at[starts], at[np.append(starts[1:], len(at)) - 1]
    order = np.argsort(-heights, kind="stable")
    return [(int(first[i]), int(last[i]) + 1) for i in order if heights[i] >= bar * ROUNDED]
