"""The learning rate that was applied is not a sane schedule, or not the declared one.

What it detects:
    A rate of zero while training goes on; a climb to half as much again as the warmed-up peak; a reset in mid-course
    (it falls at once and warms up again) or a jump upwards that no regular restart explains; a warm-up that begins anew
    over and over; a declared decay that never comes, that stands still in mid-course, or that turns and climbs back up;
    cuts at even distances down to next to nothing while the loss was improving before each of them; a decay that is
    over long before the log is, or a cosine that swings up and down all along: schedules planned in epochs that are
    stepped with every batch.

Why it matters:
    Where the schedule is wrong, whatever the loss does next is its effect. Where the loss does nothing, the run is
    paid for in full and learns at the wrong rate.

Evidence:
    The rate before and after with steps; the declared schedule; whether the loss left its noise afterwards (then the
    severity is high).

False positives:
    Warm-up in steps, step decays, warm-up-stable-decay, cosine to zero, cyclic rates and warm restarts from their low
    end, a few first steps at zero while a scaler searches, a range test (the rate grows over the whole log). An
    exponential decay that leaves a thousandth or more at half of the log, or that moves once an epoch, a decay that the
    loss does not mind, and cuts on a plateau are their owner's choice. A break at a process restart is
    resume-discontinuity.

Example:
    At step 650 the rate falls from 9e-4 to 3e-5 and warms up to 3e-3 a second time.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

import math
import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Recovery
from trainforensics.signals import Curve, Signals
from trainforensics.signals.batch import batch_size
from trainforensics.signals.curve import Ints
from trainforensics.signals.departure import loss_falls_after
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.precursors import excursions_of
from trainforensics.signals.restarts import restarts
from trainforensics.signals.schedule import (
    FEWEST,
    FEWEST_CUTS,
    HUGE,
    ScheduleFault,
    climb_back,
    even_cuts,
    schedule_faults,
    spent,
    stopped_decay,
    swings,
    warmed_up,
)
from trainforensics.signals.task import planned_steps

GROWN = 1.25  # least growth of a batch that a rate may follow, and the slack of the rule it follows

META = Meta(
    kind=KINDS["lr-anomaly"],
    needs=("learning_rate",),
    uses=("train_loss", "val_loss", "batch_size", "tokens_seen", "epoch", "reward"),
    params=(
        Param("decayed", 0.03, "share by which a declared cosine or linear decay must have fallen at half its length"),
        Param("spent", 1e-3, "of its peak: a rate cut so far in the first half of a log learns nothing more"),
        Param("improved", 1e-3, "of the loss: ten times what schedulers that wait for a plateau take for improvement"),
    ),
)
_DECAYS = re.compile(r"cosine|linear|polynomial")
_PLATEAU = re.compile(r"plateau")
_CYCLES = re.compile(r"restart|cycl", re.IGNORECASE)
_SCHEDULE_KEY = re.compile(r"(lr_)?sched|decay_style")
_DECAY_ENDS = ("lr_decay_iters", "lr_decay_steps")  # where a decay may end before the run does


def detect(signals: Signals, params: Params) -> Outcome:
    """One finding per fault of the schedule."""
    curve = signals.curve("learning_rate")
    points = curve.take(np.abs(curve.value) < HUGE) if curve is not None else None
    if points is None or len(points) < FEWEST:
        return NotApplicable(f"fewer than {FEWEST} finite learning rates", "log the learning rate with the loss")
    borders = [restart.step for restart in restarts(signals)]
    faults = [
        fault
        for fault in schedule_faults(points)
        if (fault.what not in ("reset", "jump") or not _at_border(points, fault, borders))
        and not _follows_batch(signals, points, fault)
        and not _rounded_away(signals, points, fault)
    ]
    if not faults:
        judges = (
            _climbs_back(signals, points),
            _stepped_per_batch(signals, points, params),
            _cut_in_vain(signals, points, params),
            _stands_still(signals, points, borders),
        )
        faults = [fault for fault in judges if fault is not None][:1]
    findings = [_finding(signals, points, fault) for fault in faults]
    if not faults and (undecayed := _never_decays(signals, points, params)) is not None:
        findings.append(undecayed)
    return Fired(tuple(findings)) if findings else Clear()


def _follows_batch(signals: Signals, points: Curve, fault: ScheduleFault) -> bool:
    """Whether the rate climbs as the batch grows, by its factor or the square root of it."""
    batch = batch_size(signals)
    if batch is None or fault.what not in ("climb", "jump") or fault.before <= 0:
        return False
    first, last = batch.at(int(points.step[max(0, fault.onset - 1)])), batch.at(int(points.step[fault.end]))
    if first < 0 or not batch.value[first] > 0:
        return False
    grown, climbed = float(batch.value[last] / batch.value[first]), fault.after / fault.before
    return grown > GROWN and grown**0.5 / GROWN <= climbed <= grown * GROWN


def _rounded_away(signals: Signals, points: Curve, fault: ScheduleFault) -> bool:
    """Whether a rate that is zero in all of the log moves the model all the same: it was printed with few decimals."""
    if fault.what != "zero" or points.value.any():
        return False
    if signals.has("reward"):
        return True
    loss = signals.curve("train_loss")
    value = np.empty(0) if loss is None else loss.value[loss.finite]
    third = len(value) // 3
    if third < FEWEST:
        return False
    early, late = float(np.median(value[:third])), float(np.median(value[-third:]))
    return early - late > 2 * robust_sigma(value[-third:])


def _at_border(points: Curve, fault: ScheduleFault, borders: list[int]) -> bool:
    return any(points.step[max(0, fault.onset - 1)] < border <= points.step[fault.onset] for border in borders)


def _finding(signals: Signals, points: Curve, fault: ScheduleFault) -> Finding:
    onset, end = int(points.step[fault.onset]), int(points.step[fault.end])
    before = int(points.step[max(0, fault.onset - 1)])
    to_the_end = fault.end == len(points) - 1
    text = {
        "zero": f"is zero from step {onset} to {end}, {fault.end - fault.onset + 1} logged points"
        + (f" (before: {fault.before:.3g})" if fault.onset else " of the run"),
        "climb": f"climbs from {fault.before:.3g} to {fault.after:.3g} from step {onset} on, after its warm-up",
        "reset": f"falls from {fault.before:.3g} to {fault.after:.3g} at step {onset} and warms up again",
        "anew": f"falls back from {fault.before:.3g} to {fault.after:.3g} at step {onset} and from there on at even "
        "distances, rising in between: its warm-up begins anew each time",
        "back": f"has decayed from {fault.before:.3g} as declared, but turns at step {onset} and climbs back to "
        f"{fault.after:.3g}",
        "cuts": f"is cut at step {onset} and at even distances from there on, from {fault.before:.3g} to "
        f"{fault.after:.3g}, although the loss was improving each time",
        "spent": f"is down to a tenth of its peak {fault.before:.3g} at step {onset} and ends at {fault.after:.3g}: "
        "its decay is over long before the log is, as if planned in epochs and stepped with every batch"
        + _by_epochs(signals, fault),
        "swings": f"swings between {fault.before:.3g} and {fault.after:.3g} as a cosine, from step {onset} on up again "
        "and again, as if planned in epochs and stepped with every batch",
        "stands": f"stands still at {fault.after:.4g} from step {onset} on, in the middle of its decay",
        "jump": f"jumps from {fault.before:.3g} to {fault.after:.3g} at step {onset}",
    }[fault.what]
    follows = _loss_follows(signals, before, end)
    lasting = fault.what in ("reset", "jump")  # the schedule that follows is not told apart from the one before
    recovery: Recovery | None = None if lasting else ("unrecovered" if to_the_end else "recovered")
    evidence = [Evidence(points.name, onset, float(points.value[fault.onset]), fault.before, text)]
    if follows is not None:
        evidence.append(follows)
    return Finding(
        kind="lr-anomaly",
        series=points.name,
        role="learning_rate",
        onset_step=onset,
        onset_interval=(before, onset),
        occurrences=(onset,),
        segment=int(points.segment[fault.onset]),
        peak_step=onset,
        end_step=None if to_the_end or lasting else end,
        recovery=recovery,
        severity="high" if follows is not None else "medium",
        confidence=0.9 if fault.what in ("zero", "reset", "anew", "back") or follows is not None else 0.75,
        summary=f"{points.name} {text}" + ("; the loss follows" if follows is not None else ""),
        evidence=tuple(evidence),
    )


def _by_epochs(signals: Signals, fault: ScheduleFault) -> str:
    """Where a geometric decay would end if its factor stood for an epoch; empty where the log does not count them."""
    epochs = signals.curve("epoch")
    if fault.factor == 1:
        return ""
    each = f" (x{fault.factor:.4g} a step"
    if epochs is None or not len(epochs) or not np.isfinite(epochs.value[-1]):
        return each + ")"
    return f"{each}; once an epoch it would end at {fault.before * fault.factor ** epochs.value[-1]:.3g})"


def _loss_follows(signals: Signals, start: int, end: int) -> Evidence | None:
    """The first excursion of the loss between the fault and, once more its length, after it."""
    loss = signals.curve("train_loss")
    if loss is None:
        return None
    steps = loss.step[loss.finite]
    limit = end + max(end - start, 10 * loss.cadence)
    for excursion in excursions_of(signals, loss):
        onset = int(steps[excursion.onset])
        if start < onset <= limit:
            text = f"{loss.name} leaves its noise at step {onset}, {onset - start} steps later"
            return Evidence(loss.name, onset, float(loss.value[loss.finite][excursion.peak]), excursion.before, text)
    return None


def _declared(signals: Signals, what: re.Pattern[str]) -> str | None:
    """The schedule that the configuration names, if it is of this sort."""
    return next(
        (str(v) for k, v in signals.config.items() if _SCHEDULE_KEY.search(k.lower()) and what.search(str(v).lower())),
        None,
    )


def _climbs_back(signals: Signals, points: Curve) -> ScheduleFault | None:
    """A declared single decay that turns: the schedule is stepped more often than it was planned for."""
    return climb_back(points) if _declared(signals, _DECAYS) and _single_decay(signals) else None


def _single_decay(signals: Signals) -> bool:
    """Whether no cycles are declared; half a cycle is the way down."""
    cycles = signals.config.get("num_cycles")
    return _declared(signals, _CYCLES) is None and not (isinstance(cycles, int | float) and cycles > 0.5)


def _stepped_per_batch(signals: Signals, points: Curve, params: Params) -> ScheduleFault | None:
    """A schedule that was planned in epochs and goes on with every batch: over too soon, or swinging all along."""
    fault = spent(points)
    if fault is not None and _declared(signals, _PLATEAU) is None:
        nothing = fault.onset + np.flatnonzero(points.value[fault.onset :] <= params["spent"] * fault.before)
        falls = len(nothing) > 0 and loss_falls_after(signals, int(points.step[nothing[0]]))
        return None if falls else fault
    return swings(points) if _single_decay(signals) else None


def _cut_in_vain(signals: Signals, points: Curve, params: Params) -> ScheduleFault | None:
    """Cuts of a scheduler that waits for a plateau where there was none, or of one far too fast for its log."""
    rate = points.value
    cuts = even_cuts(rate)
    if not len(cuts) or not _improving(signals, points.step[cuts[:FEWEST_CUTS]], params):
        return None
    half = float(rate[len(rate) // 2])
    if _declared(signals, _PLATEAU) is None and half > params["spent"] * float(rate.max()):
        return None
    first = int(cuts[0])
    return ScheduleFault("cuts", first, len(rate) - 1, float(rate[first - 1]), float(rate[-1]))


def _improving(signals: Signals, cuts: Ints, params: Params) -> bool:
    """Whether every loss that is logged was lower in the span before each cut than in the span before that."""
    curves = [c.only_finite() for role in ("val_loss", "train_loss") if (c := signals.curve(role)) is not None]
    curves = [curve for curve in curves if len(curve) >= FEWEST]
    return bool(curves) and all(_improves(curve, cuts, params) for curve in curves)


def _improves(loss: Curve, cuts: Ints, params: Params) -> bool:
    width = int(np.diff(cuts).min())
    first, last = np.searchsorted(loss.step, (cuts[0] - width, cuts[-1]))
    noise = robust_sigma(np.diff(loss.value[first:last], 2)) / math.sqrt(6)
    spans = [np.searchsorted(loss.step, (cut - 2 * width, cut - width, cut)) for cut in cuts]
    spans = spans[1:] if spans[0][0] == spans[0][1] else spans  # the first cut may have but one span before it
    for low, middle, high in spans:
        fewest = min(middle - low, high - middle)
        if not fewest:
            return False
        before, now = float(np.median(loss.value[low:middle])), float(np.median(loss.value[middle:high]))
        if before - now < max(params["improved"] * abs(before), 2 * noise / math.sqrt(fewest)):
            return False
    return True


def _stands_still(signals: Signals, points: Curve, borders: list[int]) -> ScheduleFault | None:
    """A decay that stops where the run was started again, or before the declared end."""
    fault = stopped_decay(points.value)
    if fault is None:
        return None
    step, reach = int(points.step[fault.onset]), 2 * points.cadence
    planned = next(iter(planned_steps(signals, *_DECAY_ENDS)), 0)
    early = _declared(signals, _DECAYS) is not None and planned - step > reach
    return fault if early or any(abs(border - step) <= reach for border in borders) else None


def _never_decays(signals: Signals, points: Curve, params: Params) -> Finding | None:
    """A declared cosine, linear or polynomial decay of which nothing is seen at half of the planned steps."""
    declared = _declared(signals, _DECAYS)
    planned = next(iter(planned_steps(signals, *_DECAY_ENDS)), None)
    warm, peak = warmed_up(points.value), float(points.value.max())
    last = int(points.step[-1])
    if declared is None or planned is None or last < planned / 2 or points.value[-1] < (1 - params["decayed"]) * peak:
        return None
    if peak <= 0 or float(np.ptp(points.value[warm:])) > params["decayed"] * peak or points.step[warm] > last / 2:
        return None
    onset = int(points.step[warm])
    text = f"is declared as {declared} over {planned} steps and still {points.value[-1]:.3g} at step {last}"
    return Finding(
        kind="lr-anomaly",
        series=points.name,
        role="learning_rate",
        onset_step=onset,
        onset_interval=(onset, last),
        occurrences=(onset,),
        recovery="unrecovered",
        confidence=0.7,
        summary=f"{points.name} {text}",
        evidence=(Evidence(points.name, last, float(points.value[-1]), None, text),),
    )
