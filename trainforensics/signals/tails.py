"""The height above which points stand out of a run's own noise, whatever the tail of that noise.

Sorted downwards, the heights z[1] >= z[2] >= ... of a sample whose tail is S leave gaps of known size:
k * (T(z[k]) - T(z[k+1])) with T = -log S is exponential (Renyi). So a gap is judged by the points below it, and
neither one giant nor many equal bursts can hide themselves. The tail is not known. Several natures of noise are kept
side by side, each weighs as much as it makes the points below likely, and what the gap is worth under each is averaged:
in long runs the bulk decides, in short ones heavy tails stay possible and a burst has to be higher.
"""

from __future__ import annotations

import math

import numpy as np

from trainforensics.signals.curve import Floats, Ints

MOST_BELOW = 400  # points next below that tell the tail; of longer runs these are their upper part alone
FEWEST_BELOW = 4
SHARE_ABOVE = 6  # one point in so many above the level may stand out: more of them are the nature of the data
START = math.sqrt(2 / math.pi)  # hazard rate of a normal distribution at its middle
FARTHEST = 1e100  # noise widths: squares of more leave the range of numbers
TINY = float(np.finfo(np.float64).tiny)
NORMAL, EXPONENTIAL = math.inf, 0.0
FAR = 8.0  # noise widths; a point in millions even of noise with 10 degrees of freedom
RARE, RAREST = 500, 3  # one point in so many, or so many points, may stand out by that much together
# Degrees of freedom of the natures of noise, and how usual they are: half of all runs are normal or nearly so.
NATURES = {NORMAL: 3.0, 10.0: 1.0, 5.0: 1.0, 3.0: 1.0, 2.0: 1.0, EXPONENTIAL: 1.0}


def chance_height(z: Floats, highest: float, lowest: float, chance: float) -> float:
    """The lowest of the heights that are more than noise, infinity where none is or none reaches `highest`.

    `z`: heights above the level in noise widths, shape (n,); `chance`: how often healthy noise may show any. Of the
    gaps above `lowest` the least likely counts, if it is too wide: the k-th may spend chance / (k * (k + 1)), which
    sums up to `chance`.
    """
    peaks = np.sort(z[z > 0])[::-1]
    if not len(peaks) or peaks[0] < highest:
        return np.inf
    most = min(len(peaks) // SHARE_ABOVE, int(np.sum(peaks >= lowest)), len(peaks) - 1 - FEWEST_BELOW)
    if most < 1:
        return np.inf
    k = np.arange(1, most + 1)
    unlikely = _log_probability(np.minimum(peaks[: most + 1 + MOST_BELOW], FARTHEST), k) + np.log(k * (k + 1.0))
    least = int(np.argmin(unlikely))
    return float(peaks[least]) if unlikely[least] < math.log(chance) else np.inf


def rare_height(peaks: Floats, deepest: float, n: int) -> float:
    """The height down to which a few peaks of `n` points stand far out of fine noise, infinity where none does.

    Fine noise is that of means over many samples, which have no heavy tail of their own: what stands FAR out is another
    kind of sample, whatever the peaks below it look like. All from half of the highest on are told together. Where they
    are more than one in RARE points, or the `deepest` dip reaches as far, that is the nature of the data.
    """
    highest = float(peaks.max(initial=0.0))
    if highest < FAR or deepest > highest / 2:
        return np.inf
    together = peaks[peaks >= highest / 2]
    return float(together.min()) if len(together) <= max(RAREST, n // RARE) else np.inf


def _log_probability(peaks: Floats, k: Ints) -> Floats:
    """Logarithm of the probability of gaps as wide as those below the `k` highest peaks, shape of `k`.

    Under each nature the depth T is known but for a factor. With all factors alike beforehand (Jeffreys), the m
    spacings below, of sum s, have the likelihood s**-m * prod(T'), and a gap g the probability (1 + g / s)**-m.
    """
    rank = np.arange(1, len(peaks))
    m = np.minimum(MOST_BELOW, len(peaks) - 1 - k)
    weights, chances = [], []
    for degrees, prior in NATURES.items():
        depth, log_slope = _depth(peaks, degrees)
        gaps = rank * -np.diff(depth)
        # summed from below, so that giants at the top leave the sums beneath them exact
        spacings = np.append(np.cumsum(gaps[::-1])[::-1], 0.0)
        slopes = np.append(np.cumsum(log_slope[::-1])[::-1], 0.0)
        below = np.maximum(spacings[k] - spacings[k + m], TINY)
        weights.append(math.log(prior) - m * np.log(below) + slopes[k] - slopes[k + m])
        chances.append(-m * (np.log(below + gaps[k - 1]) - np.log(below)))  # their ratio may leave the range of numbers
    weight = np.array(weights)
    return np.asarray(np.logaddexp.reduce(weight + chances) - np.logaddexp.reduce(weight))


def _depth(z: Floats, degrees: float) -> tuple[Floats, Floats]:
    """Depth T of heights, and the logarithm of its slope.

    The hazard rate is (START + z) / (1 + z**2 / degrees), that of a normal distribution to begin with and of a power
    law in the end; constant for exponential noise.
    """
    if degrees == EXPONENTIAL:
        return z, np.zeros_like(z)
    if degrees == NORMAL:
        return START * z + z * z / 2, np.log(START + z)
    width, bent = math.sqrt(degrees), np.log1p(z * z / degrees)
    return START * width * np.arctan(z / width) + degrees / 2 * bent, np.log(START + z) - bent
