"""The first losses lie far above what an untrained model gives, and stay.

What it detects:
    A cross-entropy that starts above 1.3 times the loss of guessing at random (ln V) and is still above it after a
    tenth of the log; or one that starts above three times that loss, however soon it comes down, be it the mean over a
    first epoch. A language model whose layers the log calls newly initialised, and that starts above what counting
    tokens gives: its weights were not loaded.

Why it matters:
    The model answers worse than chance: weights were not loaded, labels are shifted, logits are mis-scaled, or the loss
    is a sum where a mean was meant. Training on rarely repairs it.

Evidence:
    First losses, ln V and where V is from, evaluation loss beside it.

False positives:
    Large initial logits that fall within the warm-up: a loss below three times chance must stay high. Losses that are
    not mean cross-entropies: the log must speak of tokens, a vocabulary or classes, the loss not be negative, and a
    perplexity beside it agree with it. A head, an adapter, cross attention or a mask that is new is ordinary.

Example:
    `loss starts at 23.0 (ln V = 11.8) and is 18.9 at step 400, while eval_loss is 1.17`

Parameters:
    excess, absurd: factors above the untrained loss. within: share of the log after which it must still be high.
    unscaled: a loss that no scaled target gives.
"""

from __future__ import annotations

import math
import re

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Event, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.chance import COUNTING
from trainforensics.signals.curve import Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.task import per_token, rewarded, untrained_loss

FEW = 5
IMPOSSIBLE = 10.0  # times chance, at half of the points and more
SUMMED = 3.0  # times the logarithm of a perplexity; bits instead of nats are 1.44 times as many
_NEW = re.compile(r"newly initialized:?(.*)", re.DOTALL)
_OF_LAYER = re.compile(r"[\w.]+\.\d+\.[\w.]*weight\b")  # the masks and frequencies of layers are buffers
_ADDED = re.compile(r"lora|adapter|cross_?att|prompt|router|gate\b", re.IGNORECASE)
FEW_UNSCALED, SWINGS, HALVED = 10, 0.2, math.log(2)  # points; of a loss from one point to the next, and in all
TREND, TENTH = 3.0, 0.1  # standard errors of a move from the first third to the last; fall of a loss that learns
_OF_VALUES = re.compile(
    r"(^|[^a-z])(loss[-_ ]?v|v(alue|f)?[-_ ]?(function[-_ ]?)?loss|critic[-_ ]?loss)([^a-z]|$)", re.IGNORECASE
)
_PERPLEXITY = re.compile(r"ppl|perplexity")

