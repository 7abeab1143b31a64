"""A restart at the onset: how the two lives join, what was multiplied, repeated or lost."""

from __future__ import annotations

import numpy as np

from trainforensics.causes.case import Case, once
from trainforensics.causes.movement import CREPT_POINTS, LASTING_POINTS
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.restarts import Join, join

MULTIPLES = frozenset({2, 3, 4, 8, 16, 32, 64})
RESUME_WORDS = ("restart", "resume", "resumed", "checkpoint-loaded", "load-checkpoint", "checkpoint-load")


@once
def near(case: Case) -> int | None:
    """Step of a restart at the onset or shortly before, else None; to begin with a checkpoint is none."""
    steps = [event.step for event in case.signals.events if event.kind in RESUME_WORDS and event.step is not None]
    if case.loss is not None and len(case.loss) > 1:
        steps += case.loss.step[1:][np.diff(case.loss.segment) != 0].tolist()
    first = int(case.loss.step[0]) if case.loss is not None and len(case.loss) else min(steps, default=0)
    close = [s for s in steps if s >= first and -2 * case.cadence <= case.onset - s <= 10 * case.cadence]
    return max(close, default=None)


def joint(case: Case, role: str) -> Join | None:
    """How the role's series joins at the onset, for incidents at a restart."""
    return case.derive(("joint", role), lambda: _joint(case, role))


def _joint(case: Case, role: str) -> Join | None:
    curve = case.curve(role)
    if curve is None:
        return None
    finite = curve.only_finite()
    return join(finite.value, int(np.searchsorted(finite.step, case.onset)))


def multiple(case: Case) -> int:
    """A usual number of micro-batches or ranks by which a restart multiplied the training loss, else 0."""
    found = joint(case, "train_loss")
    if found is None or found.before <= 0 or found.after <= 0:
        return 0
    ratio = max(found.after / found.before, found.before / found.after)
    whole = round(ratio)
    return whole if whole in MULTIPLES and abs(np.log(ratio / whole)) < 0.1 else 0


@once
def counts_anew(case: Case) -> tuple[float, float, float] | None:
    """Levels at a restart that repeats steps but goes on from where the old life had got to; else None.

    Old life at the repeated steps, new life there, old life at its end: the new one is three times nearer to the
    end than to the same steps, so its weights are the later ones and only its counter went back.
    """
    restart = near(case)
    old = case.loss.superseded.only_finite() if case.loss is not None and case.loss.superseded is not None else None
    if case.loss is None or old is None or restart is None:
        return None
    new = case.loss.only_finite().take(case.loss.only_finite().step >= restart)
    width = min(LASTING_POINTS, len(old) // 3, len(new))
    if width < 5 or old.step[0] > new.step[width - 1]:
        return None
    there, here, end = (float(np.median(v)) for v in (old.value[:width], new.value[:width], old.value[-width:]))
    apart = 4 * robust_sigma(np.diff(new.value[:width])) / np.sqrt(width)
    return (there, here, end) if abs(there - here) > max(3 * abs(here - end), apart) else None


@once
def way_back(case: Case) -> float | None:
    """How far a restart threw the training loss back: 0 not at all, 1 to the first losses of the run."""
    found = joint(case, "train_loss")
    if found is None or case.loss is None:
        return None
    first = case.loss.only_finite().value[:CREPT_POINTS]
    before, after = case.levels("train_loss", found.before, found.after)
    height = float(np.median(first)) - before
    return (after - before) / height if height > 0.2 * abs(before) else None
