"""The run stood still: one gap in wall time far beyond its steps, that is no evaluation, checkpoint or restart.

What it detects:
    A pause between two logged points many times longer than any regular one, at a step at which nothing recurs, or a
    few of them among steps that take long; a time-out of a collective operation that the log tells of; silence from the
    last point until the process was killed.

Why it matters:
    A hang wastes the whole cluster, and a run that once waited on a socket, a lock or a file system will again.

Evidence:
    Length of the pause, the usual time between points, the longest regular pause, what the log says around it.

False positives:
    Pauses for evaluation and checkpoints recur and are alike; one at which an evaluation is logged, and hardly another,
    is that evaluation's; one at a round number of points, of which the log holds
    no other, may be one of them. A restart is a pause too: at a border of process lives,
    next to a message of a restart, or between steps that checkpoints are usually saved at, it is left alone.

Example:
    Between steps 618 and 619 nothing was logged for 25 min; a step takes 0.42 s and the longest regular pause is 3.8 s.

Parameters:
    times: the pause in usual times between points. long_times: the same where points lie `long_points` and more apart.
    beyond: the pause in longest regular pauses.
    seconds: shortest pause. silent: shortest silence before a kill.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Event, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.pace import logged_clock
from trainforensics.signals.restarts import restarts
from trainforensics.signals.task import planned_steps

MIN_POINTS, FEWEST_POINTS = 30, 16  # of a log of steps, and of one whose points take long
LONG = 30.0  # seconds between points that hold many steps
ORDINARY = 2.0  # usual times between points; where others come to more, long ones are ordinary
MOST = 3  # pauses that may count as lone
OTHERS = 2  # evaluations that tell how long they take
CHANCE = 0.02  # of so wide a gap below several pauses
FEW = 0.01  # of the points of a log: several pauses among long steps
CHORES = (5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)  # points between evaluations or saves
TIMEOUTS = frozenset({"nccl-timeout", "hang"})
KILLED = frozenset({"preemption", "node-lost"})
ANEW = 0.75  # of what was learnt, that is lost where a run is launched again
BETWEEN_CHECKPOINTS = 20  # logged points: checkpoints lie further apart, on round steps
_SECONDS = re.compile(r"[\[( _](?:s|sec|secs|seconds)[\])]?$", re.IGNORECASE)
META = Meta(
    kind=KINDS["hang"],
    uses=("*",),
    params=(
        Param("times", 30.0, "evaluations take tens of steps' time"),
        Param("beyond", 4.0, "times of evaluations on a shared machine vary by a factor of two"),
        Param("silent", 600.0, "seconds before a kill; saving a model or waiting for peers at the end takes minutes"),
        Param("seconds", 60.0, "shorter pauses cost nothing and are made by any scheduler"),
        Param("share", 0.2, "of the time of a short log, which a pause must take instead"),
        Param("shortest", 10.0, "seconds of such a pause; compilation and caches take as long"),
        Param("long_points", LONG, "seconds from point to point from which a point holds many steps"),
        Param("long_times", 3.0, "the pause in usual times between such points, and in longest other ones"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report lone pauses and time-outs."""
    said = tuple(e for e in signals.events if e.kind in TIMEOUTS and e.step is not None)
    found = [_said(said)] if said else []
    curve = _timed(signals)
    if curve is None and not found:
        elsewhere = any(np.isfinite(other.time).any() for other in signals.every_curve())
        reason = "most rows carry no wall times" if elsewhere else "the log has no wall times"
        return NotApplicable(reason, "a time stamp with every logged step")
    if curve is not None:
        found += _pauses(signals, curve, params)
        found += _silence(signals, curve, params)
    return Fired(tuple(found)) if found else Clear()


def _timed(signals: Signals) -> Curve | None:
    """A curve with wall times; where no point has one, a logged clock, or durations in seconds, added up."""
    curves = (signals.curve("train_loss"), max(signals.every_curve(), key=len, default=None))
    timed_most = max(signals.every_curve(), key=lambda c: np.count_nonzero(np.isfinite(c.time)), default=None)
    for curve in (*curves, timed_most):
        if curve is not None:
            timed = curve.take(np.isfinite(curve.time))
            if len(timed) >= MIN_POINTS or (len(timed) >= FEWEST_POINTS and np.median(np.diff(timed.time)) >= LONG):
                return timed
    clock = logged_clock(signals)
    if clock is not None and len(clock) >= FEWEST_POINTS:
        return replace(clock, time=clock.value, superseded=None)
    taken = signals.curve("step_time")
    if taken is None or len(taken := taken.only_finite()) < MIN_POINTS or not _SECONDS.search(taken.name):
        return None
    return replace(taken, time=np.cumsum(np.maximum(taken.value, 0)), superseded=None)


