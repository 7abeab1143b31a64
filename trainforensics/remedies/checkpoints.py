"""Which checkpoint to go back to: the newest that lies clearly before the first precursor and never saw a NaN.

Of what a restart did every checkpoint that was saved before it is clean.
"""

from __future__ import annotations

import math

import numpy as np

from trainforensics.model import CheckpointChoice, Incident, SafeCheckpoint
from trainforensics.remedies.numbers import best_evaluation
from trainforensics.signals import Signals
from trainforensics.signals.restarts import restarts

# Logged points between checkpoint and first precursor, so that a slow start is not missed: that many, or this share of
# a short log, whose points (epochs) stand for more each.
CLEAR_POINTS, CLEAR_SHARE = 10, 0.02
NAN_KINDS = frozenset({"nan-onset", "transient-nan", "grad-nan"})
HOW_TO_LOG = "log each checkpoint's step, or keep the checkpoint folders beside the log"


def known_checkpoints(signals: Signals) -> tuple[int, ...]:
    """Steps of every checkpoint the run is known to have saved, sorted."""
    return tuple(checkpoint.step for checkpoint in signals.checkpoints)


def first_sign(incident: Incident) -> int | None:
    """The earliest step at which the incident or one of its precursors showed."""
    steps = [p.step for p in incident.precursors]
    if incident.onset_interval is not None:
        steps.append(incident.onset_interval[0])
    if incident.onset_step is not None:
        steps.append(incident.onset_step)
    return min(steps, default=None)


def safe_checkpoint(incident: Incident, incidents: tuple[Incident, ...], signals: Signals) -> SafeCheckpoint | None:
    """The checkpoint to go back to for a root incident, None where it has no onset.

    Clearly before: ten logged points, and half the usual distance of checkpoints where that is more.
    """
    sign = first_sign(incident)
    if sign is None:
        return None
    if incident.kind == "checkpoint-failure":
        return _last_good(known_checkpoints(signals), sign)
    restarted = _restarted_at(incident, signals)
    sign = sign if restarted is None else restarted
    steps = np.array(known_checkpoints(signals), dtype=np.int64)
    nans = [i.onset_step for i in incidents if i.kind in NAN_KINDS and i.onset_step is not None]
    limit = min([sign, *(n for n in nans if n >= sign)])
    before = steps[steps < limit]
    if not len(steps):
        return SafeCheckpoint(None, f"no checkpoint is known; {HOW_TO_LOG}")
    if not len(before):
        why = f"the first known checkpoint, {steps[0]}, does not lie before the first sign at {sign}: start again"
        return SafeCheckpoint(None, why)
    margin = 0 if restarted is not None else _margin(signals, steps)
    clear = before[before <= sign - margin]
    chosen = int(clear[-1]) if len(clear) else int(before[0])
    unit = signals.axis.unit
    sign_text = f"the restart at {sign}" if restarted is not None else f"the first sign at {sign}"
    why = f"{_count(sign - chosen, unit)} before {sign_text}; {lost_text(signals, chosen)}"
    if not len(clear):
        why += f"; no checkpoint lies {_count(margin, unit)} before it, so check the first steps after resuming closely"
    return SafeCheckpoint(chosen, why, _alternatives(before, chosen, sign, unit))


def _restarted_at(incident: Incident, signals: Signals) -> int | None:
    """The first step of the process life that an incident came with, which what was saved before it never saw."""
    if incident.kind != "resume-discontinuity" or incident.onset_step is None:
        return None
    lives = [restart.step for restart in restarts(signals) if restart.step <= incident.onset_step]
    return max(lives, default=None)


def _last_good(steps: tuple[int, ...], failed: int) -> SafeCheckpoint:
    """What is left where saves failed: nothing to go back for, but all there is after a crash."""
    good = max((step for step in steps if step < failed), default=None)
    if good is None:
        return SafeCheckpoint(None, f"no good one is known from before the failure at {failed}; {HOW_TO_LOG}")
    return SafeCheckpoint(good, f"the last good one before the failure at {failed}; a crash would fall back to it")


def _margin(signals: Signals, steps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Steps that a checkpoint must lie before the first sign to be clearly before it."""
    loss = signals.curve("train_loss")
    points = CLEAR_POINTS if loss is None else min(CLEAR_POINTS, math.ceil(CLEAR_SHARE * len(loss)))
    margin = points * (loss.cadence if loss else 1)
    return max(margin, int(np.median(np.diff(steps))) // 2) if len(steps) > 1 else margin


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def best_checkpoint(signals: Signals, onset: int) -> SafeCheckpoint | None:
    """For over-fitting: the checkpoint nearest to the best evaluation; where that is before the onset, so is it.

    One from after the onset that evaluates nearer to the harm than to the best is of no use: then there is none.
    """
    best, steps = best_evaluation(signals), known_checkpoints(signals)
    if best is None:
        return None
    where = f"the best {best.name} ({best.value:.4g}) is at {best.step}"
    if not steps:
        return SafeCheckpoint(None, f"{where}, but no checkpoint is known; {HOW_TO_LOG}")
    before = [step for step in steps if step < onset] if best.step < onset else []
    nearest = min(before or steps, key=lambda step: (abs(step - best.step), step))
    kept_at = best.around(nearest)
    if not before and kept_at - best.value >= best.harmed(onset) - kept_at:
        why = f"{where}, but no usable checkpoint was kept: even the nearest, {nearest}, stands at {kept_at:.4g}"
        return SafeCheckpoint(None, why)
    text = f"{where}, {_count(abs(nearest - best.step), signals.axis.unit)} from it"
    if best.step < onset <= nearest:
        text += f"; none is saved before the onset at {onset}, this is the nearest"
    return SafeCheckpoint(nearest, text)


def _alternatives(
    before: np.ndarray[tuple[int], np.dtype[np.int64]], chosen: int, sign: int, unit: str
) -> tuple[CheckpointChoice, ...]:
    found = []
    if before[-1] > chosen:
        nearer = int(before[-1])
        apart, gain = _count(sign - nearer, unit), _count(nearer - chosen, unit)
        text = f"also before the first sign, but only {apart}: riskier, saves {gain}"
        found.append(CheckpointChoice(nearer, text))
    older = before[before < chosen]
    if len(older):
        text = f"the next older one, {_count(chosen - int(older[-1]), unit)} further back, if the incident returns"
        found.append(CheckpointChoice(int(older[-1]), text))
    return tuple(found)


def lost_text(signals: Signals, checkpoint: int) -> str:
    """What going back from the last ordinary number of the log costs, in steps, tokens and time."""
    loss = signals.curve("train_loss")
    finite = loss.only_finite() if loss is not None else None
    if finite is None or not len(finite) or finite.step[-1] <= checkpoint:
        return "nothing logged after it is lost"
    last = int(finite.step[-1])
    parts = [_count(last - checkpoint, signals.axis.unit)]
    tokens = signals.curve("tokens_seen")
    if tokens is not None and tokens.at(checkpoint) >= 0:
        spent = float(tokens.value[tokens.at(last)] - tokens.value[tokens.at(checkpoint)])
        if spent > 0:
            parts.append(f"{spent:.3g} tokens")
    start, stop = finite.at(checkpoint), finite.at(last)
    seconds = float(finite.time[stop] - finite.time[start]) if start >= 0 else float("nan")
    if seconds > 0:
        parts.append(duration(seconds))
    return f"going back loses {', '.join(parts)} (to {last})"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
