"""Gradient norms: explosions that the loss does not share, and norms that fall to nothing while nothing is learnt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainforensics.model import Recovery, Series
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.departure import knee
from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.precursors import excursions_of
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps, lasting_start, middle

MIN_POINTS = 20
FEWEST_POINTS, FEWEST_BEFORE = 6, 3  # of a short log, and before its highest norm
HUGE = 2.0**24  # PyTorch's scaler starts at 2**16; half precision leaves no room for far more
START_SHARE, START_POINTS = 0.05, 10  # of the log: warm-up moves gradients by itself
SUDDEN = 3  # points
BLOCK, BLOCKS, SMOOTH = 16, 100, 9
MIN_FACTOR, MIN_BURST = 4.0, 8.0  # times the level, lasting and for a point: below what detectors ask for
FOOT = 1.5  # times the level: the norm has not begun to climb; and of the peak: it has done so
BY_FAR = 0.25  # of its level: what a loss falls by that leaves a plateau
STEEP = 30.0  # times the level: by then a geometric climb has shown its slope


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


@dataclass(frozen=True, slots=True, eq=False)
class Collapse:
    """A gradient norm that is next to nothing from index `first` of `curve` on while the loss stands still.

    `before` is the norm's earlier level (NaN where it was tiny from the start), `level` the one since, `loss` the loss
    meanwhile, or the reward where one is what the run maximises (`aim` says which). `layers`: the layers that get no
    gradient while others do; empty where the whole norm is meant.
    """

    curve: Curve
    first: int
    before: float
    level: float
    loss: float
    layers: tuple[Series, ...] = ()
    aim: Literal["loss", "reward"] = "loss"


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


def norm_step(signals: Signals, step: int) -> tuple[float, float] | None:
    """Level of the gradient norm before a step and from it on, where it changes there by half or more, six standard
    errors off and by twice as much as anywhere before; None elsewhere."""
    curve = signals.curve("grad_norm")
    curve = curve.take(curve.finite & (curve.value > 0)) if curve is not None else None
    if curve is None:
        return None
    value, at = np.log(curve.value), int(np.searchsorted(curve.step, step))
    if at < 3 * BLOCK or len(value) - at < BLOCK:
        return None
    levels = medians(np.lib.stride_tricks.sliding_window_view(value[BLOCK : at + BLOCK], BLOCK))
    change = levels[BLOCK:] - levels[:-BLOCK]
    error = 1.2533 * robust_sigma(np.diff(value[:at])) / np.sqrt(BLOCK)
    here, before = abs(float(change[-1])), np.abs(change[:-BLOCK])
    if here < max(np.log(STEPPED), 6 * error, 2 * float(before.max(initial=0.0))):
        return None
    return float(np.exp(levels[-1 - BLOCK])), float(np.exp(levels[-1]))


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
    return before - after > BY_FAR * abs(before)


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


def collapse(signals: Signals) -> Collapse | None:
    """The gradient norm, or that of some layers, is next to nothing to the end of the log; None where it is not."""
    if signals.has("reward"):
        return signals.derive(("collapse of a policy's gradient",), lambda: _policy_collapse(signals))
    return signals.derive(("collapse",), lambda: _collapse(signals) or _layer_collapse(signals))


def _whole_norm(signals: Signals) -> Curve | None:
    """The global gradient norm: as logged, else from the norms of at least three layers."""
    logged = signals.curve("grad_norm")
    layers = signals.layers("grad_norm") if logged is None else None
    if layers is None or len(layers.rows) < 3:
        return logged
    template = next(c for c in signals.curves("grad_norm") if c.series == layers.rows[0])
    at = np.searchsorted(template.step, layers.step, side="right") - 1
    series = replace(template.series, layer=None, name=f"gradient norm of {len(layers.rows)} layers")
    total = np.sqrt(np.sum(layers.value**2, axis=0))
    return Curve(series, layers.step, total, template.time[at], template.segment[at])


@np.errstate(all="ignore")
def _collapse(signals: Signals) -> Collapse | None:
    curve = _whole_norm(signals)
    if curve is None:
        return None
    curve = curve.take(curve.finite & (curve.value >= 0))
    n = len(curve)
    if n < 10:
        return None
    early = float(np.median(curve.value[: max(5, n // 10)]))
    from_start = early < TINY
    first = lasting_start(curve.value < (TINY if from_start else min(TINY, early / FAR_BELOW)))
    slowly = first is None and not from_start
    first = lasting_start(curve.value < early / FAR_BELOW) if slowly else first
    if first is None or n - first < max(5, n // 20):
        return None
    level = float(np.median(curve.value[first:]))
    loss = _idle_loss(signals, int(curve.step[first]))
    if loss is None or (slowly and not _nothing_learnt(signals, loss)):
        return None
    if slowly:
        first = lasting_start(curve.value < early / OUTSIDE) or first
    if from_start and level > 0 and (n - first < n // 3 or level > TINY * min(1.0, abs(loss))):
        return None
    return Collapse(curve, first, float("nan") if from_start else early, level, loss)


@np.errstate(all="ignore")
def _policy_collapse(signals: Signals) -> Collapse | None:
    """A gradient norm of exactly zero where rewards differ, the rate is up and the reward does not rise.

    Equal rewards give no gradient, now and then or for long: they are no fault of the gradient.
    """
    curve = signals.curve("grad_norm")
    if curve is None:
        return None
    curve = curve.take(curve.finite & (curve.value >= 0))
    n, first = len(curve), lasting_start(curve.value < NOTHING, NO_EXCEPTION)
    if first is None or n - first < max(MIN_POINTS, n // 10):
        return None
    step, since = int(curve.step[first]), curve.step[first:]
    reward, rate = signals.curve("reward"), signals.curve("learning_rate")
    if reward is None or (rate is not None and not middle(at_steps(rate, since)) > 0):
        return None
    value = reward.value[reward.finite & (reward.step >= step)]
    spread = signals.curve("reward_std")
    alive = np.diff(value) != 0 if spread is None else at_steps(spread, since) > 0
    third = len(value) // 3
    if third < FEWEST_THIRD or np.mean(alive) < ALIVE:
        return None
    rise = float(np.median(value[-third:]) - np.median(value[:third]))
    if rise > CLEAR * 1.2533 * robust_sigma(np.diff(value)) / np.sqrt(third):
        return None
    before = float(np.median(curve.value[:first])) if first >= FEWEST_THIRD else float("nan")
    return Collapse(curve, first, before, 0.0, float(np.median(value)), aim="reward")


NOTHING, NO_EXCEPTION = 1e-30, 0.99  # a norm of zero, or of what single precision leaves of it; share of the points
ALIVE, FEWEST_THIRD, CLEAR = 0.9, 5, 2.0  # share of steps with unequal rewards; points; standard errors
TINY = 1e-4  # the band practitioners use; the run's own history must agree
ABRUPT = 3.0  # half a decade between sixteen points and the next sixteen; drift takes longer
STARVED = 1e-3  # of the strongest layer's: what saturated units leave; healthy layers lie within two decades
STEPPED = 1.5  # a step of the norm that a reader sees
FAR_BELOW, OUTSIDE = 100.0, 10.0  # times below its early level: gone, and on its way
CONVERGED = 0.1  # of its first level: a loss this low may well have small gradients


def _idle_loss(signals: Signals, step: int) -> float | None:
    """Level of the loss from `step` on; None where it falls, has converged, or is not logged."""
    loss = signals.curve("train_loss")
    if loss is None:
        return None
    value = loss.value[loss.finite]
    since = loss.value[loss.finite & (loss.step >= step)]
    if len(since) < 5:
        return None
    start, level = float(np.median(value[:5])), float(np.median(since))
    third = len(since) // 3
    early, late = float(np.median(since[:third])), float(np.median(since[-third:]))
    noise = 1.4826 * float(np.median(np.abs(since - level)))
    falls = early - late > max(1.5 * noise, 0.02 * abs(level))
    converged = abs(level) < CONVERGED * abs(start) or level == 0
    return None if falls or converged else level


@np.errstate(all="ignore")
def _layer_collapse(signals: Signals) -> Collapse | None:
    matrix = signals.layers("grad_norm")
    if matrix is None or len(matrix.rows) < 3 or len(matrix.step) < 10:
        return None
    value = np.where(np.isfinite(matrix.value) & (matrix.value >= 0), matrix.value, np.nan)
    usual = np.array([middle(row[len(row) // 2 :]) for row in value])
    strong = float(np.nanmax(usual)) if np.isfinite(usual).any() else 0.0
    tiny = (usual < TINY) & (usual < strong * STARVED)
    if not tiny.any() or tiny.all() or strong <= 0 or (usual[tiny] == 0).all():
        return None  # layers that are exactly zero are frozen on purpose
    weakest = np.nanmin(np.where(tiny[:, None], value, np.nan), axis=0)
    first = lasting_start(weakest < strong * STARVED)
    if first is None or len(matrix.step) - first < max(5, len(matrix.step) // 5):
        return None
    loss = _idle_loss(signals, int(matrix.step[first]))
    if loss is None or not _at_start_level(signals, loss):
        return None
    order = np.argsort(usual)
    rows = tuple(matrix.rows[i] for i in order if tiny[i])
    curve = next(c for c in signals.curves("grad_norm") if c.series == rows[0])
    at = int(np.searchsorted(curve.step, matrix.step[first]))
    return Collapse(curve, at, strong, float(usual[order[0]]), loss, rows)


def _nothing_learnt(signals: Signals, level: float) -> bool:
    """Whether a loss stands where it began, in its first twentieth, within its noise."""
    loss = signals.curve("train_loss")
    value = loss.value[loss.finite] if loss is not None else np.empty(0)
    width = max(MIN_POINTS, len(value) // 20)
    if len(value) < 4 * width:
        return False
    noise = 1.2533 * robust_sigma(np.diff(value)) / np.sqrt(2 * width)
    return bool(abs(level - float(np.median(value[:width]))) < CLEAR * max(noise, 0.005 * abs(level)))


def _at_start_level(signals: Signals, level: float) -> bool:
    loss = signals.curve("train_loss")
    if loss is None:
        return False
    value = loss.value[loss.finite]
    return level >= 0.9 * float(np.median(value[:5]))
