"""The loss is, or drops, too low to be true.

What it detects:
    A loss per token that falls below a value no text allows while the data are seen for the first time: under 0.1
    nats for good; any loss that is down to a thousandth of its start in the first fifth of the first epoch. Any loss
    that had settled and then, without a change of the learning rate or a new epoch, collapses to a few percent of its
    level, or of which nothing is left from one point to the next. One that is solved, with no training sample wrong,
    while the learning rate still warms up or in the first percents of the declared steps. An accuracy of training
    that had settled below nine tenths and is exactly one from the next point to the end. A similarity at -1. And one
    that falls because its features do: the codes in use, or the spread of the representation, vanish with it. A
    stretch of five points or more below half of the level on both of its sides, sharp at both ends.

Why it matters:
    The model reads its answer: a missing causal mask, labels in the input, packing that lets documents see themselves,
    duplicated data, labels of one class. Or it answers alike whatever it sees. Everything measured afterwards is void.

Evidence:
    Loss before and after, the epoch reached, gradient norm meanwhile; what vanished with the loss.

False positives:
    Fine-tuning over several epochs memorises honestly: more than one pass over the data clears it, and so does a
    collapse that begins with an epoch, or that evaluations confirm at a level that text allows. A plateau at the start
    that ends when learning sets in is no settled level. A small set may be solved at once: a second epoch, or
    validation that stays far above training, says so.

Example:
    `loss fell from 1.64 to 0.02 by step 30, 2 % of the first epoch`

Parameters:
    See `META.params`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.collapse import (
    Fall,
    bottomless,
    features_vanish,
    floor_reached,
    gone_at_once,
    lowest_similarity,
    perfect_at_once,
    settled_fall,
    solved,
    warming_up,
)
from trainforensics.signals.dips import dips
from trainforensics.signals.epochs import passes
from trainforensics.signals.evaluations import validation_curves
from trainforensics.signals.precursors import companions
from trainforensics.signals.structure import announced
from trainforensics.signals.task import adversarial, per_token, planned_steps, rewarded

FEW_POINTS = 5

META = Meta(
    kind=KINDS["suspicious-low-loss"],
    needs=("train_loss",),
    uses=("*",),
    params=(
        Param("floor", 0.1, "the best models stay above 0.3 nats per token even on source code"),
        Param("seen_once", 1.0, "the second pass over data may be memorised"),
        Param("nothing", 1e-3, "of the first loss: what is left of a task without noise, after many passes"),
        Param("seen_little", 0.2, "of the first pass: nothing is learnt by heart, nor to three digits"),
        Param("points", 5.0, "a single low batch may hold boilerplate"),
        Param("bottomless", 100.0, "log likelihoods below zero stay within the scale they start from"),
        Param("alike", 2e-3, "distance from -1; views of images that are told apart stay at -0.8 to -0.95"),
        Param("solved", 0.01, "nats: no class in a hundred samples is doubted"),
        Param("soon", 0.03, "share of the declared steps; warm-ups are as long, and what they reach is a start"),
        Param("worse", 10.0, "times the training loss at which validation shows a small set learnt by heart"),
        Param(
            "from_the_start", 1e-5, "a first loss that no untrained model has: targets of order one leave 0.1 or more"
        ),
        Param("kept", 0.5, "of it to the end: what is learnt in small units falls by more"),
        Param("gone", 1e-4, "of the point before: one update takes off a few percent, and noise remains"),
        Param("left", 0.1, "learning-rate drops and easier data lower a settled loss by a factor of two or three"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """The first sign, from the surest on, that the loss does not measure what it should."""
    loss = signals.curve("train_loss")
    if loss is None:
        return NotApplicable("no training loss is logged", "the training loss at every step")
    loss = loss.only_finite()
    fell = (
        _known_answer(signals, loss, params)
        or _bottomless(signals, loss, params["bottomless"])
        or _alike(signals, loss, params["alike"])
        or _collapse(signals, loss, params["left"])
        or _solved_too_soon(signals, loss, params)
        or _perfect_at_once(signals, loss)
        or _features_vanish(signals, loss)
        or _nothing_to_learn(signals, loss, params)
        or _gone_at_once(signals, loss, params["gone"])
        or _for_a_while(signals, loss)
    )
    return Fired((fell,)) if fell is not None else Clear()


def _known_answer(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """A loss below the floor to the end, reached within the first pass over the data; one that is not known to be per
    token, below a thousandth of its start and in the first part of that pass."""
    tokens = per_token(signals)
    if rewarded(signals) and not tokens:
        return None
    floor = params["floor"] if tokens else params["nothing"] * float(loss.value[:3].max(initial=0.0))
    fall = floor_reached(loss, floor, int(params["points"]))
    if fall is None:
        return None
    passed = passes(signals, int(loss.step[fall.fallen]))
    if passed is None or passed >= params["seen_once" if tokens else "seen_little"]:
        return None
    return _finding(signals, loss, fall, f"in epoch {passed:.3g}, when the data are new")


def _bottomless(signals: Signals, loss: Curve, factor: float) -> Finding | None:
    """A loss far below zero that still falls as fast as ever: its targets lie outside of what the loss allows for."""
    fall = bottomless(loss, factor) if not rewarded(signals) else None
    return _finding(signals, loss, fall, "and falls ever faster: it has no bottom") if fall is not None else None


def _alike(signals: Signals, loss: Curve, near: float) -> Finding | None:
    """A negative similarity at -1 to the end: whatever is compared is the same, as where features have collapsed."""
    fall = lowest_similarity(loss, near)
    return _finding(signals, loss, fall, "the lowest that a similarity can be: all is alike") if fall else None


def _collapse(signals: Signals, loss: Curve, left: float) -> Finding | None:
    """A settled level that collapses without a change of the learning rate or a new epoch."""
    fall = settled_fall(signals, loss, left) if not rewarded(signals) else None
    return _finding(signals, loss, fall, "without a reason in the schedule") if fall is not None else None


def _solved_too_soon(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """A task without an error left, in data seen once, before training can have got there."""
    first = solved(signals, loss, params["solved"])
    if first is None:
        return None
    step, epoch = int(loss.step[first]), signals.curve("epoch")
    planned = next(iter(planned_steps(signals)), None)
    early = planned is not None and step <= params["soon"] * planned
    warm = warming_up(signals, step)
    seen_again = epoch is not None and epoch.value[max(epoch.at(step), 0)] - epoch.value[0] >= params["seen_once"]
    low = float(np.median(loss.value[first:]))
    known = [curve.value[-FEW_POINTS:] for curve in validation_curves(signals) if len(curve)]
    by_heart = any(float(np.median(late)) > max(params["worse"] * low, params["solved"]) for late in known)
    if not (early or warm) or seen_again or by_heart:
        return None
    when = "while the learning rate still warms up" if warm else f"{step / (planned or step):.1%} of the planned steps"
    reason = f"no training sample wrong any more, {when}"
    return _finding(signals, loss, Fall(first, first, float(loss.value[0])), reason)


def _perfect_at_once(signals: Signals, loss: Curve) -> Finding | None:
    """A training accuracy of exactly one from one point to the next and to the end."""
    found = perfect_at_once(signals, loss)
    if found is None:
        return None
    fall, score, before = found
    reason = f"as {score.name} went from {before:.3g} to no sample wrong, from one point to the next"
    return _finding(signals, loss, fall, reason)


def _nothing_to_learn(signals: Signals, loss: Curve, params: Params) -> Finding | None:
    """A loss that is next to nothing from the first point of the log on, and stays there."""
    value = loss.value
    if len(value) < FEW_POINTS or int(loss.step[0]) > loss.cadence or rewarded(signals):
        return None
    first, last = float(value[0]), float(np.median(value[-FEW_POINTS:]))
    if not 0 < value.max() <= params["from_the_start"] or not last >= params["kept"] * first:
        return None
    finding = _finding(signals, loss, Fall(0, 0, first), "from the first point on")
    return replace(finding, summary=f"{loss.name} is {first:.3g} at its first point and {last:.3g} at the end")


def _gone_at_once(signals: Signals, loss: Curve, left: float) -> Finding | None:
    """A loss of which nothing is left from one point to the next."""
    fall = gone_at_once(loss, left) if not rewarded(signals) else None
    if fall is None:
        return None
    before, after = (int(step) for step in loss.step[fall.fallen - 1 : fall.fallen + 1])
    way = f"from {fall.before:.4g} at step {before} to {loss.value[fall.fallen]:.3g} at step {after}"
    finding = _finding(signals, loss, fall, "nothing is left from one point to the next")
    return replace(finding, summary=f"{loss.name} fell {way}, from one point to the next")


def _for_a_while(signals: Signals, loss: Curve) -> Finding | None:
    """Stretches of samples that are far too easy, without a stage or a rate that changes there."""
    if rewarded(signals) or adversarial(loss) or signals.axis.unit == "epoch":
        return None
    found = [dip for dip in dips(loss.value) if not announced(signals, *_steps(loss, dip.first - 1, dip.first))]
    if not found:
        return None
    first, last = _steps(loss, found[0].first, found[0].last)
    low = float(np.median(loss.value[found[0].first : found[0].last + 1]))
    steps = f"for steps {first}-{last}"
    text = f"{loss.name} fell from {found[0].before:.4g} to {low:.3g} {steps} and came back from one point to the next"
    if len(found) > 1:
        text += f"; so it did {len(found)} times"
    finding = _finding(signals, loss, Fall(found[0].first, found[0].first, found[0].before), "and back at once")
    return replace(
        finding,
        summary=f"{text}: samples that are repeated or known",
        occurrences=tuple(int(loss.step[dip.first]) for dip in found),
        end_step=_steps(loss, found[-1].first, found[-1].last)[1],
        severity="medium",
        recovery="recovered",
        evidence=(replace(finding.evidence[0], value=low), *finding.evidence[1:]),
    )


def _steps(loss: Curve, first: int, last: int) -> tuple[int, int]:
    return int(loss.step[first]), int(loss.step[last])


def _features_vanish(signals: Signals, loss: Curve) -> Finding | None:
    """A fall of the loss with which the codes in use, or the spread of the features, vanish."""
    found = features_vanish(signals, loss)
    if found is None:
        return None
    fall, name = found.fall, found.witness.name
    reason = f"as {name} went from {found.before:.3g} to {found.after:.3g}"
    finding = _finding(signals, loss, fall, reason)
    row = Evidence(name, int(loss.step[fall.fallen]), found.after, found.before, "vanishes with the loss")
    return replace(finding, evidence=(*finding.evidence, row))


def _finding(signals: Signals, loss: Curve, fall: Fall, reason: str) -> Finding:
    low, onset, reached = (
        float(np.median(loss.value[fall.fallen :])),
        int(loss.step[fall.onset]),
        loss.step[fall.fallen],
    )
    row = Evidence(loss.name, int(reached), low, fall.before, reason)
    return Finding(
        kind="suspicious-low-loss",
        series=loss.name,
        role="train_loss",
        onset_step=onset,
        onset_interval=(int(loss.step[max(fall.onset - 1, 0)]), onset),
        confidence=0.85 if per_token(signals) else 0.7,
        summary=f"{loss.name} fell from {fall.before:.4g} to {low:.3g} by step {reached}, {reason}",
        evidence=(row, *companions(signals, onset)),
    )