def _pauses(signals: Signals, curve: Curve, params: Params) -> list[Finding]:
    seconds = np.diff(curve.time)
    usual = float(np.median(seconds))
    if usual <= 0:
        return []
    order = np.sort(seconds)[::-1]
    regular = _longest_regular(order)
    costly = min(params["seconds"], max(params["share"] * float(seconds.sum()), params["shortest"]))
    lone: Ints = np.flatnonzero(
        (seconds > max(params["times"] * usual, costly)) & (seconds > params["beyond"] * regular)
    )
    several = not len(lone) and usual >= params["long_points"] and order[1] >= ORDINARY * usual
    if several:
        lone = _several(curve, seconds, max(ORDINARY * usual, costly))
    elif not len(lone) and usual >= params["long_points"]:
        lone = np.flatnonzero(seconds > params["long_times"] * max(usual, float(order[1])))
        lone = lone[[not _chore(curve, int(i)) for i in lone]]
    rest = float(order[len(lone)]) if len(lone) < len(order) else usual
    told = [i for i in lone if not _restarted(signals, curve, int(i)) and not _evaluated(signals, curve, int(i))]
    findings = [_finding(curve, int(i), float(seconds[i]), usual, rest) for i in told]
    return [_as_one(findings)] if several and findings else findings


def _several(curve: Curve, seconds: Floats, least: float) -> Ints:
    """Indices of a few pauses apart from all others in a log whose points take long, at no even distances.

    In a tail as heavy as a Pareto's of index 1 the k-th longest is r times the next with a chance of r**-k.
    """
    order, none = np.sort(seconds)[::-1], np.empty(0, np.int64)
    counts = np.arange(2, int(FEW * len(seconds)) + 1)
    if not len(counts):
        return none
    chance = (order[counts - 1] / np.maximum(order[counts], 1e-9)) ** -counts.astype(np.float64)
    shortest = float(order[counts[np.argmin(chance)] - 1])
    if chance.min() > CHANCE or shortest < least:
        return none
    found = np.flatnonzero(seconds >= shortest)
    count = np.round(curve.step / curve.cadence).astype(np.int64)
    on = [np.any([(count[found + side] % period) == 0 for side in (0, 1)], axis=0) for period in CHORES]
    return none if any(bool(each.all()) for each in on) else found


def _as_one(findings: list[Finding]) -> Finding:
    """Several pauses as one finding that recurs; the text is that of the longest."""
    first, longest = findings[0], max(findings, key=lambda f: f.evidence[0].value or 0.0)
    steps = tuple(f.onset_step for f in findings if f.onset_step is not None)
    again = f" {len(steps)} pauses in all, at steps {', '.join(map(str, steps))}." if len(steps) > 1 else ""
    return replace(
        first,
        confidence=longest.confidence,
        summary=longest.summary + again,
        occurrences=steps,
        end_step=steps[-1],
        evidence=tuple(f.evidence[0] for f in findings[:4]),
    )


def _chore(curve: Curve, at: int) -> bool:
    """Whether the pause after a point may recur beyond the log: at a round number of points from the start of the run
    of which the log holds no other, as evaluations every 50 epochs are."""
    count = np.round(curve.step / curve.cadence).astype(np.int64)
    near = (int(count[at]), int(count[at + 1]))
    return any(
        any(n % period == 0 for n in near) and int(count[-1]) // period - (int(count[0]) - 1) // period <= 1
        for period in CHORES
    )


def _evaluated(signals: Signals, curve: Curve, at: int) -> bool:
    """Whether an evaluation was logged at the pause and too few elsewhere to tell how long they take."""
    before, after = int(curve.step[at]), int(curve.step[at + 1])
    for evaluations in (*signals.curves("val_loss"), *signals.curves("val_metric")):
        here = (evaluations.step >= before) & (evaluations.step <= after)
        inside = (evaluations.step > curve.step[0]) & (evaluations.step < curve.step[-1])
        if here.any() and np.count_nonzero(inside & ~here) < OTHERS:
            return True
    return False


