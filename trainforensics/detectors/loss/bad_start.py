"""The first losses lie far above what an untrained model gives, and stay.

What it detects:
    A cross-entropy that starts above 1.3 times the loss of guessing at random (ln V) and is still above it after a
    tenth of the log.

Why it matters:
    The model answers worse than chance: weights were not loaded, labels are shifted, logits are mis-scaled, or the loss
    is a sum where a mean was meant. Training on rarely repairs it.

Evidence:
    First losses, ln V and where V is from, evaluation loss beside it.

False positives:
    Large initial logits that fall within the warm-up: the loss must stay high. Losses that are not cross-entropies: the
    log must speak of tokens, a vocabulary or classes.

Example:
    `loss starts at 23.0 (ln V = 11.8) and is 18.9 at step 400, while eval_loss is 1.17`

Parameters:
    excess: factor above the untrained loss. within: share of the log after which it must still be high.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.task import TOKEN_ROLES, untrained_loss

FEW = 5

META = Meta(
    kind=KINDS["bad-start"],
    needs=("train_loss",),
    uses=("val_loss", "val_metric", "logit_scale", *TOKEN_ROLES),
    params=(
        Param("excess", 1.3, "initial logits of unit variance add about 0.5 nats to ln V, 5-10 %"),
        Param("within", 0.1, "warm-up takes 1-5 % of a run"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Compare the start with chance."""
    loss, chance = signals.curve("train_loss"), untrained_loss(signals)
    if loss is None or chance is None:
        return NotApplicable("the number of classes or the vocabulary is not logged", "vocab_size in the configuration")
    loss = loss.only_finite()
    if len(loss) < 2 * FEW or int(loss.step[0]) > 10 * loss.cadence:
        return NotApplicable("the start of the run is not in the log")
    first = float(np.median(loss.value[:FEW]))
    later = float(np.median(loss.value[FEW : max(2 * FEW, int(params["within"] * len(loss)))]))
    if min(first, later) < params["excess"] * chance:
        return Clear()
    return Fired((_finding(signals, loss, first, later, chance),))


def _finding(signals: Signals, loss: Curve, first: float, later: float, chance: float) -> Finding:
    step = int(loss.step[0])
    rows = [Evidence(loss.name, step, first, chance, "median of the first losses against guessing at random")]
    validation = signals.curve("val_loss")
    beside = ""
    if validation is not None and len(validation.only_finite()):
        value = float(validation.only_finite().value[0])
        rows.append(Evidence(validation.name, int(validation.step[0]), value, None, "evaluation at the same time"))
        beside = f", while {validation.name} is {value:.4g}"
    return Finding(
        kind="bad-start",
        series=loss.name,
        role="train_loss",
        onset_step=step,
        onset_interval=(step, step),
        confidence=0.9 if beside else 0.8,
        summary=f"{loss.name} starts at {first:.4g} and stays at {later:.4g}, above the {chance:.3g} of chance{beside}",
        evidence=tuple(rows),
    )
