"""Validation that leaves its level between two evaluations: for good, for one or a few evaluations, or to and fro.

All kernels take values of which lower is better, finite, in step order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.evaluations import FEW, MAD_TO_SD, TINY, VERY_FEW, Condensed, point_noise, scale_of
from trainforensics.signals.noise import medians_of

OFTEN = 0.25  # of the moves: two rises and falls in a dozen evaluations at least
FEWEST_TURNS = 3
UNDONE = 4  # evaluations that a setback undoes: a noisy curve makes up for a rise at once
AT_END = 2  # evaluations after the last setback of a log
KEPT = 0.6  # of a move, that the levels before and after it are apart at least
MEDIAN_ERROR, CLEAR_DRIFT = 1.2533, 2.0  # of a median, against that of a mean; standard errors
MAX_JUMP_POINTS = 400  # a jump needs neighbouring evaluations, so less may be condensed


@dataclass(frozen=True, slots=True)
class Jump:
    """A level change between two evaluations: the position of the first evaluation on the new level.

    `z`: the step in units of point noise and of the other steps; `kept_z`: the step between two parallel lines through
    both sides in units of its standard error and of such steps elsewhere (0 at the start, where curves are no lines).
    """

    at: int
    before: float
    after: float
    z: float
    kept_z: float
    relative: float


def level_jump(curve: Condensed, min_side: int = 3) -> Jump | None:
    """The largest level change between two neighbouring evaluations, `z` in units of its own noise and unrest.

    A change that is not done at once, or not kept, is none: the step between the two evaluations must make up most of
    the difference between the levels before and after it.
    """
    n, v = len(curve), curve.value
    side = max(min_side, min(8, n // 5))
    if n < 2 * min_side:
        return None
    moves = np.diff(v)
    at = np.arange(min_side, n - min_side + 1)
    before = medians_of(v, np.maximum(0, at - side), at)
    after = medians_of(v, at, np.minimum(at + side, n))
    drift = medians_of(moves, np.maximum(0, at - 1 - side), np.minimum(at + side, n - 1))
    excess = moves[at - 1] - drift
    centres = (np.minimum(side, at) + np.minimum(side, n - at)) / 2
    kept = after - before - drift * centres
    smaller, larger = np.minimum(np.abs(excess), np.abs(kept)), np.maximum(np.abs(excess), np.abs(kept))
    size = np.where((np.sign(excess) == np.sign(kept)) & (smaller >= KEPT * larger), smaller, 0.0)
    k = int(np.argmax(size))
    if size[k] <= 0 or _of_its_drift(moves, int(at[k]), side, float(drift[k]), float(after[k] - before[k])):
        return None
    elsewhere = (np.abs(np.arange(len(at)) - k) > 1) & (at >= min(n // 5, at[k]))  # start-up may do anything
    others = np.abs(excess[elsewhere])
    unrest = float(others.max()) if len(others) else 0.0
    least = max(1e-9 * float(np.abs(v).max()), TINY)
    settled = n // 4 if n >= 16 and at[k] >= n // 4 else 0  # the bend of a steep start is no noise
    point = point_noise(v[settled:])
    noise = max(point * math.sqrt(2), unrest / 3, least)
    step, error = _fitted_steps(v, at, side)
    far = np.abs(step / error)[(np.abs(np.arange(len(at)) - k) >= side) & (at >= min(n // 5, at[k]))]
    kept_noise = max(point, float(far.max()) / 3.5 if len(far) else 0.0, least)
    scale = scale_of(v)
    level_before = float(before[k] + drift[k] * min(side, at[k]) / 2)
    return Jump(
        at=int(at[k]),
        before=level_before,
        after=float(after[k]),
        z=float(size[k]) / noise,
        kept_z=abs(float(step[k] / error[k])) / kept_noise if at[k] >= n // 4 else 0.0,
        relative=float(size[k]) / scale if scale > 0 else 0.0,
    )


def _of_its_drift(moves: Floats, at: int, side: int, drift: float, apart: float) -> bool:
    """Whether what was kept of a move is due to a drift that the noise around it makes: without it, the levels `apart`
    keep too little of the move. A bend is no noise."""
    nearby = moves[max(0, at - 1 - side) : at + side]
    noise = MAD_TO_SD * float(np.median(np.abs(np.diff(nearby)))) / math.sqrt(6)
    error = MEDIAN_ERROR * math.sqrt(2 / len(nearby)) * noise
    move = float(moves[at - 1])
    return abs(drift) < CLEAR_DRIFT * error and apart * math.copysign(1.0, move) < KEPT * abs(move)


def set_back(curve: Condensed, gap: float) -> Jump | None:
    """The largest rise between two evaluations, if it is `gap` times every other one after the first fifth, and undoes
    at least `UNDONE` evaluations, as many of which do not make up for it; however the curve falls before and after. At
    the end of a log fewer than those, two at least, count where it undoes as many more."""
    value, moves = curve.value, np.diff(curve.value)
    start = len(value) // 5
    if len(moves) - start < 2 * UNDONE:
        return None
    at = start + 1 + int(np.argmax(moves[start:]))
    before, after, size = value[:at], value[at:], float(moves[at - 1])
    others = np.delete(moves[start:], at - 1 - start)
    since = min(len(after), UNDONE)
    most = UNDONE * UNDONE // since
    undone = since >= AT_END and len(before) >= most and before[-most:].max() < after[0]
    if not (undone and after[:since].min() > before[-1]) or size <= gap * max(float(others.max()), 0.0):
        return None
    noise = max(point_noise(np.append(before, after - size)[start:]), 1e-9 * float(np.abs(value).max()), TINY)
    scale = scale_of(value)
    return Jump(at, float(before[-1]), float(after[0]), size / noise, 0.0, size / scale if scale > 0 else 0.0)


def _fitted_steps(value: Floats, at: Ints, side: int) -> tuple[Floats, Floats]:
    """Steps between parallel least-squares lines left and right of each place, and their errors for unit noise."""
    step, error = np.empty(len(at)), np.empty(len(at))
    for i, k in enumerate(at):
        r = min(side, int(k), len(value) - int(k))
        x = np.arange(r) - (r - 1) / 2
        left, right = value[k - r : k], value[k : k + r]
        spread = 2 * float(x @ x)
        slope = float(x @ left + x @ right) / spread
        step[i] = right.mean() - left.mean() - slope * r
        error[i] = math.sqrt(2 / r + r * r / spread)
    return step, error


def outlying(curve: Curve, gap: float, size: float, most: int = 2) -> Ints:
    """Positions of the one to `most` evaluations that stand `gap` times as far above their neighbours as all others do.

    Heights are measured against the median of five; where all values are positive in logarithms, for the errors of a
    curve that falls over decades are proportional. `size` is the least height against the level. The first three
    evaluations may do anything.
    """
    shown, height, positive = _heights(curve)
    order = np.argsort(height)[::-1]
    least = math.log1p(size) if positive else size * scale_of(curve.value)
    for count in range(1, min(most, len(curve) - 1) + 1):
        lowest, rest = height[order[count - 1]], height[order[count]]
        if lowest >= max(gap * rest, least, 6 * point_noise(np.delete(shown, order[:count]))):
            return np.sort(order[:count])
    return np.empty(0, np.int64)


def lone_summit(curve: Curve, gap: float, size: float) -> Ints:
    """Position of the one evaluation of a positive curve whose height is `gap` times any other's, and any dip's depth.

    Told as a reader sees it: by the values, and three quarters as clearly by their logarithms, in which alone what a
    curve that falls over decades does at its end counts. `size` and noise as for `outlying`.
    """
    if not len(curve) or curve.value.min() <= 0:
        return np.empty(0, np.int64)
    plain, shown = _above(curve.value), np.log(curve.value)
    height, top = _above(shown), int(np.argmax(plain))
    others = np.delete(height, top)
    alone = plain[top] >= gap * float(np.delete(plain, top).max())
    alone = alone and height[top] >= max(0.75 * gap * float(others.max()), -gap * float(others.min()))
    alone = alone and height[top] >= max(math.log1p(size), 6 * point_noise(np.delete(shown, top)))
    return np.array([top]) if alone else np.empty(0, np.int64)


def spikes(curve: Curve, size: float, fewest: int) -> Ints:
    """Positions of `fewest` or more evaluations of a positive curve that stand alone above calm ones, after its start.

    `size` is the least height against the median of five; each is also six times the noise of all others, and at most
    one evaluation in six stands so high. Those of the first quarter do not count, those of the first tenth may do
    anything.
    """
    shown, height, positive = _heights(curve)
    n = len(curve)
    high = height >= math.log1p(size)
    if not positive or high.sum() > n / 6:
        return np.empty(0, np.int64)
    found = np.flatnonzero(high & (height >= 6 * point_noise(shown[~high])))
    return found[found >= n // 10] if np.sum(found >= n // 4) >= fewest else found[:0]


def _heights(curve: Curve) -> tuple[Floats, Floats, bool]:
    """The evaluations (in logarithms where all are positive), their heights above the median of five, and whether they
    are positive; the first three have none."""
    positive = bool(np.all(curve.value > 0))
    shown = np.log(curve.value) if positive else curve.value
    return shown, _above(shown), positive


def _above(value: Floats) -> Floats:
    n = len(value)
    first = np.maximum(0, np.minimum(np.arange(n) - 2, n - 5))
    height = value - medians_of(value, first, np.minimum(first + 5, n))
    height[: min(3, n)] = 0.0
    return height


def swings(curve: Curve, factor: float, as_bad: float) -> tuple[int, float, float] | None:
    """Whether the later half of a positive curve swings to and fro by `factor`, again and again.

    The index of the first swing up, and the 10th and 90th percentile of the later half. The middle is crossed by every
    fourth move at least, as one rise does not, and a share `as_bad` of it lies above the first evaluations. Where those
    are too few for shares, every fourth move turns by the factor, three at least.
    """
    value, n = curve.value, len(curve)
    if n < VERY_FEW or value.min() <= 0:
        return None
    late = value[n // 2 :]
    low, high = (float(q) for q in np.quantile(late, (0.1, 0.9)))
    above = value > math.sqrt(low * high)
    often = float(np.mean(above[n // 2 + 1 :] != above[n // 2 : -1]))
    if n >= 2 * FEW:
        found = often >= OFTEN and float(np.mean(late > np.median(value[:3]))) >= as_bad
    else:
        found = turns(np.log(value[n // 4 :]), math.log(factor)) >= max(FEWEST_TURNS, OFTEN * (n - n // 4))
    if not found or high < factor * low:
        return None
    first_low = int(np.argmin(above))
    return first_low + int(np.argmax(above[first_low:])), low, high


def turns(value: Floats, height: float) -> int:
    """How often the values turn by `height` at least: from a rise to a fall, or back."""
    return len(turning_points(value, height))


def turning_points(value: Floats, height: float) -> list[int]:
    """The highs and lows, in turn, from which values move away by `height` at least before they come back."""
    points, way, low, high = [], 0, 0, 0
    for i, v in enumerate(value):
        up, down = way <= 0 and v >= value[low] + height, way >= 0 and v <= value[high] - height
        if up or down:
            points.append(low if up else high)
            way, low, high = 1 if up else -1, i, i
        low, high = (i if v < value[low] else low), (i if v > value[high] else high)
    return points


def worse_than_at_first(loss: Floats, other: Floats, rise: float, lost: float) -> Ints:
    """Positions at which two errors of the same evaluations, both positive, are worse than at the first of them.

    The one by a share `rise` above those around it and above the first, the other by a share `lost` above the first;
    the next two come back below the first. At most one in six, else validation swings.
    """
    n = len(loss)
    around = np.array([np.median(np.delete(loss, i)[max(0, i - 2) : i + 2]) for i in range(n)])
    back = np.array([i == n - 1 or loss[i + 1 : i + 3].min() < loss[0] for i in range(n)])
    bad = (loss > (1 + rise) * around) & (loss > loss[0]) & (other >= (1 + lost) * other[0]) & back
    return np.flatnonzero(bad) if bad.sum() <= max(1, n / 6) else np.empty(0, np.int64)


def last_apart(value: Floats, gap: float) -> float:
    """Factor by which the last of some positive values lies away from the three before it, negative in logarithms where
    it lies below; 0 unless that is `gap` times the largest move of the later half."""
    shown = np.log(value)
    moves = np.abs(np.diff(shown[len(shown) // 2 : -1]))
    away = float(shown[-1] - np.median(shown[-4:-1]))
    return away if len(moves) > 1 and abs(away) > gap * max(float(moves.max()), TINY) else 0.0


def standing_out(error: Floats, times: float) -> Ints:
    """Positions of values that are so many times the best of the two before and the best of the two after them, and
    twice as far above them, in proportion, as any other value rises above the one before it."""
    value = np.pad(error, (0, 1), constant_values=np.inf)
    inner = np.arange(2, len(error) - 1)
    before, after = np.minimum(value[inner - 2], value[inner - 1]), np.minimum(value[inner + 1], value[inner + 2])
    high = (error[inner] >= times * np.maximum(before, after)) & (before > 0)
    alone: Ints = inner[high]
    rises = np.log(np.maximum(error[1:], TINY) / np.maximum(error[:-1], TINY))
    ordinary = max(0.0, float(np.delete(rises, alone - 1).max(initial=0.0)))
    return alone[np.log(error[alone] / np.maximum(before, after)[high]) > 2 * ordinary]


def lost_for_one(score: Floats, kept: float) -> Ints:
    """Positions at which a score has less than a share `kept` of both evaluations before and both after it, which are
    alike by a factor of two."""
    at = np.arange(2, len(score) - 2)
    near = np.stack([score[at + shift] for shift in (-2, -1, 1, 2)], axis=1)
    alone = (score[at] < kept * near.min(axis=1)) & (near.max(axis=1) <= 2 * near.min(axis=1))
    return np.asarray(at[alone])


def lone_peak(value: Floats, height: float, gap: float) -> int | None:
    """Where some positive values, the first two aside, stand highest above both neighbours: by a share `height`, and in
    logarithms `gap` times as high as at any other place."""
    shown = np.log(value)
    above = (shown[1:-1] - np.maximum(shown[:-2], shown[2:]))[1:]
    if len(above) < 2:
        return None
    second, first = np.argsort(above)[-2:]
    high = above[first] > max(math.log1p(height), gap * float(above[second]))
    return int(first) + 2 if high else None
