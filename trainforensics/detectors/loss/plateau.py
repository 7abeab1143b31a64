"""The loss does not fall over a span in which it should.

What it detects:
    A training loss without any trend over at least a third of the run, together with a reason why it should have one: a
    learning rate of zero, a clipping coefficient of zero, a rate that never came near any that trains, weights whose
    norm stands still to its last digit, or, although the learning rate is up, the score of a model that has learnt
    nothing: the loss of guessing at random, an accuracy as low, hardly a sample right, more nats per token than
    counting tokens gives, evaluations of exactly one value, one value again and again, or nothing found in any of them
    (four epochs are enough for that), hardly an object found while the loss of their classes stays. And, without
    further reason, ten means over epochs that end within 3 % of the first, or thousands of updates from the first one
    on that end as high. Where no training loss is logged, the same of the validation loss, or accuracies that stay low.
    And a reward that no part of the log has higher than its first third.

Why it matters:
    Steps are paid for and teach nothing: an optimiser that does not step, a frozen graph, a schedule that ended early.

Evidence:
    Level at both ends of the span against the noise of a level, learning rate within the span, norm of the weights,
    value of chance, accuracy.

False positives:
    Converged runs and the tail of a decayed schedule are flat too; objectives that are flat by nature (diffusion,
    policy gradients, preference losses during warm-up) have noise but no value of chance. Flatness alone raises
    nothing in losses of single batches, whose noise hides a small fall, nor where a validation loss falls by 1 %, a
    score rises or has nothing left to gain. Policies and preferences are tuned at rates of 1e-7 and below, and their
    losses need not fall.

Example:
    `loss stays at 2.303 = ln 10 from step 0 to 690 while the learning rate is 1e-3`

Parameters:
    span: share of the run that must be flat. near: relative distance from the value of chance. timid: the highest rate
    of a run that never had one to train with.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.chance import FLAT, drift, ignorance, still_warming_up
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.policy import never_better
from trainforensics.signals.standstill import nothing_told_apart, scores_at_rest, standstill
from trainforensics.signals.stuck import weights_at_rest
from trainforensics.signals.task import adversarial

MIN_POINTS, FEW_POINTS = 30, 10  # of weights at rest or a timid rate; of a rate of zero, or a whole run at chance
FEW_EPOCHS = 4  # points of a run that scores tell about
CREEPS = 0.05  # of the level: what an eye sees move, though it tells of no learning
ZERO_RATE, NEAR_TOP = 1e-3, 0.3  # of the highest learning rate
UNSEEN = 0.25  # widths of the point-to-point noise: a fall that no eye sees

META = Meta(
    kind=KINDS["plateau"],
    needs=("train_loss|val_loss|val_metric|reward",),
    uses=("*",),
    params=(
        Param("span", 1 / 3, "shorter flat stretches occur between learning-rate drops"),
        Param("near", 0.02, "initial logits move the loss of chance by 1-2 %"),
        Param("timid", 1e-7, "below all that supervised training uses; 1e-6 is the low end of fine-tuning"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Look for a flat span with a reason."""
    if (reward := never_better(signals)) is not None:
        return Fired((_finding(reward, 0, "nothing that is rewarded is learnt", 0.0),))
    loss = signals.curve("train_loss")
    if loss is None:
        return _without_training_loss(signals)
    loss = loss.only_finite()
    if adversarial(loss):
        return NotApplicable(f"{loss.name} is the loss of a game or a critic: it need not fall", "a metric of quality")
    if len(loss) < FEW_EPOCHS:
        return NotApplicable("too few points of training loss", "the training loss at least every 1 % of the run")
    rate = signals.curve("learning_rate")
    clipped = next((c for c in signals.curves("clip_ratio") if "coef" in c.name.lower()), None)
    for factor, reason in ((rate, "the learning rate is zero there"), (clipped, "clipping leaves no gradient there")):
        if (start := _stopped(loss, factor, params["span"])) is not None:
            return Fired((_finding(loss, start, reason, 0.0),))
    if rate is not None and (peak := _timid(signals, loss, rate, params["timid"])) is not None:
        return Fired((_finding(loss, 0, f"the learning rate never exceeds {peak:.2g}", 0.0),))
    if (rest := _at_rest(signals, loss)) is not None:
        return Fired((rest,))
    found = nothing_told_apart(signals)
    if found is None and (rate is None or _raised(rate)):
        known = ignorance(signals, loss, params["near"]) if len(loss) >= FEW_POINTS else None
        found = known or standstill(signals, loss)
    return Fired((_finding(loss, found.start, found.reason, found.expected or 0.0),)) if found is not None else Clear()


