"""A checkpoint could not be saved or loaded, or none was saved for far longer than usual.

What it detects:
    Messages of a failed save or load; a distance between saved checkpoints, or from the last one to the end of the log,
    that is several times the usual one.

Why it matters:
    The run goes on and looks healthy, while all that was learnt since the last good checkpoint is at stake.

Evidence:
    The message, the step, and the last checkpoint that was saved before it.

False positives:
    Checkpoints found as files only are not judged by their distances: old ones are deleted. Runs that save at changing
    distances (best models) have no usual one.

Example:
    Saving failed at steps 600 and 750 (no space left on device); the last good checkpoint is of step 450.

Parameters:
    intervals: usual distances that make a gap.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Event, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Signals
from trainforensics.signals.checkpoints import line_of, saved, step_of, tells_of_failure
from trainforensics.signals.evaluations import oriented

META = Meta(
    kind=KINDS["checkpoint-failure"],
    uses=("*",),
    params=(Param("intervals", 3.0, "one missed save may be a skipped evaluation, two in a row are not"),),
)
REGULAR = 5  # saved checkpoints from which a usual distance is known
EVEN = 0.8  # share of distances that must agree with it, or of saves that came with a better evaluation
SAME = 0.02  # of the usual distance: messages closer than this tell of one failure


def detect(signals: Signals, params: Params) -> Outcome:
    """Report failed saves and loads as one recurring finding, else a gap."""
    failed = [event for event in signals.events if tells_of_failure(event)]
    steps = sorted(saved((), signals.events))
    if failed:
        return Fired((_failure(signals, failed, steps),))
    if len(steps) < 2:
        known = "; the checkpoints are known without" if signals.checkpoints else ""
        return NotApplicable(f"no saves are logged{known}", "a line for every checkpoint saved or failed")
    gap = _gap(signals, steps, params["intervals"])
    return Fired((gap,)) if gap is not None else Clear()


def _failure(signals: Signals, failed: list[Event], saved: list[int]) -> Finding:
    steps = sorted({s for event in failed if (s := step_of(event)) is not None})
    usual = float(np.median(np.diff(saved))) if len(saved) > 2 else 0.0
    onsets = tuple(s for i, s in enumerate(steps) if i == 0 or s - steps[i - 1] > max(SAME * usual, 1))
    onset = onsets[0] if onsets else None
    known = saved or [c.step for c in signals.checkpoints]
    good = max((s for s in known if onset is None or s < onset), default=None)
    where = f"at step{'s' if len(onsets) > 1 else ''} {', '.join(map(str, onsets[:6]))}" if onsets else "in this log"
    text = f"A checkpoint could not be saved or loaded {where}: {line_of(failed[0]).removesuffix('.')}"
    text += f"; the last good one is of step {good}." if good is not None else "; no earlier good one is known."
    return Finding(
        kind="checkpoint-failure",
        series=failed[0].source or "log",
        role=None,
        onset_step=onset,
        confidence=0.9,
        summary=text,
        occurrences=onsets,
        end_step=onsets[-1] if onsets else None,
        scope=Scope(rank=failed[0].rank),
        evidence=tuple(Evidence(e.source or "log", step_of(e), None, None, line_of(e)) for e in failed[:4]),
    )


def _only_better_are_saved(signals: Signals, saved: list[int], following: int) -> bool:
    """Whether saves came with better evaluations, nearly all of them, and none of these came after the last, or what
    came was no number: then no save was due."""
    for curve in (*signals.curves("val_loss"), *map(oriented, signals.curves("val_metric"))):
        known = np.where(curve.finite, curve.value, np.inf)
        best = [known[curve.step <= step].min(initial=np.inf) for step in saved]
        inside = known[(curve.step > saved[-1]) & (curve.step < following)]
        if not np.isfinite(best[-1]) or not len(inside):
            continue
        told = np.mean(np.diff(best[1:]) < 0) >= EVEN or not np.isfinite(inside).any()
        if told and inside.min() >= best[-1]:
            return True
    return False


def _gap(signals: Signals, saved: list[int], intervals: float) -> Finding | None:
    distances = np.diff(saved)
    curve = signals.curve("train_loss") or max(signals.every_curve(), key=len, default=None)
    if len(saved) < REGULAR or curve is None or not len(curve):
        return None
    usual = float(np.median(distances))
    if np.mean(np.abs(distances - usual) <= 0.1 * usual) < EVEN:
        return None
    ends = [*saved, int(curve.step[-1])]
    long = [(a, b) for a, b in pairwise(ends) if b - a > intervals * usual]
    if not long:
        return None
    last, following = long[0]
    if _only_better_are_saved(signals, [step for step in saved if step <= last], following):
        return None
    due = int(last + usual)
    at_end = following == ends[-1]
    text = f"After the checkpoint of step {last} none was saved until step {following}"
    text += " (the end of the log)" if at_end else ""
    return Finding(
        kind="checkpoint-failure",
        series="checkpoints",
        role=None,
        onset_step=due,
        onset_interval=(last, due),
        confidence=0.6,
        summary=f"{text}; usually one is saved every {usual:.0f} steps.",
        severity="medium",
        end_step=None if at_end else following,
        evidence=(Evidence("checkpoints", due, float(following - last), usual, "steps between two checkpoints"),),
    )
