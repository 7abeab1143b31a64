"""The loss climbs out of its noise over many steps.

What it detects:
    A training loss whose level rises over more than three logged points by more than its noise explains, whether it
    comes back or not. Where it never comes back, a divergence is reported as its effect; where it comes back but in
    part and stays there to the end, it is `unrecovered`.

Why it matters:
    A slow build-up tends not to heal by itself, and the steps before it shows on the loss are the cheapest place to
    act: grad norm or update ratio usually lead.

Evidence:
    Height in noise widths, length of the climb, which signals left their noise before the loss and by how many steps,
    the learning rate there.

False positives:
    A scheduled warm restart lifts the loss for a while: a rise under a learning rate that the run knew before, back
    below the loss it had then, is set aside. Slow wandering of a correlated series is part of its noise. So is a part
    of the loss that joins or is given weight on the way up. Where accuracy or validation gets better all the while,
    what training asks for got harder.

Example:
    `loss climbed from 2.21 to 2.64 over steps 4200-4650, 14 noise widths; grad_norm led by 120 steps`

Parameters:
    min_height: noise widths below which no rise is reported.
"""

from __future__ import annotations

from dataclasses import replace

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.loss.events import USES, certainty, finding, settles
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Finding, Fired, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.loss_event import LossEvent
from trainforensics.signals.losses import loss_events, unjudgeable

SLOW_POINTS = 10  # a climb of fewer points gives no time to act before it is a divergence

META = Meta(
    kind=KINDS["gradual-rise"],
    needs=("train_loss",),
    uses=USES,
    params=(Param("min_height", 2.0, "less than two widths of the point-to-point noise is not seen by eye"),),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """One finding for every climb."""
    reason = unjudgeable(signals)
    if reason is not None:
        return reason
    rises = [e for e in loss_events(signals) if _is_climb(e) and e.excursion.z >= params["min_height"]]
    return Fired(tuple(_finding(signals, event) for event in rises)) if rises else Clear()


def _is_climb(event: LossEvent) -> bool:
    """A lasting rise that takes but a few points is told as a divergence alone."""
    return not event.sudden and not (event.lasting and event.excursion.rise < SLOW_POINTS)


def _finding(signals: Signals, event: LossEvent) -> Finding:
    e = event.excursion
    summary = (
        f"{event.curve.name} climbed from {e.before:.4g} to {event.crest:.4g} over steps "
        f"{event.onset_step}-{event.peak_step}, {e.widths} noise widths; {settles(event)}"
    )
    report = finding(signals, "gradual-rise", event, event.onset_step, 0.0, summary)
    confidence = certainty(3 * e.z, bool(report.precursors))  # a climb is many points, each of them evidence
    return replace(
        report, confidence=confidence, severity="high" if event.lasting or e.recovery == "unrecovered" else None
    )
