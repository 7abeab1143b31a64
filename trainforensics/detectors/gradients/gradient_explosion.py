"""The gradient norm climbs far beyond its history while the loss does not move.

What it detects:
    A gradient norm many times its running level and beyond its own noise: a single burst, a lasting jump, or growth to
    ever higher levels, at steps where the training loss stays inside its noise (clipping hides it). In a log of few
    points, a norm 30 times every other one. A norm beyond all scale from the first point on.

Why it matters:
    Clipping keeps the loss calm but turns each update into noise of fixed length. It precedes divergence, and shows a
    loss summed instead of averaged, or a layer that runs away.

Evidence:
    The norm before and at its peak, the factor, the height in widths of the run's own noise, the loss meanwhile.

False positives:
    Warm-up and restarts move gradients by themselves and are set aside. Heavy tails raise the height that the run must
    exceed. A burst that the loss shares is reported as the loss's. Where the loss falls by far during the climb, the
    network has left a plateau, and its gradients grow as it learns; where it falls below zero, it is a log likelihood
    or a score, whose gradients grow with it.

Example:
    From step 700 on grad_norm is 85 instead of 1.3 while the loss goes on at 2.1.

Parameters:
    lasting_factor: times the level before, where it stays up.
    burst_factor: times the level before, for a burst of a few points.
    slow_factor: times the level before, where it takes more than a tenth of the log to climb.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Evidence, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.explosions import Explosion, enormous, explosions, loss_fell, loss_moved
from trainforensics.signals.noise import median, robust_sigma
from trainforensics.signals.nonfinite import nonfinite
from trainforensics.signals.structure import announced

META = Meta(
    kind=KINDS["gradient-explosion"],
    uses=("grad_norm", "*"),
    params=(
        Param("lasting_factor", 5.0, "practitioners' band of 5-10x, where the run's own noise agrees"),
        Param("burst_factor", 10.0, "upper end of that band: healthy runs show single points of 5x"),
        Param("slow_factor", 30.0, "norms may grow several-fold over a healthy run as weights grow"),
    ),
)

LOSS_BEFORE = 50  # logged points that tell what is usual for the loss
STANDS_OUT = 4.0  # widths of its noise, which the highest of three normal points exceeds one time in 10,000


def detect(signals: Signals, params: Params) -> Outcome:
    """Report lasting explosions one by one, bursts as one recurring finding."""
    if not signals.has("grad_norm"):
        return NotApplicable("no gradient norm is logged", "the global gradient norm before clipping")
    if (huge := enormous(signals)) is not None:
        return Fired((_all_along(huge),))
    ends = [e.onsets[0] for e in nonfinite(signals) if e.kind == "nan-onset"]
    far = [e for e in explosions(signals) if _far(e, params) and not _loss_shares(signals, e) and not _ends(e, ends)]
    lasting = [e for e in far if e.lasting]
    bursts = [e for e in far if not e.lasting]
    found = [_finding(signals, e, ()) for e in lasting[:3]]
    if bursts:
        steps = tuple(int(e.curve.step[e.onset]) for e in bursts)
        found.append(_finding(signals, max(bursts, key=lambda e: e.factor), steps))
    return Fired(tuple(found)) if found else Clear()


def _far(explosion: Explosion, params: Params) -> bool:
    if not explosion.lasting:
        return explosion.factor >= params["slow_factor" if explosion.slow else "burst_factor"]
    return explosion.held >= params["slow_factor" if explosion.slow else "lasting_factor"]


def _loss_shares(signals: Signals, explosion: Explosion) -> bool:
    """Whether the loss moves as well, or has to by plan: then it is no explosion behind a calm loss."""
    step = explosion.curve.step
    if loss_fell(signals, explosion):
        return True
    if announced(signals, int(step[max(explosion.onset - 1, 0)]), int(step[explosion.onset])):
        return True
    last = min(explosion.end, explosion.onset + 2) if explosion.lasting else explosion.end
    return loss_moved(signals, int(step[explosion.onset]), int(step[last]))


def _ends(explosion: Explosion, ends: list[int]) -> bool:
    """Whether the climb is the last thing before the loss turns NaN: then it is that event's precursor."""
    step, cadence = explosion.curve.step, explosion.curve.cadence
    onset, end = int(step[explosion.onset]), int(step[explosion.end])
    return any(onset <= nan <= end + 2 * cadence for nan in ends)


