"""Non-finite values told apart once for all detectors: to the end of the log, for a while, or beside a finite loss.

Each happening becomes one `Episode` of one kind, so that several detectors never speak of the same NaN. A NaN can hide:
a filter turns the loss into zero or repeats it while the gradient norm is NaN, and some trainers leave the loss out of
the row. Not every NaN is a fault either: rows of another sort, averages that one NaN entered, metrics with an empty
denominator, and gradients that a loss scaler skips are set aside here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from trainforensics.model import Series
from trainforensics.signals.curve import Bools, Curve
from trainforensics.signals.episodes import (
    MIN_LIFE,
    MOST_OTHERS,
    Bad,
    Disguise,
    Episode,
    recurring,
    seldom,
    states,
    step_before,
)
from trainforensics.signals.overflows import overflows
from trainforensics.signals.rows import loss_like, missing_rows, real_rows, with_rows
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import at_steps, lasting_start, stretches
from trainforensics.signals.stuck import hidden_points, stuck

_NAN_ITERATIONS = re.compile(r"nan[ _]?(iter|step|loss)|loss[ _]?nan")
OFTEN = 2  # stretches without a number that went by
_NAN_MESSAGE = re.compile(r"\bloss\b.{0,30}\b(is|was|became|=|:)\s*['\"]?(nan|inf)", re.IGNORECASE)
_NAN_LOSS = re.compile(r"\b(nan|inf(inite)?|non-?finite)\b(/\w+)?( or \w+)? (\w+ )?loss\b", re.IGNORECASE)


FEWEST_BEFORE = 3  # numbers that show that a series of unknown meaning is one


@dataclass(frozen=True, slots=True, eq=False)
class _Death:
    """A curve that is bad from index `start` to its end."""

    curve: Curve
    start: int

    @property
    def step(self) -> int:
        return int(self.curve.step[self.start])


def nonfinite(signals: Signals) -> tuple[Episode, ...]:
    """Every episode of the run, by onset."""
    return signals.derive(("nonfinite",), lambda: _episodes(signals))


@np.errstate(all="ignore")
def _episodes(signals: Signals) -> tuple[Episode, ...]:
    losses = [_bad_loss(signals, curve) for curve in _losses(signals)]
    onset = _onset(signals, losses or _in_its_place(signals))
    found = [onset] if onset else []
    found += _lost_lives(losses, onset)
    if not onset and (told := _told(signals, losses)):
        found.append(told)
    passing = _transient(signals, [_without(bad, onset) for bad in losses], onset)
    if (passing := passing or _skipped(signals, losses, onset)) is not None:
        found.append(passing)
    if (beside := overflows(signals, losses, found)) is not None:
        found.append(beside)
    return tuple(sorted(found, key=lambda episode: episode.onsets[0]))


def _losses(signals: Signals) -> list[Curve]:
    """The curves that speak for the training loss: the primary one and those of single ranks."""
    curves = signals.curves("train_loss")
    ranked = [c for c in curves if c.series.rank is not None and c.series.layer is None and c.series.expert is None]
    primary = signals.curve("train_loss")
    if primary is None or primary.series in [c.series for c in ranked]:
        return ranked
    whole = any(c.series == primary.series for c in curves)
    return [primary, *ranked] if whole else ranked


def _in_its_place(signals: Signals) -> list[Bad]:
    """What tells of the weights of a policy, where no training loss is logged: other losses and the KL.

    Not the reward, which is also NaN while no episode ends; nor what was NaN from the start, unless no loss ever was a
    number.
    """
    losses = loss_like(signals)
    curves = [*losses, *_divergences(signals)]
    if losses and not any(curve.finite.any() for curve in losses):
        return [Bad(curve, ~curve.finite) for curve in losses]
    known = [Bad(curve, mask) for curve in curves if len(mask := ~curve.finite) and not mask[0]]
    return known or _together(signals)


def _divergences(signals: Signals) -> list[Curve]:
    """The KL divergences of the run, which overflow where a policy gives an action no chance at all."""
    return [curve for curve in signals.curves("kl") if curve.series.rank is None]


def _together(signals: Signals) -> list[Bad]:
    """Series of no known meaning of which several turn bad at one step and stay so: the losses of a log that names them
    by their parts. Empty where fewer than two do."""
    ends = [(Bad(c, ~c.finite), start) for c in signals.unmapped if (start := lasting_start(~c.finite)) is not None]
    steps = [int(bad.curve.step[start]) for bad, start in ends if start >= FEWEST_BEFORE]
    first = min((step for step in steps if steps.count(step) > 1), default=None)
    return [bad for bad, start in ends if start >= FEWEST_BEFORE and int(bad.curve.step[start]) == first]


def _bad_loss(signals: Signals, curve: Curve) -> Bad:
    curve = real_rows(signals, curve)
    mask = ~curve.finite
    gradient = signals.curve("grad_norm")
    disguise: Disguise = ""
    if gradient is not None and not gradient.finite.all():
        hidden = hidden_points(curve, at_steps(gradient, curve.step))
        if hidden.any():
            disguise, mask = "filtered", mask | hidden
    still = stuck(signals)
    if still is not None and still.reason == "filter" and still.curve.series == curve.series:
        disguise = "filtered"
        mask = mask | ((curve.step >= still.curve.step[still.first]) & (curve.value == still.value))
    missing = missing_rows(signals, curve)
    if not len(missing):
        return Bad(curve, mask, disguise)
    at = np.searchsorted(curve.step, missing)
    return Bad(with_rows(curve, missing), np.insert(mask, at, True), disguise or "missing")


def _onset(signals: Signals, losses: list[Bad]) -> Episode | None:
    """The loss is bad to the end of the log: where it began, in the series that went bad first."""
    ends = [(bad, start) for bad in losses if (start := lasting_start(_last_life(bad))) is not None]
    ends = [(bad, start) for bad, start in ends if not _one_of_many(bad, start)]
    whole = [(bad, start) for bad, start in ends if not _contradicted(signals, bad, start)]
    if not whole:
        return None
    spoken, start = min(whole, key=lambda end: end[0].curve.step[end[1]])
    step = int(spoken.curve.step[start])
    leaders = [end for end in whole if end[0].curve.series.rank is not None and end[0].curve.step[end[1]] == step]
    alone = len(leaders) == 1 and sum(bad.curve.series.rank is not None for bad in losses) > 1
    if alone:
        spoken, start = leaders[0]
    own = _Death(spoken.curve, start)
    others = [death for death in _deaths(signals, spoken) if death.start or death.step >= step]
    state = {id(curve) for curve in states(signals)}
    early = [death for death in others if death.step < step and id(death.curve) in state]
    first = min(early, key=lambda death: death.step, default=own)
    later = sorted((death for death in (own, *others) if death is not first), key=lambda death: death.step)
    points = int(spoken.mask[start:].sum())
    return Episode(
        kind="nan-onset",
        series=first.curve.series,
        onsets=(first.step,),
        before=step_before(first.curve, first.start),
        end=None,
        value=float(first.curve.value[first.start]),
        points=points,
        segment=int(spoken.curve.segment[start]),
        recovery="ongoing" if points < MIN_LIFE else "unrecovered",
        disguise=spoken.disguise,
        rank=spoken.curve.series.rank if alone else None,
        others=tuple((death.curve.series, death.step) for death in later),
    )


def _one_of_many(bad: Bad, start: int) -> bool:
    """Whether the loss came back from two stretches or more that were no shorter than the one in which the log ends."""
    first, last = stretches(bad.mask[:start])
    longest = np.sort(last - first + 1)[-OFTEN:]
    return len(longest) == OFTEN and int(longest[0]) >= len(bad.mask) - start


def _last_life(bad: Bad) -> Bools:
    """The mask with the bad points of earlier process lives taken out: those are over, unless the next life began
    bad, as one does that loads what is broken, or that merely goes on in another file."""
    if not len(bad.curve):
        return bad.mask
    begins = np.append(0, np.flatnonzero(np.diff(bad.curve.segment)) + 1)
    sound = begins[~bad.mask[begins]]
    return bad.mask & (np.arange(len(bad.mask)) >= (sound[-1] if len(sound) else 0))


def _contradicted(signals: Signals, bad: Bad, start: int) -> bool:
    """Whether another account of the whole training loss stays finite where this one is bad."""
    if bad.curve.series.rank is not None or bad.disguise:
        return False
    step = int(bad.curve.step[start])
    for other in signals.curves("train_loss"):
        if other.series == bad.curve.series or other.series.domain is not None or other.series.rank is not None:
            continue
        later = other.step > step
        if later.sum() >= MIN_LIFE and other.finite[later].all() and np.ptp(other.value[later]) > 0:
            return True
    return False


def _deaths(signals: Signals, spoken: Bad) -> list[_Death]:
    """Where other series turned bad to their end."""
    found = []
    for curve in signals.every_curve():
        if curve.series != spoken.curve.series and len(curve) and not curve.finite.all():
            start = lasting_start(~curve.finite)
            found += [_Death(curve, start)] if start is not None else []
    return found


def _lost_lives(losses: list[Bad], onset: Episode | None) -> list[Episode]:
    """Earlier process lives whose loss was bad to their end, before the `onset`: the run was started again."""
    found: dict[int, Episode] = {}
    for bad in losses:
        ends = np.flatnonzero(np.diff(bad.curve.segment))
        ends = ends[~bad.curve.finite[ends] & (onset is None or bad.curve.step[ends] < onset.onsets[0])]
        views = [bad.curve.take(np.arange(end + 1)) for end in ends]
        for view in (*views, *bad.curve.rolled_back()):
            life = int(view.segment[-1])
            start = lasting_start(~view.finite & (view.segment == life))
            if start is None or len(view) - start < MIN_LIFE or life in found:
                continue
            found[life] = Episode(
                kind="nan-onset",
                series=view.series,
                onsets=(int(view.step[start]),),
                before=step_before(view, start),
                end=int(view.step[-1]),
                value=float(view.value[start]),
                points=len(view) - start,
                segment=life,
                disguise=bad.disguise,
                rank=view.series.rank,
                recovery="recovered",
            )
    return list(found.values())


def _told(signals: Signals, losses: list[Bad]) -> Episode | None:
    """A message that the loss is NaN, with no finite loss after it: the run stopped before it logged the value."""
    last = max((int(bad.curve.step[-1]) for bad in losses if len(bad.curve)), default=None)
    for event in signals.events:
        if event.kind in {"error", "warning", "traceback"} and _NAN_MESSAGE.search(event.text):
            step = event.step if event.step is not None else last
            if step is None or last is None or step < last or not losses:
                continue
            curve = losses[0].curve
            return Episode(
                kind="nan-onset",
                series=curve.series,
                onsets=(step,),
                before=last,
                end=None,
                value=float("nan"),
                points=1,
                segment=int(curve.segment[-1]),
                recovery="ongoing",
                disguise="message",
                rank=event.rank,
            )
    return None


def _skipped(signals: Signals, losses: list[Bad], onset: Episode | None) -> Episode | None:
    """Messages that updates were left out because the loss was NaN, or a count of such iterations, of which no row
    tells, with a finite loss after."""
    messages = (_NAN_LOSS, _NAN_MESSAGE)
    said = [e for e in signals.events if e.kind == "update-skipped" and any(m.search(e.text) for m in messages)]
    if not losses or onset is not None:
        return None
    curve = losses[0].curve
    told = {event.step for event in said if event.step is not None} | _counted(signals)
    steps = sorted(step for step in told if step <= curve.step[-1])
    if not steps:
        return None
    at = int(np.searchsorted(curve.step, steps[0]))
    return Episode(
        kind="transient-nan",
        series=curve.series,
        onsets=tuple(steps),
        before=step_before(curve, at),
        end=steps[-1],
        value=float("nan"),
        points=len(steps),
        segment=int(curve.segment[at]),
        recovery="recovered",
        disguise="message",
        rank=said[0].rank if said else None,
    )


def _counted(signals: Signals) -> set[int]:
    """Steps of rows that count iterations whose loss was NaN."""
    counts = (c for c in signals.curves("nan_count") if _NAN_ITERATIONS.search(c.name.lower()))
    return {int(step) for curve in counts for step in curve.step[curve.value > 0]}


def _without(bad: Bad, onset: Episode | None) -> Bad:
    """The bad points that belong neither to the onset nor to a life that was given up."""
    mask = bad.mask.copy()
    if onset is not None:
        mask &= bad.curve.step < onset.onsets[0]
    lives = np.flatnonzero(np.diff(bad.curve.segment)) if len(bad.curve) else ()
    for edge in lives:
        life = np.flatnonzero(bad.curve.segment == bad.curve.segment[edge])
        start = lasting_start(mask[life])
        if start is not None and len(life) - start >= MIN_LIFE:
            mask[life[start:]] = False
    return Bad(bad.curve, mask, bad.disguise)


def _transient(signals: Signals, losses: list[Bad], onset: Episode | None) -> Episode | None:
    """The loss, of the whole or of a rank, was bad and came back; else one of its components did."""
    bad = [entry for entry in map(_without_placeholder, losses) if entry.mask.any() and not entry.mask.all()]
    component = not bad and onset is None
    if component:
        bad = [entry for curve in loss_like(signals) if (entry := _bad_component(signals, curve, losses))]
        bad = bad or [entry for curve in _divergences(signals) if (entry := _overflown(curve))]
    if not bad:
        return None
    bad.sort(key=lambda entry: entry.first_step)
    ranks = {entry.curve.series.rank for entry in bad if entry.curve.series.rank is not None}
    rank = ranks.pop() if len(ranks) == 1 and len(losses) > 1 else None
    found = recurring("transient-nan", bad, lasts=False, rank=rank)
    others = (*found.others, *_states_near(signals, found))[:MOST_OTHERS]
    return replace(found, component=component, others=others)


def _without_placeholder(bad: Bad) -> Bad:
    """A lone NaN in the very first row is what a trainer prints before it has trained."""
    mask = bad.mask.copy()
    if len(mask) > 1 and mask[0] and not mask[1]:
        mask[0] = False
    return Bad(bad.curve, mask, bad.disguise)


def _bad_component(signals: Signals, curve: Curve, losses: list[Bad]) -> Bad | None:
    if any(curve.series == bad.curve.series for bad in losses):
        return None
    found = seldom(real_rows(signals, curve))
    return None if found is None or found.mask[-1] else found


def _overflown(curve: Curve) -> Bad | None:
    """A KL divergence that is infinite now and then: NaN may be its making, an overflow is none."""
    mask = np.isinf(curve.value)
    told = bool(mask.any()) and bool(curve.finite[0]) and bool(curve.finite[-1]) and not np.isnan(curve.value).any()
    return Bad(curve, mask) if told else None


def _states_near(signals: Signals, episode: Episode) -> list[tuple[Series, int]]:
    """States that are bad at one of the onsets."""
    found = []
    for curve in states(signals):
        steps = curve.step[~curve.finite]
        hit = steps[np.isin(steps, episode.onsets)]
        if len(hit) and curve.series != episode.series:
            found.append((curve.series, int(hit[0])))
    return found
