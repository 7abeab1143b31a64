"""Losses that stand where a model stands that has learnt nothing: at guessing, below counting, at one answer for all.

A flat loss is a fault where the log says what an ignorant model scores: by its number of classes, the accuracy beside
the loss, the tokens of a language, or evaluations that come out exactly alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import usable, validation_curves
from trainforensics.signals.frozen import LATE, MANY, frozen_metric
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import lasting_start
from trainforensics.signals.task import is_distance, per_token, rewarded, stated, vocabulary
from trainforensics.signals.trend import moving_median

FLAT, RISEN = 2.0, 4.0  # standard errors: what falls by less has no trend, what rises by more another fault
FEW = 30  # points
TWO_NEAR = 0.005  # nats; to the last point: preference losses begin there and move on, small batches are noisier
PAIRS_NEAR = 0.003  # the loss of random pairs stands at ln of the batch size to three digits
MOST, STRAYING = 0.9, 0.1  # of all points, which lie this near to the loss of guessing
COMMON_CLASSES = (10, 100, 1000)  # of the usual classification sets, where the log does not say
AGREE = 0.25  # of 1/k: a measured accuracy against the share of one of k classes
COUNTING = 8.0  # nats per token: knowing how frequent tokens are gives 6.5-7.7 with vocabularies up to 250,000
CLIMBING = 1.2  # of the median of its second half: a rate that ends higher is still warming up
ABOUT, AROUND, ALIKE = 0.02, 0.005, 0.001  # of the constant: single values, their median, and to three digits
CALMED = 5.0  # times less noise than at first
UNSEEN = 0.002  # of the level, by which a loss without noise may creep and still has come to rest
AT_ONCE = 1 / 3  # of the log, within which the loss must have come to rest
ALL_WRONG, NONE_RIGHT = 0.1, 1e-3  # of the samples right, at most; beside another task that is easier to guess
GROWN = 1.5  # times as many right: what has begun to be learnt doubles within a third of the log
CREPT = 0.75  # of the loss, at least, that is left where only the sizes of classes were learnt
PILED, STRAIGHT = 10.0, 0.99  # times its first value; share of a norm's variance that a straight line explains
ALIKE_SCORES = 0.01  # of a score: what is learnt moves it by more
FEW_SCORES, FEW_EVALUATIONS = 5, 8
MOST_CLASSES, NEAR_CHANCE = 10, 0.02  # classes whose logarithms lie apart by more than this share
FROM_SCRATCH = 1e-4  # learning rates below are those of fine-tuning
MANY_STEPS, FIRST, STILL = 50, 10, 0.005  # points; logging intervals to the first; of the level, for trend and noise

_SCORE = re.compile(r"(^|[^a-z])(acc|accuracy|acc@?1|top_?1(_?acc)?)([^a-z0-9]|$)|^(train|val|valid|test)$")
_MISSED = re.compile(r"(^|[^a-z])(top_?1_?err(or)?|err(or)?_?rate|err(or)?@1|wer|cer)([^a-z]|$)")
MOST_INSERTED = 5.0  # an error rate above one counts insertions; above this it is given in per cent


@dataclass(frozen=True, slots=True)
class Ignorance:
    """From which point of the loss on (index) it stands where nothing was learnt, the value expected there (None where
    there is only a bound or none), and the reason in words."""

    start: int
    expected: float | None
    reason: str


def ignorance(signals: Signals, loss: Curve, near: float) -> Ignorance | None:
    """Why a training loss that stands must be one of a model that has learnt nothing; None where nothing says so.

    `near`: relative distance from the loss of guessing.
    """
    if (halves := _one_of_two(signals, loss)) is not None:
        return halves
    if (chance := _classes(signals, loss, near)) is not None:
        return guessing(chance)
    if (never := _never_moved(signals, loss)) is not None:
        return never
    ways = (_all_alike, _answers_without_learning, _gradients_add_up)
    if (alike := next((found for way in ways if (found := way(signals, loss)) is not None), None)) is not None:
        return alike
    if (guessed := _evaluated_as_guessing(signals)) is not None:
        return guessed
    start = at_rest_from(loss)
    if start is None or rewarded(signals):
        return _one_answer(signals, loss)
    level = float(np.median(loss.value[start:]))
    return (
        _as_accurate_as_guessing(signals, loss, start, level, near)
        or _nothing_right(signals, loss, start)
        or _below_counting(signals, loss, start, level)
        or _one_answer(signals, loss)
    )


def guessing(chance: float) -> Ignorance:
    """Why a loss that stands at the one of guessing at random teaches nothing."""
    return Ignorance(0, chance, f"{chance:.4g} is the loss of guessing at random")


def at_chance(value: Floats, classes: Iterable[int], near: float, straying: float, share: float) -> float | None:
    """The loss of guessing among one of these numbers of classes that the median of a loss is `near` and a share of its
    points strays from no further, both relative to it; None where it stands at none of them."""
    level = float(np.median(value))
    for chance in map(math.log, classes):
        strays = float(np.quantile(np.abs(value - chance), share))
        if abs(level - chance) < near * chance and strays < straying * chance:
            return chance
    return None


def drift(value: Floats) -> float:
    """How far the last third of the values stands above the first, in standard errors."""
    third = len(value) // 3
    first, last = value[:third], value[-third:]
    error = 1.2533 * robust_sigma(np.concatenate([first - np.median(first), last - np.median(last)]))
    return float((np.median(last) - np.median(first)) / max(error * math.sqrt(2 / third), 1e-300))


def still_warming_up(signals: Signals) -> bool:
    """Whether the learning rate still rises at the end of the log."""
    rate = signals.curve("learning_rate")
    return rate is not None and bool(rate.value[-1] > CLIMBING * np.median(rate.value[len(rate) // 2 :]))


def at_rest_from(loss: Curve) -> int | None:
    """Index at which a loss first reached the level of its second half, where that is within the first third of the log
    and no trend is left from there on."""
    if len(loss) < FEW:
        return None
    late = loss.value[len(loss) // 2 :]
    noise = robust_sigma(np.diff(late)) / math.sqrt(2)
    level = float(np.median(late))
    if level > np.median(loss.value[:5]) + max(FLAT * noise, 0.1 * abs(level)):
        return None  # it rose
    reached = np.flatnonzero(moving_median(loss.value, 5) <= level + max(noise / 2, UNSEEN * abs(level)))
    if not len(reached) or reached[0] > AT_ONCE * len(loss):
        return None
    rest = loss.value[reached[0] :]
    third = len(rest) // 3
    moved = abs(float(np.median(rest[:third]) - np.median(rest[-third:])))
    return int(reached[0]) if -FLAT < drift(rest) < RISEN or moved <= UNSEEN * abs(level) else None


def _never_moved(signals: Signals, loss: Curve) -> Ignorance | None:
    """A loss of single steps that ends where an untrained model began, though it hardly has noise to hide a fall in.

    Means over epochs may begin learnt; so may what goes on with training on text, or at a small learning rate.
    """
    rate = signals.curve("learning_rate")
    if rate is not None and float(np.nanmax(rate.value, initial=0.0)) < FROM_SCRATCH:
        return None
    level = abs(float(np.median(loss.value))) if len(loss) >= MANY_STEPS else 0.0
    if level == 0 or signals.axis.unit == "epoch" or int(loss.step[0]) > FIRST * loss.cadence:
        return None
    if rewarded(signals) or per_token(signals) or still_warming_up(signals):
        return None
    low, high = np.quantile(loss.value, (0.05, 0.95))
    fallen = float(np.median(loss.value[:5]) - np.median(loss.value[-len(loss) // 3 :]))
    if not 0 < high - low < 4 * STILL * level or fallen > STILL * level:
        return None
    where = f"{abs(fallen) / level:.2%} {'below' if fallen > 0 else 'above'} where it began"
    return Ignorance(0, None, f"it ends {where}, with hardly any noise to hide a fall in")


def _one_of_two(signals: Signals, loss: Curve) -> Ignorance | None:
    """A loss that stands at ln 2, two classes in equal parts, in nearly all points and to the last one."""
    off = np.abs(loss.value[2:] - math.log(2))
    near = np.quantile(off, MOST) < TWO_NEAR and off[len(off) // 2 :].max() < TWO_NEAR
    if not near or vocabulary(signals) is not None or still_warming_up(signals):
        return None
    outside = np.flatnonzero(off >= TWO_NEAR)
    return replace(guessing(math.log(2)), start=int(outside[-1]) + 3 if len(outside) else 0)


def _classes(signals: Signals, loss: Curve, near: float) -> float | None:
    """The value of guessing at random among known classes or pairs at which the whole run stands."""
    size = vocabulary(signals)
    if len(loss) < FEW or not -FLAT < drift(loss.value) < RISEN:
        return None
    if size is None and signals.has("logit_scale"):  # views or texts and images are matched against each other
        level = float(np.median(loss.value))
        chance = round(level / math.log(2)) * math.log(2)  # ln of a batch of 2^k pairs
        return chance if chance > 0 and abs(level - chance) < PAIRS_NEAR * chance else None
    return at_chance(loss.value, COMMON_CLASSES if size is None else (size,), near, STRAYING, MOST)


def _all_alike(signals: Signals, loss: Curve) -> Ignorance | None:
    """A loss of pairs or triplets that came to stand where embeddings that are all the same put it: at a margin that
    the log states, or, its noise gone, at ln 2, where two classes whose scores are all the same stand as well."""
    value, part = loss.value, len(loss) // 10
    if len(loss) < MANY_STEPS:
        return None
    calmed = robust_sigma(value[-5 * part :]) * CALMED <= robust_sigma(np.diff(value[:part]))
    margins = [float(v) for key, v in stated(signals) if "margin" in key and isinstance(v, int | float) and v > 0]
    for constant in (math.log(2), *margins):
        strays = np.abs(value / constant - 1)
        calm = lasting_start(strays < ALIKE, MOST) if calmed else None
        late = strays[len(strays) // 2 :]
        stands = abs(float(np.median(value[len(value) // 2 :])) / constant - 1) < AROUND
        at_margin = constant in margins and stands and float(np.quantile(late, MOST)) < ABOUT and _at_rest(value)
        if strays[0] > ABOUT and ((calm is not None and calm <= len(loss) // 2) or at_margin):
            start = int(np.argmax(strays < ABOUT))
            return Ignorance(start, constant, f"at {constant:.4g} all that it compares is the same to the model")
    return None


def _gradients_add_up(signals: Signals, loss: Curve) -> Ignorance | None:
    """A gradient norm that grows by the same amount at every step, beside a loss without a trend: each step adds its
    gradients to those before, and none is taken."""
    logged = signals.curve("grad_norm")
    norm = logged.only_finite() if logged is not None else None
    if norm is None or min(len(norm), len(loss)) < FEW or not -FLAT < drift(loss.value) < RISEN:
        return None
    if not norm.value[-1] > PILED * max(norm.value[0], 0.0) or np.std(norm.value) == 0:
        return None
    straight = float(np.corrcoef(norm.step, norm.value)[0, 1]) ** 2
    reason = f"{norm.name} grows from {norm.value[0]:.3g} to {norm.value[-1]:.3g} by the same amount at every step"
    return Ignorance(0, None, f"{reason}: gradients add up and no update is made") if straight >= STRAIGHT else None


def _answers_without_learning(signals: Signals, loss: Curve) -> Ignorance | None:
    """Accuracies of evaluation, none of them more than a tenth, that never move by more than a hundredth of themselves:
    one answer for all, while the loss creeps down by a quarter at most."""
    third = max(len(loss) // 3, 1)
    if float(np.median(loss.value[-third:])) < CREPT * float(np.median(loss.value[:third])):
        return None
    scores = [c for c in map(usable, signals.curves("val_metric")) if _SCORE.search(c.name.lower())]
    scores = [c for c in scores if len(c) >= FEW_EVALUATIONS and c.value.min() >= 0]
    told = [c for c in scores if c.value.any()]
    if not told or any(c.value.max() > ALL_WRONG or np.ptp(c.value) > ALIKE_SCORES * c.value.max() for c in told):
        return None
    score = told[0]
    span = f"between {score.value.min():.4g} and {score.value.max():.4g}"
    return Ignorance(0, None, f"{score.name} stays {span} in all {len(score)} evaluations: one answer for all")


def _evaluated_as_guessing(signals: Signals) -> Ignorance | None:
    """Evaluations whose loss and accuracy are those of guessing among the same few classes every time."""
    for curve in validation_curves(signals):
        level = float(np.median(curve.value)) if len(curve) >= FEW_EVALUATIONS else 0.0
        if not TWO_NEAR < level < math.log(MOST_CLASSES + 1) or (classes := round(math.exp(level))) < 2:
            continue
        if float(np.quantile(np.abs(curve.value / math.log(classes) - 1), MOST)) > NEAR_CHANCE:
            continue
        for score in validation_curves(signals, "val_metric"):
            right = score.value / (100 if score.value.max(initial=0.0) > 1 else 1) * classes - 1
            if _SCORE.search(score.name.lower()) and len(right) >= FEW_EVALUATIONS and np.abs(right).max() < AGREE:
                both = f"{curve.name} and {score.name} are those of guessing among {classes} classes"
                return Ignorance(0, None, f"{both} in all {len(right)} evaluations")
    return None


def _at_rest(value: Floats) -> bool:
    """Whether the second half of a loss has no trend downwards: one that passes a constant does not stand there."""
    late = value[len(value) // 2 :]
    third = len(late) // 3
    fallen = float(np.median(late[:third]) - np.median(late[-third:]))
    return drift(late) > -FLAT or fallen <= UNSEEN * abs(float(np.median(late)))


def _as_accurate_as_guessing(signals: Signals, loss: Curve, start: int, level: float, near: float) -> Ignorance | None:
    """Loss and accuracy that both are those of guessing among the same number of classes."""
    classes = round(math.exp(level)) if level < COUNTING else 0
    if classes < 2 or abs(math.log(classes) - level) > near * level:
        return None
    for name, right in _right(signals, int(loss.step[start])):
        if abs(float(np.median(right)) * classes - 1) < AGREE:
            reason = f"with {name} at {np.median(right):.3g} that is guessing among {classes} classes"
            return Ignorance(start, math.log(classes), reason)
    return None


def _nothing_right(signals: Signals, loss: Curve, start: int) -> Ignorance | None:
    """Hardly a sample right, and no more as time goes on."""
    scores = _right(signals, int(loss.step[start]))
    known = [(name, right, float(np.median(right))) for name, right in scores]
    if not known or any(_grows(right) for _, right, _ in known):
        return None
    name, _, median = min(known, key=lambda score: score[2])
    if median > NONE_RIGHT and any(median > ALL_WRONG for _, _, median in known):
        return None
    return Ignorance(start, None, f"{max(median, 0):.1%} are right by {name}, and no more towards the end")


def _grows(share: Floats) -> bool:
    """Whether more is right in the last third than in the first, by what the noise does not explain and an eye sees."""
    third = len(share) // 3
    return drift(share) >= FLAT and float(np.median(share[-third:])) > GROWN * float(np.median(share[:third]))


def _below_counting(signals: Signals, loss: Curve, start: int, level: float) -> Ignorance | None:
    """A loss per token that knows less than how frequent each token is."""
    if level <= COUNTING or not per_token(signals) or is_distance(loss) or level > 2 * COUNTING:
        return None
    return Ignorance(start, None, f"a model that only knows how frequent tokens are scores below {COUNTING:g}")


def _one_answer(signals: Signals, loss: Curve) -> Ignorance | None:
    """Evaluations of exactly one value beside a training loss that has come to rest above what tells classes apart."""
    found = frozen_metric(signals, loss)
    if found is None or found.still_falls or found.tells_apart or len(found.curve) < MANY or len(loss) < MANY:
        return None
    if found.curve.value[0] == 0:
        return None  # whatever a model answers, some of it is right: the evaluation is what is wrong
    fall = float(found.level[0] - found.level[-1])
    late = float(found.level[len(found.level) // 2] - found.level[-1])
    if late > max(LATE * fall, 0.0):
        return None
    many, value = len(found.curve), found.curve.value[0]
    start = max(int(loss.at(int(found.curve.step[0]))), 0)
    return Ignorance(
        start, None, f"{many} of {found.of} values of {found.curve.name} are exactly {value:.5g}: one answer for all"
    )


def _right(signals: Signals, since: int) -> list[tuple[str, Floats]]:
    """Shares of samples that are right, from a step on, by every accuracy or error rate of the log."""
    found = []
    for curve in (*signals.unmapped, *signals.curves("val_metric")):
        name = curve.name.lower()
        missed = _MISSED.search(name) is not None
        value = usable(curve)
        share = value.value[value.step >= since]
        if not (missed or _SCORE.search(name)) or len(share) < FEW_SCORES:
            continue
        most = float(np.max(value.value))
        scale = 100.0 if most > (MOST_INSERTED if missed else 1.0) else 1.0
        found.append((curve.name, 1 - share / scale if missed else share / scale))
    return found
