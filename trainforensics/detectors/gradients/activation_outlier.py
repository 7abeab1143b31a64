"""Activations grow out of all proportion, die out, or their neurons do.

What it detects:
    An activation norm, deviation or maximum that leaves its own early level for good by a large factor up or down, or a
    share of dead neurons that jumps to most of them, in one layer or all.

Why it matters:
    Growing activations are what overflows later in low precision; dying ones pass no gradient. The first layer in time
    says where it began.

Evidence:
    The level before and since for each layer, the first layer in time and in depth, the loss meanwhile.

False positives:
    Residual streams grow several-fold over a healthy run: a tenfold change counts only where the loss stops falling, a
    hundredfold one always.

Example:
    The activation deviation of layer 3 grows from 1.1 to 140 between steps 800 and 950, layers 4 to 11 follow.

Parameters:
    factor: times the early level where the loss stops falling.
    far_factor: times the early level in any case.
    dead_share: share of dead neurons that counts as most of them.
"""

from __future__ import annotations

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.departure import Departure, departure, layer_order
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.progress import loss_falls_after

ROLES = ("activation_norm", "activation_std", "activation_max")
META = Meta(
    kind=KINDS["activation-outlier"],
    needs=("activation_norm|activation_std|activation_max|dead_fraction",),
    uses=("*",),
    params=(
        Param("factor", 10.0, "a decade; healthy residual streams grow several-fold"),
        Param("far_factor", 100.0, "two decades: near the range of fp16 whatever the loss does"),
        Param("dead_share", 0.5, "half of the neurons; debuggers warn from there on"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the activations that left their level first."""
    curves = [curve for role in ROLES for curve in signals.curves(role)]
    dead = signals.curves("dead_fraction")
    if not curves and not dead:
        return NotApplicable("no activations are logged", "activation norms and dead fractions per layer")
    if any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    found = [d for curve in curves if (d := _departure(signals, curve, params)) is not None]
    found += [d for curve in dead if (d := _died(signals, curve, params["dead_share"])) is not None]
    return Fired((_finding(found, len(curves) + len(dead)),)) if found else Clear()


def _departure(signals: Signals, curve: Curve, params: Params) -> Departure | None:
    for near, far in ((params["factor"], params["far_factor"]), (1 / params["factor"], 1 / params["far_factor"])):
        if far_off := departure(curve, far):
            return far_off
        left = departure(curve, near)
        if left is not None and loss_falls_after(signals, left.step) is False:
            return left
    return None


def _died(signals: Signals, curve: Curve, share: float) -> Departure | None:
    """Where most neurons died; None for counts, of which the whole is not known."""
    if curve.value[curve.finite].max(initial=0.0) > 1:
        return None
    alive = Curve(curve.series, curve.step, 1.0 - curve.value, curve.time, curve.segment)
    left = departure(alive, share)
    if left is None or left.before < share or loss_falls_after(signals, left.step):
        return None
    return Departure(curve, left.onset, left.first, 1.0 - left.before, 1.0 - left.after)


def _finding(found: list[Departure], of: int) -> Finding:
    first = min(found, key=lambda d: (d.step, layer_order(d.curve.series)))
    curve, shallow = first.curve, min(found, key=lambda d: layer_order(d.curve.series)).curve.series
    place = f"; first in depth: {shallow.layer}" if shallow.layer and len(found) > 1 else ""
    text = (
        f"{curve.name} goes from {first.before:.3g} to {first.after:.3g} for good, beginning at step {first.step} "
        f"({len(found)} of {of} series{place})."
    )
    low, high = int(curve.step[max(0, first.onset - 1)]), int(curve.step[min(first.onset + 1, len(curve) - 1)])
    return Finding(
        kind="activation-outlier",
        series=curve.name,
        role=curve.series.role,
        onset_step=first.step,
        confidence=0.8 if len(found) > 1 else 0.7,
        summary=text,
        onset_interval=(low, high),
        segment=int(curve.segment[first.onset]),
        recovery="unrecovered",
        scope=Scope(layer=curve.series.layer),
        evidence=tuple(
            Evidence(
                d.curve.name, int(d.curve.step[d.first]), d.after, d.before, "level since, against the early level"
            )
            for d in sorted(found, key=lambda d: d.step)[:8]
        ),
    )
