"""Evaluation results that cannot be: not finite, frozen, impossible or far outside of what training says.

What it detects:
    Validation losses that are NaN or infinite while training is finite; that repeat one value exactly while training
    moves; that are negative or exactly zero while the training loss is positive; or that lie and swing at many times
    the loss of the untrained model while training is smooth (statistics of batch normalisation, a wrong mode), or stay
    at ten times that and more while training learns. A metric that gives one value at every evaluation, or a score of
    nothing found, while the training loss goes on falling (weights that are not the trained ones, a wrong label map).
    An accuracy of one beside a recall of zero: the set holds nothing that is to be found. A score of training that is
    never a number where the same score of held-out data is.

Why it matters:
    Checkpoint selection and early stopping act on these numbers. The model may be fine; the evaluation is not.

Evidence:
    The evaluations concerned with their values; the training loss at the same steps.

False positives:
    A NaN that training had first is a consequence (nan-onset names it). Losses that are negative by nature are negative
    in training too. A constant factor between the two curves without swings is a scale (scale-mismatch). A
    metric that stands at its best possible value is solved, one at zero may need more training, and one that stands
    while the loss has come to rest as well shows a model that prefers one class, unless the loss is too low for that.

Example:
    Training loss falls from 0.74 to 0.05, validation loss jumps between 2,000 and 11,000 from the first epoch on.

Parameters:
    See `META.params`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome, Scope
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Bools, Floats, Ints
from trainforensics.signals.evaluations import condense, evaluated, is_whole, level_up_to, point_noise, runs, usable
from trainforensics.signals.frozen import finds_nothing, frozen_metric, nothing_to_find
from trainforensics.signals.jumps import MAX_JUMP_POINTS
from trainforensics.signals.noise import printed_grid
from trainforensics.signals.scores import alike
from trainforensics.signals.task import adversarial

LEARNT = 0.5  # logarithm of the factor by which the training loss fell from its first to its last third


META = Meta(
    kind=KINDS["eval-invalid"],
    needs=("val_loss|val_metric",),
    uses=("train_loss", "grad_norm", "*"),
    params=(
        Param("frozen", 5.0, "evaluations in a row with exactly one value; rounding alone seldom repeats that often"),
        Param("nothing", 10.0, "evaluations in which a young model finds nothing at all"),
        Param("moved", 0.1, "share by which the training loss must have moved over frozen evaluations"),
        Param("above", 3.0, "times the highest training level that a typical evaluation must exceed to be impossible"),
        Param("sound", 0.1, "share of evaluations no worse than training's highest level with which it can evaluate"),
        Param("aloof", 10.0, "times the highest training level above which all evaluations stay unmoved"),
        Param("unmoved", 0.1, "of the orders of magnitude by which training fell"),
        Param("swing", 0.2, "point-to-point noise against the level; healthy evaluations repeat within a few per cent"),
    ),
)


PRESENT = 0.5  # of the evaluations: a class that is there in fewer is told


@dataclass(frozen=True, slots=True, eq=False)
class _Fault:
    """Which evaluations of a curve are invalid (mask), what is wrong with them, and how sure that is."""

    curve: Curve
    bad: Bools
    text: str
    confidence: float


def detect(signals: Signals, params: Params) -> Outcome:
    """Judge every evaluation curve, losses first; a domain speaks only where the whole does not."""
    train = signals.curve("train_loss")
    curves = [c for role in ("val_loss", "val_metric") for c in signals.curves(role) if is_whole(c) and len(c)]
    if not curves:
        return NotApplicable("no evaluation was logged", "evaluate on held-out data")
    faults = [fault for curve in curves if (fault := _fault(curve, train, signals, params)) is not None]
    if train is None and not faults:
        return NotApplicable("no training loss to hold the evaluation against", "log the training loss")
    fault = None
    if train is not None and not faults:
        fault = _nothing_to_find(signals) or _frozen_metric(signals, train) or _finds_nothing(signals, train, params)
        fault = fault or _never_a_number(signals, params)
    if fault is not None:
        faults = [fault]
    whole = [fault for fault in faults if fault.curve.series.domain is None][:1]
    chosen = whole or faults
    return Fired(tuple(_finding(fault, train) for fault in chosen)) if chosen else Clear()


def _fault(curve: Curve, train: Curve | None, signals: Signals, params: Params) -> _Fault | None:
    fault = _not_finite(curve, signals) if not _class_is_absent(curve, signals) else None
    if fault is not None or train is None or curve.series.role != "val_loss":
        return fault
    if _of_a_game(signals) or _stands_in_training(curve, signals) or _negative_in_training(curve, signals):
        return fault
    clean = evaluated(usable(curve))
    level = _training_level(train, clean)
    positive = bool(np.all(train.value[train.finite] > 0))
    for judge in (_frozen, _impossible, _wild, _aloof) if positive else (_frozen,):
        fault = judge(clean, level, params)
        if fault is not None:
            return fault
    return None


def _class_is_absent(curve: Curve, signals: Signals) -> bool:
    """Whether a score of one class comes and goes while those of others are finite: what was evaluated holds none of
    it now and then."""
    if curve.series.role != "val_metric" or curve.series.domain is None or curve.finite.mean() < PRESENT:
        return False
    stem = curve.name.rsplit("/", 1)[0]
    others = [c for c in signals.curves("val_metric") if c.series != curve.series and c.name.startswith(f"{stem}/")]
    lost = curve.step[~curve.finite]
    goes = np.count_nonzero(np.diff(curve.finite.astype(np.int8)) == -1)
    return bool(goes > 1) and any(np.isin(lost, c.step[c.finite]).all() for c in others)


def _stands_in_training(curve: Curve, signals: Signals) -> bool:
    """Whether what is evaluated does not move in training either: a class loss where there is one class, which is
    nothing in both, or a number that is the same in both; of a zero, which many things are, by their names."""
    parts = (c for c in signals.curves("train_loss") if c.series.domain == curve.series.domain is not None)
    trained = (c for c in signals.every_curve() if c.series.role not in {"val_loss", "val_metric"})
    same = (c for c in trained if np.array_equal(c.step, curve.step) and np.array_equal(c.value, curve.value))
    return any(not c.value.any() for c in parts) or any(curve.value.any() or alike(c, curve) for c in same)


def _negative_in_training(curve: Curve, signals: Signals) -> bool:
    """Whether the series of that name in training is negative as well: a part of the loss that may be."""
    trained = (c for c in signals.every_curve() if c.series.role not in {"val_loss", "val_metric"})
    return bool(np.any(curve.value < 0)) and any(np.any(c.value < 0) for c in trained if alike(c, curve))


def _of_a_game(signals: Signals) -> bool:
    """Whether a validation loss is one side of a game, so that sums with it may be of any sign."""
    return any(adversarial(curve) for curve in signals.curves("val_loss"))


def _training_level(train: Curve, clean: Curve) -> Floats:
    """Training level at every evaluation; where evaluations are very many, block by block."""
    points = condense(clean, MAX_JUMP_POINTS)
    level = level_up_to(train, points.step)
    return level[np.searchsorted(points.index, np.arange(len(clean)), side="right") - 1]


def _not_finite(curve: Curve, signals: Signals) -> _Fault | None:
    """Evaluations that are not finite although training was, from the evaluation before to the one after; where no
    training loss was logged, all that are not finite."""
    bad = ~curve.finite & ~_not_yet(curve)
    if not bad.any():
        return None
    first = np.append(-np.inf, curve.step[:-1].astype(np.float64))
    last = np.append(curve.step[1:].astype(np.float64), np.inf)
    train = signals.curve("train_loss")
    witnesses = (*signals.curves("grad_norm"), *([train] if train is not None else []))
    for witness in witnesses:
        ill = witness.step[~witness.finite]
        bad &= np.searchsorted(ill, last, side="right") == np.searchsorted(ill, first, side="right")
    if not bad.any() or not (train if train is not None else curve).finite.any():
        return None
    share = f"{int(bad.sum())} of {len(curve)} evaluations are not finite"
    return _Fault(curve, bad, share, 0.9 if bad.sum() > 1 else 0.75)


def _not_yet(curve: Curve) -> Bools:
    """Infinities before the first number: where a best value so far starts, or a perplexity still overflows."""
    return np.asarray(np.isinf(curve.value) & (np.cumsum(curve.finite) == 0) & curve.finite.any())


def _frozen(curve: Curve, level: Floats, params: Params) -> _Fault | None:
    """The longest stretch of one repeated value, if training moved over it."""
    if len(curve) < params["frozen"]:
        return None
    starts, lengths = runs(curve.value)
    begin, length = int(starts[lengths.argmax()]), int(lengths.max())
    over = level[begin : begin + length]
    over = over[np.isfinite(over)]
    if length < params["frozen"] or len(over) < 2 or _settled_on_grid(curve.value, begin):
        return None
    if abs(over[-1] - over[0]) <= max(params["moved"] * abs(over[0]), 4 * point_noise(over)):
        return None
    bad = np.zeros(len(curve), dtype=np.bool_)
    bad[begin : begin + length] = True
    text = f"{length} evaluations in a row are exactly {curve.value[begin]:.6g}"
    return _Fault(curve, bad, f"{text} while training loss went {over[0]:.4g} -> {over[-1]:.4g}", 0.8)


def _frozen_metric(signals: Signals, train: Curve) -> _Fault | None:
    """A metric of one value at every evaluation, no other that moves, and a training loss that falls and falls."""
    found = frozen_metric(signals, train)
    if found is None or not found.still_falls:
        return None
    curve, level = found.curve, found.level
    count = f"all {found.of}" if len(curve) == found.of else f"{len(curve)} of {found.of}"
    text = f"{count} evaluations are exactly {curve.value[0]:.6g}"
    bad = np.ones(len(curve), dtype=np.bool_)
    return _Fault(curve, bad, f"{text} while training loss fell {level[0]:.4g} -> {level[-1]:.4g}", 0.7)


def _nothing_to_find(signals: Signals) -> _Fault | None:
    """An accuracy of one beside a score of zero."""
    found = nothing_to_find(signals)
    if found is None:
        return None
    right, none = found
    text = (
        f"{right.name} is {right.value[0]:g} and {none.name} 0 in all {len(none)} evaluations: nothing is to be found"
    )
    return _Fault(none, np.ones(len(none), dtype=np.bool_), text, 0.8)


def _finds_nothing(signals: Signals, train: Curve, params: Params) -> _Fault | None:
    """A score of nothing in every evaluation while the training loss falls."""
    found = finds_nothing(signals, int(params["nothing"]))
    level = level_up_to(train, found[0].step) if found is not None else np.empty(0)
    level = level[np.isfinite(level)]
    third = len(level) // 3
    if found is None or not third:
        return None
    first, last = float(np.median(level[:third])), float(np.median(level[-third:]))
    if first - last <= max(params["moved"] * abs(first), 4 * point_noise(level)):
        return None
    text = f"it {found[1]} while training loss fell {first:.4g} -> {last:.4g}"
    return _Fault(found[0], np.ones(len(found[0]), dtype=np.bool_), text, 0.7)


def _never_a_number(signals: Signals, params: Params) -> _Fault | None:
    """A score of training that is never a number where the same score of held-out data always is."""
    scores = [c for c in signals.curves("val_metric") if len(c) >= params["frozen"] and c.finite.all()]
    for curve in (c for c in signals.unmapped if len(c) >= params["frozen"] and not c.finite.any()):
        told = next((c for c in scores if alike(c, curve)), None)
        if told is not None:
            text = f"it is not a number in any of {len(curve)} rows, while {told.name} always is one"
            return _Fault(curve, ~curve.finite, text, 0.7)
    return None


def _settled_on_grid(value: Floats, begin: int) -> bool:
    """Whether rounded values came to rest where they stay: coarse ones within two grid steps of the value before, fine
    ones a single step from one that they had kept as well."""
    grid = printed_grid(value, 5)
    coarse = grid > 1e-3 * abs(float(value[begin]))
    step = abs(float(value[begin] - value[begin - 1])) if begin else np.inf
    rested = begin > 1 and value[begin - 1] == value[begin - 2]
    return bool((coarse and step <= 2.5 * grid) or (rested and step <= 1.5 * grid))


def _impossible(curve: Curve, level: Floats, _: Params) -> _Fault | None:
    """A loss below or at zero twice or more while the training loss stays positive."""
    known = np.isfinite(level)
    if not known.any() or (curve.value[0] == 0 and np.all(curve.value[1:3] < 0)):  # logged against its own start
        return None
    negative, zero = curve.value < 0, curve.value == 0
    bad = negative if negative.any() else zero & known & (level > 0.01 * np.nanmax(level))
    if bad.sum() < 2:
        return None
    what = "negative" if negative.any() else "exactly zero"
    return _Fault(curve, bad, f"{int(bad.sum())} evaluations are {what} while the training loss is positive", 0.85)


def _wild(curve: Curve, level: Floats, params: Params) -> _Fault | None:
    """Evaluations far above the training loss that swing while training is smooth."""
    known = np.isfinite(level)
    if len(curve) < 5 or known.sum() < 5 or curve.value.min() <= 0:
        return None
    swing, calm = point_noise(np.log(curve.value)), point_noise(np.log(level[known]))
    typical, highest = float(np.median(curve.value)), float(level[known].max())
    beyond = typical > params["above"] * highest and swing > params["swing"]
    sound = float(np.mean(curve.value <= highest)) > params["sound"]
    if not beyond or sound or swing < 3 * calm or _falls_along(curve, level):
        return None
    bad = curve.value > params["above"] * np.where(known, level, np.inf)
    text = f"evaluations swing by {swing:.0%} around {typical:.4g}, training never exceeds {highest:.4g}"
    return _Fault(curve, bad, text, 0.85) if bad.any() else None


def _aloof(curve: Curve, level: Floats, params: Params) -> _Fault | None:
    """Evaluations far above all of training that stay where they are while training learns."""
    known = np.isfinite(level)
    if len(curve) < 5 or known.sum() < 5 or curve.value.min() <= params["aloof"] * float(level[known].max()):
        return None
    fall, train_fall = _falls(curve, level)
    if train_fall < LEARNT or abs(fall) > params["unmoved"] * train_fall:
        return None
    text = f"evaluations stay at {curve.value[0]:.4g} to {curve.value[-1]:.4g}, above {params['aloof']:g} times all of "
    text += f"training, which fell by {1 - np.exp(-train_fall):.0%}"
    return _Fault(curve, np.ones(len(curve), dtype=np.bool_), text, 0.75)


def _falls_along(curve: Curve, level: Floats) -> bool:
    """Whether evaluations fell with training, by half as many orders of magnitude: a scale lies between them."""
    fall, train_fall = _falls(curve, level)
    return train_fall > LEARNT and fall > train_fall / 2


def _falls(curve: Curve, level: Floats) -> tuple[float, float]:
    """Logarithms of the factors by which evaluations and training fell from their first to their last third."""
    known = np.flatnonzero(np.isfinite(level) & (level > 0))
    third = max(len(known) // 3, 1)
    first, last = known[:third], known[-third:]
    fall, train_fall = (float(np.median(np.log(v[first])) - np.median(np.log(v[last]))) for v in (curve.value, level))
    return fall, train_fall


def _finding(fault: _Fault, train: Curve | None) -> Finding:
    curve, where = fault.curve, np.flatnonzero(fault.bad)
    first, last = int(where[0]), int(where[-1])
    onset = int(curve.step[first])
    at = train.at(onset) if train is not None else -1
    evidence = [
        Evidence(curve.name, int(curve.step[i]), float(curve.value[i]), None, "invalid evaluation") for i in where[:3]
    ]
    if train is not None and at >= 0:
        evidence.append(Evidence(train.name, int(train.step[at]), float(train.value[at]), None, "training then"))
    whole_stretch = last - first + 1 == len(where)
    ends = last + 1 < len(curve)
    return Finding(
        kind="eval-invalid",
        series=curve.name,
        role=curve.series.role,
        onset_step=onset,
        onset_interval=(int(curve.step[max(0, first - 1)]), onset),
        occurrences=(onset,) if whole_stretch else tuple(int(curve.step[i]) for i in _starts(where)),
        peak_step=onset,
        end_step=int(curve.step[last]) if ends else None,
        recovery="recovered" if ends else "ongoing",
        confidence=fault.confidence,
        scope=Scope(domain=curve.series.domain),
        summary=f"{curve.name} is not believable from step {onset} on: {fault.text}",
        evidence=tuple(evidence),
    )


def _starts(where: Ints) -> Ints:
    """First index of each stretch of neighbouring evaluations."""
    first = np.append(True, np.diff(where) > 1)
    return where[np.flatnonzero(first)]
