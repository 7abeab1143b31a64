"""What a fault of the learning-rate schedule says in a finding: its course in words, and whether the loss follows."""

from __future__ import annotations

import numpy as np

from trainforensics.model import Evidence, Finding, Recovery
from trainforensics.signals import Curve, Signals
from trainforensics.signals.precursors import excursions_of
from trainforensics.signals.schedule import ScheduleFault

SUREST = ("zero", "negative", "reset", "anew", "back", "again")
LASTING = ("reset", "jump", "short", "drop")  # the schedule that follows is not told apart from the one before


def finding(signals: Signals, points: Curve, fault: ScheduleFault) -> Finding:
    """The finding of a fault: high where the loss leaves its noise after it."""
    onset, end = int(points.step[fault.onset]), int(points.step[fault.end])
    before = int(points.step[max(0, fault.onset - 1)])
    to_the_end, lasting = fault.end == len(points) - 1, fault.what in LASTING
    recovery: Recovery | None = None if lasting else ("unrecovered" if to_the_end else "recovered")
    text = _course(signals, points, fault)
    evidence = [Evidence(points.name, onset, float(points.value[fault.onset]), fault.before, text)]
    follows = _loss_follows(signals, before, end)
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
        confidence=0.9 if fault.what in SUREST or follows is not None else 0.75,
        summary=f"{points.name} {text}" + ("; the loss follows" if follows is not None else ""),
        evidence=tuple(evidence),
    )


def _course(signals: Signals, points: Curve, fault: ScheduleFault) -> str:
    """What the rate does, with its numbers, as the predicate of a sentence."""
    onset, end = int(points.step[fault.onset]), int(points.step[fault.end])
    return {
        "zero": f"is zero from step {onset} to {end}, {fault.end - fault.onset + 1} logged points"
        + (f" (before: {fault.before:.3g})" if fault.onset else " of the run"),
        "negative": f"falls below zero at step {onset} and is down to {fault.after:.3g}: its decay goes on beyond "
        "its end",
        "climb": f"climbs from {fault.before:.3g} to {fault.after:.3g} from step {onset} on, after its warm-up",
        "reset": f"falls from {fault.before:.3g} to {fault.after:.3g} at step {onset} and warms up again",
        "anew": f"falls back from {fault.before:.3g} to {fault.after:.3g} at step {onset} and from there on at even "
        "distances, rising in between: its warm-up begins anew each time",
        "back": f"has decayed from {fault.before:.3g} as declared, but turns at step {onset} and climbs back to "
        f"{fault.after:.3g}",
        "again": f"has decayed from {fault.before:.3g} to {fault.after:.3g} and begins anew at step {onset}, and at "
        "even distances from there on, where a single decay is declared",
        "short": f"leaps from {fault.before:.3g} to {fault.after:.3g} at step {onset}, before its warm-up is over",
        "drop": f"falls at once from {fault.before:.3g} to {fault.after:.3g} at step {onset}, where a smooth decay is "
        "declared",
        "cuts": f"is cut at step {onset} and at even distances from there on, from {fault.before:.3g} to "
        f"{fault.after:.3g}, although the loss was still improving",
        "spent": f"is down to a tenth of its peak {fault.before:.3g} at step {onset} and ends at {fault.after:.3g}: "
        "its decay is over long before the log is, as if planned in epochs and stepped with every batch"
        + _by_epochs(signals, fault),
        "swings": f"swings between {fault.before:.3g} and {fault.after:.3g} as a cosine, from step {onset} on up again "
        "and again, as if planned in epochs and stepped with every batch",
        "wild": f"leaps up and down between {fault.after:.3g} and {fault.before:.3g} from point to point from step "
        f"{onset} on: no schedule does",
        "stands": f"stands still at {fault.after:.4g} from step {onset} on, in the middle of its decay",
        "jump": f"jumps from {fault.before:.3g} to {fault.after:.3g} at step {onset}",
    }[fault.what]


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
