"""The loss is, or drops, too low to be true.

What it detects:
    A loss per token that falls below a value no text allows while the data are seen for the first time: under 0.1
    nats for good.

Why it matters:
    The model reads its answer: a missing causal mask, labels in the input, packing that lets documents see themselves,
    duplicated data. Everything measured afterwards is void.

Evidence:
    Loss before and after, the epoch reached, gradient norm meanwhile.

False positives:
    Fine-tuning over several epochs memorises honestly: more than one pass over the data clears it. Tasks whose loss is
    no cross-entropy per token are not judged.

Example:
    `loss fell from 1.64 to 0.02 by step 30, 2 % of the first epoch`

Parameters:
    floor: nats per token. seen_once: epochs up to which data count as new.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.precursors import companions
from trainforensics.signals.task import TOKEN_ROLES, per_token

LEARNT = 0.5  # nats: a run that starts below has learnt before

META = Meta(
    kind=KINDS["suspicious-low-loss"],
    needs=("train_loss",),
    uses=("epoch", "grad_norm", "learning_rate", "loss_scale", *TOKEN_ROLES),
    params=(
        Param("floor", 0.1, "the best models stay above 0.3 nats per token even on source code"),
        Param("seen_once", 1.0, "the second pass over data may be memorised"),
        Param("points", 5.0, "a single low batch may hold boilerplate"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Look for a lasting fall below the floor within the first pass over the data."""
    loss = signals.curve("train_loss")
    if loss is None or not per_token(signals):
        return NotApplicable("the log does not say that the loss is per token", "tokens per second, or the vocabulary")
    loss = loss.only_finite()
    epoch = signals.curve("epoch")
    if epoch is None:
        return NotApplicable("no epoch is logged, so data may have been seen before", "the epoch as a fraction")
    low = loss.value < params["floor"]
    fading = low & (loss.value > 0)  # a loss that is 0 at once stands still: loss-zero, or a filter over NaN
    count = int(params["points"])
    if (
        len(loss) < 2 * count
        or float(np.median(loss.value[:3])) < LEARNT
        or not low[-count:].all()
        or fading.sum() < count
    ):
        return Clear()
    high = np.flatnonzero(~low)
    first = int(high[-1]) + 1
    leaving = int(np.flatnonzero(loss.value[:first] > LEARNT)[-1]) + 1
    passed = float(epoch.value[max(epoch.at(int(loss.step[first])), 0)])
    if passed >= params["seen_once"]:
        return Clear()
    return Fired((_finding(signals, loss, leaving, first, passed),))


def _finding(signals: Signals, loss: Curve, leaving: int, first: int, passed: float) -> Finding:
    start, value = float(np.median(loss.value[:3])), float(np.median(loss.value[first:]))
    onset = int(loss.step[leaving])
    row = Evidence(loss.name, int(loss.step[first]), value, start, f"epoch {passed:.3g}: new data cannot be known")
    return Finding(
        kind="suspicious-low-loss",
        series=loss.name,
        role="train_loss",
        onset_step=onset,
        onset_interval=(int(loss.step[max(leaving - 1, 0)]), onset),
        confidence=0.85,
        summary=f"{loss.name} fell from {start:.4g} to {value:.3g} by step {loss.step[first]}, in epoch {passed:.3g}",
        evidence=(row, *companions(signals, onset)),
    )
