"""A device or a link fails: memory errors, driver faults, throttling, results that do not repeat.

What it detects:
    Messages of driver and framework (Xid, uncorrectable ECC, NVLink errors, a GPU fallen off the bus, thermal slowdown,
    a step that gives another result when run again); counters of memory errors that rise; a clock that falls while the
    temperature is high.

Why it matters:
    Such devices corrupt results silently or slow the whole run down. Going on with them spoils what comes after.

Evidence:
    The message or the counter, the step, and the rank, node and device as far as they are named.

False positives:
    A counter that stands still, at whatever number, tells of an old fault. Corrected single-bit errors are ordinary in
    large machines and told as low. A clock that falls with the load is idling.

Example:
    At step 742 rank 13 (node1, device 5): "unexpected result is not reproducible within the tolerance".

Parameters:
    hot: temperature in degrees Celsius from which a falling clock is throttling.
    slower_clock: factor by which the clock falls.
"""

from __future__ import annotations

import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS, Severity
from trainforensics.model import Clear, Event, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.pace import MIN_POINTS, Pace
from trainforensics.signals.slowdowns import slowdowns

META = Meta(
    kind=KINDS["hardware-fault"],
    uses=("ecc_errors", "gpu_temperature", "gpu_clock", "train_loss"),
    params=(
        Param("hot", 80.0, "data centre GPUs throttle from 83 to 90 degrees Celsius on"),
        Param("slower_clock", 1.1, "clocks wander by a few percent with the load"),
    ),
)
_FAULT = re.compile(
    r"\bxid\b\D{0,40}\d"
    r"|\b(?:uncorrect\w*|double.bit|volatile)\b.*\becc\b|\becc\b.*\b(?:uncorrect\w*|double.bit|errors?)\b"
    r"|fallen off the bus|\bnvlink\b.*\b(?:errors?|fail\w*|down|fatal)\b|\bgpu\b.*\b(?:lost|needs? (?:a )?reset)\b"
    r"|\bthermal(?:ly)?\b.*\b(?:throttl\w*|slowdown|violation|shutdown)|\bhw.slowdown\b|\boverheat\w*"
    r"|possible (?:transient|persistent) error|result is not reproducible|silent data corruption"
    r"|hardware (?:fault|failure)"
    r"|row remap\w*.*(?:fail|pending)|page retirement.*pending",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"(?:errors?|count|total)\W{1,4}0\b|\bno (?:ecc|xid|nvlink|hardware)\b|\b0 (?:ecc|xid|uncorrect)", re.IGNORECASE
)
_RANK = re.compile(r"\brank\W{0,3}(\d+)", re.IGNORECASE)
_STEP = re.compile(r"\b(?:iteration|step|iter)\W{0,4}(\d+)", re.IGNORECASE)
_CORRECTED = re.compile(r"(?<!un)corrected|single|sbe", re.IGNORECASE)
CHATTER = 0.2  # share of points at which a counter rises: reported per interval, all along
APART = 3  # logged points between messages of two faults


def detect(signals: Signals, params: Params) -> Outcome:
    """Report messages, rising counters and throttling, one finding each."""
    told = [(event, line) for event in signals.events if (line := _fault_line(event)) is not None]
    counters = signals.curves("ecc_errors")
    found = _from_messages(signals, told)
    found += [f for c in counters if (f := _rising(c)) is not None]
    found += _throttled(signals, params)
    if found:
        return Fired(tuple(found[:8]))
    if not signals.events and not counters and not signals.has("gpu_clock"):
        return NotApplicable("neither messages nor device counters are logged", "driver messages and ECC counters")
    return Clear()


def _fault_line(event: Event) -> str | None:
    """The line of an event that tells of a fault."""
    if event.kind in ("config", "start"):
        return None
    lines = (line for line in event.text.splitlines() if _FAULT.search(line) and not _NOTHING.search(line))
    return next((" ".join(line.split())[:240] for line in lines), None)


