"""What an event of the training loss says in a finding: its evidence, its certainty, what became of it."""

from __future__ import annotations

import numpy as np

from trainforensics.model import Evidence, Finding
from trainforensics.signals import Signals
from trainforensics.signals.loss_event import LossEvent
from trainforensics.signals.precursors import RISING, companions, precursors

# What the loss kinds look at beside the loss; declared by each of them, since derived signals are shared. Of every
# series: parts of the loss, which have names of their own.
USES = (*RISING, "epoch", "learning_rate", "loss_scale", "loss_weight", "reward", "stage", "*")


def finding(signals: Signals, kind: str, event: LossEvent, onset_step: int, confidence: float, summary: str) -> Finding:
    """A finding with the evidence that all loss kinds share."""
    e = event.excursion
    rows = (height(event), *companions(signals, onset_step), *(_validation(signals, event) if event.lasting else ()))
    return Finding(
        kind=kind,
        series=event.curve.name,
        role="train_loss",
        onset_step=onset_step,
        confidence=confidence,
        summary=summary,
        onset_interval=(event.before_step, event.onset_step) if onset_step == event.onset_step else None,
        occurrences=(onset_step,),
        segment=int(event.curve.segment[max(event.curve.at(onset_step), 0)]),
        peak_step=event.peak_step,
        end_step=None if (event.lasting or e.recovery == "unrecovered") and not event.rolled_back else event.end_step,
        recovery=e.recovery,
        evidence=rows,
        precursors=precursors(signals, onset_step),
    )


def height(event: LossEvent) -> Evidence:
    """How far an event went above the level it came from, as a row of evidence."""
    e = event.excursion
    text = f"{e.widths} noise widths above the level before" if np.isfinite(e.z) else "above a level without noise"
    if e.scale > 1:
        text = f"median of {e.scale} points, {text}"
    return Evidence(event.curve.name, event.peak_step, event.crest, e.before, text)


def _validation(signals: Signals, event: LossEvent) -> tuple[Evidence, ...]:
    """What validation came to by the end, for a loss that never came back."""
    curve = signals.curve("val_loss")
    curve = curve.only_finite() if curve is not None else None
    before, last = (-1, -1) if curve is None else (curve.at(event.before_step), len(curve) - 1)
    if curve is None or not 0 <= before < last:
        return ()
    text = f"the last evaluation, against the one of step {int(curve.step[before])}"
    return (Evidence(curve.name, int(curve.step[last]), float(curve.value[last]), float(curve.value[before]), text),)


def certainty(z: float, corroborated: bool) -> float:
    """Confidence from the height in noise widths: 0.75 at 6, 0.95 at 20; a companion that moved halves the doubt."""
    doubt = 0.25 if not np.isfinite(z) else 0.25 * min(1.0, (6.0 / max(z, 6.0)) ** 1.33)
    return round(1 - (doubt / 2 if corroborated else doubt), 3)


def settles(event: LossEvent) -> str:
    """How a sentence says what became of it."""
    e = event.excursion
    if e.returned and e.recovery == "unrecovered":
        return f"it came back in part and stands at {e.after:.4g} to the end"
    return {
        "recovered": "it came back to its trend",
        "partial": "it came back most of the way",
        "unrecovered": "it never came back",
        "diverging": "it never came back and climbs to the end",
        "ongoing": "the log ends within it",
    }[e.recovery]
