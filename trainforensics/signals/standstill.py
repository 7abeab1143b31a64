"""Losses that end where they began, and scores that say of a resting loss that nothing was learnt.

A loss of single batches hides a small fall in its noise and says little by being flat, unless thousands of updates lie
behind it. The mean over an epoch has hardly any noise: ten of them that end within a few percent of the first are
training that taught nothing, or went on with what had converged before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from trainforensics.signals.chance import COMMON_CLASSES, Ignorance, at_chance, guessing
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import higher_is_better, usable, validation_curves
from trainforensics.signals.frozen import NOTHING, finds_nothing
from trainforensics.signals.run import Signals
from trainforensics.signals.task import per_token, rewarded, stated

EPOCHS, FEW, LONG = 10, 5, 20  # means over epochs that show no trend by themselves; beside scores; beside middling ones
VERY_FEW, BEGUN, STILL = 4, 1000, 0.005  # means; updates before an excerpt; of the level, which single batches span
BESIDE = 0.9  # of the points of the loss: as many evaluations make each point a mean over what lies between them
FELL, ROSE = 0.03, 0.25  # of the level: from the first point to the end, and between thirds; more is another kind
SETTLED, FALLEN = 0.01, 0.25  # between thirds, and in all, beside scores of a model that has learnt nothing
NEAR_CHANCE = 0.005  # of the loss of guessing; the mean over an epoch stands there to three digits
QUIET, WIDE = 0.03, 0.06  # of the level: noise between means, and the range of nine tenths of them
SEEN, CLEAR = 0.01, 0.03  # share of its start by which a validation loss falls where something is learnt
SCORED = 3.0  # times as much in a score; 3 standard deviations of the noise at least in both
POINTS, UPDATES, SHOWS = 50, 100, 0.1  # of single batches; updates from one to the next; a fall that would show
SOLVED = 0.95  # of the best possible score
AGAIN, SAME = 0.4, 3  # of the evaluations that agree exactly, and how many at least
HARDLY, LEFT = 0.1, 0.9  # found of all objects in any evaluation; of the loss of their classes that is left at the end
DECIMALS = 3  # more of them hardly agree by chance
FEW_RIGHT, HALF_RIGHT = 0.2, 0.6  # of the samples, at most: where no loss is logged; beside a loss at rest

_SCORE = re.compile(
    r"(^|[^a-z])(acc(uracy)?|acc@?1|top_?1|m?ap(_?50)?(-95)?|m?iou|dice|(macro_|micro_)?f1(_?score)?|recall|precision|auc"
    r"|aupr|bleu|wer|cer|r2)([^a-z0-9]|$)"
)
_PRECISION = re.compile(r"(^|[^a-z])m?ap(_?50)?([^a-z0-9]|$)")
_OF_CLASSES = re.compile(r"(^|[^a-z])(cls|class(ification)?)(_|[^a-z]|$).*loss|loss.*[^a-z](cls|class)([^a-z]|$)")
_RIGHT = re.compile(r"(^|[^a-z])(acc(uracy)?|acc@?1|top_?1)([^a-z0-9]|$)")
_BY_NATURE = re.compile(
    r"diffusion|unet|(^|[^a-z])snr([^a-z]|$)|timestep_sampling|noise_(offset|scheduler)|loss_q\d"
    r"|(^|[^a-z])(policy|actor|critic|advantages?|discriminator|generator)([^a-z]|$)"
)


def standstill(signals: Signals, loss: Curve) -> Ignorance | None:
    """Why a loss that does not fall is that of a model that learns nothing; None where nothing says so."""
    value = loss.value
    if len(loss) < VERY_FEW or value.min() < 0 < value.max() or _end(value) == 0:
        return None
    if rewarded(signals) or _flat_by_nature(signals):
        return None
    if (nothing := _nothing_right(signals, loss)) is not None or len(loss) < FEW:
        return nothing
    return _of_epochs(signals, loss) if _means(signals, loss) else _of_single_batches(signals, loss)


def scores_at_rest(signals: Signals) -> tuple[Curve, str] | None:
    """The accuracy of evaluation, where nothing else is logged than shares of samples that are right, all of them low
    and none higher at the end; and the reason in words."""
    known = list(_accuracies(signals))
    tested = [curve for curve in known if curve.series.role == "val_metric"]
    if not tested or len(known) < 2:
        return None
    for curve in known:
        start = float(np.median(curve.value[: max(len(curve) // 3, 1)]))
        if curve.value.max() > FEW_RIGHT or _end(curve.value) > (1 + SCORED * CLEAR) * start:
            return None
    most = max(float(curve.value.max()) for curve in known)
    return tested[0], f"no more than {most:.1%} are ever right, by {' and '.join(curve.name for curve in known[:2])}"


def nothing_told_apart(signals: Signals) -> Ignorance | None:
    """Detection whose loss of classes stays where it was after the first epoch while hardly an object is ever found."""
    found = next((c for c in _scores(signals) if _PRECISION.search(c.name.lower())), None)
    if found is None or len(found) < LONG or found.value.max() > HARDLY * (100.0 if found.value.max() > 1 else 1.0):
        return None
    for curve in signals.every_curve():
        if not _OF_CLASSES.search(curve.name.lower()) or curve.series.role not in (None, "train_loss"):
            continue
        part = usable(curve)
        if len(part) >= LONG and _end(part.value) >= LEFT * part.value[1] > 0:
            most = f"{found.name} never exceeds {found.value.max():.2g} in {len(found)} evaluations"
            return Ignorance(
                0, None, f"{part.name} is {_end(part.value) / part.value[1]:.0%} of what it was, and {most}"
            )
    return None


def _of_epochs(signals: Signals, loss: Curve) -> Ignorance | None:
    """Means over epochs that end where they began, or rest where scores say that nothing was learnt."""
    value = loss.value
    if (chance := at_chance(value[1:], COMMON_CLASSES, NEAR_CHANCE, NEAR_CHANCE, share=1.0)) is not None:
        return guessing(chance)
    level = abs(_end(value))
    fell, many = (float(value[0]) - _end(value)) / level, len(loss) >= EPOCHS
    stood = (
        many
        and loss.step[0] <= FEW * loss.cadence
        and -ROSE <= fell <= FELL
        and _crept(value[1:]) <= FELL
        and _quiet(value[1:], level)
    )
    if stood and not _learns(signals, loss, SEEN):
        side, rows = "below" if fell > 0 else "above", "epochs" if signals.axis.unit == "epoch" else "evaluations"
        return Ignorance(0, None, f"after {len(loss)} {rows} it is {abs(fell):.2%} {side} where it began")
    if _crept(value[len(value) // 3 :]) > SETTLED:
        return None
    little = many and fell <= FALLEN
    why = None
    if not _learns(signals, loss, CLEAR):
        nothing = finds_nothing(signals, FEW)
        why = f"{nothing[0].name} {nothing[1]}" if nothing else _answers_alike(signals) if little else None
    why = why or (_half_right(signals) if little and len(loss) >= LONG else None)
    near = np.abs(value - _end(value)) <= CLEAR * level
    return Ignorance(int(np.argmax(near)), None, why) if why else None


def _nothing_right(signals: Signals, loss: Curve) -> Ignorance | None:
    """A loss that stands still but for its first mean, or in an excerpt of single batches from the thousandth update
    on, while every evaluation or batch says that nothing is right: to that, counting words would put an end."""
    value = loss.value
    if _means(signals, loss):
        nothing = finds_nothing(signals, len(loss))
        if nothing is not None and np.ptp(value[1:]) <= SETTLED * abs(_end(value)):
            return Ignorance(1, None, f"{nothing[0].name} {nothing[1]}")
        return None
    if len(loss) < FEW or loss.step[0] < BEGUN or signals.axis.unit != "step":
        return None
    wrong = next((c for c in _accuracies(signals) if len(c) >= len(loss) and not c.value.any()), None)
    if wrong is None or np.ptp(value) > STILL * abs(_end(value)):
        return None
    return Ignorance(0, None, f"{wrong.name} is zero in all {len(wrong)} rows, after {int(loss.step[0]):,} updates")


def _of_single_batches(signals: Signals, loss: Curve) -> Ignorance | None:
    """Thousands of updates from the first one on that end no lower than they began, where a fall of a tenth would show
    through the noise."""
    value, third = loss.value, len(loss) // 3
    if len(loss) < POINTS or loss.cadence < UPDATES or loss.step[0] > loss.cadence or signals.axis.unit != "step":
        return None
    start, early, late = (float(np.median(part)) for part in (value[:FEW], value[:third], value[-third:]))
    error = 1.2533 * _noise(value) * math.sqrt(2 / third)
    if late <= 0 or 2 * error > SHOWS * late or abs(early - late) > 2 * error or start - late > SEEN * late:
        return None
    if _learns(signals, loss, SEEN):
        return None
    updates = f"{int(loss.step[-1] - loss.step[0]):,} updates"
    return Ignorance(0, None, f"after {updates} it is as high as at first, though a fall by {SHOWS:.0%} would show")


def _flat_by_nature(signals: Signals) -> bool:
    """Whether the log speaks of what leaves most of a loss in place: noise that is to be told, as in diffusion, a game
    of two, or a policy."""
    names = [curve.name for curve in signals.every_curve()] + [key for key, _ in stated(signals)]
    return any(_BY_NATURE.search(name.lower()) for name in names)


def _means(signals: Signals, loss: Curve) -> bool:
    """Whether each point of the loss is a mean over an epoch, or over what lies between two evaluations."""
    if signals.axis.unit == "epoch":
        return True
    return any(len(c) >= BESIDE * len(loss) for c in signals.curves("val_loss") + signals.curves("val_metric"))


def _learns(signals: Signals, loss: Curve, share: float) -> bool:
    """Whether a validation loss falls by this share, or a score rises, or has nothing left to gain."""
    tested = (c for c in validation_curves(signals) if c.series != loss.series and len(c) >= FEW)
    fall = any(_gains(float(c.value[0]) - _end(c.value), c.value, share) for c in tested)
    return fall or any(_better(curve, share) for curve in _scores(signals))


def _better(curve: Curve, share: float) -> bool:
    start, end = float(curve.value[1]), _end(curve.value)
    if not higher_is_better(curve):
        return _gains(start - end, curve.value, share)
    solved = any(SOLVED * best <= end <= best for best in (1.0, 100.0))
    return solved or (end > NOTHING and _gains(end - start, curve.value, SCORED * share))


def _gains(gain: float, value: Floats, share: float) -> bool:
    return gain > max(share * abs(float(value[0])), 3 * _noise(value))


def _answers_alike(signals: Signals) -> str | None:
    """A score that comes out as one value again and again, to more digits than two models share by chance."""
    for curve in (c for c in _scores(signals) if c.series.role == "val_metric"):
        value = curve.value[1:]
        seen, times = np.unique(value, return_counts=True)
        most = int(times.max())
        if most >= max(SAME, AGAIN * len(value)) and not np.array_equal(value, np.round(value, DECIMALS)):
            again = float(seen[times.argmax()])
            return f"{curve.name} is exactly {again:.5g} in {most} of {len(value)} evaluations: one answer for all"
    return None


def _half_right(signals: Signals) -> str | None:
    """Accuracies little above one half at best that have come to rest as well."""
    late = [curve.value[len(curve) // 3 :] for curve in _accuracies(signals)]
    if not late or per_token(signals) or any(v.max() > HALF_RIGHT or _crept(v) > SCORED * CLEAR for v in late):
        return None
    return f"no more than {max(float(v.max()) for v in late):.1%} are right, and no more towards the end"


def _scores(signals: Signals) -> Iterator[Curve]:
    for curve in (*signals.curves("val_metric"), *signals.unmapped):
        scored = usable(curve)
        if len(scored) >= FEW and _SCORE.search(curve.name.lower()):
            yield scored


def _accuracies(signals: Signals) -> Iterator[Curve]:
    return (curve for curve in _scores(signals) if _RIGHT.search(curve.name.lower()))


def _crept(value: Floats) -> float:
    """How far the first and the last third of the values lie apart, as a share of their level."""
    late = _end(value)
    return abs(float(np.median(value[: max(len(value) // 3, 1)])) - late) / max(abs(late), 1e-300)


def _quiet(value: Floats, level: float) -> bool:
    """Whether hardly any noise can hide a fall."""
    low, high = np.quantile(value, (0.05, 0.95))
    return bool(_noise(value) <= QUIET * level and high - low <= WIDE * level)


def _noise(value: Floats) -> float:
    """Standard deviation by the mean move from point to point; the median one is nothing where most values repeat."""
    return float(np.mean(np.abs(np.diff(value)))) * math.sqrt(math.pi) / 2


def _end(value: Floats) -> float:
    return float(np.median(value[-max(len(value) // 3, 1) :]))
