"""Reinforcement learning: lasting moves of reward, KL and entropy out of their noise, in the order they happened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.departure import departure, knee
from trainforensics.signals.evaluations import TINY, condense, usable
from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.rises import mann_kendall, sustained_rise
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps, stretches
from trainforensics.signals.trend import moving_median

MIN_POINTS = 30
LASTING_SHARE, LASTING_POINTS = 0.05, 8
START_SHARE = 0.1  # KL grows from nothing and entropy falls fast at first
# Implicit rewards of preference optimisation: that of rejected answers falls, and that of chosen ones may.
_PREFERENCE = re.compile(r"chosen|rejected|margin|accurac", re.IGNORECASE)
_ADVANTAGES = re.compile(r"(^|[^a-z])adv(antages?|s)?[^a-z]+.*(abs|std|rms|norm|magnitude|scale)")
SUDDEN_SHARE = 0.1  # of the log
VANISHED = 0.05  # of their size before
BEST = 5.0  # standard errors; the best of many windows is 2 above the rest by chance
LATE_SHARE, END_SHARE = 0.05, 0.02  # of the log that tells its last level; of one that is still on the move
SUDDEN_POINTS = 8  # to half of a fall
FEW, GONE_POINTS, ALL = 60, 4, 0.8  # a short log; points at its end that show all (this share) of the gain to be lost
FEWEST_STUMBLE, STUMBLE_WIDTHS = 15, 5.0
FEWEST_LAPSE, LAPSE = 5, 0.08  # points and share of the log of a lapse; dips are over sooner
TUNED = 1e-5  # learning rates below are of language models
NEVER_POINTS, NEVER_SHARE = 50, 0.85  # updates, and the share of them at which nothing is earned
MORE = 2.0  # standard errors by which rewards lie late: a policy that begins to find them
ALIKE_POINTS, ALIKE_SHARE = 10, 0.25  # updates at the end of the log, and their share of it
KEPT = 0.8  # of the points before it that lie at the settled level
ALONE = 2.0  # times as deep as every other dip
FAR = 3.0  # times as far below the median as all other points: a single one
VISIBLE = 3.0  # widths of the point-to-point noise


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A series that left `before` at index `onset` and stands at `after`."""

    curve: Curve
    onset: int
    before: float
    after: float
    z: float

    @property
    def step(self) -> int:
        """Step of the onset."""
        return int(self.curve.step[self.onset])


