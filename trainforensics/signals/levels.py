"""Changes of the level of a loss: one at any length of time, steps that are kept, switches up and down; what explains
them, and whether validation or the gradient norm takes part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.epochs import epoch_ends
from trainforensics.signals.evaluations import condense, point_noise
from trainforensics.signals.jumps import level_jump
from trainforensics.signals.noise import medians, robust_sigma
from trainforensics.signals.restarts import restarts
from trainforensics.signals.run import Signals
from trainforensics.signals.steps import SIDE, kept_up, lasting_steps, other_moves

BLOCKS = (400, 100, 40)  # block medians per run: short blocks for sharp steps, long ones for small steps
STARTING = 0.2  # of the blocks: start-up may do anything
FIRST_STEPS = 0.1  # the same for steps from point to point, which are told from a steep start
STARTING_OF, FEWEST_MOVES = 5, 6  # first part of an epoch log; moves after it that show how far the loss goes
BLOCK_SIDE = 3  # points: the shortest block whose level is known
EVALUATIONS = 5  # either side of a change
NORMS = 16  # points of the gradient norm that tell its level
STEPPED = 1.5  # a step of the norm that a reader sees


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A level that lies `size` apart from the one before, between the steps `first` and `last`, seen at `onset`."""

    first: int
    onset: int
    last: int
    before: float
    after: float
    z: float

    @property
    def size(self) -> float:
        """Positive where the loss is higher afterwards."""
        return self.after - self.before


def level_change(loss: Curve, z: float, size: float) -> LevelChange | None:
    """The level change at the shortest block length at which one stands out by `z` and by `size` against the level."""
    for blocks in BLOCKS:
        points = condense(loss, blocks)
        jump = level_jump(points)
        if jump is None or jump.z < z or jump.relative < size or jump.at < STARTING * len(points):
            continue
        last = int(points.step[jump.at + 1]) if jump.at + 1 < len(points) else int(loss.step[-1])
        first = int(points.step[jump.at - 1])
        onset = _left_at(loss, first, last, jump.after - jump.before)
        return LevelChange(first, onset, last, jump.before, jump.after, jump.z)
    return None


def _left_at(loss: Curve, first: int, last: int, size: float) -> int:
    """The first step between two at which the loss has left the level before by twice its noise."""
    before = loss.value[(loss.step > 2 * first - last) & (loss.step <= first)]
    level, noise = float(np.median(before)), point_noise(before)
    inside = np.flatnonzero((loss.step >= first) & (loss.step <= last))
    smooth = np.array([np.median(loss.value[i : i + 5]) for i in inside])
    out = np.flatnonzero((smooth - level) * math.copysign(1, size) > 2 * noise)
    return int(loss.step[inside[out[0]]]) if len(out) else last


def move_across(curve: Curve, change: LevelChange) -> tuple[float, float]:
    """Level change of a validation curve across that of the loss, beyond its drift, and its standard error, which is
    infinite where too few evaluations tell it."""
    left = np.flatnonzero(curve.step <= change.first)[-EVALUATIONS:]
    right = np.flatnonzero(curve.step >= change.last)[:EVALUATIONS]
    if len(left) < 2 or len(right) < 2:
        return 0.0, math.inf
    slopes = np.append(*(np.diff(curve.value[side]) / np.diff(curve.step[side]) for side in (left, right)))
    drift = float(np.median(slopes)) * float(np.median(curve.step[right]) - np.median(curve.step[left]))
    error = point_noise(curve.value) * math.sqrt(1 / len(left) + 1 / len(right))
    return float(np.median(curve.value[right]) - np.median(curve.value[left])) - drift, error


def comes_back(loss: Curve, change: LevelChange, share: float) -> bool:
    """Whether a rise is mostly undone some points later, as by a model that was hurt and learns again."""
    end = int(np.searchsorted(loss.step, change.last))
    before, late = loss.value[loss.step <= change.first][-SIDE:], loss.value[end + 2 * SIDE : end + 3 * SIDE]
    return change.size > 0 and len(late) == SIDE and float(np.median(late) - np.median(before)) < share * change.size


def steps_up(loss: Curve, kept: float, clear: float) -> list[int]:
    """Indices at which the loss steps upwards at once and keeps a share `kept` of it 24 points on.

    `clear`: times the 98th percentile of all other moves that the step must make.
    """
    value = loss.value
    ups = [at for at in lasting_steps(value) if at >= FIRST_STEPS * len(value) and kept_up(value, at, kept)]
    least = clear * other_moves(value, ups, 0.98)
    return [at for at in ups if value[at] - value[at - 1] > least]


