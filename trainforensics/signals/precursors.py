"""What other signals did before and at an onset: who moved first, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.model import Evidence, Precursor
from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.excursions import excursions
from trainforensics.signals.measure import Excursion
from trainforensics.signals.noise import resolution, robust_sigma
from trainforensics.signals.run import Signals

RISING = (
    "grad_norm", "update_norm", "update_ratio", "param_norm", "activation_norm", "activation_max",
    "attention_logit_max",
)  # fmt: skip
NEW_RATE = 1.5  # times the highest rate so far; warm-ups rise from below their plateau
LIKE_BEFORE = 0.1  # share of a level by which a reading may differ and still be called as before
BEFORE = 32  # logged points before an onset that say what was ordinary there
COURSE = 128  # logged points before a departure that say on which course the signal was
RIGHT_BEFORE = 5  # logged points before an onset that say where the signal had got to
SEEN = 3.0  # widths of the noise of single points; a median that stands out by less, no reader finds in the log
SET = ("learning_rate", "loss_scale")  # by a schedule or a scaler: each value is the last one until it is changed


@dataclass(frozen=True, slots=True)
class Reading:
    """A signal around one step: the highest value logged from there over two points (of what a schedule or a scaler
    sets the first that is another), against the ordinary level before.

    `z` is the distance in noise widths; the noise is that of the 32 points before, of which the earliest
    reads `first` at `first_step`.
    """

    signal: str
    step: int
    value: float
    expected: float
    z: float
    first: float
    first_step: int


def excursions_of(signals: Signals, curve: Curve) -> tuple[Excursion, ...]:
    """Excursions of a curve, computed once per run."""
    return signals.derive(("excursions", curve.series.id, curve.name), lambda: excursions(curve))


def reading(curve: Curve, step: int) -> Reading | None:
    """The curve at `step` against the 32 finite points before it; None where fewer than 4 precede or none follows.

    What a schedule or a scaler sets is read against the last value before: a schedule moves on within 32 points.
    """
    finite = curve.only_finite()
    at = int(np.searchsorted(finite.step, step, side="left"))
    before, here = finite.value[max(0, at - BEFORE) : at], finite.value[at : at + 2]
    if len(before) < 4 or not len(here):
        return None
    expected = float(before[-1] if curve.series.role in SET else np.median(before))
    noise = max(robust_sigma(before), resolution(before) / 2, 1e-3 * abs(expected), 1e-300)
    top = int(np.argmax(here))
    if curve.series.role in SET:  # the value at the step itself, or the next where only that is another
        top = int(_alike(here[0], expected) and not _alike(here[-1], expected))
    value, z = float(here[top]), float((here[top] - expected) / noise)
    return Reading(
        curve.name, int(finite.step[at + top]), value, expected, z, float(before[0]), int(finite.step[at - len(before)])
    )


def precursors(signals: Signals, onset_step: int) -> tuple[Precursor, ...]:
    """Signals that left their noise before `onset_step` and stood out of it right before, longest lead first."""
    found = []
    for role in RISING:
        curve = signals.curve(role)
        if curve is None:
            continue
        finite = curve.only_finite()
        at = int(np.searchsorted(finite.step, onset_step))
        for excursion in excursions_of(signals, curve):
            start, end = int(finite.step[excursion.onset]), int(finite.step[excursion.end])
            reached = _reached(finite.value, excursion.onset, at)
            if start < onset_step <= end + curve.cadence and reached is not None:
                before, near = reached
                text = f"{curve.name} left its level of {before:.4g} at step {start} and was {near:.4g} right before"
                found.append(Precursor(curve.name, start, onset_step - start, text))
                break
    return tuple(sorted((*found, *_raised_rate(signals, onset_step)), key=lambda p: -p.lead))


def _reached(value: Floats, start: int, onset: int) -> tuple[float, float] | None:
    """Level before the index `start` and that right before `onset`; None unless the latter stands out.

    It has to stand out of the noise of single points around the course before `start`: a drift that merely goes on is
    no news. Judged on the logarithm where all is positive.
    """
    before, near = value[max(0, start - COURSE) : start], value[max(start, onset - RIGHT_BEFORE) : onset]
    if len(before) < 4 or not len(near):
        return None
    levels = float(np.median(before[-BEFORE:])), float(np.median(near))
    if before.min() > 0 and near.min() > 0:
        before, near = np.log(before), np.log(near)
    half = len(before) // 2
    drift = max(0.0, float(np.median(before[half:]) - np.median(before[:half]))) / half
    ahead = onset - len(near) / 2 - (start - len(before) / 2)
    noise = max(robust_sigma(np.diff(before)) / np.sqrt(2), resolution(before) / 2, 1e-300)
    return levels if float(np.median(near) - np.median(before)) - drift * ahead >= SEEN * noise else None


def _raised_rate(signals: Signals, onset_step: int) -> tuple[Precursor, ...]:
    """A learning rate that went, within the 32 points before the onset, where the run had never been."""
    rate = signals.curve("learning_rate")
    if rate is None:
        return ()
    rate = rate.only_finite()
    at = int(np.searchsorted(rate.step, onset_step, side="left"))
    first = max(at - BEFORE, 0)
    settled = float(rate.value[: first + 1].max()) if at else np.inf
    above = np.flatnonzero(rate.value[first:at] > NEW_RATE * settled)
    if not len(above) or rate.value[first] < settled / NEW_RATE:
        return ()
    step, value = int(rate.step[first + above[0]]), float(rate.value[first:at].max())
    text = f"{rate.name} rose from {settled:.3g} to {value:.3g}"
    return (Precursor(rate.name, step, onset_step - step, text),)


def companions(signals: Signals, onset_step: int) -> tuple[Evidence, ...]:
    """What grad norm, learning rate, loss scale and a policy's KL and entropy read at an onset, as rows of evidence."""
    rows = []
    for role in ("grad_norm", "learning_rate", "loss_scale", "kl", "entropy"):
        curve = signals.curve(role)
        seen = reading(curve, onset_step) if curve is not None else None
        if seen is not None:
            told = _compare(seen, is_set=role in SET)
            rows.append(Evidence(seen.signal, seen.step, seen.value, seen.expected, told))
    return tuple(rows)


def _compare(seen: Reading, *, is_set: bool) -> str:
    """How a reading stands to the level before it; what is set has no noise that could hide a change."""
    if _alike(seen.value, seen.expected):
        on_its_way = is_set and not _alike(seen.expected, seen.first)
        return f"on its course, from {seen.first:.3g} at {seen.first_step}" if on_its_way else "as before"
    if abs(seen.z) < 3 and not is_set:
        return "within its noise"
    if seen.expected > 0 and seen.value > 0:
        return f"{seen.value / seen.expected:.3g} times the level before"
    return f"{seen.z:.0f} noise widths from the level before" if abs(seen.z) >= 3 else "other than before"


def _alike(value: float, level: float) -> bool:
    return abs(value - level) <= LIKE_BEFORE * abs(level)