def _silence(signals: Signals, curve: Curve, params: Params) -> list[Finding]:
    """The time between the last point and the message that the process was killed, where it was waiting all along."""
    planned = max(planned_steps(signals), default=None)
    if any(e.kind == "finish" for e in signals.events) or (planned is not None and int(curve.step[-1]) >= planned - 1):
        return []  # it had come to its end
    usual, last = float(np.median(np.diff(curve.time))), float(curve.time[-1])
    killed = (e for e in signals.events if e.kind in KILLED and e.naive_time == curve.series.naive_time)
    ends = [e.wall_time for e in killed if e.wall_time is not None and e.wall_time > last]
    silent = min(ends) - last if ends else 0.0
    if usual <= 0 or silent < max(params["times"] * usual, params["silent"]):
        return []
    step = int(curve.step[-1])
    text = (
        f"After step {step} nothing was logged for {_duration(silent)}, until the process was killed; points usually "
        f"come every {_duration(usual)}."
    )
    row = Evidence(f"wall time of {curve.name}", step, silent, usual, "seconds from the last point to the kill")
    return [
        Finding(
            kind="hang",
            series=curve.name,
            role=curve.series.role,
            onset_step=step,
            onset_interval=(step, step + curve.cadence),
            confidence=0.8,
            summary=text,
            segment=int(curve.segment[-1]),
            recovery="unrecovered",
            evidence=(row,),
        )
    ]


def _longest_regular(order: Floats) -> float:
    """The longest pause below the widest gap among the few longest ones."""
    ratios = order[:MOST] / np.maximum(order[1 : MOST + 1], 1e-9)
    return float(order[int(np.argmax(ratios)) + 1])


def _restarted(signals: Signals, curve: Curve, at: int) -> bool:
    before, after = int(curve.step[at]), int(curve.step[at + 1])
    if curve.segment[at] != curve.segment[at + 1] or at == 0:
        return True
    if _begins_anew(signals, before, after):
        return True
    slack = 2 * curve.cadence
    if any(r.sure and before - slack <= r.before and r.step <= after + slack for r in restarts(signals)):
        return True
    saved = [c.step for c in signals.checkpoints]
    apart = _round(BETWEEN_CHECKPOINTS * curve.cadence)
    return after // apart * apart >= before or any(before <= step <= after for step in saved)


def _begins_anew(signals: Signals, before: int, after: int) -> bool:
    """Whether the training loss is back where it began, for what most of the log had unlearnt again."""
    loss = signals.curve("train_loss")
    if loss is None or not (len(loss := loss.only_finite()) and loss.step[0] <= before < after <= loss.step[-1]):
        return False
    first, last, since = (float(loss.value[loss.at(step)]) for step in (int(loss.step[0]), before, after))
    learnt = first - float(np.median(loss.value))
    return first - last > learnt / 2 > 0 and since - last >= ANEW * (first - last)


def _round(least: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... that is no less."""
    power: int = 10 ** int(math.log10(max(least, 1)))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least)


def _finding(curve: Curve, at: int, seconds: float, usual: float, regular: float) -> Finding:
    before, after = int(curve.step[at]), int(curve.step[at + 1])
    text = (
        f"Between steps {before} and {after} nothing was logged for {_duration(seconds)}; points usually come every "
        f"{_duration(usual)} and the next longest pause took {_duration(regular)}."
    )
    return Finding(
        kind="hang",
        series=curve.name,
        role=curve.series.role,
        onset_step=after,
        onset_interval=(before, after),
        confidence=round(min(0.9, 0.6 + 0.1 * math.log10(seconds / max(regular, 1e-9))), 2),
        summary=text,
        segment=int(curve.segment[at]),
        end_step=after,
        recovery="recovered",
        evidence=(Evidence(f"wall time of {curve.name}", after, seconds, usual, "seconds between two points"),),
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _said(events: tuple[Event, ...]) -> Finding:
    first = events[0]
    text = " ".join(first.text.split())[:160]
    return Finding(
        kind="hang",
        series=first.source or "log",
        role=None,
        onset_step=first.step,
        confidence=0.8,
        summary=f"At step {first.step} a collective operation timed out: {text}.",
        occurrences=tuple(sorted({e.step for e in events if e.step is not None})),
        scope=Scope(rank=first.rank),
        evidence=(Evidence(first.source or "log", first.step, None, None, text),),
    )