def fall_for_good(value: Floats, times: float, least: float) -> int | None:
    """The first value that falls by `times` the largest move before it, the first fifth aside, and by a share `least`,
    half of which at least is kept by all that follow; two at least do."""
    moves, start = np.diff(value), len(value) // STARTING_OF
    at = np.arange(start + FEWEST_MOVES, len(value) - 2)
    if not len(at):
        return None
    fall, before = -moves[at - 1], value[at - 1]
    usual = np.maximum.accumulate(np.abs(moves[start:]))[at - 2 - start]
    highest_after = np.maximum.accumulate(value[::-1])[::-1][at]
    found = (fall > np.maximum(times * usual, least * np.abs(before))) & (highest_after < before - fall / 2)
    return int(at[np.argmax(found)]) if found.any() else None


def best_after(curve: Curve, step: int) -> bool:
    """Whether any evaluation after a step is better than all up to it; lower is better."""
    early = curve.step <= step
    return bool(early.all() or not early.any() or curve.value[~early].min() < curve.value[early].min())


def switches(loss: Curve, height: float, least: float, plain: float) -> tuple[list[int], float]:
    """Indices at which the logarithm of a loss switches its level at once, two or more each way, and the usual size.

    `height` in noise widths; the usual switch is at least `least`, and `plain` times the 90th percentile of all other
    moves. No indices where that is not so.
    """
    value = np.log(loss.value)
    found = [at for at in lasting_steps(value, BLOCK_SIDE, height) if at >= FIRST_STEPS * len(value)]
    sizes: Floats = np.array([value[at] - value[at - 1] for at in found])
    if min(np.sum(sizes > 0), np.sum(sizes < 0)) < 2:
        return [], 0.0
    usual = float(np.median(np.abs(sizes)))
    if usual < least or usual < plain * other_moves(value, found, 0.9):
        return [], 0.0
    return found, usual


def levels_at(loss: Curve, at: int) -> tuple[float, float]:
    """Median levels right before and from a point."""
    return float(np.median(loss.value[max(0, at - SIDE) : at])), float(np.median(loss.value[at : at + SIDE]))


def goes_on(curve: Curve, loss: Curve, at: int, share: float) -> bool:
    """Whether the evaluations around a step rise by less than a share of it, both in proportion to their level."""
    left, right = curve.at(int(loss.step[at - 1])), curve.at(int(loss.step[at - 1])) + 1
    if left < 0 or right >= len(curve) or curve.value[left] <= 0:
        return False
    before, after = levels_at(loss, at)
    return float(curve.value[right] / curve.value[left] - 1) <= share * (after - before) / max(abs(before), 1e-300)


def unexplained(signals: Signals, loss: Curve, found: list[int], rate: float) -> list[int]:
    """The points of `found` at which the schedule explains no step upwards."""
    cadence, steps = loss.cadence, loss.step
    return [
        at
        for at in found
        if not explained(signals, loss, int(steps[at]) - cadence, int(steps[at]) + cadence, falls=False, rate=rate)
    ]


def explained(signals: Signals, loss: Curve, first: int, last: int, *, falls: bool, rate: float) -> bool:
    """Whether a restart, a change of the learning rate by a share `rate`, or, for a fall, an epoch's end lies there."""
    if any(first - loss.cadence <= restart.step <= last + loss.cadence for restart in restarts(signals)):
        return True
    schedule = signals.curve("learning_rate")
    if schedule is not None and (before := schedule.at(first)) >= 0:
        old, new = float(schedule.value[before]), float(schedule.value[schedule.at(last)])
        if not abs(new - old) <= rate * abs(old):
            return True
    return falls and epoch_ends(signals, first, last, int(loss.step[-1]))


def norm_step(signals: Signals, step: int) -> tuple[float, float] | None:
    """Level of the gradient norm before a step and from it on, where it changes there by half or more, six standard
    errors off and by twice as much as anywhere before; None elsewhere."""
    curve = signals.curve("grad_norm")
    curve = curve.take(curve.finite & (curve.value > 0)) if curve is not None else None
    if curve is None:
        return None
    value, at = np.log(curve.value), int(np.searchsorted(curve.step, step))
    if at < 3 * NORMS or len(value) - at < NORMS:
        return None
    levels = medians(np.lib.stride_tricks.sliding_window_view(value[NORMS : at + NORMS], NORMS))
    change = levels[NORMS:] - levels[:-NORMS]
    error = 1.2533 * robust_sigma(np.diff(value[:at])) / np.sqrt(NORMS)
    here, before = abs(float(change[-1])), np.abs(change[:-NORMS])
    if here < max(np.log(STEPPED), 6 * error, 2 * float(before.max(initial=0.0))):
        return None
    return float(np.exp(levels[-1 - NORMS])), float(np.exp(levels[-1]))
