"""Losses that ring like a spring: smooth rises and falls of one period, each wide against the noise.

An optimiser that remembers its steps for longer than the valley is wide runs past the minimum and comes back. Noise
that wanders turns at uneven distances, and a single hump is a setback or a second descent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.blocks import blocks
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.epochs import steps_of_epoch
from trainforensics.signals.jumps import turning_points
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.task import adversarial, rewarded, stated
from trainforensics.signals.trend import moving_median

FEWEST_POINTS, MOST_POINTS = 24, 2_000  # of a curve; more are condensed
PERIOD = 4  # widths of the level that a period takes
RISES = 3
HEIGHT, CLEAR = 1.15, 6.0  # factor from a low to the next high; standard errors of a level
EVEN, ABOUT = 1.25, 1.4  # times the median distance of two highs, or lows; under a momentum that makes it swing
ABOVE = (0.25, 0.85)  # of the points that lie in the upper half of a swing: few of a burst, most of a dip
AT_ONCE = 0.5  # of a swing, from one point to the next
SMOOTH = 1.5  # times as many turns, where turns of half the height are counted
HEAVY = 0.99  # of momentum; usual are 0.9 to 0.95
TALL, WIDE = 2.0, 0.1  # factor of the tallest rise where nothing says of the momentum; of what was learnt before it
FALLS = 4.0  # factor between the first low and the last: of learning; a spring comes back to the same floor
FADES = 1.5  # factor between the first rise and the last: of a spring; an order of the data goes on as it is
RATE = 0.1  # of its highest value, by which a learning rate may rise meanwhile
PART = 0.05  # of a whole number: periods to an epoch


@dataclass(frozen=True, slots=True, eq=False)
class Ringing:
    """Indices of the lows and highs in turn, a low first and a high last, and the `level` there; `period` in points."""

    turns: tuple[int, ...]
    level: Floats
    period: float

    @property
    def points(self) -> int:
        """From the first low to the last high."""
        return self.turns[-1] - self.turns[0]

    def in_points_of(self, size: int) -> Ringing:
        """The same, where each of its points stands for `size`."""
        return Ringing(tuple(size * at + size // 2 for at in self.turns), self.level, size * self.period)


def ringing(curve: Curve, even: float) -> Ringing | None:
    """The longest stretch of evenly spaced swings of a positive curve; None where there are fewer than three."""
    value, width, best = curve.value, 1, None
    if len(value) < FEWEST_POINTS or value.min() <= 0:
        return None
    size = -(-len(value) // MOST_POINTS)
    shown = medians(np.log(value[: len(value) - len(value) % size]).reshape(-1, size))
    noise = robust_sigma(np.diff(shown)) / math.sqrt(2)
    while width * FEWEST_POINTS <= len(shown):
        height = max(math.log(HEIGHT), CLEAR * 1.2533 * noise / math.sqrt(width))
        found = _swings(shown, moving_median(shown, width), even, height)
        if found is not None and found.period >= PERIOD * width and (best is None or found.points > best.points):
            best = found
        width = 2 * width + 1
    return best.in_points_of(size) if best is not None else None


def _swings(shown: Floats, level: Floats, even: float, height: float) -> Ringing | None:
    at = turning_points(level, height)
    at = at[1:] if len(at) > 1 and level[at[0]] > level[at[1]] else at
    distance = np.array([b - a for a, b in zip(at, at[2:], strict=False)])
    for first in range(0, len(distance) - 2 * RISES + 3, 2):
        stop = _even(distance[first:], even)
        last = first + 2 * ((stop + 2) // 2)
        if (last - first) // 2 >= RISES and _smooth(shown, level, at[first:last], height):
            return Ringing(
                tuple(at[first:last]), np.exp(level[at[first:last]]), float(np.median(distance[first : first + stop]))
            )
    return None


def _even(distance: Floats, even: float) -> int:
    """How many of the first distances are alike."""
    for stop in range(len(distance), 0, -1):
        usual = float(np.median(distance[:stop]))
        if usual / even <= distance[:stop].min() and distance[:stop].max() <= even * usual:
            return stop
    return 0


def _smooth(shown: Floats, level: Floats, at: list[int], height: float) -> bool:
    """Whether the swings take their time, as logged, and few smaller ones lie between them."""
    smaller = turning_points(level[at[0] : at[-1] + 1], height / 2)
    swings = [shown[a : b + 1] for a, b in zip(at[::2], at[2::2], strict=False)]
    sharpest = [np.diff(part).max() / np.ptp(part) for part in swings]
    above = float(np.median([np.mean(part > (part.min() + part.max()) / 2) for part in swings]))
    return ABOVE[0] <= above <= ABOVE[1] and len(smaller) <= SMOOTH * len(at) and np.median(sharpest) <= AT_ONCE


def rings(signals: Signals, loss: Curve) -> Ringing | None:
    """The swings of a loss that its optimiser makes: with a momentum as heavy as that, or too tall for noise, and
    neither in step with the data nor with the learning rate."""
    return signals.derive(("rings", loss.series.id, loss.name, len(loss)), lambda: _rings(signals, loss))


def _rings(signals: Signals, loss: Curve) -> Ringing | None:
    memory = 1 / max(1 - _momentum(signals), 1e-9)
    heavy = memory >= 1 / (1 - HEAVY)
    found = ringing(loss, ABOUT if heavy else EVEN)
    if found is None or rewarded(signals) or adversarial(loss) or not _wide(loss.value, found):
        return None
    if blocks(loss.value) is not None:
        return None
    first, last = (int(loss.step[at]) for at in (found.turns[0], found.turns[-1]))
    rate = signals.curve("learning_rate")
    if rate is not None and len(rate) > 1:
        meanwhile = rate.value[(rate.step >= first) & (rate.step <= last)]
        if np.maximum(np.diff(meanwhile), 0).sum() > RATE * np.nanmax(rate.value):
            return None
    period = found.period * loss.cadence
    if heavy:
        return found if period <= 4 * math.pi * memory else None
    low, high = found.level[::2], found.level[1::2]
    change = (high[-1] - low[-1]) / (high[0] - low[0])
    falls_on = high[-1] < low[0] and low[-1] < low[0] / FALLS
    if falls_on or np.max(high / low) < TALL or 1 / FADES < change < FADES:
        return None
    turns = (steps_of_epoch(signals) or 0.0) / period
    return None if turns > 1 - PART and abs(turns - round(turns)) < PART else found


def _wide(value: Floats, found: Ringing) -> bool:
    """Whether a rise is wide against all that was learnt before it."""
    rises = found.level[1::2] - found.level[::2]
    return bool(rises.max() > WIDE * (float(np.median(value[:3])) - found.level[0]))


def _momentum(signals: Signals) -> float:
    """The momentum as logged or stated, 0 where it is not known."""
    logged = signals.curve("momentum")
    known = [float(np.nanmedian(logged.value))] if logged is not None and len(logged) else []
    known += [value for key, value in stated(signals) if key == "momentum" and isinstance(value, float)]
    return next((value for value in known if 0 < value < 1), 0.0)
