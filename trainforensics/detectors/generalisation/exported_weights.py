"""What was made of the weights after training, evaluated far worse than the weights themselves."""

from __future__ import annotations

import re

from trainforensics.detectors.base import Params
from trainforensics.model import Evidence, Finding, Scope
from trainforensics.signals import Signals
from trainforensics.signals.evaluations import validation_curves

_MADE = re.compile(
    r"(^|[^a-z])(ema|swa|avg|averaged?|merged|pruned|compressed|exported|quant|quantized|quantised|quantization|round_?trip|ttt|(int|fp|q)\d+)"
    r"([^a-z]|$)"
)
_BEFORE = re.compile(r"(^|[^a-z])(pre|raw|before|without|non)[^a-z]")


def exported(signals: Signals, params: Params) -> Finding | None:
    """The one evaluation of quantised, averaged or merged weights under the name of the validation loss, where it is
    far worse than the last one of the weights that were trained."""
    curves = validation_curves(signals)
    own = (c for c in curves if c.series.domain is None or _is_before(c.name.rpartition("/")[0].lower()))
    trained = min(own, key=lambda c: c.series.domain is not None, default=None)
    if trained is None:
        return None
    for curve in curves:
        made, _, name = curve.name.rpartition("/")
        if _is_before(made.lower()):
            continue
        if len(curve) > 1 or name != trained.name.rpartition("/")[2] or not _MADE.search(made.lower()):
            continue
        value, last = float(curve.value[0]), float(trained.value[-1])
        step, before = int(curve.step[0]), int(trained.step[-1])
        if step < before or value <= last + params["exported"] * abs(last):
            continue
        return Finding(
            kind="val-jump",
            series=curve.name,
            role="val_loss",
            onset_step=step,
            onset_interval=(before, step),
            occurrences=(step,),
            peak_step=step,
            recovery="ongoing",
            severity="medium",
            confidence=0.75,
            scope=Scope(domain=curve.series.domain),
            summary=f"{curve.name} is {value:.4g} after training, {trained.name} was {last:.4g} at step {before}: "
            "what was made of the weights is far worse than they are",
            evidence=(
                Evidence(trained.name, before, last, None, "last evaluation of the weights that were trained"),
                Evidence(curve.name, step, value, last, "evaluation of what was made of them"),
            ),
        )
    return None


def _is_before(lead: str) -> bool:
    """Whether the words before a name tell of the weights as they were trained: "pre-EMA", not "pre-quant post-ema"."""
    return _BEFORE.search(lead) is not None and "post" not in lead
