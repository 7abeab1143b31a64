"""The excursions of the training loss, named once, so that each loss detector reports its own share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trainforensics.model import Evidence, Finding, NotApplicable
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.evaluations import condense, higher_is_better, validation_curves
from trainforensics.signals.excursions import MIN_POINTS, excursions
from trainforensics.signals.extremes import absurd_falls, surges_beyond
from trainforensics.signals.few import (
    burst_among_few,
    burst_at_start,
    bursts_of_means,
    climb_to_end,
    leap_at_end,
    setback,
    step_among_few,
)
from trainforensics.signals.measure import Excursion
from trainforensics.signals.parts import part_adds
from trainforensics.signals.precursors import RISING, companions, excursions_of, precursors
from trainforensics.signals.rises import earlier_wobble, sustained_rise
from trainforensics.signals.run import Signals
from trainforensics.signals.running import running_mean
from trainforensics.signals.starts import above_start, leap_at_start, overshoot_at_start, surge_at_start
from trainforensics.signals.structure import FEWEST_STAGE, announced, ramps
from trainforensics.signals.task import adversarial, is_distance, rewarded

# What the loss kinds look at beside the loss; declared by each of them, since derived signals are shared. Of every
# series: parts of the loss, which have names of their own.
USES = (*RISING, "epoch", "learning_rate", "loss_scale", "loss_weight", "reward", "stage", "*")
RANGE_DECADES = 2.0  # no warm-up lasts for the whole run, and none starts at a hundredth and grows by a factor
RESTART_POINTS = 32  # logged points before a rise in which a restart of the learning rate explains it
RUN_AWAY = 1000.0  # the square of 30: returns that grow as much in one run are told by a reward
REWEIGHTED = 0.1  # of the largest weight: by less no loss changes its course
# Of a climb to the end of the log: points, standard errors, p-value, share of the level, multiples of earlier wobbles.
SLOW_POINTS, SLOW_Z, SLOW_P, SLOW_SIZE, SLOW_WOBBLE = 5, 8.0, 1e-3, 0.1, 3.0
FEWEST_CLIMB, SHORT_Z, SHORT_P, SHORT_SIZE = 8, 6.0, 0.01, 0.3  # the same for fewer points than an excursion needs
FEWEST, FEWEST_TO_LEAP = 5, 3  # points of a loss that tell anything; a leap of the last beside steady ones
MOST_SURE = 20.0  # noise widths that a few smooth points can prove
DIP_LOW, DIP_HIGH, USUAL = 0.3, 0.6, 0.75  # of the jump: what is down, what is up; share of the points before it
STEP_POINTS = 2  # the same for a burst
HABIT = 0.05  # share of all points: what one batch in twenty does all along is the nature of the data
UNHABITUAL = 2.0  # times the usual height of such bursts
MOST_ENDS = 32  # that a later life replaced and that are judged; a run with more restarts than that judges the highest
GROWN = 1.2  # times the score before
EVALUATIONS = 3  # before and after a step that tell whether validation shares it
CURE = 1.3  # a learning rate back at up to this factor of one that the run knows is no news


@dataclass(frozen=True, slots=True)
class LossEvent:
    """One excursion on the step axis of the run."""

    curve: Curve
    excursion: Excursion
    onset_step: int
    before_step: int
    knee_step: int
    peak_step: int
    end_step: int
    peak: float
    rolled_back: bool  # the run was restarted from before it: the judged curve no longer holds it

    @property
    def crest(self) -> float:
        """The level at the peak: that of one point, or the median of as many as the climb was judged by."""
        e, value = self.excursion, self.curve.only_finite().value
        around = value[max(0, e.peak - e.scale // 2) : e.peak + (e.scale + 1) // 2]
        return float(np.median(around)) if len(around) else self.peak

    @property
    def late(self) -> float:
        """The level at the end of the log: the median of the last 16 points that belong to the climb."""
        e = self.excursion
        return float(np.median(self.curve.only_finite().value[max(e.onset, e.end - 15) : e.end + 1]))

    @property
    def lasting(self) -> bool:
        """Never again below half of its height: a divergence."""
        return not self.excursion.returned

    @property
    def sudden(self) -> bool:
        """Within a few logged points."""
        return self.excursion.shape == "burst"


def loss_events(signals: Signals) -> tuple[LossEvent, ...]:
    """Excursions of the training loss that structure does not explain, by onset."""
    return signals.derive(("loss-events",), lambda: _loss_events(signals))


def unjudgeable(signals: Signals) -> NotApplicable | None:
    """Why the training loss has no excursions to speak of, if so."""
    curve = signals.curve("train_loss")
    if curve is None:
        return NotApplicable("no training loss is logged", "the training loss at every step")
    if adversarial(curve) and not _critic_runs_away(signals, curve):
        return NotApplicable(f"{curve.name} is of a game or a critic and has no trend to leave", "a metric of quality")
    if _range_test(signals):
        return NotApplicable("the learning rate grows exponentially to the end: a range test", "")
    few = curve.value[curve.finite]
    if len(few) < FEWEST and not (len(few) >= FEWEST_TO_LEAP and leap_at_end(few)):
        return NotApplicable(f"only {len(few)} points of {curve.name}", "the training loss more often")
    return None


def _critic_runs_away(signals: Signals, curve: Curve) -> bool:
    """Whether the loss of a critic, with no reward logged that it could follow, is far beyond all that it was in the
    first third of the log, its untrained start included, and still growing."""
    value = curve.value[curve.finite]
    part = len(value) // 6
    if "critic" not in curve.name.lower() or rewarded(signals) or part < FEWEST_CLIMB:
        return False
    late, last = float(np.median(value[-2 * part : -part])), float(np.median(value[-part:]))
    return last > late and last > RUN_AWAY * float(np.abs(value[: 2 * part]).max())


def _range_test(signals: Signals) -> bool:
    """Whether the run only tries learning rates: they grow by a constant factor a step, over two decades at least."""
    rate = signals.curve("learning_rate")
    if rate is None or len(rate) < MIN_POINTS or not (rate.value > 0).all():
        return False
    logarithm, step = np.log10(rate.value), rate.step.astype(np.float64)
    grown = float(logarithm[-1] - logarithm[0])
    straight = logarithm[0] + grown * (step - step[0]) / max(step[-1] - step[0], 1.0)
    return grown >= RANGE_DECADES and bool(np.abs(logarithm - straight).max() < 0.05 * grown)


def _loss_events(signals: Signals) -> tuple[LossEvent, ...]:
    curve = signals.curve("train_loss")
    if curve is None or unjudgeable(signals) is not None:
        return ()
    mean = running_mean(signals, curve)
    if mean is not None and mean.throughout:
        if mean.behind is None:  # a mean wanders by itself
            return tuple(_on(curve, absurd_falls(curve.value[curve.finite])))
        curve = mean.behind
    finite = curve.value[curve.finite]
    events = [e for e in _on(curve, excursions_of(signals, curve)) if not _constructed(signals, curve, e)]
    if adversarial(curve):
        return tuple(event for event in events if event.lasting)
    events = _unfinished(_without_habit(events, len(finite)), len(finite))
    judged = not is_distance(curve) and not rewarded(signals) and mean is None  # by how it stands to its start
    judged = judged and not _score_grows(signals, int(curve.step[0]))
    leap = (leap_at_start(finite) or surge_at_start(finite)) if judged else None
    if leap is not None:
        events = [*_on(curve, (leap,)), *(e for e in events if e.excursion.onset > leap.peak)]
    if not events and judged:
        events = [e for e in _on(curve, surges_beyond(finite)) if not _constructed(signals, curve, e)]
    if not events and judged and (above := above_start(finite)) is not None:
        events = [e for e in _on(curve, (above,)) if not _constructed(signals, curve, e)]
    if not events and (rise := slow_rise(curve.only_finite())) is not None:
        events = [e for e in _on(curve, (rise,)) if not _constructed(signals, curve, e)]
    if not events and judged and signals.axis.unit == "epoch":
        events = [e for e in _on(curve, bursts_of_means(finite)) if not _constructed(signals, curve, e)]
    if not events and judged and (back := setback(curve.only_finite())) is not None:
        events = [e for e in _on(curve, (back,)) if not _constructed(signals, curve, e)]
    if not events and (plain := _among_few(signals, curve, finite)) is not None:
        events = [e for e in _on(curve, (plain,)) if not _constructed(signals, curve, e)]
    events += _on(curve, absurd_falls(finite))
    for view in curve.rolled_back(MOST_ENDS):
        lost = (event for event in _on(view, excursions(view), rolled_back=True) if _replaced(event, curve))
        events += [event for event in lost if not _seen(event, events)]
    return tuple(event for event in sorted(events, key=lambda e: e.onset_step) if not _warm_restart(signals, event))


def _among_few(signals: Signals, curve: Curve, finite: Floats) -> Excursion | None:
    """What stands out at a glance where excursions need more points: of a whole log of few, or of the first three."""
    if len(finite) < MIN_POINTS and (found := step_among_few(finite) or burst_among_few(finite)) is not None:
        return found
    if len(finite) < MIN_POINTS and (found := climb_to_end(finite) or leap_at_end(finite)) is not None:
        return found
    if (found := overshoot_at_start(finite)) is not None:
        return found
    shared = _validation_at(signals, curve.only_finite())
    return burst_at_start(finite, shared) if shared is not None else None


def _validation_at(signals: Signals, curve: Curve) -> Floats | None:
    """The validation loss at the steps of a curve, NaN where none is; shape (n,)."""
    whole = (c.only_finite() for c in validation_curves(signals) if c.series.domain is None)
    evaluated = next((c for c in whole if len(c)), None)
    if evaluated is None:
        return None
    at = np.minimum(np.searchsorted(evaluated.step, curve.step), len(evaluated) - 1)
    return np.where(evaluated.step[at] == curve.step, evaluated.value[at], np.nan)


def slow_rise(curve: Curve) -> Excursion | None:
    """A climb from the minimum to the end that no window sees whole, as a validation loss would show it; None where the
    loss, as at most 100 medians, does not rise beyond doubt."""
    points = condense(curve)
    rise = sustained_rise(points, SLOW_POINTS) if len(points) >= FEWEST_CLIMB else None
    z, p, size = (SLOW_Z, SLOW_P, SLOW_SIZE) if len(points) >= MIN_POINTS else (SHORT_Z, SHORT_P, SHORT_SIZE)
    if rise is None or rise.z < z or rise.trend_p > p or rise.relative < size:
        return None
    if rise.level - rise.low < SLOW_WOBBLE * earlier_wobble(points, rise.best):
        return None
    onset, peak, height = int(points.index[rise.onset]), int(points.index[rise.peak]), rise.level - rise.low
    late = points.value[rise.onset :]
    climbing = bool(np.median(late[-3:]) > np.median(late) + 0.1 * height)
    return Excursion(
        shape="rise",
        onset=onset,
        knee=onset,
        peak=peak,
        half=len(curve) - 1,
        end=len(curve) - 1,
        rise=max(peak - onset, 1),
        height=height,
        sigma=height / min(rise.z, MOST_SURE),
        before=rise.low,
        after=rise.level,
        recovery="diverging" if climbing else "unrecovered",
        returned=False,
        scale=len(curve) // len(points),
    )


def _constructed(signals: Signals, curve: Curve, event: LossEvent) -> bool:
    """Whether the course belongs to how the loss is made rather than to the training."""
    finite = curve.only_finite()
    mean = running_mean(signals, curve)
    if mean is not None and mean.begins(event.excursion.onset):
        return True
    if event.sudden and announced(signals, event.before_step - STEP_POINTS * curve.cadence, event.onset_step):
        return True
    if event.lasting and event.excursion.recovery != "diverging" and _score_grows(signals, event.before_step):
        return True
    if event.sudden and event.lasting and ends_dip(finite.value, event.excursion):
        return True
    if _joined(signals, curve, event) or (event.sudden and event.lasting and _validation_gains(signals, event)):
        return True
    return not event.sudden and (rewarded(signals) or bool(ramps(finite)) or _reweighted(signals, event))


def _without_habit(events: list[LossEvent], n: int) -> list[LossEvent]:
    """The events without bursts that come so often, in every third of the log, that some batches are simply harder than
    others; a burst of twice their height stays."""
    bursts = [e for e in events if _passing(e)]
    thirds = np.bincount([3 * e.excursion.onset // n for e in bursts], minlength=3)
    if len(bursts) < HABIT * n or thirds.min() < len(bursts) / 6:
        return events
    highest = UNHABITUAL * float(np.median([e.excursion.height for e in bursts]))
    return [e for e in events if not _passing(e) or e.excursion.height >= highest]


def _unfinished(events: list[LossEvent], n: int) -> list[LossEvent]:
    """The events, the last of them as one that the log ends within, where it is a burst that others like it took longer
    to come back from than the log goes on."""
    if not events or not (events[-1].sudden and events[-1].lasting):
        return events
    last = events[-1].excursion
    like = (e.excursion for e in events[:-1] if _passing(e) and e.excursion.height > last.height / 2)
    longest = max((e.half - e.peak for e in like), default=0)
    if not longest or n - 1 - last.peak > longest or last.recovery == "diverging":
        return events
    return [*events[:-1], replace(events[-1], excursion=replace(last, recovery="ongoing", returned=True))]


def _passing(event: LossEvent) -> bool:
    """Whether it is a burst that came back, or may yet."""
    return event.sudden and (event.excursion.returned or event.excursion.recovery == "ongoing")


def _joined(signals: Signals, curve: Curve, event: LossEvent) -> bool:
    """Whether a part joined the loss where it rose, up to the length of the climb earlier where it is phased in."""
    if not event.excursion.returned and event.excursion.recovery == "diverging":
        return False
    first = min(event.before_step, 2 * event.onset_step - event.peak_step)
    return part_adds(signals, curve, (first, event.peak_step), event.peak - event.excursion.before)


def ends_dip(value: Floats, e: Excursion) -> bool:
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


def _score_grows(signals: Signals, step: int) -> bool:
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


def _validation_gains(signals: Signals, event: LossEvent) -> bool:
    """Whether evaluations beyond the step are better than those before it, as no weights gone astray make them."""
    if event.excursion.recovery == "diverging":
        return False
    curves = [curve for curve in validation_curves(signals) if curve.series.domain is None]
    around = [
        (curve.value[curve.step <= event.before_step], curve.value[curve.step >= event.peak_step]) for curve in curves
    ]
    told = [(before[-EVALUATIONS:], after) for before, after in around if min(len(before), len(after)) >= EVALUATIONS]
    return bool(told) and all(float(np.median(after)) < float(before.min()) for before, after in told)


def _reweighted(signals: Signals, event: LossEvent) -> bool:
    """Whether a part of the loss was given more weight on the way up: annealing by plan."""
    for weight in signals.curves("loss_weight"):
        first, last = weight.at(event.before_step), weight.at(event.peak_step)
        if first < 0 or (not event.excursion.returned and event.excursion.recovery == "diverging"):
            continue
        steps = np.diff(weight.value[first : last + 1])
        raised = float(weight.value[last] - weight.value[first])
        if (steps >= 0).all() and raised > REWEIGHTED * float(np.abs(weight.value).max()):
            return True
    return False


def _on(curve: Curve, found: tuple[Excursion, ...], rolled_back: bool = False) -> list[LossEvent]:
    finite = curve.only_finite()
    ends_in_nan = not np.isfinite(curve.value[-1])
    return [_place(curve, finite, _run_away(e) if ends_in_nan else e, rolled_back) for e in found]


def _run_away(e: Excursion) -> Excursion:
    """An excursion that the log leaves unfinished because what follows is not finite never came back."""
    return replace(e, recovery="diverging") if e.recovery == "ongoing" and not e.returned else e


def _replaced(event: LossEvent, judged: Curve) -> bool:
    """Whether the event lies in points that a later life logged again."""
    here, there = event.curve.at(event.onset_step), judged.at(event.onset_step)
    return bool(event.curve.segment[here] != judged.segment[there])


def _seen(event: LossEvent, events: list[LossEvent]) -> bool:
    return any(known.before_step <= event.onset_step <= known.end_step for known in events)


def _place(curve: Curve, finite: Curve, e: Excursion, rolled_back: bool) -> LossEvent:
    step = finite.step
    return LossEvent(
        curve,
        e,
        onset_step=int(step[e.onset]),
        before_step=int(step[max(e.onset - 1, 0)]),
        knee_step=int(step[e.knee]),
        peak_step=int(step[e.peak]),
        end_step=int(step[e.end]),
        peak=float(finite.value[e.peak]),
        rolled_back=rolled_back,
    )


def _warm_restart(signals: Signals, event: LossEvent) -> bool:
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
    stays = not event.sudden or float(np.median(rate.value[last : last + RESTART_POINTS])) > 2 * float(
        rate.value[trough]
    )
    return risen > 2 * float(rate.value[trough]) and risen <= CURE * known and stays


def finding(signals: Signals, kind: str, event: LossEvent, onset_step: int, confidence: float, summary: str) -> Finding:
    """A finding with the evidence that all loss kinds share."""
    e = event.excursion
    rows = (height(event), *companions(signals, onset_step), *(_validation(signals, event) if event.lasting else ()))
    return Finding(
        kind=kind,
        series=event.curve.name,
        role="train_loss",
        onset_step=onset_step,
        confidence=confidence,
        summary=summary,
        onset_interval=(event.before_step, event.onset_step) if onset_step == event.onset_step else None,
        occurrences=(onset_step,),
        segment=int(event.curve.segment[max(event.curve.at(onset_step), 0)]),
        peak_step=event.peak_step,
        end_step=None if (event.lasting or e.recovery == "unrecovered") and not event.rolled_back else event.end_step,
        recovery=e.recovery,
        evidence=rows,
        precursors=precursors(signals, onset_step),
    )


def height(event: LossEvent) -> Evidence:
    """How far an event went above the level it came from, as a row of evidence."""
    e = event.excursion
    text = f"{e.widths} noise widths above the level before" if np.isfinite(e.z) else "above a level without noise"
    if e.scale > 1:
        text = f"median of {e.scale} points, {text}"
    return Evidence(event.curve.name, event.peak_step, event.crest, e.before, text)


def _validation(signals: Signals, event: LossEvent) -> tuple[Evidence, ...]:
    """What validation came to by the end, for a loss that never came back."""
    curve = signals.curve("val_loss")
    curve = curve.only_finite() if curve is not None else None
    before, last = (-1, -1) if curve is None else (curve.at(event.before_step), len(curve) - 1)
    if curve is None or not 0 <= before < last:
        return ()
    text = f"the last evaluation, against the one of step {int(curve.step[before])}"
    return (Evidence(curve.name, int(curve.step[last]), float(curve.value[last]), float(curve.value[before]), text),)


def certainty(z: float, corroborated: bool) -> float:
    """Confidence from the height in noise widths: 0.75 at 6, 0.95 at 20; a companion that moved halves the doubt."""
    doubt = 0.25 if not np.isfinite(z) else 0.25 * min(1.0, (6.0 / max(z, 6.0)) ** 1.33)
    return round(1 - (doubt / 2 if corroborated else doubt), 3)


def settles(event: LossEvent) -> str:
    """How a sentence says what became of it."""
    e = event.excursion
    if e.returned and e.recovery == "unrecovered":
        return f"it came back in part and stands at {e.after:.4g} to the end"
    return {
        "recovered": "it came back to its trend",
        "partial": "it came back most of the way",
        "unrecovered": "it never came back",
        "diverging": "it never came back and climbs to the end",
        "ongoing": "the log ends within it",
    }[e.recovery]
