"""Wall clocks of ranks disagree, or time runs backwards within a process life.

What it detects:
    Ranks that log the same steps at times a constant offset apart, far more than a step takes; times that jump back
    while steps go on.

Why it matters:
    Logs of several hosts cannot be laid side by side, and pauses, durations and the order of events look different from
    what they were.

Evidence:
    The offset of each rank, or the step at which time jumps back and by how much.

False positives:
    Synchronous ranks finish a step within its duration, so offsets up to several steps' time are ordinary. Buffered
    writers and restarts reorder times within seconds. Times that state no zone are not held against other clocks, and
    one that jumps back by an hour may only leave daylight saving time.

Example:
    Rank 3 logs every step 412 s later than the other ranks.

Parameters:
    steps: offset in usual times between points.
    seconds: smallest offset.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Ints
from trainforensics.signals.noise import robust_sigma

MIN_POINTS = 20
FEWEST_RANKS = 3
WRITERS = 6.0  # widths by which lazy writers' times wander
SUMMER_TIME = 3600.0  # seconds by which a local clock is put back
MOST_SUMMERS = 2  # that end during one run
META = Meta(
    kind=KINDS["clock-skew"],
    uses=("*",),
    params=(
        Param("steps", 5.0, "synchronous ranks differ by less than a step; writers buffer a few"),
        Param(
            "seconds", 10.0, "synchronised clocks of a cluster agree within milliseconds, lazy writers within seconds"
        ),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Compare the ranks' times at common steps, and look for time that runs backwards."""
    timed = [c.take(np.isfinite(c.time)) for c in signals.every_curve()]
    timed = [c for c in timed if len(c) >= MIN_POINTS]
    if not timed:
        return NotApplicable("the log has no wall times", "a time stamp with every logged step")
    per_rank = _per_rank([c for c in timed if not c.series.naive_time])
    found = [*_offsets(per_rank, params)[:4], *_backwards(signals, timed, params)]
    if not found and len(per_rank) < FEWEST_RANKS <= len(_per_rank(timed)):
        return NotApplicable("the wall times of the ranks state no zone", "times in UTC, or with their zone")
    return Fired(tuple(found)) if found else Clear()


def _per_rank(timed: list[Curve]) -> dict[int, Curve]:
    """A curve of each rank."""
    return {curve.series.rank: curve for curve in reversed(timed) if curve.series.rank is not None}


def _bar(curve: Curve, params: Params) -> float:
    return max(params["seconds"], params["steps"] * float(np.median(np.abs(np.diff(curve.time)))))


def _offsets(per_rank: dict[int, Curve], params: Params) -> list[Finding]:
    if len(per_rank) < FEWEST_RANKS:
        return []
    common = next(iter(per_rank.values())).step
    for curve in per_rank.values():
        common = np.intersect1d(common, curve.step)
    if len(common) < MIN_POINTS:
        return []
    ranks = list(per_rank)
    times = np.vstack([c.time[np.searchsorted(c.step, common, side="right") - 1] for c in per_rank.values()])
    apart = times - np.median(times, axis=0)
    found = []
    for row, rank in enumerate(ranks):
        offset, wobble = float(np.median(apart[row])), float(np.median(np.abs(apart[row] - np.median(apart[row]))))
        curve = per_rank[rank]
        if abs(offset) > max(_bar(curve, params), 5 * wobble):
            text = f"Rank {rank} logs every step {abs(offset):.4g} s {'later' if offset > 0 else 'earlier'}"
            row_ = Evidence(curve.name, int(common[0]), offset, 0.0, "seconds against the middle rank, median")
            found.append(_finding(curve, int(common[0]), f"{text} than the middle rank.", rank, row_))
    return found


def _backwards(signals: Signals, timed: list[Curve], params: Params) -> list[Finding]:
    """Jumps back of the clock by which the loss is stamped, and of the clock of every rank."""
    loss = signals.curve("train_loss")
    whole = next((c for c in timed if loss is not None and c.series == loss.series), max(timed, key=len))
    curves = {curve.series.rank: curve for curve in (*_per_rank(timed).values(), whole)}
    found = [(rank, curve, at) for rank, curve in curves.items() if len(at := _jumps_back(curve, params))]
    return [_jump(rank, curve, at) for rank, curve, at in found[:4]]


def _jumps_back(curve: Curve, params: Params) -> Ints:
    """Indices of the points before which time ran backwards within a process life."""
    back = np.where(np.diff(curve.segment) == 0, np.diff(curve.time), 0.0)
    # a clock that runs backwards as a rule has no usual time between points
    bar = params["seconds"] if np.median(back) < 0 else _bar(curve, params)
    at = np.flatnonzero(back < -max(bar, WRITERS * robust_sigma(back)))
    put_back = np.abs(back[at] + SUMMER_TIME) <= bar
    return at[~put_back] if curve.series.naive_time and put_back.sum() <= MOST_SUMMERS else at


def _jump(rank: int | None, curve: Curve, at: Ints) -> Finding:
    first, by = int(curve.step[at[0] + 1]), float(curve.time[at[0]] - curve.time[at[0] + 1])
    whose = "the wall clock" if rank is None else f"the wall clock of rank {rank}"
    text = f"At step {first} {whose} jumps back by {by:.4g} s ({len(at)} such jump{'s' if len(at) > 1 else ''})."
    row = Evidence(f"wall time of {curve.name}", first, -by, None, "seconds between two points")
    return _finding(curve, first, text, rank, row)


def _finding(curve: Curve, step: int, text: str, rank: int | None, row: Evidence) -> Finding:
    return Finding(
        kind="clock-skew",
        series=curve.name,
        role=curve.series.role,
        onset_step=step,
        confidence=0.7,
        summary=text,
        scope=Scope(rank=rank),
        evidence=(row,),
    )
