"""Explosions of the gradient norm that the loss does not share: climbs out of its noise, and norms beyond all scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.model import Recovery
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.departure import knee
from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.precursors import excursions_of
from trainforensics.signals.run import Signals

MIN_POINTS = 20
FEWEST_POINTS, FEWEST_BEFORE = 6, 3  # of a short log, and before its highest norm
HUGE = 2.0**24  # PyTorch's scaler starts at 2**16; half precision leaves no room for far more
START_SHARE, START_POINTS = 0.05, 10  # of the log: warm-up moves gradients by itself
SUDDEN = 3  # points
BLOCK, BLOCKS, SMOOTH = 16, 100, 9
MIN_FACTOR, MIN_BURST = 4.0, 8.0  # times the level, lasting and for a point: below what detectors ask for
FOOT = 1.5  # times the level: the norm has not begun to climb; and of the peak: it has done so
BY_FAR = 0.25  # of its level: what a loss falls by that leaves a plateau
FASTER = 1.5  # times the fall before: a descent that only goes on becomes slower
STEEP = 30.0  # times the level: by then a geometric climb has shown its slope
ABRUPT = 3.0  # half a decade between sixteen points and the next sixteen; drift takes longer


@dataclass(frozen=True, slots=True, eq=False)
class Explosion:
    """A climb of the gradient norm by `factor` at `onset` (index of `curve`); `lasting` where it stays up.

    `level` and `peak` are norms before and at the highest point, `z` the height in widths of the run's own noise of the
    logarithm.
    """

    curve: Curve
    onset: int
    top: int
    end: int
    level: float
    peak: float
    z: float
    lasting: bool
    slow: bool
    recovery: Recovery

    @property
    def factor(self) -> float:
        """Peak against the level before."""
        return self.peak / self.level if self.level > 0 else float("inf")

    @property
    def held(self) -> float:
        """The level it stays at against the one before: the highest of its medians over all points and over the first
        and last nine, which single points of a wide noise do not move."""
        way = self.curve.value[self.onset : self.end + 1]
        crest = max(float(np.median(part)) for part in (way, way[:SMOOTH], way[-SMOOTH:]))
        return crest / self.level if self.level > 0 else float("inf")


def explosions(signals: Signals) -> tuple[Explosion, ...]:
    """Climbs of the global gradient norm out of its own noise, start and restarts set aside, by onset."""
    return signals.derive(("explosions",), lambda: _explosions(signals))


@np.errstate(all="ignore")
def _explosions(signals: Signals) -> tuple[Explosion, ...]:
    curve = signals.curve("grad_norm")
    if curve is None:
        return ()
    curve = curve.take(curve.finite & (curve.value > 0))
    n = len(curve)
    if n < MIN_POINTS:
        return _among_few(curve)
    if not _may_climb(curve.value):
        return ()
    logarithm = Curve(curve.series, curve.step, np.log(curve.value), curve.time, curve.segment)
    settled = max(min(START_POINTS, n // 4), int(START_SHARE * n))
    restarts = np.flatnonzero(np.diff(curve.segment)) + 1
    found = []
    bar = _chance_height(logarithm.value)
    for e in excursions(logarithm):
        if e.onset < settled or any(abs(e.onset - restart) <= SUDDEN for restart in restarts):
            continue
        explosion = _explosion(curve, e, n)
        if explosion.lasting or np.log(explosion.factor) > bar:
            found.append(explosion)
    return tuple(found)


def _among_few(curve: Curve) -> tuple[Explosion, ...]:
    """The highest norm of a log too short to tell its noise: far above every other one, behind the first points."""
    value, n = curve.value, len(curve)
    top = int(np.argmax(value)) if n else 0
    if n < FEWEST_POINTS or top < FEWEST_BEFORE:
        return ()
    others = np.delete(value, top)
    level, noise = float(np.median(others)), robust_sigma(np.log(others))
    if value[top] < STEEP * others.max():
        return ()
    z = float(np.log(value[top] / level)) / max(noise, 0.01)
    recovery: Recovery = "recovered" if top < n - 1 else "ongoing"
    return (Explosion(curve, top, top, top, level, float(value[top]), z, False, False, recovery),)


def enormous(signals: Signals) -> Curve | None:
    """The gradient norm of a run in which it is beyond all scale from its first point to its last; None elsewhere.

    Sums instead of means and a loss scale left in are all that makes norms large in a run that learns: HUGE is the
    largest scale that scalers take, times the size of the loss.
    """
    curve, loss = signals.curve("grad_norm"), signals.curve("train_loss")
    if curve is None or loss is None:
        return None
    curve, loss = curve.only_finite(), loss.only_finite()
    if len(curve) < FEWEST_POINTS or not len(loss):
        return None
    return curve if curve.value.min() > HUGE * max(1.0, float(np.abs(loss.value).max())) else None


def _chance_height(logarithm: Floats) -> float:
    """Height above its level, as a logarithm, that the norm's own tail reaches by chance in 1 % of such runs.

    Norms of heavy-tailed runs are Pareto, so their logarithms have an exponential tail. It is fitted between the 90th
    and the 99th percentile (censored there), so that true bursts cannot fatten it.
    """
    n = len(logarithm)
    whole = logarithm[: n - n % BLOCK].reshape(-1, BLOCK)
    at = (np.arange(len(whole)) + 0.5) * BLOCK
    height = logarithm - np.interp(np.arange(n), at, medians(whole))
    low, high = np.quantile(height, [0.9, 0.99])
    inside = height[(height > low) & (height <= high)]
    if not len(inside):
        return 0.0
    beyond = int(np.sum(height > high))
    scale = (float(np.sum(inside - low)) + beyond * (high - low)) / len(inside)
    return float(low + scale * np.log(0.1 * n / 0.01))


def _may_climb(value: Floats) -> bool:
    """Whether a block or a single point stands far above all blocks before it: a cheap look that spares most runs."""
    if len(value) < 3 * BLOCK:
        return True
    block = value[: len(value) - len(value) % BLOCK].reshape(-1, BLOCK)
    usual = medians(block)
    low = np.minimum.accumulate(usual)
    burst = bool((block.max(axis=1) > MIN_BURST * low).any())
    tail = float(value[block.size - BLOCK :].max()) > MIN_FACTOR * float(low[-1])
    return burst or tail or bool((usual > MIN_FACTOR * low).any())


def _explosion(curve: Curve, e: Excursion, n: int) -> Explosion:
    level = float(np.exp(e.before))
    held = e.end - e.onset + 1
    lasting = (not e.returned and n - e.onset >= MIN_POINTS // 4) or held >= max(20, n // 20)
    top = e.onset + int(np.argmax(curve.value[e.onset : e.end + 1]))
    slow = e.rise > max(SUDDEN, n // 10)
    onset = _beginning(curve.value, e, level) if lasting else e.onset
    if lasting and slow and onset >= BLOCK:
        before, after = (float(np.median(curve.value[at : at + BLOCK])) for at in (onset - BLOCK, onset))
        if after > ABRUPT * before and after / before > np.sqrt(curve.value[top] / level):
            level, slow = before, False  # drift until then, and most of the way in one step
    return Explosion(curve, onset, top, e.end, level, float(curve.value[top]), e.z, lasting, slow, e.recovery)


def _beginning(value: Floats, e: Excursion, level: float) -> int:
    """Where a lasting climb begins: at a jump that makes half of it, else where it turns steep, or where single points
    begin to stand above all before.

    Sought around the last time that the median of nine points was below half of MIN_FACTOR, as far before it as the
    climb takes from there; further back the norm may have drifted for long.
    """
    low = max(0, e.onset - BLOCKS * BLOCK)
    way = np.log(value[low : e.end + 1])
    if len(way) < SMOOTH:
        return e.onset
    smooth = medians(np.lib.stride_tricks.sliding_window_view(way, SMOOTH))
    peak = int(np.argmax(smooth))
    calm = np.flatnonzero(smooth[: peak + 1] <= np.log(level) + 0.5 * np.log(MIN_FACTOR))
    turn = int(calm[-1]) + SMOOTH // 2 if len(calm) else e.onset - low
    far = min(np.log(STEEP * level), float(smooth[peak]))
    stop = max(turn + 1 + int(np.argmax(way[turn:] >= far)), turn + 2)
    near = way[max(0, turn - BLOCK) : stop]
    jump = np.diff(near)
    if len(jump) and jump.max() >= 0.5 * (far - np.log(level)):
        return _first_strays(value, low + max(0, turn - BLOCK) + int(np.argmax(jump)) + 1)
    start = max(0, turn - max(BLOCK, stop - turn))
    return _first_strays(value, low + start + knee(way[start:stop]))


def _first_strays(value: Floats, onset: int) -> int:
    """First of the single points that lead up to a climb: above all in the first half of the log before it, one
    following another within a tenth of that log."""
    calm = value[int(START_SHARE * onset) : onset // 2]
    if len(calm) < MIN_POINTS:
        return onset
    high = np.flatnonzero(value[: onset + 1] > max(MIN_FACTOR * float(np.median(calm)), float(calm.max())))
    apart = np.flatnonzero(np.diff(np.append(high, onset)) > max(BLOCK, onset // 10))
    chain = high[int(apart[-1]) + 1 :] if len(apart) else high
    return int(chain[0]) if len(chain) >= SUDDEN else onset


def loss_moved(signals: Signals, start: int, stop: int) -> bool:
    """Whether the training loss leaves its own noise between two steps."""
    loss = signals.curve("train_loss")
    if loss is None:
        return False
    finite = loss.only_finite()
    found = excursions_of(signals, loss)
    margin = 2 * finite.cadence
    return any(
        int(finite.step[e.onset]) <= stop + margin and int(finite.step[max(e.peak, e.onset)]) >= start - margin
        for e in found
    )


def loss_fell(signals: Signals, explosion: Explosion) -> bool:
    """Whether the training loss falls by far while the norm climbs, from its level to next to its peak.

    A climb of a few points is over before a loss can follow. One over much of the log counts where the loss falls below
    zero in it, as a log likelihood does: it has no lowest value, and its gradient grows as the model gets surer.
    """
    loss = signals.curve("train_loss")
    climb = _climb(explosion)
    if loss is None or climb is None:
        return False
    start, end = climb
    norm, points = explosion.curve, loss.only_finite()
    first, last = points.at(int(norm.step[start])), points.at(int(norm.step[end]))
    if first < 0 or last - first < SUDDEN:
        return False
    begun, before = (float(np.median(points.value[max(0, i - SMOOTH) : i + 1])) for i in (SMOOTH, first))
    after = float(np.median(points.value[last : last + SMOOTH]))
    if explosion.slow or end - start > len(norm) // 10:
        return not signals.has("reward") and after < 0 and before - after > BY_FAR * (max(begun, before) - after)
    if before - after > BY_FAR * abs(before):
        return True
    return not signals.has("reward") and _falls_faster(points, explosion, first)


def _falls_faster(loss: Curve, explosion: Explosion, first: int) -> bool:
    """Whether the loss falls by far while the norm is up, and by more than over as many points before: the norm passes
    through the steep part of what is learnt."""
    last = loss.at(int(explosion.curve.step[explosion.end]))
    at = np.array([2 * first - last, first, last])
    if at.min() < 0 or last - first < SMOOTH:
        return False
    earlier, before, after = (float(np.median(loss.value[max(0, i - SMOOTH // 2) : i + SMOOTH // 2 + 1])) for i in at)
    return before - after > max(BY_FAR * abs(before), FASTER * (earlier - before))


def _climb(explosion: Explosion) -> tuple[int, int] | None:
    """First and last index of the way from the level to next to the peak, by medians; None where it is too short."""
    low = max(0, explosion.onset - BLOCKS)
    way = explosion.curve.value[low : explosion.top + 1 + SMOOTH // 2]
    if len(way) < 2 * SMOOTH:
        return None
    smooth = medians(np.lib.stride_tricks.sliding_window_view(way, SMOOTH))
    foot = np.flatnonzero(smooth <= FOOT * explosion.level)
    start = int(foot[-1]) if len(foot) else 0
    end = start + int(np.argmax(smooth[start:] >= smooth[start:].max() / FOOT))
    return low + SMOOTH // 2 + start, low + SMOOTH // 2 + end
