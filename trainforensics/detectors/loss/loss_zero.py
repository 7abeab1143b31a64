"""The loss stands at exactly zero, or at another constant, while other series move.

What it detects:
    A training loss that is one exact number to the end of the log: from the first step on (nothing to learn from), or
    suddenly after it moved (a dead model, a fault of the logging). And a single epoch of exactly zero between others,
    with the scores of training zero as well or the validation loss repeated: an epoch without a batch.

Why it matters:
    The run burns compute without learning. All labels masked, an underflow, or a metric that is no longer updated look
    the same on the loss alone and are told apart by the gradient.

Evidence:
    The constant, the first step, the level before, the gradient norm meanwhile.

False positives:
    Zero with a living gradient norm is rounding, or an objective that is zero by construction (GRPO). Zero that hides
    NaN is reported as the onset of NaN. A loss that shrinks into zero little by little is not stuck.

Example:
    The loss is 0.0 and grad_norm NaN from step 1: every label of the data set is masked.

Parameters:
    None of its own: lengths (5 points of zero, 20 of another constant, 5 % of the log) are those of the kernel.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Ints
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.stuck import Stuck, empty_epochs, stuck

META = Meta(kind=KINDS["loss-zero"], uses=("*",))
MEANING = {
    "labels": "nothing to learn from since the start, as with masked labels",
    "dead": "the gradient is zero as well",
    "constant": "other series go on",
}


def detect(signals: Signals, params: Params) -> Outcome:  # noqa: ARG001
    """Report a loss that stands still and hides no NaN."""
    if not signals.has("train_loss"):
        return NotApplicable("no training loss is logged", "the training loss")
    loss, empty = signals.curve("train_loss"), empty_epochs(signals)
    if loss is not None and empty is not None:
        return Fired((_no_batch(loss, empty),))
    still = stuck(signals)
    if still is None or still.reason in {"filter", "stopped"} or any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    return Fired((_finding(still),))


def _no_batch(loss: Curve, empty: Ints) -> Finding:
    steps = [int(step) for step in loss.step[empty]]
    others = float(np.median(np.delete(loss.value, empty)))
    times = "once" if len(steps) == 1 else f"in {len(steps)} of {len(loss)} epochs"
    return Finding(
        kind="loss-zero",
        series=loss.name,
        role="train_loss",
        onset_step=steps[0],
        occurrences=tuple(steps),
        confidence=0.8,
        summary=f"{loss.name} is exactly 0 {times}, first in epoch {steps[0]}: an epoch without a batch, as where a "
        "generator has run dry.",
        evidence=(Evidence(loss.name, steps[0], 0.0, others, "against the median of the other epochs"),),
    )


def _finding(still: Stuck) -> Finding:
    curve, step = still.curve, int(still.curve.step[still.first])
    gradient = still.gradient
    seen = "not logged" if np.isnan(gradient) else "not finite" if np.isinf(gradient) else f"{gradient:.3g}"
    points = still.last - still.first + 1
    text = (
        f"{curve.name} is exactly {still.value:g} in all {points} points from step {step} on (gradient norm {seen}): "
    )
    expected = still.level if np.isfinite(still.level) else None
    facts = [points >= 20, not np.isnan(gradient), still.reason in {"dead", "labels"} and not np.isnan(gradient)]
    evidence = [Evidence(curve.name, step, still.value, expected, "the constant, against the level before")]
    if not np.isnan(gradient):
        evidence.append(Evidence("grad_norm", step, gradient, None, "median gradient norm meanwhile"))
    return Finding(
        kind="loss-zero",
        series=curve.name,
        role="train_loss",
        onset_step=step,
        confidence=round(0.65 + 0.1 * sum(facts), 2),
        summary=text + MEANING[still.reason] + ".",
        onset_interval=(int(curve.step[still.first - 1]), step) if still.first else None,
        segment=int(curve.segment[still.first]),
        end_step=None,
        recovery="unrecovered",
        evidence=tuple(evidence),
    )
