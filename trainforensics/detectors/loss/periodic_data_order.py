"""Bursts or levels of the loss come back with a fixed period.

What it detects:
    Four or more bursts of the training loss whose onsets lie a fixed number of steps apart (some may be missing), too
    regular for chance. A level that goes up and down in the same way in every period; where the log tells how long an
    epoch is, three epochs that do so are enough. Or leaps at a fixed distance, up as well as down, between which the
    loss keeps its course, and in short blocks falls: classes or shards one after another.

Why it matters:
    Optimisation has no clock; data order has. Something in the order recurs: a source that was not shuffled in, the
    border between shards or the end of an epoch, the same bad documents once an epoch.

Evidence:
    The period, the onsets that keep it, and the probability that onsets at random would.

False positives:
    Stairs at epoch borders go down only. A learning rate that cycles or restarts with the same period moves the loss by
    itself, in one hump a period: that is a remark where the rate is not logged. Bursts that fill their period are a
    cycle of the schedule or of the loss itself.

Example:
    Seven bursts from step 2000 on, 2000 steps apart.

Parameters:
    chance: probability of as regular a set of onsets.
    rate_swing: share by which the learning rate may swing with the same period.
    narrow: share of the period that a burst may last.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.loss.events import USES
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.blocks import blocks
from trainforensics.signals.curve import Floats
from trainforensics.signals.epochs import steps_of_epoch
from trainforensics.signals.losses import loss_events
from trainforensics.signals.measure import Excursion
from trainforensics.signals.periodic import Cycle, Period, cycle_since, known_cycle, period
from trainforensics.signals.precursors import excursions_of
from trainforensics.signals.restarts import restarts
from trainforensics.signals.ringing import rings
from trainforensics.signals.stretches import at_steps
from trainforensics.signals.task import adversarial

MIN_POINTS = 100
EVENLY = 0.95  # share of points at the usual distance
TOGETHER = 0.8  # mean direction of the phases of bursts: 1 where all are the same
META = Meta(
    kind=KINDS["periodic-data-order"],
    needs=("train_loss",),
    uses=USES,
    params=(
        Param("chance", 1e-3, "one false alarm in 1,000 runs with bursts at random"),
        Param("rate_swing", 0.1, "a rate that only decays never rises within a cycle"),
        Param("narrow", 0.3, "a warm restart fills its cycle, a shard or a document does not"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Look for a period among the onsets of bursts."""
    loss = signals.curve("train_loss")
    loss = loss.only_finite() if loss is not None else None
    if loss is not None and (adversarial(loss) or signals.has("reward")):
        return NotApplicable(f"{loss.name} is of a game or a critic and has no trend to leave", "a metric of quality")
    if loss is None or len(loss) < MIN_POINTS:
        return NotApplicable("too few points of training loss", "the training loss at least every 1 % of the run")
    left = min((event.onset_step for event in loss_events(signals) if event.lasting), default=None)
    loss = loss if left is None else loss.take(loss.step < left)  # what has left its level swings as it will
    if len(loss) < MIN_POINTS:
        return Clear()
    finding = _by_bursts(signals, loss, params) or _by_level(signals, loss, params) or _by_blocks(signals, loss, params)
    return Fired((finding,)) if finding is not None else Clear()


