"""Gradients vanish into zero under low precision.

What it detects:
    A gradient norm that falls from its own level to next to nothing, or a share of zero gradients that jumps to most of
    them and stays, in a run that computes in fp16 or fp8, while the loss stands still.

Why it matters:
    Gradients below the smallest number of the format become zero and the model stops learning without any error.

Evidence:
    The norm before and after, the loss meanwhile, the loss scale.

False positives:
    A converged loss has small gradients by right. Without a sign of low precision the same picture is reported as a
    vanishing gradient.

Example:
    With fp16 and no loss scale the gradient norm falls from 0.8 to 0 at step 300 and the loss stays at 2.4.

Parameters:
    zero_share: share of zero gradients that counts as a collapse.
"""

from __future__ import annotations

import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.scale import loss_scale, low_precision
from trainforensics.signals.stretches import lasting_start
from trainforensics.signals.stuck import stuck
from trainforensics.signals.vanishing import collapse

META = Meta(
    kind=KINDS["underflow"],
    uses=("grad_norm", "loss_scale", "*"),
    params=(Param("zero_share", 0.5, "most gradients are lost; healthy dense models stay near 0"),),
)
_ZEROS = re.compile(r"(grad\w*[/_.\- ]?(zero|underflow)|(zero|underflow)\w*[/_.\- ]?(grad|frac))", re.IGNORECASE)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report gradients that low precision turned into zero."""
    zeros = [curve for curve in signals.every_curve() if _ZEROS.search(curve.name)]
    if not signals.has("grad_norm") and not zeros:
        return NotApplicable("neither gradient norm nor share of zero gradients is logged", "the gradient norm")
    if stuck(signals) is not None or any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    for curve in zeros:
        if found := _zeros(curve, params["zero_share"]):
            return Fired((found,))
    fallen = collapse(signals)
    if fallen is None or fallen.layers or np.isnan(fallen.before) or not low_precision(signals):
        return Clear()
    curve, step = fallen.curve, int(fallen.curve.step[fallen.first])
    scale = loss_scale(signals)
    scaled = f"loss scale {scale.value[-1]:g}" if scale is not None else "no loss scale logged"
    text = (
        f"{curve.name} falls from {fallen.before:.3g} to {fallen.level:.2g} at step {step} in low precision ({scaled}) "
    )
    text += f"while the {fallen.aim} stays at {fallen.loss:.4g}."
    evidence = (
        Evidence(curve.name, step, fallen.level, fallen.before, "gradient norm since, against the level before"),
    )
    return Fired((_finding(curve, fallen.first, text, evidence),))


def _zeros(curve: Curve, share: float) -> Finding | None:
    curve = curve.only_finite()
    if len(curve) < 10 or float(curve.value.max()) > 1:
        return None
    first = lasting_start(curve.value > share)
    if first is None or first < 5 or len(curve) - first < 5:
        return None
    before, level = float(np.median(curve.value[:first])), float(np.median(curve.value[first:]))
    if before > share / 2:
        return None
    step = int(curve.step[first])
    text = f"{curve.name} rises from {before:.2g} to {level:.2g} at step {step} and stays there."
    return _finding(curve, first, text, (Evidence(curve.name, step, level, before, "share of zero gradients"),))


def _finding(curve: Curve, first: int, text: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        kind="underflow",
        series=curve.name,
        role=curve.series.role,
        onset_step=int(curve.step[first]),
        confidence=0.7,
        summary=text,
        onset_interval=(int(curve.step[first - 1]), int(curve.step[first])) if first else None,
        segment=int(curve.segment[first]),
        recovery="unrecovered",
        evidence=evidence,
    )
