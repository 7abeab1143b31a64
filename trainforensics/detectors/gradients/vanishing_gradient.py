"""The gradient is next to nothing while nothing is learnt.

What it detects:
    A gradient norm that is persistently tiny, or exactly zero, with a loss that stands still above what it could reach;
    where norms are logged per layer, layers that get next to none while others do and the loss keeps more than 0.7 of
    its first level; none at all from the start, where those are the first layers. In logs of 3 to 9 rows, exactly zero
    in all of them while the loss stays within 2 %.
    Where a reward is maximised: a norm of exactly zero although rewards differ, and a reward that does not rise.

Why it matters:
    The weights no longer move. Deep saturating networks starve their first layers; a detached or frozen graph starves
    all of them.

Evidence:
    The norm now and before, the loss meanwhile, the layers named.

False positives:
    A loss that has fallen by more than a decade has small gradients by right, a loss that still falls learns. Layers at
    exactly zero are frozen on purpose where names or a learning rate below 1e-4 speak of tuning. Groups of equal
    rewards have no gradient, and a solved task has no other. A loss that stands at exactly one number is reported as
    such.

Example:
    The gradient of the first of nine sigmoid layers is 1e-7, of the last 0.6; the loss stays at ln 10.

Parameters:
    None of its own: the bands (1e-4, a hundredth of the run's own level) are those of the kernel in signals.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Signals
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.scale import low_precision
from trainforensics.signals.stuck import stuck
from trainforensics.signals.vanishing import Collapse, collapse

META = Meta(kind=KINDS["vanishing-gradient"], uses=("grad_norm", "*"))
NAMED = 5


def detect(signals: Signals, params: Params) -> Outcome:  # noqa: ARG001
    """Report a gradient that is next to nothing beside a loss that stands still."""
    if not signals.has("grad_norm"):
        return NotApplicable("no gradient norm is logged", "the gradient norm, per layer where possible")
    if stuck(signals) is not None or any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    fallen = collapse(signals)
    if fallen is None or (not fallen.layers and not np.isnan(fallen.before) and low_precision(signals)):
        return Clear()
    return Fired((_finding(fallen),))


def _finding(fallen: Collapse) -> Finding:
    curve, step = fallen.curve, int(fallen.curve.step[fallen.first])
    aim = "train_loss" if fallen.aim == "loss" else fallen.aim
    names = [series.layer or series.name for series in fallen.layers]
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        starved = f"the gradient of {', '.join(names[:NAMED])}{more}"
        text = f"{starved} is down to {fallen.level:.2g} where other layers get {fallen.before:.2g}"
    elif np.isnan(fallen.before):
        text = f"{curve.name} is {fallen.level:.2g} from step {step} on"
    else:
        text = f"{curve.name} falls from {fallen.before:.3g} to {fallen.level:.2g} at step {step}"
    text = f"{text[0].upper()}{text[1:]} while the {fallen.aim} stays at {fallen.loss:.4g}."
    expected = None if np.isnan(fallen.before) else fallen.before
    return Finding(
        kind="vanishing-gradient",
        series=curve.name,
        role="grad_norm",
        onset_step=step,
        confidence=0.85 if names or fallen.level == 0 else 0.75,
        summary=text,
        onset_interval=(int(curve.step[fallen.first - 1]), step) if fallen.first else None,
        segment=int(curve.segment[fallen.first]),
        recovery="unrecovered",
        scope=Scope(layer=names[0] if names else None),
        evidence=(
            Evidence(curve.name, step, fallen.level, expected, "gradient norm since"),
            Evidence(aim, step, fallen.loss, None, f"level of the {fallen.aim} since, which does not improve"),
        ),
    )
