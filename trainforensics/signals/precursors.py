"""What other signals did before and at an onset: who moved first, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainforensics.model import Evidence, Precursor
from trainforensics.signals.curve import Curve
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


@dataclass(frozen=True, slots=True)
class Reading:
    """A signal around one step: the highest value logged from there over two points, against the ordinary level before.

    `z` is the distance in noise widths; the noise is that of the 32 points before.
    """

    signal: str
    step: int
    value: float
    expected: float
    z: float


def excursions_of(signals: Signals, curve: Curve) -> tuple[Excursion, ...]:
    """Excursions of a curve, computed once per run."""
    return signals.derive(("excursions", curve.series.id, curve.name), lambda: excursions(curve))


def reading(curve: Curve, step: int) -> Reading | None:
    """The curve at `step` against the 32 finite points before it; None where fewer than 4 precede or none follows."""
    finite = curve.only_finite()
    at = int(np.searchsorted(finite.step, step, side="left"))
    before, here = finite.value[max(0, at - BEFORE) : at], finite.value[at : at + 2]
    if len(before) < 4 or not len(here):
        return None
    expected = float(np.median(before))
    noise = max(robust_sigma(before), resolution(before) / 2, 1e-3 * abs(expected), 1e-300)
    top = int(np.argmax(here))
    return Reading(
        curve.name, int(finite.step[at + top]), float(here[top]), expected, float((here[top] - expected) / noise)
    )


def precursors(signals: Signals, onset_step: int) -> tuple[Precursor, ...]:
    """Signals that left their noise before `onset_step` and were still out when it came, longest lead first."""
    found = []
    for role in RISING:
        curve = signals.curve(role)
        if curve is None:
            continue
        steps = curve.step[curve.finite]
        for excursion in excursions_of(signals, curve):
            start, end = int(steps[excursion.onset]), int(steps[excursion.end])
            if start < onset_step <= end + curve.cadence:
                text = f"{curve.name} left its level of {excursion.before:.4g} at step {start}"
                found.append(Precursor(curve.name, start, onset_step - start, text))
                break
    return tuple(sorted((*found, *_raised_rate(signals, onset_step)), key=lambda p: -p.lead))


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
    """What grad norm, learning rate and loss scale read at an onset, as rows of evidence."""
    rows = []
    for role in ("grad_norm", "learning_rate", "loss_scale"):
        curve = signals.curve(role)
        seen = reading(curve, onset_step) if curve is not None else None
        if seen is not None:
            told = _compare(seen, scheduled=role == "learning_rate")
            rows.append(Evidence(seen.signal, seen.step, seen.value, seen.expected, told))
    return tuple(rows)


def _compare(seen: Reading, *, scheduled: bool) -> str:
    """How a reading stands to the level before it; what a schedule sets has no noise that could hide a change."""
    if abs(seen.value - seen.expected) <= LIKE_BEFORE * abs(seen.expected):
        return "as before"
    if abs(seen.z) < 3 and not scheduled:
        return "within its noise"
    if seen.expected > 0 and seen.value > 0:
        return f"{seen.value / seen.expected:.3g} times the level before"
    return f"{seen.z:.0f} noise widths from the level before" if abs(seen.z) >= 3 else "other than before"
