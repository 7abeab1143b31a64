"""Non-finite values told apart once for all detectors: to the end of the log, for a while, or beside a finite loss.

Each happening becomes one `Episode` of one kind, so that several detectors never speak of the same NaN. A NaN can hide:
a filter turns the loss into zero or repeats it while the gradient norm is NaN, and some trainers leave the loss out of
the row. Not every NaN is a fault either: rows of another sort, averages that one NaN entered, metrics with an empty
denominator, and gradients that a loss scaler skips are set aside here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainforensics.model import Recovery, Series
from trainforensics.signals.curve import Bools, Curve, Ints
from trainforensics.signals.rows import MIN_ROWS, loss_like, missing_rows, real_rows, with_rows
from trainforensics.signals.run import Signals
from trainforensics.signals.scale import at_growth, loss_scale, low_precision, skipped_by_scaler
from trainforensics.signals.stretches import at_steps, lasting_start, stretches
from trainforensics.signals.stuck import hidden_points, stuck

EpisodeKind = Literal["nan-onset", "transient-nan", "grad-nan"]
Disguise = Literal["", "filtered", "missing", "message"]

# Series that live and die with the weights; any other one may be NaN for reasons of its own.
STATE_ROLES = (
    "grad_norm", "param_norm", "update_norm", "update_ratio", "optimizer_state_norm", "activation_norm",
    "activation_mean", "activation_std", "activation_max", "attention_entropy", "attention_logit_max",
)  # fmt: skip
OFTEN = 2  # stretches without a number that went by
MIN_LIFE = 3  # bad points at the end of a process life that was started again
SKIP_ROWS = 20  # a scaler's search or a short burst; longer is not a normal skip
START_ROWS = 5  # a search for the loss scale that the log does not show
PROBES = 10  # rows for each overflow that a scaler may find by growing its scale: windows are longer still
MOVES = 0.8  # of the rows, at which a learning rate moves that is set anew with each update
BY_CONSTRUCTION = 0.05  # share of points above which an auxiliary series is NaN by its making
_NAN_MESSAGE = re.compile(r"\bloss\b.{0,30}\b(is|was|became|=|:)\s*['\"]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One happening. `onsets` are the steps where it begins (several where it recurs), `before` the last good step.

    `end` is the last bad step, None where it lasts to the end of the log. `series` went bad first, with `value`;
    `others` are further series with the step at which each went bad. `points` counts bad points of the speaking series.
    """

    kind: EpisodeKind
    series: Series
    onsets: tuple[int, ...]
    before: int | None
    end: int | None
    value: float
    points: int
    segment: int
    disguise: Disguise = ""
    rank: int | None = None
    component: bool = False
    recovery: Recovery | None = None
    others: tuple[tuple[Series, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Bad:
    """A curve with its bad points: where they are, and how they are dressed."""

    curve: Curve
    mask: Bools
    disguise: Disguise = ""

    @property
    def first(self) -> int:
        return int(np.argmax(self.mask))


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
    free = [_without(bad, onset) for bad in losses]
    found += _transients(signals, free, onset)
    found += _gradients(signals, losses, found)
    return tuple(sorted(found, key=lambda episode: episode.onsets[0]))


# --- the loss ----------------------------------------------------------------------------------------------------


def _losses(signals: Signals) -> list[Curve]:
    """The curves that speak for the training loss: the primary one and those of single ranks."""
    curves = signals.curves("train_loss")
    ranked = [c for c in curves if c.series.rank is not None and c.series.layer is None and c.series.expert is None]
    primary = signals.curve("train_loss")
    if primary is None or primary.series in [c.series for c in ranked]:
        return ranked
    whole = any(c.series == primary.series for c in curves)
    return [primary, *ranked] if whole else ranked


def _in_its_place(signals: Signals) -> list[_Bad]:
    """What tells of the weights of a policy, where no training loss is logged: other losses and the KL.

    Not the reward, which is also NaN while no episode ends; nor what was NaN from the start, unless no loss ever was a
    number.
    """
    losses = loss_like(signals)
    curves = [*losses, *(c for c in signals.curves("kl") if c.series.rank is None)]
    if losses and not any(curve.finite.any() for curve in losses):
        return [_Bad(curve, ~curve.finite) for curve in losses]
    return [_Bad(curve, mask) for curve in curves if len(mask := ~curve.finite) and not mask[0]]


def _bad_loss(signals: Signals, curve: Curve) -> _Bad:
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
        return _Bad(curve, mask, disguise)
    at = np.searchsorted(curve.step, missing)
    return _Bad(with_rows(curve, missing), np.insert(mask, at, True), disguise or "missing")


def _onset(signals: Signals, losses: list[_Bad]) -> Episode | None:
    """The loss is bad to the end of the log: where it began, in the series that went bad first."""
    ends = [(bad, start) for bad in losses if (start := lasting_start(_last_life(bad))) is not None]
    ends = [(bad, start) for bad, start in ends if not _one_of_many(bad, start)]
    whole = [(bad, start) for bad, start in ends if not _contradicted(signals, bad, start)]
    if not whole:
        return None
    steps = [int(bad.curve.step[start]) for bad, start in whole]
    loss_step = min(steps)
    leaders = [bad for (bad, _), step in zip(whole, steps, strict=True) if step == loss_step]
    spoken, start = whole[int(np.argmin(steps))]
    ranks = [bad.curve.series.rank for bad in leaders if bad.curve.series.rank is not None]
    ranked = sum(bad.curve.series.rank is not None for bad in losses)
    rank = ranks[0] if len(ranks) == 1 and ranked > 1 else None
    if rank is not None:
        spoken, start = next((b, s) for b, s in whole if b.curve.series.rank == rank)
    others = _went_bad(signals, spoken, loss_step)
    series, step, before = spoken.curve.series, loss_step, _before(spoken.curve, start)
    value = float(spoken.curve.value[start])
    early = [entry for entry in others if entry[1] < loss_step and entry[3]]
    if early:
        first = min(early, key=lambda entry: entry[1])
        others = [entry for entry in others if entry is not first]
        others.insert(0, (series, step, value, True, before))
        series, step, value, before = first[0], first[1], first[2], first[4]
    points = int(spoken.mask[start:].sum())
    return Episode(
        kind="nan-onset",
        series=series,
        onsets=(step,),
        before=before,
        end=None,
        value=value,
        points=points,
        segment=int(spoken.curve.segment[start]),
        disguise=spoken.disguise,
        rank=rank,
        recovery="ongoing" if points < MIN_LIFE else "unrecovered",
        others=tuple((entry[0], entry[1]) for entry in sorted(others, key=lambda entry: entry[1])),
    )


def _one_of_many(bad: _Bad, start: int) -> bool:
    """Whether the loss came back from two stretches or more that were no shorter than the one in which the log ends."""
    first, last = stretches(bad.mask[:start])
    longest = np.sort(last - first + 1)[-OFTEN:]
    return len(longest) == OFTEN and int(longest[0]) >= len(bad.mask) - start


def _last_life(bad: _Bad) -> Bools:
    """The mask with the bad points of earlier process lives taken out: those are over, unless the next life began
    bad, as one does that loads what is broken, or that merely goes on in another file."""
    if not len(bad.curve):
        return bad.mask
    begins = np.append(0, np.flatnonzero(np.diff(bad.curve.segment)) + 1)
    sound = begins[~bad.mask[begins]]
    return bad.mask & (np.arange(len(bad.mask)) >= (sound[-1] if len(sound) else 0))


def _before(curve: Curve, index: int) -> int | None:
    return int(curve.step[index - 1]) if index > 0 else None


def _contradicted(signals: Signals, bad: _Bad, start: int) -> bool:
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


def _went_bad(signals: Signals, spoken: _Bad, loss_step: int) -> list[tuple[Series, int, float, bool, int | None]]:
    """Other series bad to their end: series, first bad step, value there, whether it is a state, the step before."""
    found = []
    state = {id(curve) for curve in _states(signals)}
    for curve in signals.every_curve():
        if curve.series == spoken.curve.series or not len(curve) or curve.finite.all():
            continue
        start = lasting_start(~curve.finite)
        if start is None or (start == 0 and curve.step[0] < loss_step):
            continue
        entry = (
            curve.series,
            int(curve.step[start]),
            float(curve.value[start]),
            id(curve) in state,
            _before(curve, start),
        )
        found.append(entry)
    return found


def _lost_lives(losses: list[_Bad], onset: Episode | None) -> list[Episode]:
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
                before=_before(view, start),
                end=int(view.step[-1]),
                value=float(view.value[start]),
                points=len(view) - start,
                segment=life,
                disguise=bad.disguise,
                rank=view.series.rank,
                recovery="recovered",
            )
    return list(found.values())


def _told(signals: Signals, losses: list[_Bad]) -> Episode | None:
    """A message that the loss is NaN, with no finite loss after it: the run stopped before it logged the value."""
    last = max((int(bad.curve.step[-1]) for bad in losses if len(bad.curve)), default=None)
    for event in signals.events:
        if event.kind in {"error", "warning", "traceback"} and _NAN_MESSAGE.search(event.text):
            step = event.step if event.step is not None else last
            if step is None or last is None or step < last or not losses:
                continue
            curve = losses[0].curve
            return Episode(
                "nan-onset", curve.series, (step,), last, None, float("nan"), 1, int(curve.segment[-1]), "message",
                event.rank, recovery="ongoing",
            )  # fmt: skip
    return None


def _without(bad: _Bad, onset: Episode | None) -> _Bad:
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
    return _Bad(bad.curve, mask, bad.disguise)


def _transients(signals: Signals, losses: list[_Bad], onset: Episode | None) -> list[Episode]:
    """The loss, of the whole or of a rank, was bad and came back; else one of its components did."""
    bad = [entry for entry in map(_without_placeholder, losses) if entry.mask.any() and not entry.mask.all()]
    component = False
    if not bad and onset is None:
        component = True
        bad = [entry for curve in loss_like(signals) if (entry := _bad_component(signals, curve, losses))]
    if not bad:
        return []
    bad.sort(key=lambda entry: int(entry.curve.step[entry.first]))
    lead = bad[0]
    ranks = {entry.curve.series.rank for entry in bad if entry.curve.series.rank is not None}
    rank = ranks.pop() if len(ranks) == 1 and len(losses) > 1 else None
    first, last = _union(bad)
    others = [(entry.curve.series, int(entry.curve.step[entry.first])) for entry in bad[1:]]
    others += _near(signals, lead.curve, first)
    start = lead.first
    return [
        Episode(
            "transient-nan", lead.curve.series, tuple(first.tolist()), _before(lead.curve, start), int(last[-1]),
            float(lead.curve.value[start]), int(lead.mask.sum()), int(lead.curve.segment[start]), lead.disguise, rank,
            component, "recovered", tuple(others[:8]),
        )
    ]  # fmt: skip


def _without_placeholder(bad: _Bad) -> _Bad:
    """A lone NaN in the very first row is what a trainer prints before it has trained."""
    mask = bad.mask.copy()
    if len(mask) > 1 and mask[0] and not mask[1]:
        mask[0] = False
    return _Bad(bad.curve, mask, bad.disguise)


def _bad_component(signals: Signals, curve: Curve, losses: list[_Bad]) -> _Bad | None:
    if any(curve.series == bad.curve.series for bad in losses):
        return None
    found = _seldom(real_rows(signals, curve))
    return None if found is None or found.mask[-1] else found


def _seldom(curve: Curve) -> _Bad | None:
    """Bad points of an auxiliary series where they are rare and it was finite first; None where NaN is its making."""
    mask = ~curve.finite
    rare = len(curve) >= 20 and bool(mask.any()) and mask.mean() <= BY_CONSTRUCTION and not mask[:5].any()
    return _Bad(curve, mask) if rare and len(stretches(mask)[0]) <= 3 else None


def _union(bad: list[_Bad]) -> tuple[Ints, Ints]:
    """First and last steps of the stretches in which any of the curves is bad."""
    firsts, lasts = [], []
    for entry in bad:
        first, last = stretches(entry.mask)
        firsts.append(entry.curve.step[first])
        lasts.append(entry.curve.step[last])
    first, last = np.concatenate(firsts), np.concatenate(lasts)
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    cadence = bad[0].curve.cadence
    fresh = np.append(True, first[1:] - reach[:-1] > cadence) if len(first) else np.empty(0, bool)
    return first[fresh], reach[np.append(np.flatnonzero(fresh)[1:] - 1, len(first) - 1)]


def _near(signals: Signals, lead: Curve, onsets: Ints) -> list[tuple[Series, int]]:
    """States that are bad at or right before one of the onsets."""
    found = []
    for curve in _states(signals):
        steps = curve.step[~curve.finite]
        hit = steps[np.isin(steps, onsets)] if len(steps) else steps
        if len(hit) and curve.series != lead.series:
            found.append((curve.series, int(hit[0])))
    return found


# --- other series ------------------------------------------------------------------------------------------------


def _states(signals: Signals) -> list[Curve]:
    return [curve for role in STATE_ROLES for curve in signals.curves(role)]


def _gradients(signals: Signals, losses: list[_Bad], known: list[Episode]) -> list[Episode]:
    """States that are not finite while the loss is, where no scaler took care of it: one episode with all onsets."""
    bad = []
    for curve in _states(signals):
        mask = ~curve.finite
        if not mask.any():
            continue
        if curve.series.role != "grad_norm":
            seldom = _seldom(curve)
            lasting = lasting_start(mask)
            if seldom is None and (lasting is None or lasting < MIN_ROWS):
                continue
        mask = mask & ~_claimed(signals, curve.step, losses, known)
        mask = _own_faults(signals, curve, mask, losses)
        if mask.any():
            bad.append(_Bad(curve, mask))
    bad += _second_losses(signals, losses, known)
    if not bad:
        return []
    bad.sort(key=lambda entry: (int(entry.curve.step[entry.first]), entry.curve.series.layer is not None))
    lead = bad[0]
    first, last = _union(bad)
    lasts = any(entry.mask[-1] for entry in bad)
    ranks = {entry.curve.series.rank for entry in bad}
    start = lead.first
    return [
        Episode(
            "grad-nan", lead.curve.series, tuple(first.tolist()), _before(lead.curve, start),
            None if lasts else int(last[-1]), float(lead.curve.value[start]), int(lead.mask.sum()),
            int(lead.curve.segment[start]), "", next(iter(ranks)) if len(ranks) == 1 else None, False,
            "ongoing" if lasts else "recovered",
            tuple((entry.curve.series, int(entry.curve.step[entry.first])) for entry in bad[1:9]),
        )
    ]  # fmt: skip


def _second_losses(signals: Signals, losses: list[_Bad], known: list[Episode]) -> list[_Bad]:
    """Further losses that die while the one that speaks lives on, unless a NaN of that one entered their average."""
    found = []
    for curve in loss_like(signals):
        start = lasting_start(~curve.finite)
        if start is None or start < MIN_ROWS or len(curve) - start < MIN_LIFE:
            continue
        if any(curve.series == bad.curve.series or bad.mask.any() for bad in losses):
            continue
        mask = (np.arange(len(curve)) >= start) & ~_claimed(signals, curve.step, losses, known)
        if mask[start]:
            found.append(_Bad(curve, mask))
    return found


def _claimed(signals: Signals, step: Ints, losses: list[_Bad], known: list[Episode]) -> Bools:
    """Steps at which the loss itself is bad or stands still, or that lie in an episode known already."""
    still = stuck(signals)
    claimed = step >= (still.curve.step[still.first] if still is not None else np.iinfo(np.int64).max)
    for episode in known:
        if episode.kind == "nan-onset":
            end = episode.end if episode.end is not None else np.iinfo(np.int64).max
            claimed |= (step >= episode.onsets[0]) & (step <= end)
    for bad in losses:
        # the gradient of a bad step may be logged a row later
        first, last = stretches(bad.mask)
        if len(first) and bad.mask.any():
            ceiling = bad.curve.step[np.minimum(last + 1, len(bad.curve) - 1)]
            at = np.searchsorted(bad.curve.step[first], step, side="right") - 1
            claimed |= (at >= 0) & (step <= ceiling[np.clip(at, 0, None)])
    return claimed


def _own_faults(signals: Signals, curve: Curve, mask: Bools, losses: list[_Bad]) -> Bools:
    """The bad stretches of a state that mean something."""
    if mask.all() and _still_learns(losses):
        return np.zeros(len(mask), dtype=bool)  # never computed at all
    first, last = stretches(mask)
    if not len(first):
        return mask
    kept = np.ones(len(first), dtype=bool)
    short = last - first < SKIP_ROWS
    often = len(first) > BY_CONSTRUCTION * len(mask) and len(first) > START_ROWS  # no matter of the start
    kept &= (first > 0) | (last >= START_ROWS) | (last == len(mask) - 1) | often
    kept &= ~(short & skipped_by_scaler(signals, curve.step[first], curve.step[last]))
    scale = loss_scale(signals)
    if scale is not None and scale.decay is not None:
        until = scale.decay.steps[-1] if scale.decay.recovery == "recovered" else np.iinfo(np.int64).max
        start = scale.decay.before if scale.decay.before is not None else scale.decay.steps[0]
        kept &= ~((curve.step[first] >= start) & (curve.step[first] <= until))
    if scale is not None and scale.dynamic and len(first) * PROBES <= len(curve):
        kept &= ~((last == first) & np.isposinf(curve.value[first]))  # probes that fail between two rows
    kept &= ~(short & _rate_waited(signals, curve, first))
    late = kept & (first > 0)
    if scale is None and at_growth(curve.step[first[late]], curve.cadence):
        kept &= ~(short & ((first == 0) | late))
    if low_precision(signals):
        kept &= ~((first == 0) & short & (last < len(curve) - 1))
        spaced = len(curve) > 0 and len(first) * 500 <= int(curve.step[-1]) - int(curve.step[0])
        if spaced and (scale is None or not scale.dynamic):
            kept &= last != first  # the scale is not logged: rare single steps are its back-offs
    if _averaged(signals, curve, first, last):
        last = first
    shown = np.zeros(len(mask) + 1, dtype=int)
    np.add.at(shown, first[kept], 1)
    np.add.at(shown, last[kept] + 1, -1)
    return np.cumsum(shown[:-1]) > 0


def _rate_waited(signals: Signals, curve: Curve, first: Ints) -> Bools:
    """Whether the learning rate, which moves from row to row, stood still at the rows `first` (indices): a scaler that
    skips an update leaves the schedule where it was."""
    rate = signals.curve("learning_rate")
    if rate is None or len(curve) < MIN_ROWS:
        return np.zeros(len(first), dtype=bool)
    moved = np.diff(at_steps(rate, curve.step)) != 0
    waited = np.append(False, ~moved)[first]
    return waited if float(np.mean(moved)) >= MOVES else np.zeros(len(first), dtype=bool)


def _still_learns(losses: list[_Bad]) -> bool:
    """Whether the loss falls over the log, which it cannot do on gradients that are not numbers."""
    for bad in losses[:1]:
        value = bad.curve.value[bad.curve.finite]
        third = len(value) // 3
        if third >= 2:
            early, late = value[:third], value[-third:]
            noise = float(np.median(np.abs(late - np.median(late)))) + 1e-12
            return bool(np.median(early) - np.median(late) > 2 * noise)
    return False


def _averaged(signals: Signals, curve: Curve, first: Ints, last: Ints) -> bool:
    """Whether a second series of the same thing is finite meanwhile: the NaN then lives on in an average only."""
    origin = (curve.series.role, curve.series.rank, curve.series.layer)
    for other in signals.curves(curve.series.role or ""):
        if other is curve or (other.series.role, other.series.rank, other.series.layer) != origin:
            continue
        inside = at_steps(other, curve.step[first[0] : last[0] + 1])
        if len(inside) > 1 and np.mean(np.isfinite(inside)) > 0.5:
            return True
    return False
