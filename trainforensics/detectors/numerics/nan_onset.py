"""The loss turns NaN or infinite and stays so.

What it detects:
    A training loss that is NaN or infinite to the end of the log, also where a filter hides it (the loss is logged as 0
    or repeats while the gradient norm is NaN), where the loss vanishes from rows that go on, and where only one rank's
    loss is bad. In a log of a policy without a training loss its other losses and its KL stand for it. The onset is the
    first non-finite value of any series that belongs to the event.

Why it matters:
    Weights that have seen NaN stay NaN. Every step after the onset is lost, and a checkpoint saved after it is useless.

Evidence:
    First bad step, first bad series and its value, the last good step, the series that followed, and what moved in the
    steps before.

False positives:
    NaN in evaluation rows only, in auxiliary series, in averages that one NaN entered, and in rows that merely lack a
    training loss are set aside. A log that ends within two bad points may have come back: confidence says so.

Example:
    grad_norm is NaN at step 1440, the loss is logged as 0.0 from step 1460 to the end.

Parameters:
    None: a loss that is not a number needs no threshold.
"""

from __future__ import annotations

from trainforensics.detectors.base import Meta, Params
from trainforensics.detectors.numerics.episodes import DISGUISES, finding, name_of
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals
from trainforensics.signals.episodes import Episode
from trainforensics.signals.nonfinite import nonfinite

META = Meta(kind=KINDS["nan-onset"], uses=("train_loss", "grad_norm", "*"))


def detect(signals: Signals, params: Params) -> Outcome:  # noqa: ARG001
    """Report the loss that is not finite to the end, and each earlier process life that ended so."""
    found = tuple(_finding(signals, e) for e in nonfinite(signals) if e.kind == "nan-onset")
    if not (found or signals.has("train_loss")):
        return NotApplicable("no training loss is logged", "the training loss")
    return Fired(found) if found else Clear()


def _finding(signals: Signals, episode: Episode) -> Finding:
    step = episode.onsets[0]
    parts = [f"{episode.series.name} is {name_of(episode)} at step {step}"]
    if episode.rank is not None:
        parts.append(f"first on rank {episode.rank}")
    if episode.others:
        series, other = episode.others[0]
        hidden = f" ({DISGUISES[episode.disguise]})" if series.role == "train_loss" and episode.disguise else ""
        parts.append(f"{series.name} from step {other} on{hidden}")
    if episode.end is None:
        parts.append("to the end of the log")
    else:
        parts.append(f"to step {episode.end}, where the run was started again")
    return finding(signals, episode, _confidence(episode), ", ".join(parts) + ".")


def _confidence(episode: Episode) -> float:
    """By how often the loss was seen bad and how plainly; a second series that agrees adds to it."""
    seen = 0.8 if episode.points < 2 else 0.9 if episode.points < 5 else 0.97
    if episode.disguise:
        seen -= 0.1 if episode.others else 0.25
    if episode.before is None:
        seen -= 0.1
    return round(min(0.99, seen + (0.02 if episode.others else 0.0)), 2)
