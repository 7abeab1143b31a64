"""One rank is slower than the rest for long.

What it detects:
    A rank whose step time (or data loading time) stays above the other ranks', or whose tokens per second stay below,
    by a tenth or more and beyond what all ranks ordinarily do. Where ranks wait for one another, the one that waits
    far less than the others, or less by a tenth of each step. A rank that the trainer's own watch calls a straggler.

Why it matters:
    Synchronous training runs at the pace of its slowest rank: one hot or badly connected device costs all of them.

Evidence:
    The rank, its time against the middle rank's, the ordinary spread between ranks, and what moved on that rank:
    temperature, clock, utilisation, data loading and communication time.

False positives:
    A few percent between ranks, single slow steps, and extra work of rank 0 (logging, checkpoints) are ordinary.

Example:
    From step 540 on a step takes rank 2 1.15 s, 2.8 times the middle rank's.

Parameters:
    slower: share by which the rank is slower than the middle one.
    from_start_slower: the same for a rank that is slower from the first step on.
    waits_less: share of the others' waiting time below which a rank is the one that is waited for.
"""

from __future__ import annotations

import math
import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Event, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Matrix, Signals
from trainforensics.signals.ranks import MIN_POINTS, RankDeparture, rank_departures
from trainforensics.signals.stretches import at_steps, middle

# role -> sign of the departure that means slow
ROLES = {"step_time": 1.0, "dataloader_time": 1.0, "tokens_per_sec": -1.0, "barrier_wait": -1.0}
BESIDE = ("gpu_temperature", "gpu_clock", "gpu_util", "dataloader_time", "comm_time")
_CALLED = re.compile(r"\bstraggler.{0,200}?\brank\W{0,3}\d", re.IGNORECASE | re.DOTALL)
META = Meta(
    kind=KINDS["straggler"],
    needs=(),
    uses=tuple(dict.fromkeys((*ROLES, *BESIDE))),
    params=(
        Param("slower", 0.1, "below a tenth the loss of pace is within what clocks and caches do"),
        Param("from_start_slower", 0.25, "rank 0 logs and saves; ranks of other hardware differ by less"),
        Param("waits_less", 0.5, "half of the others' waiting"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report each rank that stays slow, by its surest series."""
    found: dict[int | None, Finding] = {}
    for event in signals.events:
        if event.rank is not None and _CALLED.search(event.text):
            found.setdefault(event.rank, _called(event))
    matrices = [(role, m) for role in ROLES if (m := signals.ranks(role)) is not None and len(m.step) >= MIN_POINTS]
    if not matrices and not found:
        return NotApplicable("no step time is logged per rank", "step time and waiting time of every rank")
    for role, matrix in matrices:
        if len(matrix.rows) < 3 and role != "step_time":
            continue
        for left in rank_departures(np.log(np.where(matrix.value > 0, matrix.value, np.nan))):
            if _slow(role, left, params) or (role == "barrier_wait" and _costs(signals, matrix, left, params)):
                found.setdefault(matrix.rows[left.row].rank, _finding(signals, role, matrix, left))
    return Fired(tuple(found.values())) if found else Clear()


def _called(event: Event) -> Finding:
    """What the trainer says itself."""
    text = " ".join(event.text.split())[:200]
    where = f"At step {event.step}" if event.step is not None else "The log"
    return Finding(
        kind="straggler",
        series=event.source or "log",
        role=None,
        onset_step=event.step,
        confidence=0.8,
        summary=f'{where} rank {event.rank} is called a straggler: "{text}"',
        recovery=None,
        scope=Scope(rank=event.rank),
        evidence=(Evidence(event.source or "log", event.step, None, None, text),),
    )


def _slow(role: str, left: RankDeparture, params: Params) -> bool:
    by = ROLES[role] * left.size
    if role == "barrier_wait":
        return by > -math.log(params["waits_less"])
    return by > math.log1p(params["from_start_slower" if left.from_start else "slower"])


def _costs(signals: Signals, matrix: Matrix, left: RankDeparture, params: Params) -> bool:
    """Whether what a rank waits less than the others is a share of each step: that much longer it computes itself."""
    whole, window = signals.curve("step_time"), slice(left.first, left.last + 1)
    if whole is None or left.size >= 0:
        return False
    waits = matrix.value[:, window]
    longer = np.nanmedian(np.delete(waits, left.row, axis=0), axis=0) - waits[left.row]
    share = longer / at_steps(whole, matrix.step[window])
    if middle(waits.ravel()) >= middle(whole.value):  # in other units, or no part of the step
        return False
    return middle(share) > params["from_start_slower" if left.from_start else "slower"]


def _finding(signals: Signals, role: str, matrix: Matrix, left: RankDeparture) -> Finding:
    series, step, window = matrix.rows[left.row], matrix.step, slice(left.first, left.last + 1)
    taken = matrix.value[left.row, window]
    own = middle(taken[taken > 0])
    factor = float(np.exp(left.size))
    onset = int(step[left.first])
    since = f"From step {onset} on" if left.first else "From the start on"
    text = f"{since} {series.name} of rank {series.rank} is {own:.3g}, {factor:.3g} times the other ranks'"
    text += ": they wait for it." if role == "barrier_wait" else "."
    beside = _beside(signals, series.rank, onset, role)
    if beside:
        text += f" On that rank {', '.join(f'{e.signal} goes from {e.expected:.3g} to {e.value:.3g}' for e in beside)}."
    return Finding(
        kind="straggler",
        series=series.name,
        role=role,
        onset_step=onset,
        onset_interval=(int(step[max(left.first - 1, 0)]), onset),
        confidence=round(min(0.95, 0.6 + 0.01 * min(left.z, 20.0) + 0.3 * min(abs(left.size), 0.5)), 2),
        summary=text,
        severity="low" if left.ended and left.last - left.first < 0.2 * len(step) else None,
        end_step=int(step[left.last]) if left.ended else None,
        recovery="recovered" if left.ended else "unrecovered",
        scope=Scope(rank=series.rank),
        evidence=(
            Evidence(
                series.name,
                onset,
                own,
                own / factor if factor > 0 else None,
                "median since then against the other ranks'",
            ),
            *beside,
        ),
    )


def _beside(signals: Signals, rank: int | None, onset: int, role: str) -> tuple[Evidence, ...]:
    """What else moved on that rank by more than a tenth."""
    rows = []
    for other in BESIDE:
        for curve in signals.curves(other):
            if other == role or curve.series.rank != rank:
                continue
            before, since = curve.value[curve.step < onset], curve.value[curve.step >= onset]
            before, since = before[np.isfinite(before)], since[np.isfinite(since)]
            if len(before) < 5 or len(since) < 5:
                continue
            was, now = float(np.median(before)), float(np.median(since))
            if abs(now - was) > 0.1 * abs(was):
                rows.append(Evidence(curve.name, onset, now, was, "median since then against before, same rank"))
    return tuple(rows)
