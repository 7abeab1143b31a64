"""A spike or rise that never returns to the earlier level, or runs away.

What it detects:
    A training loss that leaves its noise and, to the end of the log, never falls below half of the height it gained.
    After a slow climb the onset is where the climb turns steep; before a jump, where three points and more led up to it
    without a break. In a log of 5 to 11 points, a level that lies above the earlier one by twice what both span, or a
    climb from point to point to half as much more; at the start of any log, a leap after which no point is ever as low
    again. In a game, the loss of a generator that climbs for good once its discriminator is never wrong any more.

Why it matters:
    Nothing learnt after the onset is worth keeping; every further step is lost compute.

Evidence:
    Level before and after, height in noise widths, whether it still climbs, what grad norm and learning rate did.

False positives:
    Harder data switched in on purpose lifts the loss for good as well: it then goes on falling in parallel to the trend
    before, and is left to data-shift. A rise in the last few points is `ongoing`, not yet a divergence, unless the
    trainer stopped there and says that the loss runs away. A critic's loss grows with the returns: it counts only where
    no reward is logged and it ends a thousand times above its start.

Example:
    `loss 2.14 -> 5.42 at step 3400 and stays there for 600 steps, grad_norm x40`

Parameters:
    min_height: noise widths below which nothing is reported.
    min_rise: share of the level below which nothing is reported.
"""

from __future__ import annotations

import re
from dataclasses import replace

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.loss.events import USES, certainty, finding, settles
from trainforensics.kinds import KINDS, Severity
from trainforensics.model import Clear, Finding, Fired, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.loss_event import LossEvent
from trainforensics.signals.losses import loss_events, unjudgeable

_RUNS_AWAY = re.compile(r"minimum loss scale|loss .{0,16}(explod|diverg)|training (has )?diverged", re.IGNORECASE)

META = Meta(
    kind=KINDS["divergence"],
    needs=("train_loss",),
    uses=USES,
    params=(
        Param("min_height", 3.0, "less than three widths of the point-to-point noise is a remark, not a lost run"),
        Param("min_rise", 0.01, "of its level: a loss without noise may climb so little as a term gains weight"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """One finding for every excursion that lasts to the end of the log."""
    reason = unjudgeable(signals)
    if reason is not None:
        return reason
    lasting = [e for e in loss_events(signals) if _is_divergence(signals, e, params)]
    return Fired(tuple(_finding(signals, event) for event in lasting)) if lasting else Clear()


def _is_divergence(signals: Signals, event: LossEvent, params: Params) -> bool:
    e = event.excursion
    high = e.z >= params["min_height"] and abs(event.crest - e.before) >= params["min_rise"] * abs(e.before)
    return event.lasting and high and (e.recovery != "ongoing" or _given_up(signals, event))


def _given_up(signals: Signals, event: LossEvent) -> bool:
    """Whether the trainer stopped within the rise and says that the loss runs away."""
    errors = (error for error in signals.events if error.kind in {"error", "traceback"})
    return any(
        _RUNS_AWAY.search(error.text) and (error.step or event.onset_step) >= event.onset_step for error in errors
    )


def _finding(signals: Signals, event: LossEvent) -> Finding:
    e = event.excursion
    running_away = e.recovery == "diverging"
    summary = (
        f"{event.curve.name} left {e.before:.4g} at step {event.knee_step}, reached {event.crest:.4g} and stands at "
        f"{event.late:.4g}; {settles(event)}"
    )
    severity: Severity = "critical" if running_away else "high"
    report = finding(signals, "divergence", event, event.knee_step, certainty(2 * e.z, True), summary)
    return replace(report, severity=severity)
