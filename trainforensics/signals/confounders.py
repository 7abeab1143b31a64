"""What lifts the training loss though training goes on well: schedules, what the loss is made of, sums that grow."""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import higher_is_better, validation_curves
from trainforensics.signals.habit import begins_a_window, of_smaller_batch
from trainforensics.signals.loss_event import LossEvent
from trainforensics.signals.measure import Excursion
from trainforensics.signals.parts import part_adds
from trainforensics.signals.run import Signals
from trainforensics.signals.running import running_mean
from trainforensics.signals.scores import accuracy_gains
from trainforensics.signals.structure import FEWEST_STAGE, announced, ramps
from trainforensics.signals.task import rewarded

RESTART_POINTS = 32  # logged points before a rise in which a restart of the learning rate explains it
STEP_POINTS = 2  # the same for a burst
CURE = 1.3  # a learning rate back at up to this factor of one that the run knows is no news
REWEIGHTED = 0.1  # of the largest weight: by less no loss changes its course
DIP_LOW, DIP_HIGH, USUAL = 0.3, 0.6, 0.75  # of the jump: what is down, what is up; share of the points before it
GROWN = 1.2  # times the score before
EVALUATIONS = 3  # before and after a step that tell whether validation shares it


def constructed(signals: Signals, curve: Curve, event: LossEvent) -> bool:
    """Whether the course belongs to how the loss is made rather than to the training."""
    finite = curve.only_finite()
    mean = running_mean(signals, curve)
    if mean is not None and mean.begins(event.excursion.onset):
        return True
    if event.sudden and announced(signals, event.before_step - STEP_POINTS * curve.cadence, event.onset_step):
        return True
    if event.lasting and event.excursion.recovery != "diverging" and score_grows(signals, event.before_step):
        return True
    if event.sudden and event.lasting and _ends_dip(finite.value, event.excursion):
        return True
    if _joined(signals, curve, event) or begins_a_window(signals, curve, event.excursion):
        return True
    if event.sudden and of_smaller_batch(signals, curve, event.excursion):
        return True
    if scores_gain(signals, event) or _validation_gains(signals, event):
        return True
    return _reweighted(signals, event) or (not event.sudden and (rewarded(signals) or bool(ramps(finite))))


def warm_restart(signals: Signals, event: LossEvent) -> bool:
    """Whether the rise is the price of a scheduled restart: the learning rate climbed back to a level known before.

    A burst only counts as that where the rate leapt with it and stayed up.
    """
    rate = signals.curve("learning_rate")
    if rate is None or event.lasting:
        return False
    rate = rate.only_finite()
    points = STEP_POINTS if event.sudden else RESTART_POINTS
    reach = max(event.peak_step - event.onset_step, points * event.curve.cadence)
    first, last = max(rate.at(event.onset_step - reach), 0), rate.at(event.peak_step)
    if last <= first:
        return False
    trough = first + int(np.argmin(rate.value[first : last + 1]))
    risen, known = float(rate.value[trough : last + 1].max()), float(rate.value[: trough + 1].max())
    low, since = 2 * float(rate.value[trough]), rate.value[last : last + RESTART_POINTS]
    return low < risen <= CURE * known and (not event.sudden or float(np.median(since)) > low)


def _joined(signals: Signals, curve: Curve, event: LossEvent) -> bool:
    """Whether a part joined the loss where it rose, up to the length of the climb earlier where it is phased in."""
    if event.excursion.recovery == "diverging":
        return False
    first = min(event.before_step, 2 * event.onset_step - event.peak_step)
    return part_adds(signals, curve, (first, event.peak_step), event.peak - event.excursion.before)


def _ends_dip(value: Floats, e: Excursion) -> bool:
    """Whether the loss only comes back to where it had been nearly all along, after a fall as sudden as the jump."""
    if not np.isfinite(e.before + e.after) or e.after <= e.before:
        return False
    low, high = e.before + DIP_LOW * (e.after - e.before), e.before + DIP_HIGH * (e.after - e.before)
    above = np.flatnonzero(value[: e.onset] > high)
    if not len(above) or e.onset - above[-1] < FEWEST_STAGE:
        return False
    fell = int(above[-1]) + 1
    sudden = bool(np.any(value[fell : fell + FEWEST_STAGE] < low))
    return sudden and fell > e.onset - fell and float(np.mean(value[:fell] > high)) > USUAL


def score_grows(signals: Signals, step: int) -> bool:
    """Whether an evaluated score goes on to get better after a step, as no model gone astray makes it: the loss is then
    a sum, of ever more or longer samples."""
    for curve in validation_curves(signals, "val_metric"):
        at = max(curve.at(step), 0)
        last = curve.value[at + 1 :][-(len(curve) // 3) :]
        if len(last) < EVALUATIONS or not higher_is_better(curve):
            continue
        before = float(curve.value[at])
        if last.min() > before and float(np.median(last)) > GROWN * max(before, 0.0):
            return True
    return False


def _risen(event: LossEvent) -> int:
    """Step from which the loss is up: of a climb its middle."""
    return event.peak_step if event.sudden else (event.onset_step + event.peak_step) // 2


def scores_gain(signals: Signals, event: LossEvent) -> bool:
    """Whether ever more answers were right while the loss was up: it is taken over more, or weighed otherwise."""
    if event.sudden and not event.lasting:
        return False
    return accuracy_gains(signals, event.onset_step, _risen(event), max(event.end_step, event.peak_step))


def _validation_gains(signals: Signals, event: LossEvent) -> bool:
    """Whether evaluations while the loss was up, of one that never came back to the end of the log, are better than all
    before it, as no weights gone astray make them: what training is asked for got harder."""
    if event.sudden and (not event.lasting or event.excursion.recovery == "diverging"):
        return False
    first, last = _risen(event), max(event.end_step, event.peak_step)
    curves = [curve for curve in validation_curves(signals) if curve.series.domain is None]
    around = [
        (c.value[c.step <= event.before_step], c.value[(c.step >= first) & (event.lasting | (c.step <= last))])
        for c in curves
    ]
    told = [(before[-EVALUATIONS:], up) for before, up in around if min(len(before), len(up)) >= EVALUATIONS]
    return bool(told) and all(
        max(float(np.median(up)), float(np.median(up[-EVALUATIONS:]))) < float(before.min()) for before, up in told
    )


def _reweighted(signals: Signals, event: LossEvent) -> bool:
    """Whether a part of the loss was given more weight on the way up: annealing by plan."""
    for weight in signals.curves("loss_weight"):
        first, last = weight.at(event.before_step), weight.at(event.peak_step)
        if first < 0 or event.excursion.recovery == "diverging":
            continue
        steps = np.diff(weight.value[first : last + 1])
        raised = float(weight.value[last] - weight.value[first])
        if (steps >= 0).all() and raised > REWEIGHTED * float(np.abs(weight.value).max()):
            return True
    return False
