"""Bursts of the loss come back with a fixed period.

What it detects:
    Four or more bursts of the training loss whose onsets lie a fixed number of steps apart (some may be missing), too
    regular for chance.

Why it matters:
    Optimisation has no clock; data order has. Something in the order recurs: a source that was not shuffled in, the
    border between shards or the end of an epoch, the same bad documents once an epoch.

Evidence:
    The period, the onsets that keep it, and the probability that onsets at random would.

False positives:
    Stairs at epoch borders go down and are no bursts. A learning rate that cycles or restarts with the same period
    moves the loss by itself. Bursts that fill their period are a cycle of the schedule or of the loss itself.

Example:
    Seven bursts from step 2000 on, 2000 steps apart.

Parameters:
    chance: probability of as regular a set of onsets.
    narrow: share of the period that a burst may last.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.excursions import Excursion, excursions
from trainforensics.signals.periodic import Period, period
from trainforensics.signals.restarts import restarts
from trainforensics.signals.stretches import at_steps

MIN_POINTS = 100
META = Meta(
    kind=KINDS["periodic-data-order"],
    needs=("train_loss",),
    uses=("train_loss", "learning_rate", "epoch"),
    params=(
        Param("chance", 1e-3, "one false alarm in 1,000 runs with bursts at random"),
        Param("narrow", 0.3, "a warm restart fills its cycle, a shard or a document does not"),
    ),
)


def detect(signals: Signals, params: Params) -> Outcome:
    """Look for a period among the onsets of bursts."""
    loss = signals.curve("train_loss")
    loss = loss.only_finite() if loss is not None else None
    if loss is None or len(loss) < MIN_POINTS:
        return NotApplicable("too few points of training loss", "the training loss at least every 1 % of the run")
    bursts = [e for e in signals.derive(("excursions", loss.series), lambda: excursions(loss)) if e.returned]
    borders = {r.step for r in restarts(signals)}
    bursts = [e for e in bursts if not any(abs(int(loss.step[e.onset]) - b) <= 2 * loss.cadence for b in borders)]
    found = period(loss.step[[e.onset for e in bursts]] if bursts else loss.step[:0], loss.cadence)
    if found is None or found.chance > params["chance"] or _wide(loss, bursts, found, params["narrow"]):
        return Clear()
    if _schedule_cycles(signals, found):
        return Clear()
    return Fired((_finding(signals, loss, bursts, found),))


def _wide(loss: Curve, bursts: list[Excursion], found: Period, narrow: float) -> bool:
    lengths = [int(loss.step[e.end] - loss.step[e.onset]) for e in bursts]
    return float(np.median(lengths)) > narrow * found.steps


def _schedule_cycles(signals: Signals, found: Period) -> bool:
    """Whether the learning rate rises at most of the onsets."""
    rate = signals.curve("learning_rate")
    if rate is None or len(rate) < MIN_POINTS:
        return False
    onsets = np.array(found.kept)
    around = max(int(found.tolerance), 2 * rate.cadence)
    before, after = at_steps(rate, onsets - around), at_steps(rate, onsets + around)
    known = np.isfinite(before) & np.isfinite(after)
    return bool(known.sum() >= 3 and np.mean(after[known] > 1.2 * before[known]) > 0.5)


def _finding(signals: Signals, loss: Curve, bursts: list[Excursion], found: Period) -> Finding:
    first = found.kept[0]
    kept = [e for e in bursts if int(loss.step[e.onset]) in found.kept]
    height = float(np.median([e.height for e in kept]))
    epoch = _epoch_length(signals)
    matches = epoch is not None and abs(epoch / found.steps - round(epoch / found.steps)) < 0.03
    text = (
        f"{len(kept)} bursts of {loss.name}, {height:.3g} high, come every {found.steps:.4g} steps from step {first} on"
    )
    text += "; an epoch takes a multiple of that." if matches else "."
    at = loss.at(first)
    return Finding(
        kind="periodic-data-order",
        series=loss.name,
        role="train_loss",
        onset_step=first,
        onset_interval=(int(loss.step[max(at - 1, 0)]), first),
        confidence=round(min(0.95, 0.75 + 0.02 * len(kept)), 2),
        summary=text,
        occurrences=found.kept,
        peak_step=int(loss.step[max(kept, key=lambda e: e.height).peak]),
        end_step=int(loss.step[kept[-1].end]),
        recovery="recovered",
        evidence=(
            Evidence(loss.name, first, found.steps, None, "steps between bursts"),
            Evidence(loss.name, first, float(len(kept)), float(len(bursts)), "bursts that keep time, of all bursts"),
            Evidence(loss.name, first, found.chance, None, "probability that onsets at random are as regular"),
        ),
    )


def _epoch_length(signals: Signals) -> float | None:
    curve = signals.curve("epoch")
    curve = curve.only_finite() if curve is not None else None
    if curve is None or len(curve) < 10 or curve.value[-1] - curve.value[0] < 1:
        return None
    return float((curve.step[-1] - curve.step[0]) / (curve.value[-1] - curve.value[0]))