def reward_fall(signals: Signals, share: float) -> Move | None:
    """A lasting fall of the reward by at least `share` of what had been gained (or of its height above the present)."""
    for logged in signals.curves("reward"):
        curve = logged.only_finite()
        if len(curve) < FEWEST_STUMBLE or curve.series.rank is not None or _PREFERENCE.search(curve.name):
            continue
        value = curve.value
        noise = robust_sigma(np.diff(value)) / np.sqrt(2)
        begin = float(np.median(value[: max(5, len(value) // 20)]))
        for e in _lasting(curve, -_without_far_point(value)) if len(curve) >= MIN_POINTS else []:
            before, after = -e.before, _late(value, END_SHARE if e.recovery == "diverging" else LATE_SHARE)
            after = min(after, float(np.median(value[e.peak :])))  # it may be on its way back, but most was lost
            gained = before - min(begin, after)
            if before - after > max(share * gained, VISIBLE * noise):
                half = max((before + after) / 2, begin)  # it may fall far below where it began
                return Move(curve, _bend(value, e, half), before, after, e.z)
        if len(curve) < FEW and (gone := _all_gone(curve, noise)) is not None:
            return gone
    return None


def _without_far_point(value: Floats) -> Floats:
    """Values without single ones far below all else: beside such a one, a fall that lasts looks like a return."""
    beside = np.minimum(value[:-2], value[2:])
    raised = np.concatenate([value[:1], np.maximum(value[1:-1], beside), value[-1:]])
    usual = np.median(value)
    return raised if usual - value.min() > FAR * (usual - raised.min()) else value


def wanes(signals: Signals, p: float, z: float) -> Move | None:
    """A reward that falls all along the log, however noisy: by the Mann-Kendall test of points so far apart that what
    is left beside a straight line does not tie them, and by `z` standard errors, slow wander included, since its best.
    """
    curve = signals.curve("reward")
    curve = usable(curve) if curve is not None else None
    if curve is None or len(curve) < FEWEST_STUMBLE or _PREFERENCE.search(curve.name):
        return None
    points = condense(Curve(curve.series, curve.step, -curve.value, curve.time, curve.segment))
    fall = sustained_rise(points)
    if fall is None or fall.z < z or mann_kendall(points.value[:: _tied(points.value)]) > p:
        return None
    return Move(curve, int(points.index[fall.onset]), -fall.low, -fall.level, fall.z)


def _tied(value: Floats) -> int:
    """How many neighbouring points tell no more than one, by how alike they lie beside a straight line."""
    at = np.arange(len(value)) - (len(value) - 1) / 2
    left = value - value.mean() - at * float(at @ value) / float(at @ at)
    alike = float(np.clip(left[1:] @ left[:-1] / max(float(left @ left), TINY), 0, 0.99))
    return max(1, round((1 + alike) / (1 - alike)))


def _bend(value: Floats, fall: Excursion, half: float) -> int:
    """Where a slow fall begins: its first point outside the noise, or where two lines to half of it meet later."""
    if fall.rise <= SUDDEN_POINTS:
        return fall.onset
    low = moving_median(value, 5)[fall.onset :] < half
    stop = fall.onset + (int(np.argmax(low)) if low.any() else fall.rise)
    start = max(0, 2 * fall.onset - stop)
    return max(fall.onset, start + knee(value[start : stop + 1]))


def _all_gone(curve: Curve, noise: float) -> Move | None:
    """In a short log: the last points lie lower than all others since the start, at the level of the start."""
    value, n = curve.value, len(curve)
    for at in range(n - GONE_POINTS, n // 2, -1):
        before, after = float(np.median(value[at - 5 : at])), float(np.median(value[at:]))
        lowest = float(value[max(1, n // 10) : at].min())
        if not value[at:].max() < lowest:
            continue
        if (
            before - after > max(ALL * (before - float(value[0])), VISIBLE * noise)
            and value[at - 1] > (before + after) / 2
        ):
            return Move(curve, at, before, after, (before - after) / max(noise, 1e-300))
    return None


def stumble(signals: Signals, share: float, surge: float) -> tuple[Move, Move] | None:
    """The KL surge and the fall of the reward, by `share` of all gained, with which one update wrecks a policy.

    For a while at least: later updates may repair it. The KL must exceed `surge` times its level before and twice all
    that it had been; a fall without a surge is a dip, and a surge without a fall is exploration.
    """
    reward, kl = signals.curve("reward"), signals.curve("kl")
    if reward is None or kl is None or _PREFERENCE.search(reward.name):
        return None
    reward, kl = reward.only_finite(), kl.take(kl.finite & (kl.value > 0))
    value, n = reward.value, len(reward)
    if n < FEWEST_STUMBLE or len(kl) < FEWEST_STUMBLE:
        return None
    noise = robust_sigma(np.diff(value)) / np.sqrt(2)
    begin = float(np.median(value[:3]))
    recent = sliding_window_view(value[:-1], 5)  # the five points before each one from the sixth on
    level, drop = medians(recent), recent.min(axis=1) - value[5:]
    deep = (level > begin) & (drop >= np.maximum(share * (level - begin), STUMBLE_WIDTHS * noise))
    deep[: max(8, n // 10) - 5] = False
    for at in (np.flatnonzero(deep) + 5).tolist():
        before, lost = float(level[at - 5]), float(drop[at - 5])
        top = _surge_beside(kl, int(reward.step[at - 1]) - 1, int(reward.step[at]), surge)
        if top is not None:
            fall = Move(reward, at, before, float(value[at]), lost / max(noise, 1e-300))
            return top, fall
    return None


def lapse(signals: Signals, share: float) -> tuple[Move, int] | None:
    """A reward that at its worst has lost `share` of its gain if it was settled, all of it if not, twice as much as
    ever else, stays far outside of its noise for a while and then is back; with the index of its return."""
    for logged in signals.curves("reward"):
        curve = logged.only_finite()
        value, n = curve.value, len(curve)
        if n < MIN_POINTS or curve.series.rank is not None or _PREFERENCE.search(curve.name):
            continue
        noise = STUMBLE_WIDTHS * robust_sigma(np.diff(value)) / np.sqrt(2)
        least = max(FEWEST_LAPSE, int(LAPSE * n))
        below = np.maximum.accumulate(moving_median(value, FEWEST_LAPSE)) - value
        up_to = np.maximum.accumulate(np.append(-np.inf, below))
        since = np.maximum.accumulate(np.append(-np.inf, below[::-1]))[::-1]
        for first, last in zip(*stretches(below > noise), strict=True):
            depth = float(below[first : last + 1].max())
            if not np.isfinite(depth):
                continue
            back = first + int(np.flatnonzero(below[first : last + 1] > (1 - ALL) * depth)[-1]) + 1
            others = max(float(up_to[first]), float(since[last + 1]))
            if first < least or back - first < least or back == n or depth < ALONE * others:
                continue
            before, fallen = value[max(0, first - max(least, n // 10)) : first], value[first:back]
            settled, low = float(np.median(before)), float(np.median(fallen))
            gained = settled - float(np.median(value[: max(3, n // 20)]))
            lost = settled - float(fallen.min())
            kept = np.mean(np.abs(before - settled) <= noise) >= KEPT or lost >= ALL * gained
            if kept and gained > noise > 0 and lost >= share * gained:
                return Move(curve, int(first), settled, low, (settled - low) / noise), back
    return None


def _surge_beside(kl: Curve, first: int, last: int, surge: float) -> Move | None:
    near = np.flatnonzero((kl.step >= first) & (kl.step <= last))
    if not len(near) or near[0] < 8:
        return None
    at = int(near[np.argmax(kl.value[near])])
    earlier = kl.value[: near[0]]
    usual = float(np.median(earlier))
    if kl.value[at] < max(surge * usual, 2 * float(earlier.max())):
        return None
    return Move(kl, at, usual, float(kl.value[at]), np.inf)


def lasting_change(signals: Signals, role: str, factor: float) -> Move | None:
    """A lasting and sudden rise of a positive series by `factor` (a fall for a factor below one), its start set aside.

    What climbs evenly over most of the log is its ordinary course; the steepest half of the climb is what counts.
    """
    sign = 1.0 if factor > 1 else -1.0
    for logged in signals.curves(role):
        curve = logged.take(logged.finite & (logged.value > 0))
        if len(curve) < MIN_POINTS or curve.series.rank is not None or curve.series.layer is not None:
            continue
        if role == "entropy" and _of_density(logged):
            continue
        for e in _lasting(curve, sign * np.log(curve.value)):
            sudden = e.knee > e.onset or e.rise <= SUDDEN_SHARE * len(curve)
            before = float(np.median(curve.value[max(0, e.knee - 20) : e.knee])) if e.knee else curve.value[0]
            after = _late(curve.value)
            if sudden and e.knee >= START_SHARE * len(curve) and (after / before) ** sign >= factor**sign:
                return Move(curve, _leap_within(sign * np.log(curve.value), e), before, after, e.z)
    return None


def _leap_within(value: Floats, e: Excursion) -> int:
    """The point of a rise that makes half of it at once, from a little before the knee on; else the knee itself."""
    first = max(e.knee - SUDDEN_POINTS, 1)
    at = first + int(np.argmax(np.diff(value[first - 1 : max(e.peak, e.knee + SUDDEN_POINTS) + 1])))
    risen = float(np.median(value[at : at + 5]) - np.median(value[max(0, at - 5) : at]))
    leap, whole = float(value[at] - value[at - 1]), _late(value) - float(np.median(value[max(0, e.knee - 20) : e.knee]))
    return at if 2 * leap >= risen and 2 * risen >= whole > 0 else e.knee


def _of_density(entropy: Curve) -> bool:
    """Whether an entropy is that of a density, as of continuous actions, for which zero is no end."""
    return bool((entropy.value[entropy.finite] < 0).any())


def advantages_vanish(signals: Signals) -> Move | None:
    """A size of advantages that is all but gone at once and for good: rewards or returns are scaled by something else.

    Where a task is solved, advantages shrink little by little.
    """
    for logged in signals.every_curve():
        if _ADVANTAGES.search(logged.name.lower()) is None or logged.series.rank is not None:
            continue
        left = departure(logged, VANISHED)
        if left is not None and left.first - left.onset <= SUDDEN_POINTS:
            return Move(left.curve, left.first, left.before, left.after, np.inf)
    return None


def all_alike(signals: Signals) -> Move | None:
    """Where, from some update to the end, every sample earns exactly the same: the reward has no spread and does not
    move, so that no advantage is left to learn from; or where that is so at nearly every update of the log. A reward
    that nothing exceeds is a solved task."""
    spreads = [curve for curve in signals.curves("reward_std") if curve.series.rank is None]
    if (never := _hardly_ever_paid(signals, spreads)) is not None:
        return never
    for logged in signals.curves("reward"):
        reward = logged.only_finite()
        since = _alike_from(reward, spreads) if reward.series.rank is None and len(reward) else len(reward)
        if len(reward) - since < max(ALIKE_POINTS, ALIKE_SHARE * len(reward)) or reward.value[-1] >= reward.value.max():
            continue
        before = float(np.median(reward.value[:since]))
        return Move(reward, since, before, float(reward.value[-1]), np.inf)
    return None


def _hardly_ever_paid(signals: Signals, spreads: Sequence[Curve]) -> Move | None:
    """A reward that is the least it ever is, without any spread, at nearly all updates and in every third of them, and
    earns no more towards the end; at all of them where that is nothing."""
    for reward in (logged.only_finite() for logged in signals.curves("reward")):
        least = reward.value.min(initial=np.inf)
        lost = reward.value == least
        for spread in spreads:
            lost &= at_steps(spread, reward.step) == 0
        thirds = np.array_split(lost, 3)
        if len(reward) < NEVER_POINTS or reward.series.rank is not None or not spreads:
            continue
        never = (least == 0 or not lost.all()) and min(float(part.mean()) for part in thirds) >= NEVER_SHARE
        if never and not _earns_more(reward.value - least):
            return Move(reward, int(np.argmax(lost)), float(reward.value.max()), float(least), np.inf)
    return None


def _earns_more(earned: Floats) -> bool:
    """Whether what is earned lies late in the log, beyond the chance of seldom events."""
    share = earned / max(float(earned.max()), 1e-300)
    late = float(np.sum(share * np.linspace(-0.5, 0.5, len(share))))
    return late > MORE * float(np.sqrt(np.sum(share**2) / 12))  # the variance of a place in the log


def _alike_from(reward: Curve, spreads: Sequence[Curve]) -> int:
    """Index of the first point from which on the reward stands still and no spread is other than zero."""
    moved = np.flatnonzero(reward.value != reward.value[-1])
    since = int(moved[-1]) + 1 if len(moved) else 0
    for spread in spreads:
        wide = np.flatnonzero(spread.value != 0)
        if len(wide):
            since = max(since, int(np.searchsorted(reward.step, spread.step[wide[-1]], side="right")))
    return since if spreads else len(reward)


def exhausted(signals: Signals, share: float) -> Move | None:
    """An entropy that falls, however slowly, below `share` of its early level for good."""
    for curve in signals.curves("entropy"):
        whole = curve.series.rank is None and curve.series.layer is None and not _of_density(curve)
        left = departure(curve, share) if whole else None
        if left is not None and left.onset >= START_SHARE * len(left.curve):
            return Move(left.curve, left.onset, left.before, left.after, np.inf)
    return None


def _late(value: Floats, share: float = LATE_SHARE) -> float:
    return float(np.median(value[-max(5, int(share * len(value))) :]))


def _lasting(curve: Curve, value: Floats) -> list[Excursion]:
    moved = Curve(curve.series, curve.step, value, curve.time, curve.segment)
    least = max(LASTING_POINTS, int(LASTING_SHARE * len(curve)))
    return [e for e in excursions(moved) if not e.returned and len(curve) - e.onset >= least]


def rises(signals: Signals, role: str, step: int) -> bool:
    """Whether a series ends higher than it stood before a step, beyond its noise; unknown counts as yes."""
    change = level_change(signals, role, step)
    if change is None:
        return True
    curve, before, late = change
    noise = robust_sigma(np.diff(curve.value)) / np.sqrt(2)
    return bool(late - before > VISIBLE * 1.2533 * noise * np.sqrt(2 / max(5, len(curve) // 20)))


def below_best(signals: Signals, role: str) -> bool:
    """Whether a series ends below the best level it has had, beyond its noise."""
    curve = signals.curve(role)
    curve = curve.only_finite() if curve is not None else None
    if curve is None or len(curve) < MIN_POINTS:
        return False
    width = max(5, len(curve) // 10)
    best = float(moving_median(curve.value, width).max())
    noise = robust_sigma(np.diff(curve.value)) / np.sqrt(2)
    return bool(best - np.median(curve.value[-width:]) > BEST * 1.2533 * noise * np.sqrt(2 / width))


def level_change(signals: Signals, role: str, step: int) -> tuple[Curve, float, float] | None:
    """Level of a series just before a step and at the end."""
    curve = signals.curve(role)
    curve = curve.only_finite() if curve is not None else None
    if curve is None or len(curve) < MIN_POINTS:
        return None
    before = curve.value[curve.step < step][-max(5, len(curve) // 10) :]
    return (curve, float(np.median(before)), _late(curve.value)) if len(before) else None


def never_better(signals: Signals) -> Curve | None:
    """The reward of a run from its start on that no sixth of the log has higher than the first third, beyond two
    standard errors, though it varies; None where one has, where it stands at its highest mostly, as a solved task does,
    and for answers of a language model, which begin good and gain little."""
    rate = signals.curve("learning_rate")
    tuned = rate is not None and float(np.nanmax(rate.value, initial=0.0)) < TUNED
    if tuned or any(signals.has(role) for role in ("reward_std", "tokens_seen", "seq_len")):
        return None
    for logged in signals.curves("reward"):
        curve = logged.only_finite()
        value, n = curve.value, len(curve)
        begins = n > 0 and curve.step[0] <= 2 * curve.cadence
        if n < NEVER_POINTS or not begins or curve.series.rank is not None or _PREFERENCE.search(curve.name):
            continue
        first, parts = np.median(value[: n // 3]), np.array_split(value, 6)[2:]
        error = 1.2533 * robust_sigma(np.diff(value)) / np.sqrt(2) * np.sqrt(3 / n + 6 / n)
        best = max(float(np.median(part)) for part in parts)
        if np.ptp(value) > 0 and np.mean(value == value.max()) < 0.5 and best <= first + 2 * error:
            return curve
    return None
