"""Data that come in blocks of equal length: the loss keeps its course within a block and leaps where the next begins.

Classes, sources or shards that follow one another unshuffled: each is learnt, and the others forgotten, while it lasts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma

SHORTEST, FEWEST = 4, 12  # points of a block; blocks
MOST_POINTS = 20_000  # of a log, which tell its blocks; more take time
CLIP = 10.0  # widths of the moves, so that a burst tells no period
LIKELY = 0.85  # of the highest autocorrelation: of a period and its multiples the shortest is meant
BESIDE = 0.5  # of a usual leap: the usual move at every other place
SURE, MOST = 4.75, 2 / 3  # standard errors of the share of leaps beyond a usual move (chance 1e-6); it in each half
LEAP = 0.05  # of the level
UP = 0.3  # share of the leaps that lead up; stairs of epochs only fall
LONG, LEARNT = 16, 0.2  # points of a block that is no batch used again or task in turn; of a leap, that is learnt in it
START = 8  # part of the log in which the first descent hides all


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of `points` points, `number` of them; the usual `leap` between two, the usual move `within` one, `first`:
    index of the first leap."""

    points: int
    number: int
    leap: float
    within: float
    first: int


def blocks(values: Floats) -> Blocks | None:
    """The blocks of evenly logged values; None where no period of leaps is that clear."""
    moves = np.diff(values[len(values) // START :][:MOST_POINTS])
    scale = robust_sigma(moves)
    if len(moves) < SHORTEST * FEWEST or scale <= 0:
        return None
    size = np.minimum(np.abs(moves), CLIP * scale)
    lag = _lag(size)
    if lag is None or len(moves) < FEWEST * lag:
        return None
    usual = np.array([np.median(size[phase::lag]) for phase in range(lag)])
    phase = int(np.argmax(usual))
    leaps, leap = moves[phase::lag], float(np.median(np.abs(moves[phase::lag])))
    if leap < LEAP * abs(float(np.median(values))) or np.delete(usual, phase).max() > BESIDE * usual[phase]:
        return None
    larger = size[phase::lag] > float(np.median(np.delete(size, np.arange(phase, len(size), lag))))
    sure = 2 * (larger.mean() - 0.5) * np.sqrt(len(larger)) >= SURE
    if not sure or min(half.mean() for half in np.array_split(larger, 2)) < MOST or np.mean(leaps > 0) < UP:
        return None
    if lag < LONG and not _learnt(moves[phase:], lag, leap):
        return None
    first = (len(values) // START + 1 + phase) % lag
    return Blocks(lag, len(leaps), leap, float(np.median(np.delete(usual, phase))), first or lag)


def _learnt(moves: Floats, lag: int, leap: float) -> bool:
    """Whether the loss falls within its blocks, in each half of the log. `moves` begins with a leap. Batches that are
    used several times, and tasks or lengths that take turns, have levels of their own as well but forget nothing."""
    within = moves[: len(moves) // lag * lag].reshape(-1, lag)[:, 1:].sum(axis=1)
    return all(float(np.median(half)) <= -LEARNT * leap for half in np.array_split(within, 2))


def _lag(size: Floats) -> int | None:
    """The likeliest distance between large moves, by their autocorrelation."""
    n = len(size)
    rest = size - size.mean()
    alike = np.fft.irfft(np.abs(np.fft.rfft(rest, 2 * n)) ** 2)[: n // FEWEST + 2] / max(float(rest @ rest), 1e-300)
    at = np.arange(SHORTEST, len(alike) - 1)
    peaks = at[(alike[at] > alike[at - 1]) & (alike[at] > alike[at + 1]) & (alike[at] > 0)]
    return int(peaks[alike[peaks] >= LIKELY * alike[peaks].max()][0]) if len(peaks) else None
