"""Which checkpoint to go back to: the newest that lies clearly before the first precursor and never saw a NaN."""

from __future__ import annotations

import numpy as np

from trainforensics.model import CheckpointChoice, Incident, SafeCheckpoint
from trainforensics.remedies.numbers import best_evaluation
from trainforensics.signals import Signals

SAVED = ("checkpoint", "checkpoint-saved", "save-checkpoint")
CLEAR_POINTS = 10  # logged points between checkpoint and first precursor, so that a slow start is not missed
NAN_KINDS = frozenset({"nan-onset", "transient-nan", "grad-nan"})
HOW_TO_LOG = "log each checkpoint's step, or keep the checkpoint folders beside the log"


def known_checkpoints(signals: Signals) -> tuple[int, ...]:
    """Steps of every checkpoint the run is known to have saved, sorted."""
    steps = {c.step for c in signals.checkpoints}
    steps |= {e.step for e in signals.events if e.kind in SAVED and e.step is not None}
    return tuple(sorted(steps))


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
    steps = np.array(known_checkpoints(signals), dtype=np.int64)
    nans = [i.onset_step for i in incidents if i.kind in NAN_KINDS and i.onset_step is not None]
    limit = min([sign, *(n for n in nans if n >= sign)])
    before = steps[steps < limit]
    if not len(steps):
        return SafeCheckpoint(None, f"no checkpoint is known; {HOW_TO_LOG}")
    if not len(before):
        why = f"the first known checkpoint, {steps[0]}, does not lie before the first sign at {sign}: start again"
        return SafeCheckpoint(None, why)
    loss = signals.curve("train_loss")
    margin = CLEAR_POINTS * (loss.cadence if loss else 1)
    if len(steps) > 1:
        margin = max(margin, int(np.median(np.diff(steps))) // 2)
    clear = before[before <= sign - margin]
    chosen = int(clear[-1]) if len(clear) else int(before[0])
    steps_text = "1 step" if sign - chosen == 1 else f"{sign - chosen} steps"
    why = f"{steps_text} before the first sign at {sign}; {lost_text(signals, chosen)}"
    if not len(clear):
        why += f"; no checkpoint lies {margin} steps before it, so check the first steps after resuming closely"
    return SafeCheckpoint(chosen, why, _alternatives(before, chosen, sign))


def best_checkpoint(signals: Signals, onset: int) -> SafeCheckpoint | None:
    """For over-fitting: the checkpoint nearest to the best evaluation; where that is before the onset, so is it."""
    best, steps = best_evaluation(signals), known_checkpoints(signals)
    if best is None:
        return None
    where = f"the best {best.name} ({best.value:.4g}) is at {best.step}"
    if not steps:
        return SafeCheckpoint(None, f"{where}, but no checkpoint is known; {HOW_TO_LOG}")
    before = [step for step in steps if step < onset] if best.step < onset else []
    nearest = min(before or steps, key=lambda step: (abs(step - best.step), step))
    text = f"{where}, {abs(nearest - best.step)} steps from it"
    if best.step < onset <= nearest:
        text += f"; none is saved before the onset at {onset}, this is the nearest"
    return SafeCheckpoint(nearest, text)


def _alternatives(
    before: np.ndarray[tuple[int], np.dtype[np.int64]], chosen: int, sign: int
) -> tuple[CheckpointChoice, ...]:
    found = []
    if before[-1] > chosen:
        nearer = int(before[-1])
        text = f"also before the first sign, but only {sign - nearer} steps: riskier, saves {nearer - chosen} steps"
        found.append(CheckpointChoice(nearer, text))
    older = before[before < chosen]
    if len(older):
        text = f"the next older one, {chosen - int(older[-1])} steps further back, if the incident returns"
        found.append(CheckpointChoice(int(older[-1]), text))
    return tuple(found)


def lost_text(signals: Signals, checkpoint: int) -> str:
    """What going back from the last ordinary number of the log costs, in steps, tokens and time."""
    loss = signals.curve("train_loss")
    finite = loss.only_finite() if loss is not None else None
    if finite is None or not len(finite) or finite.step[-1] <= checkpoint:
        return "nothing logged after it is lost"
    last = int(finite.step[-1])
    parts = [f"{last - checkpoint} steps"]
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
