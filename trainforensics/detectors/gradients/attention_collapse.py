"""Attention settles on single tokens, or on all of them alike, and learning stops.

What it detects:
    An attention entropy that falls to a small part of its own early level for good (or an attention logit that grows to
    many times its own), in one layer or all, while the training loss stops falling.

Why it matters:
    An attention that looks at one token passes no gradient to the others. The loss stalls or spikes, and lower learning
    rates alone do not bring it back.

Evidence:
    The entropy before and since for each layer, the first layer in time and in depth, the loss meanwhile.

False positives:
    Entropy falls in healthy training as heads specialise, to a third or a half of its start; single sharp heads are
    normal. While the loss goes on falling nothing is raised.

Example:
    Entropy of both layers falls from 2.3 and 3.4 to 0.02 between steps 460 and 720; the loss stays at 2.2.

Parameters:
    entropy_share: part of the early entropy below which attention has collapsed.
    logit_factor: times the early maximum logit; logit_floor: what it must exceed in any case.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Signals
from trainforensics.signals.departure import Departure, departure, layer_order
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.progress import loss_falls_after

META = Meta(
    kind=KINDS["attention-collapse"],
    needs=("attention_entropy|attention_logit_max",),
    uses=("*",),
    params=(
        Param("entropy_share", 0.15, "specialising heads keep a third or more of their entropy on average"),
        Param("logit_factor", 10.0, "a decade above the run's own level"),
        Param("logit_floor", 100.0, "the cap that published recipes put on attention logits"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the attention that collapsed first."""
    entropy, logits = signals.curves("attention_entropy"), signals.curves("attention_logit_max")
    if not entropy and not logits:
        return NotApplicable("no attention entropy is logged", "attention entropy per layer")
    if any(e.kind == "nan-onset" for e in nonfinite(signals)):
        return Clear()
    found = [d for curve in entropy if (d := departure(curve, params["entropy_share"])) is not None]
    if not entropy:
        grown = [d for curve in logits if (d := departure(curve, params["logit_factor"])) is not None]
        found = [d for d in grown if d.after > params["logit_floor"]]
    if not found:
        return Clear()
    first = min(found, key=lambda d: d.step)
    falls = loss_falls_after(signals, int(first.curve.step[first.first]))
    return Clear() if falls else Fired((_finding(found, first, falls, len(entropy) or len(logits)),))


def _finding(found: list[Departure], first: Departure, falls: bool | None, of: int) -> Finding:
    curve = first.curve
    layers = sorted({d.curve.series for d in found}, key=layer_order)
    names = ", ".join(series.layer or series.name for series in layers[:5])
    verb = "falls" if first.after < first.before else "grows"
    loss = " while the loss stops falling" if falls is False else ""
    text = (
        f"{curve.name} {verb} from {first.before:.3g} to {first.after:.2g}, beginning at step {first.step}{loss} "
        f"({len(found)} of {of} series: {names})."
    )
    low, high = int(curve.step[max(0, first.onset - 1)]), int(curve.step[min(first.onset + 1, len(curve) - 1)])
    evidence = [
        Evidence(d.curve.name, int(d.curve.step[d.first]), d.after, d.before, "level since, against the early level")
        for d in sorted(found, key=lambda d: d.step)[:6]
    ]
    facts = (falls is False, len(found) > 1, bool(np.isfinite(first.after)) and first.after < first.before)
    return Finding(
        kind="attention-collapse",
        series=curve.name,
        role=curve.series.role,
        onset_step=first.step,
        confidence=round(0.6 + 0.1 * sum(facts), 2),
        summary=text,
        onset_interval=(low, high),
        segment=int(curve.segment[first.onset]),
        recovery="unrecovered",
        scope=Scope(layer=curve.series.layer),
        evidence=tuple(evidence),
    )