def _finding(signals: Signals, explosion: Explosion, occurrences: tuple[int, ...]) -> Finding:
    curve, onset = explosion.curve, explosion.onset
    first = occurrences[0] if occurrences else int(curve.step[onset])
    peak = int(curve.step[explosion.top])
    at = curve.at(first)
    return Finding(
        kind="gradient-explosion",
        series=curve.name,
        role="grad_norm",
        onset_step=first,
        confidence=round(min(0.95, 0.6 + 0.02 * min(10.0, explosion.z) + (0.1 if explosion.factor > 20 else 0.0)), 2),
        summary=_summary(signals, explosion, occurrences),
        onset_interval=(int(curve.step[at - 1]), first) if at > 0 else None,
        occurrences=occurrences or (first,),
        segment=int(curve.segment[onset]),
        peak_step=peak,
        end_step=int(curve.step[explosion.end]) if explosion.recovery == "recovered" else None,
        recovery=explosion.recovery,
        evidence=(
            Evidence(
                curve.name, peak, explosion.peak, explosion.level, f"{explosion.factor:.3g} times the level before"
            ),
            Evidence(curve.name, peak, explosion.z, None, "height in noise widths, judged by the logarithm"),
        ),
    )


def _all_along(curve: Curve) -> Finding:
    first, usual = int(curve.step[0]), float(np.median(curve.value))
    text = f"{curve.name} is {usual:.3g} at the median and never below {curve.value.min():.3g}, from step {first} on"
    return Finding(
        kind="gradient-explosion",
        series=curve.name,
        role="grad_norm",
        onset_step=first,
        confidence=0.7,
        summary=f"{text}: no loss of this size has such gradients, whatever scale or sum they are taken with.",
        recovery="unrecovered",
        evidence=(Evidence(curve.name, first, usual, None, "median of the whole log"),),
    )


def _summary(signals: Signals, explosion: Explosion, occurrences: tuple[int, ...]) -> str:
    curve, level, step = explosion.curve, explosion.level, int(explosion.curve.step[explosion.onset])
    loss = _loss_meanwhile(signals, step)
    highest = f"{explosion.peak:.3g} ({explosion.factor:.3g}x)"
    if not explosion.lasting:
        again = f", {len(occurrences)} times in all" if len(occurrences) > 1 else ""
        back = " and comes back" if explosion.recovery == "recovered" else ""
        return f"{curve.name} jumps from {level:.3g} to {highest} at step {step}{back}{again}{loss}."
    stands = float(np.median(curve.value[explosion.onset : explosion.end + 1]))
    at = f"the highest is {highest} at step {int(curve.step[explosion.top])}"
    return f"{curve.name} leaves {level:.3g} at step {step} and stays up, at a median of {stands:.3g}{loss}; {at}."


def _loss_meanwhile(signals: Signals, step: int) -> str:
    """What the training loss did at the onset and in the two points after it; empty where it is not logged."""
    loss = signals.curve("train_loss")
    if loss is None:
        return ""
    points = loss.only_finite()
    at = int(np.searchsorted(points.step, step))
    before, after = points.value[max(0, at - LOSS_BEFORE) : at], points.value[at : at + 3]
    if not len(before) or not len(after):
        return ""
    level, highest = median(before), float(after.max())
    if highest - level <= STANDS_OUT * robust_sigma(before):
        return ", while the loss stays inside its noise"
    return f", while the loss goes from {level:.4g} to {highest:.4g}, less than a burst of its own needs"
