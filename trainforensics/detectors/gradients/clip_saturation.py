"""Clipping acts on nearly every step.

What it detects:
    Gradients clipped at nearly every step after warm-up: by the logged share or count of clipped steps, by norms above
    the configured threshold, or by a norm that is logged after clipping and equals the threshold throughout.

Why it matters:
    With every step clipped the optimiser sees a direction of fixed length: the threshold acts as a second learning
    rate, and the norm no longer warns of anything. A remark, unless the norms lie a thousand times above the
    threshold: then next to nothing of a gradient is left, as where it is clipped before it is unscaled.

Evidence:
    The share of clipped steps, the threshold, the median norm.

False positives:
    In reinforcement learning "clip ratio" means the policy's ratio; it is not read here. Some recipes clip every step
    on purpose.

Example:
    grad_norm exceeds max_grad_norm = 1.0 in 99 % of 3,000 steps, median 2.7.

Parameters:
    share: share of steps that counts as nearly every one.
    crushed: norm in thresholds from which it is an alarm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Bools
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.stretches import lasting_start
from trainforensics.signals.stuck import stuck

META = Meta(
    kind=KINDS["clip-saturation"],
    uses=("grad_norm", "clip_ratio", "clip_events", "*"),
    params=(
        Param("share", 0.95, "nearly every step; healthy recipes clip a few per cent to a half"),
        Param("crushed", 1000.0, "recipes that clip each step on purpose do so by factors of ten to a few hundred"),
    ),
)
MIN_POINTS = 50
_THRESHOLD = re.compile(
    r"^(max_grad_norm|grad(ient)?_?clip(ping)?(_?val(ue)?|_?norm|_?threshold)?|clip_grad(_norm)?|max_norm|clip_norm)$"
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report clipping on nearly every step."""
    if not any(signals.has(role) for role in ("grad_norm", "clip_ratio", "clip_events")):
        return NotApplicable("neither gradient norm nor clipping is logged", "the gradient norm before clipping")
    if stuck(signals) is not None or any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    for curve, clipped, text in _accounts(signals):
        start = max(5, len(curve) // 10)
        if len(curve) - start < MIN_POINTS:
            continue
        first = lasting_start(clipped, params["share"])
        if first is not None and len(curve) - first >= max(MIN_POINTS, len(curve) // 2):
            found = _finding(curve, first, float(clipped[first:].mean()), text)
            return Fired((_crushed(signals, found, params),))
    return Clear()


def _accounts(signals: Signals) -> list[tuple[Curve, Bools, str]]:
    """Curves that tell which steps were clipped: the curve, the mask, and what the mask means."""
    found = []
    norm = signals.curve("grad_norm")
    if norm is not None:
        norm = norm.only_finite()
        threshold = _threshold(signals.config)
        if threshold:
            over = norm.value > 1.001 * threshold
            found.append((norm, over, f"the norm exceeds the threshold of {threshold:g}"))
        if len(norm) and norm.value[-1] > 0:
            top = float(norm.value.max())
            found.append((norm, np.abs(norm.value - top) < 1e-3 * top, f"the logged norm stands at {top:.4g}"))
    if not signals.has("reward"):
        for role in ("clip_ratio", "clip_events"):
            curve = signals.curve(role)
            if curve is not None:
                curve = curve.only_finite()
                scale = 100.0 if len(curve) and curve.value.max() > 1 and role == "clip_ratio" else 1.0
                found.append((curve, curve.value >= 0.95 * scale, "clipping is logged"))
    return found


def _crushed(signals: Signals, found: Finding, params: Params) -> Finding:
    """The finding as an alarm where norms are as a rule far above the threshold, which is 1 where it is not known."""
    norm = signals.curve("grad_norm")
    since = norm.value[norm.finite & (norm.step >= (found.onset_step or 0))] if norm is not None else np.empty(0)
    threshold = _threshold(signals.config) or 1.0
    times = float(np.median(since)) / threshold if len(since) else 0.0
    if times < params["crushed"]:
        return found
    said = f"{found.summary[:-1]}; the norm is {times:.3g} times the threshold, and next to nothing is left of it."
    return replace(found, severity="medium", summary=said)


def _threshold(config: Mapping[str, Any]) -> float | None:
    for key, value in config.items():
        if isinstance(value, Mapping):
            if (inner := _threshold(value)) is not None:
                return inner
        elif _THRESHOLD.match(str(key).lower().split(".")[-1].split("/")[-1]):
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if number > 0:
                return number
    return None


def _finding(curve: Curve, first: int, share: float, text: str) -> Finding:
    step = int(curve.step[first])
    low, median, high = (float(q) for q in np.quantile(curve.value[first:], [0.1, 0.5, 0.9]))
    band = f"median {median:.3g}, four of five within {low:.3g}-{high:.3g}"  # a median alone hides two levels
    return Finding(
        kind="clip-saturation",
        series=curve.name,
        role=curve.series.role,
        onset_step=step,
        confidence=0.8,
        summary=f"Clipping acts on {share:.0%} of the logged steps from {step} on: {text} ({band}).",
        onset_interval=(int(curve.step[first - 1]), step) if first else None,
        recovery="ongoing",
        evidence=(Evidence(curve.name, step, median, None, f"median since; {text} in {share:.0%} of the points"),),
    )
