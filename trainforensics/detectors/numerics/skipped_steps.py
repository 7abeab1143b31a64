"""A burst of skipped or overflowed updates, or updates that are skipped all along.

What it detects:
    Many more skipped updates in a stretch than the run's own rate explains, from a counter, an overflow flag or
    messages; or a share of all updates that no loss scaler skips.

Why it matters:
    Data and schedule move on while the weights stand still. A burst marks where gradients left the range of fp16, or a
    guard that threw updates away.

Evidence:
    The number skipped in the stretch, the rate before, and how improbable that is under a constant rate; or the share
    of all updates.

False positives:
    The search for a loss scale at the start and after a restart skips up to 32 updates; single back-offs are the rate
    itself. Skips that belong to a decaying loss scale or to gradients found NaN are reported there.

Example:
    23 of 30 updates are skipped from step 4120 on; before, one in 2,000 was.

Parameters:
    min_skipped: skipped updates below which nothing is a burst.
    share: of all updates that are skipped all along.
    chance: probability of such a stretch anywhere in the run under the run's own rate.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Bools, Floats, Ints
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.scale import loss_scale, skips_per_row

META = Meta(
    kind=KINDS["skipped-steps"],
    uses=("skipped_steps", "overflow", "loss_scale", "*"),
    params=(
        Param("min_skipped", 5.0, "a scaler may back off up to four times in a row after one bad patch"),
        Param("share", 0.05, "a scaler that grows every 100 steps skips 1 % of the updates, usual ones 0.1 % or less"),
        Param("chance", 1e-4, "one false alarm in 10,000 runs with a constant rate"),
    ),
)
START_STEPS = 40  # a search from 2^32 takes at most 32 updates
TOLD = 0.5  # share of a burst's steps that other findings tell already
WINDOWS = (4, 16, 64, 256, 1024)  # rows


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the least probable stretch of skipped updates."""
    counted = _counts(signals)
    if counted is None:
        return NotApplicable("no skipped updates or overflows are logged", "the number of skipped updates")
    name, step, count = counted
    stretch = _burst(count, params)
    first, last, skipped, usual = stretch or (0, 0, 0.0, 0.0)
    rows = last - first + 1
    text = f"{skipped:.0f} updates were skipped between steps {step[first]} and {step[last]} ({rows} logged points); "
    text += f"the rest of the run skips {usual:.2g} a logged point."
    if stretch is None:
        count = np.where(_told_elsewhere(signals, step), 0.0, count)
        if (all_along := _all_along(step, count, params)) is None:
            return Clear()
        first, last, share = all_along
        skipped, rows = float(count.sum()), last - first + 1
        text = (
            f"{skipped:.0f} updates were skipped between steps {step[first]} and {step[last]}, {share:.2g} of them all."
        )
    if np.mean(_told_elsewhere(signals, step[first : last + 1][count[first : last + 1] > 0])) >= TOLD:
        return Clear()
    return Fired(
        (
            Finding(
                kind="skipped-steps",
                series=name,
                role="skipped_steps",
                onset_step=int(step[first]),
                confidence=0.75,
                summary=text,
                onset_interval=(int(step[first - 1]), int(step[first])) if first else None,
                end_step=int(step[last]),
                recovery="ongoing" if last == len(step) - 1 else "recovered",
                evidence=(Evidence(name, int(step[first]), skipped, usual * rows, "skipped updates in the stretch"),),
            ),
        )
    )


def _all_along(step: Ints, count: Floats, params: Params) -> tuple[int, int, float] | None:
    """First and last row with skipped updates, and their share of all updates between, where that is no scaler's."""
    rows = np.flatnonzero(count)
    gaps = np.diff(step, prepend=step[0] - 1)
    if count.sum() < 4 * params["min_skipped"] or np.any(count[1:] > gaps[1:]):  # else something else is counted
        return None
    first, last = int(rows[0]), int(rows[-1])
    share = float(count[first : last + 1].sum()) / max(1.0, float(gaps[first : last + 1].sum()))
    even = float(np.mean(count[first : last + 1] > 0)) >= 0.5 or last - first >= len(step) // 2
    return (first, last, share) if share >= params["share"] and even else None


def _counts(signals: Signals) -> tuple[str, Ints, Floats] | None:
    """Skipped updates per logged row, start-up set aside: series name, steps and counts, shape (n,)."""
    for role in ("skipped_steps", "overflow"):
        curve = signals.curve(role)
        if curve is not None:
            curve = curve.only_finite()
            if len(curve) >= 3:
                return curve.name, curve.step, _without_start(signals, curve, skips_per_row(curve.value))
    scale, loss = loss_scale(signals), signals.curve("train_loss")
    if loss is None or len(loss) < 3:
        return None
    said = np.array([e.step for e in signals.events if e.kind == "update-skipped" and e.step is not None], np.int64)
    name = "messages of skipped updates"
    if not len(said) and scale is not None and scale.name == "overflow messages":
        name, said = scale.name, scale.reduced
    if not len(said):
        return None
    row = np.clip(np.searchsorted(loss.step, said), 0, len(loss) - 1)
    count = np.bincount(row, minlength=len(loss)).astype(float)
    return name, loss.step, _without_start(signals, loss, count)


def _without_start(signals: Signals, curve: Curve, count: Floats) -> Floats:
    starts = np.append(0, np.flatnonzero(np.diff(curve.segment)) + 1)
    life = curve.step[starts[np.searchsorted(starts, np.arange(len(curve)), side="right") - 1]]
    scale = loss_scale(signals)
    searched = scale.search_until if scale is not None and scale.search_until is not None else -1
    settled = (curve.step - life > START_STEPS) & (curve.step > searched)
    return np.where(settled, count, 0.0)


def _burst(count: Floats, params: Params) -> tuple[int, int, float, float] | None:
    """First row, last row, skips and the usual rate of the least probable window."""
    total, n = float(count.sum()), len(count)
    best: tuple[float, int, int, float, float] | None = None
    running = np.append(0.0, np.cumsum(count))
    for width in (w for w in WINDOWS if w <= n // 2):
        inside = running[width:] - running[:-width]
        at = int(np.argmax(inside))
        most = float(inside[at])
        usual = (total - most) / (n - width) + 0.5 / n
        expected = usual * width
        if most < params["min_skipped"] or most < 5 * expected:
            continue
        # Chernoff's bound of a Poisson tail, times the number of windows looked at
        log_p = most - expected - most * np.log(most / expected) + np.log(n / width * len(WINDOWS))
        if log_p < np.log(params["chance"]) and (best is None or log_p < best[0]):
            rows = at + np.flatnonzero(count[at : at + width])
            best = (log_p, int(rows[0]), int(rows[-1]), most, usual)
    return best[1:] if best else None


def _told_elsewhere(signals: Signals, steps: Ints) -> Bools:
    """Which of these steps lie in a decay of the loss scale or beside values found non-finite, shape (n,)."""
    scale = loss_scale(signals)
    told = np.zeros(len(steps), dtype=bool)
    if scale is not None and scale.decay is not None:
        first, last = scale.decay.before or scale.decay.steps[0], scale.decay.steps[-1]
        told |= (steps >= first) & ((steps <= last) | (scale.decay.overflows_at_floor > 0))
    for episode in nonfinite(signals):
        onsets = np.array(episode.onsets)
        nearest = np.abs(onsets[np.clip(np.searchsorted(onsets, steps), 0, len(onsets) - 1)] - steps)
        told |= nearest <= 2
        if episode.kind == "nan-onset":
            told |= steps >= episode.onsets[0]
    return told
