"""Losses that fall too low: to a floor or without one, from a settled level, with their features, solved too soon."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.epochs import epoch_length
from trainforensics.signals.evaluations import condense, higher_is_better, usable, validation_curves
from trainforensics.signals.noise import median, robust_sigma
from trainforensics.signals.rises import ramp
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps
from trainforensics.signals.task import LARGEST_VOCABULARY, is_distance
from trainforensics.signals.trend import moving_median

LEARNT = 0.5  # nats: a level below may be noise of a task that is solved, a start below was learnt before
SETTLED, STILL_FALLING = 0.7, 1.1  # of its level a twelfth of the log earlier: neither falling fast nor risen
DESCENDED = 0.7  # of the start: learning had set in before
BELOW = 3.0  # noise widths
SET_IN = 0.25  # of the log: until then learning may set in at last, and go all the way
FALL_SPAN = 0.15  # of the log, for the whole fall
UNTRAINED, GUESSED = (
    5.0,
    math.log(LARGEST_VOCABULARY),
)  # nats: where models of text start, of hundreds of tokens or more
SLOWLY = 0.2  # of its descent, left after a tenth of the way
IMPOSSIBLE = 0.1  # nats per token: the best models stay above 0.3 even on source code
FEWEST = 5  # points that show the solved state
GONE, UPDATES = 2, 50  # points that confirm a loss to be gone; updates within which no task is learnt to the last digit
LEFT = 0.2  # of the loss after it fell with its features
CONFIRMED = 0.5  # of an evaluated error: better by as much means learnt
FEW_CODES, HALF = 3.0, 0.5  # codes still in use, and the share of those before
NARROW = 0.2  # of the spread of features before
SOLVED, UNSOLVED = 0.9999, 0.95  # of the best score: no sample wrong in a whole interval, and some at the start
KNOWN, NEARLY = 10, 0.9  # points on either side of the first perfect score; of it, what none before reached
UNLEARNT = 10.0  # times the solved loss, at the start

_SCORE = re.compile(r"(^|[^a-z])(acc|accuracy)([^a-z]|$)")
_EVALUATED = re.compile(r"(^|[^a-z])(eval|val|valid|validation|test|dev)([^a-z]|$)|best")
_CODES = re.compile(r"(^|[^a-z])(code|codes|codebook|prob|vq|rvq|quantizer|quantiser)[^a-z]*(perplexity|ppl)")
_OF = r"(feature|feat|representation|repr|embedding|embed|emb|projection|proj|output)s?"
_SPREAD = re.compile(rf"(^|[^a-z]){_OF}[^a-z]*std([^a-z]|$)|(^|[^a-z])std[^a-z]*(of[^a-z])?{_OF}([^a-z]|$)")


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of the loss to the end of the log: its first and last point (indices) and the level before."""

    onset: int
    fallen: int
    before: float


@dataclass(frozen=True, slots=True, eq=False)
class Vanished:
    """What fell together with the loss, and its levels before and after."""

    fall: Fall
    witness: Curve
    before: float
    after: float


def floor_reached(loss: Curve, floor: float, points: int) -> Fall | None:
    """A fall from above half a nat to values that stay below a floor to the end, at least `points` of them above zero:
    a loss that is 0 at once stands still (loss-zero, or a filter over NaN)."""
    low = loss.value < floor
    if len(loss) < 2 * points or not low[-points:].all() or (low & (loss.value > 0)).sum() < points:
        return None
    start = float(np.max(loss.value[:3]))
    if start <= LEARNT:
        return None
    first = int(np.flatnonzero(~low)[-1]) + 1
    if low[: max(first - points, 0)].sum() >= points:
        return None  # back where it was
    return Fall(int(np.flatnonzero(loss.value[:first] > LEARNT)[-1]) + 1, first, start)


def gone_at_once(loss: Curve, left: float) -> Fall | None:
    """A fall from above half a nat to a share `left` of it, or less, from one logged point to the next within a few
    updates: for good, or at the end of the rows of each of several starts in one log.

    Not to zero, which stands still (loss-zero, or a filter over NaN).
    """
    value, updates = loss.value, np.diff(loss.step)
    if len(value) <= GONE:
        return None
    before, after = value[:-1], value[1:]
    low = left * np.minimum(before, value[0])
    gone = np.flatnonzero((before >= LEARNT) & (updates <= UPDATES) & (after > 0) & (after <= low))
    if not len(gone):
        return None
    first = int(gone[0]) + 1
    for_good = len(value) - first >= GONE and np.abs(value[first:]).max() <= low[gone[0]]
    starts = np.append(updates, UPDATES + 1)[gone + 1] > UPDATES
    return Fall(first, first, float(value[first - 1])) if for_good or starts.sum() >= GONE else None