def _without_training_loss(signals: Signals) -> Outcome:
    """What evaluations alone say: a loss that ends where it began, or scores of guessing."""
    tested = signals.curve("val_loss")
    tested = tested.only_finite() if tested is not None else None
    if tested is not None and (still := standstill(signals, tested)) is not None:
        return Fired((_finding(tested, still.start, still.reason, 0.0),))
    if tested is None and (scored := scores_at_rest(signals)) is not None:
        return Fired((_finding(scored[0], 0, scored[1], 0.0),))
    return NotApplicable("no training loss is logged", "the training loss at least every 1 % of the run")


def _stopped(loss: Curve, rate: Curve | None, span: float) -> int | None:
    """First point of a span with a learning rate of zero, or another factor of the steps, to which no schedule decayed
    it."""
    if rate is None or len(rate) < 2 or not np.isfinite(rate.value).all():
        return None
    at = np.clip(np.searchsorted(rate.step, loss.step, side="right") - 1, 0, len(rate) - 1)
    zero = rate.value[at] <= ZERO_RATE * rate.value.max()
    if rate.value.max() <= 0:
        zero[:] = True
    moving = np.flatnonzero(~zero)
    start = int(moving[-1]) + 1 if len(moving) else 0
    if len(loss) - start < max(FEW_POINTS, span * len(loss)) or drift(loss.value[start:]) < -FLAT:
        return None
    decayed = start > 0 and rate.value[at[start - 1]] < 0.1 * rate.value.max()
    return None if decayed else start


def _at_rest(signals: Signals, loss: Curve) -> Finding | None:
    """The span in which the weights stand still and the loss with them."""
    found = weights_at_rest(signals)
    if found is None:
        return None
    norm, first = found
    start = int(np.searchsorted(loss.step, norm.step[first]))
    if len(loss) - start < MIN_POINTS or drift(loss.value[start:]) < -FLAT:
        return None
    value = float(norm.value[-1])
    finding = _finding(loss, start, f"the weights do not move: {norm.name} is {value:.6g} to its last digit", 0.0)
    row = Evidence(norm.name, int(norm.step[first]), value, None, "the same at every point since")
    return replace(finding, evidence=(*finding.evidence, row))


def _timid(signals: Signals, loss: Curve, rate: Curve, bound: float) -> float | None:
    """The highest learning rate, where it lies below the bound and the loss ends where it began."""
    peak = float(np.nanmax(rate.value, initial=0.0))
    if not 0 < peak < bound or len(loss) < MIN_POINTS or signals.has("reward") or signals.has("kl"):
        return None
    third = len(loss) // 3
    fall = float(np.median(loss.value[:third]) - np.median(loss.value[-third:]))
    unseen = UNSEEN * robust_sigma(np.diff(loss.value)) / math.sqrt(2)
    flat = fall < unseen or drift(loss.value) > -FLAT
    return peak if flat and not still_warming_up(signals) else None


def _raised(rate: Curve) -> bool:
    """Whether the learning rate stood near its top for half of the run, or of its first third: no more a warm-up."""
    near = rate.value > NEAR_TOP * rate.value.max()
    return bool(max(near.mean(), near[: max(len(near) // 3, 1)].mean()) >= 0.5)


def _finding(loss: Curve, start: int, reason: str, expected: float) -> Finding:
    onset = int(loss.step[start])
    level = float(np.median(loss.value[start:]))
    first, last = (float(np.median(part)) for part in np.array_split(loss.value[start:], 3)[::2])
    course = f"stays at {level:.4g}" if abs(last - first) <= CREEPS * abs(level) else f"creeps to {last:.4g}"
    return Finding(
        kind="plateau",
        series=loss.name,
        role=loss.series.role,
        onset_step=onset,
        onset_interval=(int(loss.step[max(start - 1, 0)]), onset),
        confidence=0.8,
        summary=f"{loss.name} {course} from step {onset} to {int(loss.step[-1])}: {reason}",
        recovery="unrecovered",
        evidence=(Evidence(loss.name, onset, level, expected or None, reason),),
    )
