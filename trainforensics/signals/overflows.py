"""Gradients, and what else lives with the weights, that are not finite while the loss is.

No fault are updates that a loss scaler skips, norms that never were computed, and averages that one NaN entered.
"""

from __future__ import annotations

import numpy as np

from trainforensics.signals.curve import Bools, Curve, Ints
from trainforensics.signals.episodes import BY_CONSTRUCTION, MIN_LIFE, Bad, Episode, recurring, seldom, states
from trainforensics.signals.rows import MIN_ROWS, loss_like
from trainforensics.signals.run import Signals
from trainforensics.signals.scale import at_growth, loss_scale, low_precision, skipped_by_scaler
from trainforensics.signals.stretches import at_steps, lasting_start, stretches
from trainforensics.signals.stuck import stuck

SKIP_ROWS = 20  # a scaler's search or a short burst; longer is not a normal skip
START_ROWS = 5  # a search for the loss scale that the log does not show
PROBES = 10  # rows for each overflow that a scaler may find by growing its scale: windows are longer still
MOVES = 0.8  # of the rows, at which a learning rate moves that is set anew with each update


def overflows(signals: Signals, losses: list[Bad], known: list[Episode]) -> Episode | None:
    """States that are not finite while the loss is, where no scaler took care of it: one episode with all onsets."""
    bad = []
    for curve in states(signals):
        mask = ~curve.finite
        if not mask.any():
            continue
        if curve.series.role != "grad_norm" and seldom(curve) is None and (lasting_start(mask) or 0) < MIN_ROWS:
            continue
        mask = mask & ~_claimed(signals, curve.step, losses, known)
        mask = _own_faults(signals, curve, mask, losses)
        if mask.any():
            bad.append(Bad(curve, mask))
    bad += _second_losses(signals, losses, known)
    if not bad:
        return None
    bad.sort(key=lambda entry: (entry.first_step, entry.curve.series.layer is not None))
    ranks = {entry.curve.series.rank for entry in bad}
    lasts = any(entry.mask[-1] for entry in bad)
    return recurring("grad-nan", bad, lasts=lasts, rank=ranks.pop() if len(ranks) == 1 else None)


def _second_losses(signals: Signals, losses: list[Bad], known: list[Episode]) -> list[Bad]:
    """Further losses that die while the one that speaks lives on, unless a NaN of that one entered their average."""
    found = []
    for curve in loss_like(signals):
        start = lasting_start(~curve.finite)
        if start is None or start < MIN_ROWS or len(curve) - start < MIN_LIFE:
            continue
        if any(curve.series == bad.curve.series or bad.mask.any() for bad in losses):
            continue
        mask = (np.arange(len(curve)) >= start) & ~_claimed(signals, curve.step, losses, known)
        if mask[start]:
            found.append(Bad(curve, mask))
    return found


def _claimed(signals: Signals, step: Ints, losses: list[Bad], known: list[Episode]) -> Bools:
    """Steps at which the loss itself is bad or stands still, or that lie in an episode known already."""
    still = stuck(signals)
    claimed = step >= (still.curve.step[still.first] if still is not None else np.iinfo(np.int64).max)
    for episode in known:
        if episode.kind == "nan-onset":
            end = episode.end if episode.end is not None else np.iinfo(np.int64).max
            claimed |= (step >= episode.onsets[0]) & (step <= end)
    for bad in losses:
        # the gradient of a bad step may be logged a row later
        first, last = stretches(bad.mask)
        if len(first):
            ceiling = bad.curve.step[np.minimum(last + 1, len(bad.curve) - 1)]
            at = np.searchsorted(bad.curve.step[first], step, side="right") - 1
            claimed |= (at >= 0) & (step <= ceiling[np.clip(at, 0, None)])
    return claimed