def _from_messages(signals: Signals, told: list[tuple[Event, str]]) -> list[Finding]:
    """One finding per rank; messages of one happening are one occurrence."""
    loss = signals.curve("train_loss")
    slack = APART * (loss.cadence if loss is not None else 1)
    by_rank: dict[int | None, list[tuple[int | None, str, Event]]] = {}
    for event, line in told:
        named, step = _RANK.search(line), _STEP.search(line)
        rank = int(named[1]) if named else event.rank
        at = int(step[1]) if step else event.step
        by_rank.setdefault(rank, []).append((at, line, event))
    found = []
    for rank, messages in by_rank.items():
        steps = sorted({at for at, _, _ in messages if at is not None})
        occurrences = tuple(s for i, s in enumerate(steps) if i == 0 or s - steps[i - 1] > slack)
        at, line, event = messages[0]
        onset = occurrences[0] if occurrences else None
        where = f"At step {onset}" if onset is not None else "The log"
        who = f" rank {rank}" if rank is not None else ""
        rest = f" ({len(messages)} messages)" if len(messages) > 1 else ""
        found.append(
            Finding(
                kind="hardware-fault",
                series=event.source or "log",
                role=None,
                onset_step=onset,
                confidence=0.9,
                summary=f"{where}{who} reports: {line}{rest}.".replace("..", "."),
                occurrences=occurrences,
                recovery=None,
                scope=Scope(rank=rank),
                evidence=tuple(Evidence(e.source or "log", s, None, None, text) for s, text, e in messages[:4]),
            )
        )
    return found


def _rising(curve: Curve) -> Finding | None:
    curve = curve.only_finite()
    if len(curve) < 2:
        return None
    rises = np.flatnonzero((np.diff(curve.value) > 0) & (np.diff(curve.segment) == 0)) + 1
    if not len(rises):
        return None
    chatter = len(rises) > CHATTER * len(curve) and len(curve) >= 20
    severity: Severity | None = "low" if _CORRECTED.search(curve.name) or chatter else None
    at = int(rises[0])
    onset, top = int(curve.step[at]), float(curve.value[rises].max())
    rank = curve.series.rank
    return Finding(
        kind="hardware-fault",
        series=curve.name,
        role="ecc_errors",
        onset_step=onset,
        onset_interval=(int(curve.step[at - 1]), onset),
        confidence=0.8 if severity is None else 0.5,
        summary=(
            f"{curve.name}{f' of rank {rank}' if rank is not None else ''} rises from {curve.value[at - 1]:.4g} to "
            f"{curve.value[at]:.4g} at step {onset}, to {top:.4g} in all."
        ),
        severity=severity,
        occurrences=tuple(int(s) for s in curve.step[rises[:20]]),
        scope=Scope(rank=rank),
        evidence=(
            Evidence(curve.name, onset, float(curve.value[at]), float(curve.value[at - 1]), "counter of memory errors"),
        ),
    )


def _throttled(signals: Signals, params: Params) -> list[Finding]:
    found = []
    for clock in signals.curves("gpu_clock"):
        usable = clock.take(clock.finite & (clock.value > 0))
        if len(usable) < MIN_POINTS:
            continue
        slow = Curve(usable.series, usable.step, -np.log(usable.value), usable.time, usable.segment)
        for drop in slowdowns(Pace(slow, usable, "rate")):
            onset = int(usable.step[drop.onset])
            heat = _temperature(signals, clock.series.rank, onset, int(usable.step[drop.end]))
            if drop.factor < params["slower_clock"] or heat is None or heat[1] < params["hot"]:
                continue
            found.append(_throttling(usable, onset, drop.before, drop.since, heat))
            break
    return found


def _temperature(signals: Signals, rank: int | None, onset: int, end: int) -> tuple[Curve, float, float] | None:
    for curve in signals.curves("gpu_temperature"):
        if curve.series.rank in (rank, None):
            since = curve.value[(curve.step >= onset) & (curve.step <= end) & curve.finite]
            before = curve.value[(curve.step < onset) & curve.finite]
            if len(since):
                return curve, float(np.median(since)), float(np.median(before)) if len(before) else float("nan")
    return None


def _throttling(clock: Curve, onset: int, before: float, since: float, heat: tuple[Curve, float, float]) -> Finding:
    curve, hot, cool = heat
    rank = clock.series.rank
    return Finding(
        kind="hardware-fault",
        series=clock.name,
        role="gpu_clock",
        onset_step=onset,
        confidence=0.8,
        summary=(
            f"From step {onset} on {clock.name}{f' of rank {rank}' if rank is not None else ''} is {since:.4g} instead "
            f"of {before:.4g} at {hot:.3g} degrees: the device throttles."
        ),
        severity="medium",
        recovery="unrecovered",
        scope=Scope(rank=rank),
        evidence=(
            Evidence(clock.name, onset, since, before, "clock since then against before"),
            Evidence(curve.name, onset, hot, None if np.isnan(cool) else cool, "temperature meanwhile against before"),
        ),
    )
