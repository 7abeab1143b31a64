"""The loss stands at exactly zero, or at another constant, while other series move.

What it detects:
    A training loss that is one exact number to the end of the log: from the first step on (nothing to learn from), or
    suddenly after it moved (a dead model, a fault of the logging).

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
from trainforensics.signals import Signals
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.stuck import Stuck, stuck

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
    still = stuck(signals)
    if still is None or still.reason == "filter" or any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    return Fired((_finding(still),))


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
