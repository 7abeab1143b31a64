"""A loss printed as the mean of all values since it was last set to zero, and the values behind it.

Progress bars and tutorials print such means, from the start of the log or of each epoch. They jump where they begin
again, hardly move later, and hide bursts; what they average is judged instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.noise import printed_grid, robust_sigma
from trainforensics.signals.run import Signals

EARLY = 64  # points that a mean must be taken over: from there on it hardly moves any more
MOST_PARTS = 256  # of them, evenly taken, tell what all are
STRAIGHT = 0.5  # of its way that a descent gains
STEADY = 3.0  # largest ratio of the scatter of the values behind; that of a plain series grows with their number
RESET = 8.0  # noise widths of the move with which a mean begins again
EQUAL = 0.05  # by which the lengths of epochs may differ
OUTLIER = 8.0  # times the usual scatter: bursts behind the mean say nothing of it
UNDONE = -0.3  # correlation of moves as far apart as a mean is wide, minus a half where the values are independent
NEGATIVE = 0.01  # of the values behind
COARSE = 0.5  # of the noise of the values behind the mean: where rounding reaches it they cannot be told


@dataclass(frozen=True, slots=True, eq=False)
class RunningMean:
    """A curve that shows means. `starts`: indices of its finite points at which a mean begins, the first one 0.

    `behind`: the values that are averaged, at the finite points; None where they cannot be told. `throughout`: each
    mean is taken over all values since its start; else its first 64 points show that and later ones forget.
    """

    starts: Ints
    throughout: bool
    behind: Curve | None

    def begins(self, at: int) -> bool:
        """Whether a finite point lies so early in a mean that single values move it."""
        return bool(np.any((at >= self.starts) & (at < self.starts + EARLY)))


def running_mean(signals: Signals, curve: Curve) -> RunningMean | None:
    """The means that a curve shows from the start of the log or of each epoch on; None for any other curve."""
    return signals.derive(("running-mean", curve.series.id, curve.name), lambda: _running_mean(signals, curve))


def _running_mean(signals: Signals, curve: Curve) -> RunningMean | None:
    finite = curve.only_finite()
    epochs, evaluations = _epochs(signals, finite), _after_evaluations(signals, finite)
    for starts in (epochs, evaluations, _resets(finite.value), np.zeros(1, np.int64)):
        parts = [finite.value[a:b] for a, b in pairwise([*starts.tolist(), len(finite)]) if b - a > EARLY]
        if not parts or sum(map(len, parts)) < len(finite) / 2:
            continue
        parts = parts[:: -(-len(parts) // MOST_PARTS)]
        if _are_means(parts):
            return RunningMean(starts, throughout=True, behind=_behind(finite, starts))
        if _begin_as_means([part[:EARLY] for part in parts]):
            behind = _behind_window(finite) if len(starts) == 1 else None
            return RunningMean(starts, throughout=False, behind=behind)
    return None


def _behind(finite: Curve, starts: Ints) -> Curve | None:
    number = _numbers(starts, len(finite))
    values = _unrolled(finite.value, number)
    if printed_grid(finite.value) * float(np.median(number)) > COARSE * robust_sigma(np.diff(values)):
        return None
    name = f"{finite.series.name} (behind its running mean)"
    return replace(finite, series=replace(finite.series, name=name), value=values)


def _behind_window(finite: Curve) -> Curve | None:
    """The values behind a mean over the last so many: what a value does to it as it enters is undone as it leaves."""
    value, n = finite.value, len(finite)
    moves = np.diff(value)[EARLY:]  # those of the first few values are far larger
    moves = moves - np.mean(moves)
    undone = np.fft.irfft(np.abs(np.fft.rfft(moves, 2 * n)) ** 2)[: len(moves) // 2] / max(float(moves @ moves), 1e-300)
    width = EARLY + int(np.argmin(undone[EARLY:])) if len(undone) > EARLY else 0
    if not width or undone[width] > UNDONE * (1 - width / n):
        return None
    values = _unrolled(value, np.minimum(np.arange(n) + 1, width))
    for first in range(width, n, width):
        part = slice(first, min(first + width, n))
        values[part] = width * np.diff(value[first - 1 : part.stop]) + values[first - width : part.stop - width]
    scatter = [robust_sigma(np.diff(part)) for part in np.array_split(values, 4)]
    if max(scatter) > STEADY * min(scatter):
        return None
    name = f"{finite.series.name} (behind its mean over the last {width})"
    return replace(finite, series=replace(finite.series, name=name), value=values)


def _unrolled(values: Floats, number: Ints) -> Floats:
    earlier = np.where(number > 1, np.roll(values, 1), 0.0)
    return np.asarray(number * values - (number - 1) * earlier)


def _epochs(signals: Signals, curve: Curve) -> Ints:
    """Where the logged epoch moves on."""
    epoch = signals.curve("epoch")
    if epoch is None or not len(epoch):
        return np.empty(0, np.int64)
    done = np.floor(epoch.value[np.clip(np.searchsorted(epoch.step, curve.step, side="right") - 1, 0, None)])
    starts = np.append(0, np.flatnonzero(np.diff(done) > 0) + 1)
    return starts if len(starts) > 1 else np.empty(0, np.int64)


def _after_evaluations(signals: Signals, curve: Curve) -> Ints:
    """The points after each evaluation, which often ends an epoch."""
    evaluated = signals.curve("val_loss") or signals.curve("val_metric")
    if evaluated is None:
        return np.empty(0, np.int64)
    after = np.unique(np.searchsorted(curve.step, evaluated.step, side="right"))
    starts = np.append(0, after[(after > 0) & (after < len(curve))])
    return starts if len(starts) > 1 else np.empty(0, np.int64)


def _resets(values: Floats) -> Ints:
    """Where the values leap, at equal distances from the start on."""
    moves = np.abs(np.diff(values))
    leaps = np.flatnonzero(moves > RESET * max(robust_sigma(np.diff(values)), 1e-300)) + 1
    starts = [0]
    for at in leaps.tolist():
        if at - starts[-1] >= EARLY:
            starts.append(at)
    lengths = np.diff(starts)
    equal = len(lengths) > 0 and lengths.max() <= (1 + EQUAL) * lengths.min()
    return np.asarray(starts if equal and len(values) - starts[-1] <= (1 + EQUAL) * lengths.max() else [], np.int64)


def _begin_as_means(parts: list[Floats]) -> bool:
    """Whether the first moves, times the number of the point, keep their size, and lead to and fro as no descent."""
    moves = [np.abs(np.diff(part)) for part in parts]
    unrolled = [move * np.arange(2.0, len(move) + 2) for move in moves]
    sizes = np.array([np.mean(_octave(unrolled, first)) for first in _octaves(EARLY)])
    net = sum(abs(part[-1] - part[3]) for part in parts)
    to_and_fro = net < STRAIGHT * sum(float(move[3:].sum()) for move in moves)
    return bool(to_and_fro and _alike(sizes)) and not _below_zero(parts)


def _are_means(parts: list[Floats]) -> bool:
    """Whether the values behind each part, if it is a running mean, scatter alike at every distance from its start.

    The scatter of second differences: a trend has none.
    """
    scatter = [np.abs(np.diff(_unrolled(part, np.arange(1, len(part) + 1)), n=2)) for part in parts]
    most = OUTLIER * float(np.mean(np.concatenate(scatter)))
    octaves = _octaves(max(map(len, parts)))
    sizes = np.array([np.mean(np.minimum(_octave(scatter, first), most)) for first in octaves])
    rounding = printed_grid(np.concatenate(parts)) * 2.0 * (np.array(octaves, np.float64) + 1)
    return bool(sizes[0] > rounding[0]) and _alike(sizes, rounding) and not _below_zero(parts)


def _below_zero(parts: list[Floats]) -> bool:
    """Whether a mean above zero would be one of values below it, as no loss is."""
    rounding = printed_grid(np.concatenate(parts))
    numbers = [np.arange(1, len(part) + 1) for part in parts]
    below = [_unrolled(part, n) < -2 * rounding * n for part, n in zip(parts, numbers, strict=True)]
    return min(part.min() for part in parts) > 0 and float(np.mean(np.concatenate(below))) > NEGATIVE


def _octaves(n: int) -> list[int]:
    """First indices of the octaves of the point number, from 4 on; each ends at twice its first number."""
    return [2**k - 1 for k in range(2, n.bit_length() - 1)]


def _octave(parts: Sequence[Floats], first: int) -> Floats:
    return np.concatenate([part[first : 2 * first + 1] for part in parts])


def _alike(sizes: Floats, rounding: Floats | float = 0.0) -> bool:
    return bool(sizes.max() > 0 and np.all(sizes <= STEADY * sizes.min() + rounding))


def _numbers(starts: Ints, n: int) -> Ints:
    """How many values each point is the mean of."""
    since = np.zeros(n, np.int64)
    since[starts] = starts
    return np.arange(n) - np.maximum.accumulate(since) + 1