def lowest_similarity(loss: Curve, near: float) -> Fall | None:
    """A fall to -1, never below, at which the later half of the log stands."""
    value = loss.value
    if len(value) < 2 * FEWEST or value.min() < -1 - near or value[:2].max() < -1 + LEARNT:
        return None
    above = np.flatnonzero(value > -1 + near)
    first = int(above[-1]) + 1 if len(above) else 0
    if first > len(value) // 2:
        return None
    return Fall(int(np.flatnonzero(value < -1 + LEARNT)[0]), first, float(value[0]))


def bottomless(loss: Curve, factor: float) -> Fall | None:
    """A fall to `factor` times the first values below zero, in the last third as fast as in the one before."""
    third = len(loss) // 3
    if len(loss) < 2 * FEWEST:
        return None
    early, middle, late = (
        float(np.median(part)) for part in (loss.value[:third], loss.value[third:-third], loss.value[-third:])
    )
    size = float(np.median(np.abs(loss.value[:FEWEST])))
    if late > -factor * max(size, 1.0) or middle - late < early - middle:
        return None
    return Fall(int(np.argmax(loss.value < 0)), len(loss) - third, float(loss.value[0]))


def settled_fall(signals: Signals, loss: Curve, left: float) -> Fall | None:
    """A level that was settled, after a descent, and within 15 % of the log falls to a share `left` of itself.

    None where it had been as low before, or the learning rate fell or an epoch began with it; nor where evaluations
    confirm it, unless the loss is that of a model of text, by its start, and falls to what no text allows: evaluations
    read the answer as well.
    """
    n = len(loss)
    width = max(10, n // 12)
    if n < 6 * width or loss.value.min() < 0:
        return None
    start = float(np.median(loss.value[:FEWEST]))
    for at in range(max(2 * width, int(SET_IN * n)), n - 2 * width, max(1, width // 4)):
        before = median(loss.value[at - width : at])
        earlier = median(loss.value[at - 2 * width : at - width])
        if not (SETTLED * earlier < before < STILL_FALLING * earlier and 0 < before < DESCENDED * start):
            continue
        if not 0 < median(loss.value[at + max(width, int(FALL_SPAN * n)) :][:width]) < left * before:
            continue
        halfway = at + int(np.argmax(loss.value[at:] < 0.5 * before))
        onset = _leaving(loss.value[at - width : halfway + 1], before) + at - width
        if before < LEARNT and not np.median(loss.value[halfway + FEWEST :][:FEWEST]) < left * before:
            continue  # a solved task goes on falling, but not to a tenth within a few points
        if np.median(loss.value[onset:]) > left * before or _scheduled(signals, loss, onset - width, halfway):
            return None
        no_text = _of_text(loss, onset, before) and median(loss.value[-FEWEST:]) < IMPOSSIBLE
        if float(moving_median(loss.value[:at], 5).min()) < left * before:
            return None  # it only comes back to where it was before an event
        scores = validation_curves(signals, "val_metric")
        evaluations = scores if no_text else (*validation_curves(signals), *scores)
        if _follows(evaluations, int(loss.step[max(onset - width, 0)]), int(loss.step[halfway])):
            return None
        return Fall(onset, onset + width, before)
    return None


def _leaving(value: Floats, level: float) -> int:
    """Index of the first value of the fall that ends `value`: from there on none is back inside the noise."""
    inside = np.flatnonzero(moving_median(value, 5) >= level - BELOW * robust_sigma(np.diff(value)) / np.sqrt(2))
    return min(int(inside[-1]) + 1, len(value) - 1) if len(inside) else len(value) - 1


def _scheduled(signals: Signals, loss: Curve, start: int, stop: int) -> bool:
    """Whether the learning rate fell or an epoch began between two points."""
    first, last = int(loss.step[max(start, 0)]), int(loss.step[stop])
    rate, epoch = signals.curve("learning_rate"), signals.curve("epoch")
    if rate is not None and rate.value[max(rate.at(last), 0)] < 0.5 * rate.value[max(rate.at(first), 0)]:
        return True
    if epoch is None:
        length = epoch_length(signals)
        return length is not None and (last + length // 20) // length > first // length
    return bool(np.floor(epoch.value[max(epoch.at(last), 0)]) > np.floor(epoch.value[max(epoch.at(first), 0)]))


def _of_text(loss: Curve, onset: int, before: float) -> bool:
    """Whether a loss begins as that of an untrained model of text and comes down as slowly: a recogniser, which starts
    as high, is on its plateau of blanks at once."""
    start, tenth = median(loss.value[:FEWEST]), onset // 10
    if not UNTRAINED < start < GUESSED or before < 2 * LEARNT or is_distance(loss) or tenth < 1:
        return False
    return median(loss.value[tenth:][:FEWEST]) - before > SLOWLY * (start - before)


def _follows(evaluations: Iterable[Curve], first: int, last: int) -> bool:
    """Whether an error measured in evaluation falls between two steps to half of what it was before."""
    for curve in evaluations:
        before, since = curve.value[curve.step <= first], curve.value[curve.step > last]
        if len(before) and len(since) and 0 < since.min() < CONFIRMED * before[-1] and not higher_is_better(curve):
            return True
    return False


def features_vanish(signals: Signals, loss: Curve) -> Vanished | None:
    """A fall of a positive loss, after its first tenth, with which the codes in use or the features' spread vanish."""
    witnesses = [c for c in signals.every_curve() if _CODES.search(c.name.lower()) or _SPREAD.search(c.name.lower())]
    points = condense(loss)
    skipped = len(points) // 10
    if not witnesses or len(points) - skipped < 4 * FEWEST or points.value.min() <= 0:
        return None
    start, stop = (skipped + at for at in ramp(np.log(points.value[skipped:]))[:2])
    if float(np.median(points.value[stop:])) > LEFT * float(points.value[start]):
        return None
    first, fallen = int(points.index[start]), int(points.index[stop])
    before = float(np.median(loss.value[max(first - FEWEST, 0) : first + 1]))
    known = max(first - max(fallen - first, 2 * FEWEST), 0)  # as much of the noise before as of the fall
    fall = Fall(known + _leaving(loss.value[known : fallen + 1], before), fallen, before)
    for curve in witnesses:
        witness = usable(curve)
        early, late = (witness.step < loss.step[fall.onset]), (witness.step >= loss.step[fallen])
        if early.sum() < FEWEST or late.sum() < FEWEST:
            continue
        level, low = float(np.median(witness.value[early][-FEWEST:])), float(np.quantile(witness.value[late], 0.9))
        codes = _CODES.search(curve.name.lower()) is not None
        if low <= (min(FEW_CODES, HALF * level) if codes else NARROW * level):
            return Vanished(fall, witness, level, float(np.median(witness.value[late])))
    return None


def solved(signals: Signals, loss: Curve, low: float) -> int | None:
    """Index from which on the training loss stays below `low` while no training sample is wrong any more, both having
    been far from it at the start; None where that is not so, or no training accuracy is logged."""
    if len(loss) < 2 * FEWEST:
        return None
    for points, best in _training_scores(signals):
        score = at_steps(points, loss.step)
        reached = (loss.value < low) & ~(score < SOLVED * best)
        first = int(np.flatnonzero(~reached)[-1]) + 1 if not reached.all() else 0
        unsolved = bool(np.any(score[:3] < UNSOLVED * best)) and float(loss.value[:3].max()) > UNLEARNT * low
        if unsolved and len(loss) - first >= FEWEST and np.isfinite(score[first:]).sum() >= FEWEST:
            return first
    return None


def perfect_at_once(signals: Signals, loss: Curve) -> tuple[Fall, Curve, float] | None:
    """Where a training accuracy that had settled below nine tenths is exactly one from a point on to the end of the
    log, with that accuracy and its level before: learning passes what lies between. None where none does."""
    for score, best in _training_scores(signals):
        wrong = np.flatnonzero(score.value < best)
        first = int(wrong[-1]) + 1 if len(wrong) else 0
        before = score.value[max(first - KNOWN, 0) : first]
        if len(score) - first < KNOWN or len(before) < KNOWN or before.max() > NEARLY * best:
            continue
        at = int(np.searchsorted(loss.step, score.step[first]))
        if KNOWN <= at < len(loss):
            return Fall(at, at, float(np.median(loss.value[at - KNOWN : at]))), score, float(np.median(before))
    return None


def _training_scores(signals: Signals) -> Iterator[tuple[Curve, float]]:
    """Accuracies of training batches, usable points alone, and what is right in all of them: 1 or 100."""
    for curve in signals.unmapped:
        name = curve.name.lower()
        if _SCORE.search(name) and not _EVALUATED.search(name):
            points = usable(curve)
            yield points, 100.0 if points.value.max(initial=0.0) > 1 else 1.0


def warming_up(signals: Signals, step: int) -> bool:
    """Whether the learning rate is still on its first way up at a step."""
    rate = signals.curve("learning_rate")
    at = rate.at(step) if rate is not None else -1
    if rate is None or at < 2:
        return False
    until = rate.value[: at + 1]
    return bool(np.all(np.diff(until) >= 0)) and bool(until[0] < until[-1] < rate.value.max())
