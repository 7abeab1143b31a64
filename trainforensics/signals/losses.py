"""The excursions of the training loss, named once, so that each loss detector reports its own share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trainforensics.model import NotApplicable
from trainforensics.signals.confounders import constructed, score_grows, scores_gain, warm_restart
from trainforensics.signals.curve import Curve
from trainforensics.signals.evaluations import condense, validation_curves
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
from trainforensics.signals.games import decided, towering, towering_sides
from trainforensics.signals.habit import by_nature
from trainforensics.signals.loss_event import LossEvent, placed
from trainforensics.signals.measure import Excursion
from trainforensics.signals.precursors import excursions_of
from trainforensics.signals.recurrences import shard_bursts
from trainforensics.signals.rises import earlier_wobble, sustained_rise
from trainforensics.signals.run import Signals
from trainforensics.signals.running import running_mean
from trainforensics.signals.starts import above_start, leap_at_start, overshoot_at_start, surge_at_start
from trainforensics.signals.task import adversarial, is_distance, rewarded

RANGE_DECADES = 2.0  # no warm-up lasts for the whole run, and none starts at a hundredth and grows by a factor
RUN_AWAY = 1000.0  # the square of 30: returns that grow as much in one run are told by a reward
# Of a climb to the end of the log: points, standard errors, p-value, share of the level, multiples of earlier wobbles.
SLOW_POINTS, SLOW_Z, SLOW_P, SLOW_SIZE, SLOW_WOBBLE = 5, 8.0, 1e-3, 0.1, 3.0
FEWEST_CLIMB, SHORT_Z, SHORT_P, SHORT_SIZE = 8, 6.0, 0.01, 0.3  # the same for fewer points than an excursion needs
FEWEST, FEWEST_TO_LEAP = 5, 3  # points of a loss that tell anything; a leap of the last beside steady ones
MOST_SURE = 20.0  # noise widths that a few smooth points can prove
HABIT = 0.05  # share of all points: what one batch in twenty does all along is the nature of the data
FEWEST_SHARED, SHARED = 5, 0.1  # steps between rows; what training moves the loss by in one interval
SMALL, SMALL_HABIT = 0.25, 0.02  # of the level: heights of which one batch in fifty is enough for that
NEARLY = 0.1  # of a height, and of the level before it: what is left of one that came back
UNHABITUAL = 2.0  # times the usual height of such bursts
MOST_ENDS = 32  # that a later life replaced and that are judged; a run with more restarts than that judges the highest


def loss_events(signals: Signals) -> tuple[LossEvent, ...]:
    """Excursions of the training loss that structure does not explain, by onset."""
    return signals.derive(("loss-events",), lambda: _loss_events(signals))


def unjudgeable(signals: Signals) -> NotApplicable | None:
    """Why the training loss has no excursions to speak of, if so."""
    curve = signals.curve("train_loss")
    if curve is None:
        return NotApplicable("no training loss is logged", "the training loss at every step")
    if adversarial(curve) and not _is_told(signals, curve):
        return NotApplicable(f"{curve.name} is of a game or a critic and has no trend to leave", "a metric of quality")
    if _range_test(signals):
        return NotApplicable("the learning rate grows exponentially to the end: a range test", "")
    few = curve.value[curve.finite]
    if len(few) < FEWEST and not (len(few) >= FEWEST_TO_LEAP and leap_at_end(few)):
        return NotApplicable(f"only {len(few)} points of {curve.name}", "the training loss more often")
    return None


def _begins_with_a_share(curve: Curve) -> bool:
    """Whether the rows of the first step hold what one step adds to a mean over the interval of logging."""
    rows = int(np.searchsorted(curve.step, curve.step[0], side="right")) if len(curve) else 0
    if not 0 < rows < len(curve) or curve.cadence < FEWEST_SHARED:
        return False
    share = float(curve.value[rows]) / max(float(np.median(curve.value[:rows])), 1e-300)
    return abs(share / curve.cadence - 1) < SHARED


def _is_told(signals: Signals, curve: Curve) -> bool:
    """Whether the loss of a game shows what no game does that goes on."""
    towers = towering(signals, curve.only_finite()) is not None
    return towers or decided(signals) is not None or _critic_runs_away(signals, curve)


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
    if mean is not None and mean.behind is not None:
        curve = mean.behind
    elif mean is not None and mean.throughout:  # a mean wanders by itself
        return tuple(placed(curve, absurd_falls(curve.value[curve.finite])))
    finite = curve.only_finite()
    value = finite.value

    def told(found: tuple[Excursion, ...]) -> list[LossEvent]:
        return [event for event in placed(curve, found) if not constructed(signals, curve, event)]

    events = told(excursions_of(signals, curve))
    if adversarial(curve):
        lasting = [e for e in events if e.lasting] if _critic_runs_away(signals, curve) else []
        if (game := decided(signals)) is not None:
            lasting = placed(game[0], (game[1],))
        return (*lasting, *placed(curve, _one(towering(signals, finite))))
    events = [e for e in events if not (e.excursion.returned and by_nature(value, e.excursion))]
    events = [_as_it_stands(e) for e in _unfinished(_without_habit(events, len(value)), len(value))]
    judged = not is_distance(curve) and not rewarded(signals) and mean is None  # by how it stands to its start
    judged = judged and not score_grows(signals, int(curve.step[0])) and not _begins_with_a_share(finite)
    leap = (leap_at_start(value) or surge_at_start(value)) if judged else None
    for start in placed(curve, (leap,)) if leap is not None else ():
        if not scores_gain(signals, start):
            events = [start, *(e for e in events if e.excursion.onset > start.excursion.peak)]
    events = events or next(filter(None, map(told, _plain(signals, finite, judged))), [])
    events += placed(curve, absurd_falls(value))
    events += [event for event in told(shard_bursts(signals, finite)) if not _seen(event, events)]
    if not events and (side := towering_sides(signals, finite)) is not None:
        events = placed(side[0], (side[1],))
    for view in curve.rolled_back(MOST_ENDS):
        lost = (event for event in placed(view, excursions(view), rolled_back=True) if _replaced(event, curve))
        events += [event for event in lost if not _seen(event, events)]
    return tuple(event for event in sorted(events, key=lambda e: e.onset_step) if not warm_restart(signals, event))


def _plain(signals: Signals, curve: Curve, judged: bool) -> Iterator[tuple[Excursion, ...]]:
    """What shows at a glance where nothing stands out of the noise, one look after another, of a finite curve; `judged`
    by how it stands to its start, too."""
    value = curve.value
    if judged:
        yield surges_beyond(value)
        yield _one(above_start(value))
    yield _one(_slow_rise(curve))
    if judged and signals.axis.unit == "epoch":
        yield bursts_of_means(value)
    if judged:
        yield _one(setback(curve))
    few = len(value) < MIN_POINTS and not _begins_with_a_share(curve)
    found = (
        (step_among_few(value) or burst_among_few(value) or climb_to_end(value) or leap_at_end(value)) if few else None
    )
    yield _one(found or overshoot_at_start(value) or _shared_at_start(signals, curve))


def _one(found: Excursion | None) -> tuple[Excursion, ...]:
    return () if found is None else (found,)


def _shared_at_start(signals: Signals, curve: Curve) -> Excursion | None:
    """A burst within the first points that the validation loss at the same steps shares."""
    whole = (c.only_finite() for c in validation_curves(signals) if c.series.domain is None)
    evaluated = next((c for c in whole if len(c)), None)
    if evaluated is None:
        return None
    at = np.minimum(np.searchsorted(evaluated.step, curve.step), len(evaluated) - 1)
    return burst_at_start(curve.value, np.where(evaluated.step[at] == curve.step, evaluated.value[at], np.nan))


def _slow_rise(curve: Curve) -> Excursion | None:
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
    return Excursion.plain(
        curve.value,
        onset,
        peak,
        before=rise.low,
        after=rise.level,
        sigma=height / min(rise.z, MOST_SURE),
        recovery="diverging" if climbing else "unrecovered",
        shape="rise",
        rise=max(peak - onset, 1),
        height=height,
        scale=len(curve) // len(points),
    )


def _without_habit(events: list[LossEvent], n: int) -> list[LossEvent]:
    """The events without bursts that come so often, in every third of the log, that some batches are simply harder than
    others; a burst of twice their height stays."""
    bursts = [e for e in events if _passing(e)]
    thirds = np.bincount([3 * e.excursion.onset // n for e in bursts], minlength=3)
    heights = [(e.peak - e.excursion.before) / max(abs(e.excursion.before), 1e-300) for e in bursts]
    habit = SMALL_HABIT if np.median(heights or [0.0]) < SMALL else HABIT
    if len(bursts) < habit * n or thirds.min() < len(bursts) / 6:
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


def _as_it_stands(event: LossEvent) -> LossEvent:
    """The event, as one that came back where the log ends at the level before it all the same."""
    level = event.excursion.before
    left = event.late - level
    if event.excursion.recovery != "unrecovered" or left > NEARLY * min(event.crest - level, abs(level)):
        return event
    return replace(event, excursion=replace(event.excursion, returned=True, recovery="recovered"))


def _passing(event: LossEvent) -> bool:
    """Whether it is a burst that came back, or may yet."""
    return event.sudden and (event.excursion.returned or event.excursion.recovery == "ongoing")


def _replaced(event: LossEvent, judged: Curve) -> bool:
    """Whether the event lies in points that a later life logged again."""
    here, there = event.curve.at(event.onset_step), judged.at(event.onset_step)
    return bool(event.curve.segment[here] != judged.segment[there])


def _seen(event: LossEvent, events: list[LossEvent]) -> bool:
    return any(known.before_step <= event.onset_step <= known.end_step for known in events)
