"""The loss jumps out of its own noise within a few logged points and comes back.

What it detects:
    A training loss that rises above the level on both of its sides by more than its noise explains, reaching half of
    the height within three logged points, and that later falls below half of that height again. Bursts that recur are
    one incident with all onsets in `occurrences`. So is a value far below all sense (-1e34) and back. In a log of 5 to
    11 points, one point farther above those around it than exponential noise of that number shows in a hundred logs, or
    a last one of twice all before, which are steady, or above all before, each of which fell; among means over epochs,
    the same at twice their level; in up to 400 points, a rise of four times any other that undoes four points and more;
    at the start of any log, a second or third row that the validation loss shares, or an overshoot to twice the first
    value that falls back point after point. Of runs in one folder whose noise agrees step by step, those fed in the
    same order, points far out in two of them at the same steps are told of both, whatever their tail. So are stretches
    that come whenever one shard does, where each of its returns lifts the loss by three standard errors and other
    shards hardly ever do. Of the other losses of a game, a value three times all others beside a second one that
    towers.

Why it matters:
    One burst costs the steps until the trend is met again. Bursts that recur at the same data point to the data; bursts
    that grow point to the optimiser and often end in divergence or NaN.

Evidence:
    Height in noise widths against the level before, what grad norm, learning rate and loss scale did at that step,
    which of them moved earlier and by how many steps, where the loss settled against the level before. What comes back
    but in part, and stays more than a tenth of its height above that level to the end, is `unrecovered`.

False positives:
    Heavy-tailed noise: the bar is set by the run's own tail, so a run that jumps by chance all the time raises
    nothing (in noise finer than 5 % of the level, points 8 widths out stand if they are fewer than one in 500), nor do
    batches of two kinds, where one in twenty stands above the others all along. Epoch stairs and learning-rate drops: a
    point must stand above both of its sides. A part that joins the loss with its own size.

Example:
    `loss 2.31 -> 6.92 at step 41200, 150 noise widths, grad norm x76 in the same step, back after 18 steps`

Parameters:
    min_height: noise widths that the highest burst must reach; lower ones that stand out with it are listed too.
    min_broad: the same for one that lasts.
"""

from __future__ import annotations

from dataclasses import replace

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.loss.events import USES, certainty, finding, height, settles
from trainforensics.kinds import KINDS, Severity
from trainforensics.model import Clear, Fired, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.loss_event import LossEvent
from trainforensics.signals.losses import loss_events, unjudgeable
from trainforensics.signals.task import rewarded

BROAD = 4  # points to a median
MOST_TOLD = 8  # bursts with a row of evidence; the others are like them

META = Meta(
    kind=KINDS["instant-burst"],
    needs=("train_loss",),
    uses=USES,
    params=(
        Param("min_height", 6.0, "a normal series of 200,000 points stays below 5 of its standard deviations"),
        Param("min_broad", 4.0, "the same for one that medians of four points show, whose noise is half as wide"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """One finding for all bursts of the run, since what recurs has one cause until shown otherwise."""
    reason = unjudgeable(signals)
    if reason is not None:
        return reason
    bursts = [e for e in loss_events(signals) if _is_burst(e)]
    if not any(e.excursion.z >= params["min_broad" if e.excursion.scale >= BROAD else "min_height"] for e in bursts):
        return Clear()
    highest = max(bursts, key=lambda e: e.excursion.z)
    report = finding(signals, "instant-burst", bursts[0], bursts[0].onset_step, 0.0, _summary(bursts, highest))
    beside = any("times" in row.text for row in report.evidence[1:2])
    worst: Severity | None = "high" if any(e.excursion.recovery == "unrecovered" for e in bursts) else None
    if worst is None and rewarded(signals) and not beside:
        worst = "low"  # the losses of a policy and of its returns have no calm that a new kind of episode must keep
    corroborated = len(bursts) > 1 or beside
    return Fired(
        (
            replace(
                report,
                occurrences=tuple(e.onset_step for e in bursts),
                evidence=(*report.evidence, *map(height, bursts[1:MOST_TOLD])),
                severity=worst,
                confidence=certainty(highest.excursion.z, corroborated),
            ),
        )
    )


def _is_burst(event: LossEvent) -> bool:
    return event.sudden and not (event.lasting and event.excursion.recovery != "ongoing")


def _summary(bursts: list[LossEvent], highest: LossEvent) -> str:
    e, onset, top = highest.excursion, highest.onset_step, highest.peak_step
    level = f"{highest.crest:.4g}"
    place = f"to {level} at step {onset}" if top == onset else f"at step {onset}, to {level} at {top}"
    before = f"from a level of {e.before:.4g}"
    text = f"{highest.curve.name} jumped {before} {place}, {e.widths} noise widths; {settles(highest)}"
    if len(bursts) == 1:
        return text
    more = f" and {len(bursts) - 6} more" if len(bursts) > 6 else ""
    steps = ", ".join(str(e.onset_step) for e in bursts[:6]) + more
    return f"{len(bursts)} bursts at steps {steps}; the furthest out of its noise: {text}"