META = Meta(
    kind=KINDS["bad-start"],
    uses=("train_loss", "reward", "*"),
    params=(
        Param("excess", 1.3, "initial logits of unit variance add about 0.5 nats to ln V, 5-10 %"),
        Param("absurd", 3.0, "no scale of initial logits that trains well doubles the loss of guessing"),
        Param("within", 0.1, "warm-up takes 1-5 % of a run"),
        Param("unscaled", 1e6, "squared errors of targets in the thousands; sums over a data set hardly swing"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Compare the start with chance."""
    if (huge := _unscaled(signals, params["unscaled"])) is not None:
        return Fired((huge,))
    loss, chance = signals.curve("train_loss"), untrained_loss(signals)
    if loss is None or chance is None:
        return NotApplicable("the number of classes or the vocabulary is not logged", "vocab_size in the configuration")
    loss = loss.only_finite()
    if len(loss) < 2 or int(loss.step[0]) > 10 * loss.cadence:
        return NotApplicable("the start of the run is not in the log")
    no_mean = loss.value.min() < 0 or float(np.median(loss.value)) > IMPOSSIBLE * chance
    if no_mean or rewarded(signals) or _summed(signals, loss):
        return NotApplicable(f"{loss.name} is no mean cross-entropy", "the loss per token")
    few = len(loss) < 2 * FEW
    first = float(loss.value[0] if few else np.median(loss.value[:FEW]))
    later = float(np.median(loss.value[1 if few else FEW : max(2 * FEW, int(params["within"] * len(loss)))]))
    if first > COUNTING and per_token(signals) and (told := _layers_are_new(signals)) is not None:
        return Fired((_not_loaded(loss, first, later, told),))
    if first >= params["absurd"] * chance or (not few and min(first, later) >= params["excess"] * chance):
        return Fired((_finding(signals, loss, first, later, chance),))
    return Clear()


def _unscaled(signals: Signals, least: float) -> Finding | None:
    """A loss of training, or of a value function, that is huge from the first row on, swings and does not fall; unless
    the reward rises: what the loss is to predict grows with it."""
    if (reward := signals.curve("reward")) is not None and _moved(reward.only_finite().value) > TREND:
        return None
    known = (*signals.curves("train_loss"), *(c for c in signals.unmapped if _OF_VALUES.search(c.name)))
    for curve in (logged.only_finite() for logged in known if logged.series.rank is None):
        third = len(curve) // 3
        if len(curve) < FEW_UNSCALED or curve.value[0] < least or curve.step[0] > 10 * curve.cadence:
            continue
        value = np.log(np.maximum(curve.value, 1e-300))
        fall = float(np.median(value[:third]) - np.median(value[-third:]))
        swing = robust_sigma(np.diff(value)) / math.sqrt(2)
        learns = fall > TENTH and _moved(-value) > TREND
        if np.median(curve.value) >= least and swing >= SWINGS and abs(fall) < HALVED and not learns:
            return _of_unscaled(curve)
    return None


def _moved(value: Floats) -> float:
    """Standard errors by which the last third of the values lies above the first, by the noise from point to point."""
    third = len(value) // 3
    if third < FEW_UNSCALED // 3:
        return 0.0
    error = 1.2533 * robust_sigma(np.diff(value)) / math.sqrt(third)
    return float(np.median(value[-third:]) - np.median(value[:third])) / max(error, 1e-300)


def _of_unscaled(curve: Curve) -> Finding:
    step, level = int(curve.step[0]), float(np.median(curve.value))
    span = f"between {curve.value.min():.2g} and {curve.value.max():.2g}"
    row = Evidence(curve.name, step, level, None, f"median of {len(curve)} points, {span}")
    return Finding(
        kind="bad-start",
        series=curve.name,
        role=curve.series.role,
        onset_step=step,
        onset_interval=(step, step),
        recovery="unrecovered",
        confidence=0.7,
        summary=f"{curve.name} swings {span} without a trend: what it is to predict was never scaled",
        evidence=(row,),
    )


def _summed(signals: Signals, loss: Curve) -> bool:
    """Whether a perplexity beside the loss shows it to be a sum, over a sentence or so, of what its name says."""
    known = [loss, *(curve.only_finite() for curve in signals.curves("val_loss"))]
    lowest = min(float(curve.value.min()) for curve in known if len(curve))
    for curve in signals.every_curve():
        highest = float(curve.only_finite().value.max(initial=0.0)) if _PERPLEXITY.search(curve.name.lower()) else 0.0
        if highest > 1 and lowest > SUMMED * math.log(highest):
            return True
    return False


def _layers_are_new(signals: Signals) -> Event | None:
    """What the log says of weights within the layers that were in no checkpoint."""
    for event in signals.events:
        names = _OF_LAYER.findall(found[1]) if (found := _NEW.search(event.text)) else []
        if any(_ADDED.search(name) is None for name in names):
            return event
    return None


def _not_loaded(loss: Curve, first: float, later: float, told: Event) -> Finding:
    step, text = int(loss.step[0]), " ".join(told.text.split())[:200]
    return Finding(
        kind="bad-start",
        series=loss.name,
        role="train_loss",
        onset_step=step,
        onset_interval=(step, step),
        confidence=0.9,
        summary=f"{loss.name} starts at {first:.4g} as a model without weights does, and goes to {later:.4g}; the log "
        f'says: "{text}"',
        evidence=(
            Evidence(loss.name, step, first, COUNTING, "median of the first losses against counting tokens"),
            Evidence(told.source or "log", told.step, None, None, text),
        ),
    )


def _finding(signals: Signals, loss: Curve, first: float, later: float, chance: float) -> Finding:
    step = int(loss.step[0])
    rows = [Evidence(loss.name, step, first, chance, "median of the first losses against guessing at random")]
    validation = signals.curve("val_loss")
    way = f"stays at {later:.4g}" if later > chance else f"comes down to {later:.4g}"
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
        summary=f"{loss.name} starts at {first:.4g}, above the {chance:.3g} of chance, and {way}{beside}",
        evidence=tuple(rows),
    )