def _own_faults(signals: Signals, curve: Curve, mask: Bools, losses: list[Bad]) -> Bools:
    """The bad stretches of a state that mean something."""
    if mask.all() and _still_learns(losses):
        return np.zeros(len(mask), dtype=bool)  # never computed at all
    first, last = stretches(mask)
    if not len(first):
        return mask
    kept = _unskipped(signals, curve, first, last)
    scale = loss_scale(signals)
    if scale is not None and scale.dynamic and scale.decay is None and _averaged(signals, curve, curve.step[mask]):
        return np.zeros(len(mask), dtype=bool)  # means that updates entered which the scaler skipped
    if _averaged(signals, curve, curve.step[first[0] : last[0] + 1]):
        last = first
    shown = np.zeros(len(mask) + 1, dtype=int)
    np.add.at(shown, first[kept], 1)
    np.add.at(shown, last[kept] + 1, -1)
    return np.cumsum(shown[:-1]) > 0


def _unskipped(signals: Signals, curve: Curve, first: Ints, last: Ints) -> Bools:
    """Which stretches are no updates that a loss scaler skipped, whether or not its scale is logged."""
    short = last - first < SKIP_ROWS
    often = len(first) > BY_CONSTRUCTION * len(curve) and len(first) > START_ROWS  # no matter of the start
    kept: Bools = (first > 0) | (last >= START_ROWS) | (last == len(curve) - 1) | often
    kept &= ~(short & skipped_by_scaler(signals, curve.step[first], curve.step[last]))
    scale = loss_scale(signals)
    if scale is not None and scale.decay is not None:
        until = scale.decay.steps[-1] if scale.decay.recovery == "recovered" else np.iinfo(np.int64).max
        start = scale.decay.before if scale.decay.before is not None else scale.decay.steps[0]
        kept &= ~((curve.step[first] >= start) & (curve.step[first] <= until))
    if scale is not None and scale.dynamic and len(first) * PROBES <= len(curve):
        kept &= ~((last == first) & np.isposinf(curve.value[first]))  # probes that fail between two rows
    kept &= ~(short & _rate_waited(signals, curve, first))
    late = kept & (first > 0)
    if scale is None and at_growth(curve.step[first[late]], curve.cadence):
        kept &= ~(short & ((first == 0) | late))
    if low_precision(signals):
        kept &= ~((first == 0) & short & (last < len(curve) - 1))
        spaced = len(first) * 500 <= int(curve.step[-1]) - int(curve.step[0])
        if spaced and (scale is None or not scale.dynamic):
            kept &= last != first  # the scale is not logged: rare single steps are its back-offs
    return kept


def _rate_waited(signals: Signals, curve: Curve, first: Ints) -> Bools:
    """Whether the learning rate, which moves from row to row, stood still at the rows `first` (indices): a scaler that
    skips an update leaves the schedule where it was."""
    rate = signals.curve("learning_rate")
    if rate is None or len(curve) < MIN_ROWS:
        return np.zeros(len(first), dtype=bool)
    moved = np.diff(at_steps(rate, curve.step)) != 0
    waited = np.append(False, ~moved)[first]
    return waited if float(np.mean(moved)) >= MOVES else np.zeros(len(first), dtype=bool)


def _still_learns(losses: list[Bad]) -> bool:
    """Whether the loss falls over the log, which it cannot do on gradients that are not numbers."""
    for bad in losses[:1]:
        value = bad.curve.value[bad.curve.finite]
        third = len(value) // 3
        if third >= 2:
            early, late = value[:third], value[-third:]
            noise = float(np.median(np.abs(late - np.median(late)))) + 1e-12
            return bool(np.median(early) - np.median(late) > 2 * noise)
    return False


def _averaged(signals: Signals, curve: Curve, bad: Ints) -> bool:
    """Whether a second series of the same thing is finite at these steps: the NaN then lives on in an average only."""
    origin = (curve.series.role, curve.series.rank, curve.series.layer)
    for other in signals.curves(curve.series.role or ""):
        if other is curve or (other.series.role, other.series.rank, other.series.layer) != origin:
            continue
        inside = at_steps(other, bad)
        if len(inside) > 1 and np.mean(np.isfinite(inside)) > 0.5:
            return True
    return False