def _by_bursts(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    bursts = [e for e in excursions_of(signals, loss) if e.returned]
    borders = {r.step for r in restarts(signals)}
    bursts = [e for e in bursts if not any(abs(int(loss.step[e.onset]) - b) <= 2 * loss.cadence for b in borders)]
    found = period(loss.step[[e.onset for e in bursts]] if bursts else loss.step[:0], loss.cadence)
    if found is None or found.chance > params["chance"] or _wide(loss, bursts, found, params["narrow"]):
        return None
    return None if _rate_rises_at(signals, found) else _of_bursts(signals, loss, bursts, found)


def _by_level(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    if float(np.mean(np.diff(loss.step) == loss.cadence)) < EVENLY or rings(signals, loss) is not None:
        return None
    lives, n = (np.flatnonzero(np.diff(loss.segment)) + 1).tolist(), len(loss)
    epoch = steps_of_epoch(signals) or 0.0
    found = known_cycle(loss.value, round(epoch / loss.cadence))
    found = found or cycle_since(loss.value, lives[-1:] or (n // 2, n - n // 4))
    if found is None or _of_bursts_elsewhere(signals, loss, found):
        return None
    rate = signals.curve("learning_rate")
    if _swings_with(signals, loss, found.points, params["rate_swing"]):
        return None
    return _of_levels(signals, loss, found, rate is not None and len(rate) >= MIN_POINTS)


def _by_blocks(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    if signals.axis.unit == "epoch" or float(np.mean(np.diff(loss.step) == loss.cadence)) < EVENLY:
        return None
    found = blocks(loss.value)
    if found is None or _swings_with(signals, loss, found.points, params["rate_swing"]):
        return None
    steps, first = found.points * loss.cadence, int(loss.step[found.first])
    text = f"{loss.name} leaps by {found.leap:.3g} every {steps} steps and keeps its course between"
    widths = f"a usual leap, {found.leap / found.within:.3g} times a usual move between"
    return Finding(
        kind="periodic-data-order",
        series=loss.name,
        role="train_loss",
        onset_step=first,
        onset_interval=(int(loss.step[max(found.first - 1, 0)]), first),
        confidence=0.75,
        summary=f"{text}: the data come in blocks{_epochs(signals, steps)}",
        recovery="unrecovered",
        evidence=(
            Evidence(loss.name, first, float(steps), None, f"steps of a block, {found.number} of them"),
            Evidence(loss.name, first, found.leap, found.within, widths),
        ),
    )


def _swings_with(signals: Signals, loss: Curve, points: int, share: float) -> bool:
    rate = signals.curve("learning_rate")
    known = rate is not None and len(rate) >= MIN_POINTS
    return known and rate is not None and _swings(at_steps(rate, loss.step), points, share)


def _of_bursts_elsewhere(signals: Signals, loss: Curve, found: Cycle) -> bool:
    """Whether bursts make the level that seems to repeat, one a cycle and at any phase of it."""
    tall = (e for e in excursions_of(signals, loss) if e.returned and e.peak < len(loss))
    at = np.array([e.onset for e in tall if loss.value[e.peak] - e.before > found.swing / 2])
    if found.humps > 1 or len(at) < found.cycles:
        return False
    return bool(np.abs(np.exp(2j * np.pi * at / found.points).mean()) < TOGETHER)


def _swings(rate: Floats, points: int, share: float) -> bool:
    """Whether the learning rate goes up within the cycles, as by a cyclic schedule or warm restarts."""
    rate = rate[np.isfinite(rate)]
    cycles = len(rate) // points
    if cycles < 2:
        return False
    late = rate[len(rate) - cycles * points :]
    rises = np.maximum(0.0, np.diff(late, prepend=late[0])).reshape(cycles, points).sum(axis=1)
    return bool(np.median((rises / np.maximum(late.reshape(cycles, -1).max(axis=1), 1e-300))[1:]) > share)


def _wide(loss: Curve, bursts: list[Excursion], found: Period, narrow: float) -> bool:
    lengths = [int(loss.step[e.end] - loss.step[e.onset]) for e in bursts]
    return float(np.median(lengths)) > narrow * found.steps


def _rate_rises_at(signals: Signals, found: Period) -> bool:
    """Whether the learning rate rises at most of the onsets."""
    rate = signals.curve("learning_rate")
    if rate is None or len(rate) < MIN_POINTS:
        return False
    onsets = np.array(found.kept)
    around = max(int(found.tolerance), 2 * rate.cadence)
    before, after = at_steps(rate, onsets - around), at_steps(rate, onsets + around)
    known = np.isfinite(before) & np.isfinite(after)
    return bool(known.sum() >= 3 and np.mean(after[known] > 1.2 * before[known]) > 0.5)


def _of_bursts(signals: Signals, loss: Curve, bursts: list[Excursion], found: Period) -> Finding:
    first = found.kept[0]
    kept = [e for e in bursts if int(loss.step[e.onset]) in found.kept]
    height = float(np.median([e.height for e in kept]))
    text = (
        f"{len(kept)} bursts of {loss.name}, {height:.3g} high, come every {found.steps:.4g} steps from step {first} on"
    )
    text += _epochs(signals, found.steps)
    at = loss.at(first)
    return Finding(
        kind="periodic-data-order",
        series=loss.name,
        role="train_loss",
        onset_step=first,
        onset_interval=(int(loss.step[max(at - 1, 0)]), first),
        confidence=round(min(0.95, 0.75 + 0.02 * len(kept)), 2),
        summary=text,
        occurrences=found.kept,
        peak_step=int(loss.step[max(kept, key=lambda e: e.height).peak]),
        end_step=int(loss.step[kept[-1].end]),
        recovery="recovered",
        evidence=(
            Evidence(loss.name, first, found.steps, None, "steps between bursts"),
            Evidence(loss.name, first, float(len(kept)), float(len(bursts)), "bursts that keep time, of all bursts"),
            Evidence(loss.name, first, found.chance, None, "probability that onsets at random are as regular"),
        ),
    )


def _of_levels(signals: Signals, loss: Curve, found: Cycle, rate_known: bool) -> Finding:
    steps, first = found.points * loss.cadence, int(loss.step[found.first])
    text = f"The level of {loss.name} swings by {found.swing:.3g} in the same way every {steps} steps"
    text += _epochs(signals, steps)
    if not rate_known:
        text = f"{text[:-1]}; the learning rate, whose cycles would do the same, is not logged."
    return Finding(
        kind="periodic-data-order",
        series=loss.name,
        role="train_loss",
        onset_step=first,
        onset_interval=(int(loss.step[max(found.first - 1, 0)]), first),
        confidence=0.75 if rate_known else 0.5,
        summary=text,
        severity=None if rate_known or found.humps > 1 else "low",
        recovery="unrecovered",
        evidence=(
            Evidence(loss.name, first, float(steps), None, "steps of a cycle"),
            Evidence(loss.name, first, found.swing, found.noise, "swing within a cycle, against the points' noise"),
            Evidence(loss.name, first, found.alike, None, f"correlation of a cycle with the other {found.cycles - 1}"),
        ),
    )


def _epochs(signals: Signals, steps: float) -> str:
    epoch = steps_of_epoch(signals)
    if epoch is None or abs(epoch / steps - (times := round(epoch / steps))) >= 0.03 or not times:
        return "."
    return ", as long as an epoch." if times == 1 else f"; an epoch takes {times} times as long."
