"""The gradient is not finite while the loss still is.

What it detects:
    A gradient norm, or another series that lives and dies with the weights (update norm, parameter norm, activations),
    that is NaN or infinite at steps where the training loss is finite. All such steps are listed.

Why it matters:
    It is the early warning of a loss that turns NaN: one such update, if applied, ruins the weights.

Evidence:
    Every step, the series, and whether the updates were skipped.

False positives:
    A loss scaler meets an infinite gradient each time its scale has grown too far, skips that update and halves the
    scale: such steps, and its search at the start, are set aside. A series that was never computed is NaN throughout
    while the loss falls. A norm that grew until it overflowed is reported as an explosion.

Example:
    grad_norm is NaN at 30 single steps, always when the same two documents are in the batch; the loss stays near 2.1.

Parameters:
    None: a gradient that is not a number needs no threshold.
"""

from __future__ import annotations

from trainforensics.detectors.base import Meta, Params
from trainforensics.detectors.numerics.episodes import finding, name_of
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.episodes import STATE_ROLES, Episode
from trainforensics.signals.explosions import explosions
from trainforensics.signals.nonfinite import nonfinite

META = Meta(kind=KINDS["grad-nan"], uses=("grad_norm", "*"))


def detect(signals: Signals, params: Params) -> Outcome:  # noqa: ARG001
    """Report gradients that were not finite beside a finite loss."""
    found = [e for e in nonfinite(signals) if e.kind == "grad-nan" and not _outgrown(signals, e)]
    if found:
        return Fired(tuple(_finding(signals, e) for e in found))
    if not any(signals.has(role) for role in STATE_ROLES):
        return NotApplicable("no gradient norm is logged", "the gradient norm before clipping")
    return Clear()


def _outgrown(signals: Signals, episode: Episode) -> bool:
    """Whether the norm is infinite because it had been exploding until then: one happening, told as the explosion."""
    return episode.end is None and any(
        e.lasting and e.recovery != "recovered" and e.onset < e.end and int(e.curve.step[e.onset]) < episode.onsets[0]
        for e in explosions(signals)
    )


def _finding(signals: Signals, episode: Episode) -> Finding:
    times = len(episode.onsets)
    first = episode.onsets[0]
    if episode.end is None and times == 1:
        where = f"from step {first} to the end of the log"
    else:
        where = f"at step {first}" if times == 1 else f"{times} times between steps {first} and {episode.onsets[-1]}"
    primary = signals.curve("train_loss")
    beside = f"the training loss ({primary.name})" if primary is not None else "the training loss"
    text = f"{episode.series.name} is {name_of(episode)} {where} while {beside} stays finite."
    return finding(signals, episode, 0.9 if signals.has("train_loss") else 0.7, text)
