"""The learning rate that was applied is not a sane schedule, or not the declared one.

What it detects:
    A rate of zero or below it while training goes on; a climb to half as much again as the warmed-up peak; a reset in
    mid-course (it falls at once and warms up again) or a jump upwards that no regular restart explains; a warm-up that
    begins anew over and over; a declared decay that never comes, that stands still in mid-course, that turns and climbs
    back up, or that comes again and again; one fall at once where a smooth decay is declared; a declared warm-up that
    is cut, never seen, or not over when all planned steps are; cuts at even distances down to next to nothing while the
    loss was improving before each of them, or set a new minimum with every point before the first of them; a decay that
    is over long before the log is, or a cosine that swings up and down all along: schedules planned in epochs that are
    stepped with every batch. A rate that leaps up and down over decades from point to point.

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

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.schedule.faults import finding
from trainforensics.detectors.schedule.plans import at_border, never_warmed, unkept, unplanned
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.batch import follows_scaling_rule
from trainforensics.signals.declared import PLATEAU, declared, single_decay
from trainforensics.signals.progress import at_its_best, improving, learns, loss_falls_after
from trainforensics.signals.restarts import restarts
from trainforensics.signals.schedule import (
    FEWEST,
    FEWEST_CUTS,
    HUGE,
    ScheduleFault,
    even_cuts,
    schedule_faults,
    spent,
    swings,
    wild,
)

META = Meta(
    kind=KINDS["lr-anomaly"],
    needs=("learning_rate",),
    uses=("train_loss", "val_loss", "batch_size", "tokens_seen", "epoch", "reward", "*"),
    params=(
        Param("decayed", 0.03, "share by which a declared cosine or linear decay must have fallen at half its length"),
        Param("spent", 1e-3, "of its peak: a rate cut so far in the first half of a log learns nothing more"),
        Param("improved", 1e-3, "of the loss: ten times what schedulers that wait for a plateau take for improvement"),
    ),
)

ADAPTIVE = 30  # points that tell a rate without a schedule
LARGE, TURNS = 0.1, 0.25  # of itself, in one move; share of moves each way


def detect(signals: Signals, params: Params) -> Outcome:
    """One finding per fault of the schedule; what only the plan or the loss shows is sought where it has none."""
    curve = signals.curve("learning_rate")
    points = curve.take(np.abs(curve.value) < HUGE) if curve is not None else None
    if points is not None and (climbing := never_warmed(signals, points)) is not None:
        return Fired((climbing,))
    if points is None or len(points) < FEWEST:
        return NotApplicable(f"fewer than {FEWEST} finite learning rates", "log the learning rate with the loss")
    if _set_anew(points):
        return NotApplicable("the learning rate follows no schedule but is set anew from step to step", "")
    borders = [restart.step for restart in restarts(signals)]
    leaping = wild(points)
    if leaping is not None:
        return Fired((finding(signals, points, leaping),))
    faults = [f for f in schedule_faults(points) if not _explained(signals, points, f, borders)]
    if not faults:
        judges = (
            unplanned(signals, points, borders),
            _stepped_per_batch(signals, points, params),
            _cut_in_vain(signals, points, params),
        )
        faults = [fault for fault in judges if fault is not None][:1]
    if faults:
        return Fired(tuple(finding(signals, points, fault) for fault in faults))
    never = unkept(signals, points, params["decayed"])
    return Fired((never,)) if never is not None else Clear()


def _set_anew(points: Curve) -> bool:
    """Whether a rate goes up and down by turns from the start of the log on, as one that follows a measured KL does."""
    value = points.value[: max(len(points) // 3, ADAPTIVE)]
    if len(value) < ADAPTIVE or value.min() <= 0:
        return False
    moves = np.diff(np.log(value))
    large = moves[np.abs(moves) > LARGE]
    return len(large) > len(moves) / 2 and TURNS < float(np.mean(large > 0)) < 1 - TURNS


def _explained(signals: Signals, points: Curve, fault: ScheduleFault, borders: list[int]) -> bool:
    """Whether a restart breaks the rate there, the rate follows the batch, or a zero was printed with few decimals."""
    if fault.what in ("reset", "jump") and at_border(points, fault, borders):
        return True
    if fault.what in ("climb", "jump") and fault.before > 0:
        before = int(points.step[max(0, fault.onset - 1)])
        return follows_scaling_rule(signals, before, int(points.step[fault.end]), fault.after / fault.before)
    if fault.what == "zero" and not points.value.any():  # zero all along, and yet the model moves
        return signals.has("reward") or learns(signals)
    return False


def _stepped_per_batch(signals: Signals, points: Curve, params: Params) -> ScheduleFault | None:
    """A schedule that was planned in epochs and goes on with every batch: over too soon, or swinging all along."""
    fault = spent(points)
    if fault is not None and declared(signals, PLATEAU) is None:
        nothing = fault.onset + np.flatnonzero(points.value[fault.onset :] <= params["spent"] * fault.before)
        falls = len(nothing) > 0 and loss_falls_after(signals, int(points.step[nothing[0]]))
        return None if falls else fault
    return swings(points) if single_decay(signals) else None


def _cut_in_vain(signals: Signals, points: Curve, params: Params) -> ScheduleFault | None:
    """Cuts of a scheduler that waits for a plateau where there was none, or of one far too fast for its log."""
    rate = points.value
    cuts = even_cuts(rate)
    if not len(cuts):
        return None
    first, spent_by_half = int(cuts[0]), float(rate[len(rate) // 2]) <= params["spent"] * float(rate.max())
    in_vain = improving(signals, points.step[cuts[:FEWEST_CUTS]], params["improved"])
    in_vain &= spent_by_half or declared(signals, PLATEAU) is not None
    if not (in_vain or (spent_by_half and at_its_best(signals, int(points.step[first])))):
        return None
    return ScheduleFault("cuts", first, len(rate) - 1, float(rate[first - 1]), float(rate[-1]))
