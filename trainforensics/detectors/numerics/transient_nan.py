"""The loss is NaN or infinite for a while, then finite again.

What it detects:
    A training loss, of the run, of a rank or of one component, that is not finite at some steps and comes back. Where
    all losses are finite, a KL divergence that is infinite now and then.

Why it matters:
    Something produced it: a batch with an empty or impossible sample, or a computation at the edge of its range. A
    guard that skipped the update saved the run; without one it comes back as NaN for good.

Evidence:
    The steps, the value, the rank that had it, the component that had it, and whether the gradient norm was bad too.

False positives:
    Components that are NaN by construction (classes without samples) are bad often and from the start; they are set
    aside, and so are rows of evaluation that leave the training loss empty.

Example:
    The loss is infinite at steps 433 and 789, the gradient norm is NaN there, and both are normal one step later.

Parameters:
    None: a loss that is not a number needs no threshold.
"""

from __future__ import annotations

from trainforensics.detectors.base import Meta, Params
from trainforensics.detectors.numerics.episodes import finding, name_of
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.episodes import Episode
from trainforensics.signals.nonfinite import nonfinite

META = Meta(kind=KINDS["transient-nan"], uses=("train_loss", "*"))


def detect(signals: Signals, params: Params) -> Outcome:  # noqa: ARG001
    """Report a loss that was not finite for a while."""
    if not any(curve.series.role == "train_loss" or "loss" in curve.name for curve in signals.every_curve()):
        return NotApplicable("no training loss is logged", "the training loss")
    found = tuple(_finding(signals, e) for e in nonfinite(signals) if e.kind == "transient-nan")
    return Fired(found) if found else Clear()


def _finding(signals: Signals, episode: Episode) -> Finding:
    times = len(episode.onsets)
    where = f"at step {episode.onsets[0]}" if times == 1 else f"{times} times, first at step {episode.onsets[0]}"
    rank = f" on rank {episode.rank}" if episode.rank is not None else ""
    what = name_of(episode)
    rows = "that no row holds" if episode.disguise == "message" else f"{episode.points} logged points"
    text = f"{episode.series.name} is {what}{rank} {where} ({rows}) and finite again after."
    confidence = 0.75 if episode.disguise or episode.component else 0.95
    return finding(signals, episode, confidence, text)
