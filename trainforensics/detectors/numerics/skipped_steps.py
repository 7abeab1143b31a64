"""A burst of skipped or overflowed updates.

What it detects:
    Many more skipped updates in a stretch than the run's own rate explains, from a counter, an overflow flag or
    overflow messages.

Why it matters:
    Data and schedule move on while the weights stand still. A burst marks where gradients left the range of fp16, or a
    guard that threw updates away.

Evidence:
    The number skipped in the stretch, the rate before, and how improbable that is under a constant rate.

False positives:
    The search for a loss scale at the start and after a restart skips up to 32 updates; single back-offs are the rate
    itself. Skips that belong to a decaying loss scale or to gradients found NaN are reported there.

Example:
    23 of 30 updates are skipped from step 4120 on; before, one in 2,000 was.

Parameters:
    min_skipped: skipped updates below which nothing is a burst.
    chance: probability of such a stretch anywhere in the run under the run's own rate.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.curve import Floats, Ints
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.scale import loss_scale, skips_per_row

META = Meta(
    kind=KINDS["skipped-steps"],
    uses=("*",),
    params=(
        Param("min_skipped", 5.0, "a scaler may back off up to four times in a row after one bad patch"),
        Param("chance", 1e-4, "one false alarm in 10,000 runs with a constant rate"),
    ),
)
START_STEPS = 40  # a search from 2^32 takes at most 32 updates
WINDOWS = (4, 16, 64, 256, 1024)  # rows


def detect(signals: Signals, params: Params) -> Outcome:
    """Report the least probable stretch of skipped updates."""
    counted = _counts(signals)
    if counted is None:
        return NotApplicable("no skipped updates or overflows are logged", "the number of skipped updates")
    name, step, count = counted
    burst = _burst(count, params)
    if burst is None:
        return Clear()
    first, last, skipped, usual = burst
    if _told_elsewhere(signals, step[first : last + 1][count[first : last + 1] > 0]):
        return Clear()
    rows = last - first + 1
    text = f"{skipped:.0f} updates were skipped between steps {step[first]} and {step[last]} ({rows} logged points); "
    text += f"the rest of the run skips {usual:.2g} a logged point."
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


def _counts(signals: Signals) -> tuple[str, Ints, Floats] | None:
    """Skipped updates per logged row, start-up set aside: series name, steps and counts, shape (n,)."""
    for role in ("skipped_steps", "overflow"):
        curve = signals.curve(role)
        if curve is not None:
            curve = curve.only_finite()
            if len(curve) >= 3:
                return curve.name, curve.step, _without_start(signals, curve, skips_per_row(curve.value))
    scale, loss = loss_scale(signals), signals.curve("train_loss")
    if scale is None or loss is None or scale.name != "overflow messages" or len(loss) < 3:
        return None
    row = np.clip(np.searchsorted(loss.step, scale.reduced), 0, len(loss) - 1)
    count = np.bincount(row, minlength=len(loss)).astype(float)
    return scale.name, loss.step, _without_start(signals, loss, count)


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


def _told_elsewhere(signals: Signals, steps: Ints) -> bool:
    """Whether most of these steps lie in a decay of the loss scale or beside values found non-finite."""
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
    return bool(told.mean() >= 0.5) if len(told) else True
