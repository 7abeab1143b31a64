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
    while the loss falls.

Example:
    grad_norm is NaN at 30 single steps, always when the same two documents are in the batch; the loss stays near 2.1.

Parameters:
    None: a gradient that is not a number needs no threshold.
"""

from __future__ import annotations

import numpy as np

from trainforensics.detectors.base import Meta, Params
from trainforensics.detectors.numerics.episodes import finding, name_of
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.nonfinite import STATE_ROLES, Episode, nonfinite

META = Meta(kind=KINDS["grad-nan"], uses=("*",))


@np.errstate(all="ignore")
def detect(signals: Signals, params: Params) -> Outcome:  # noqa: ARG001
    """Report gradients that were not finite beside a finite loss."""
    if not any(signals.has(role) for role in STATE_ROLES):
        return NotApplicable("no gradient norm is logged", "the gradient norm before clipping")
    found = tuple(_finding(signals, e) for e in nonfinite(signals) if e.kind == "grad-nan")
    return Fired(found) if found else Clear()


def _finding(signals: Signals, episode: Episode) -> Finding:
    times = len(episode.onsets)
    first = episode.onsets[0]
    if episode.end is None and times == 1:
        where = f"from step {first} to the end of the log"
    else:
        where = f"at step {first}" if times == 1 else f"{times} times between steps {first} and {episode.onsets[-1]}"
    text = f"{episode.series.name} is {name_of(episode)} {where} while the training loss stays finite."
    return finding(signals, episode, 0.9 if signals.has("train_loss") else 0.7, text)
