"""Courses that a training loss takes by construction: data sorted within each epoch, stages counted in the log."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from trainforensics.signals.curve import Curve, Floats
from trainforensics.signals.noise import robust_sigma
from trainforensics.signals.run import Signals
from trainforensics.signals.task import stated

FEWEST_RAMPS, SHORTEST_RAMP = 3, 16  # ramps, and logged points of each
EQUAL = 0.05  # by which the lengths of ramps may differ
CLIMBING = 0.8  # of the moves between eighths of a ramp that must lead up
EIGHTHS = 8
FEWEST_STAGE = 4  # logged points of a stage
FALL = 8.0  # noise widths of the step from one point to the next

# Lengths of a run in epochs, and of its end without augmentation (Ultralytics, YOLOX, MMDetection).
EPOCHS = ("epochs", "max_epoch", "max_epochs", "num_epochs")
AUGMENTATION_OFF = ("close_mosaic", "no_aug_epochs", "num_last_epochs")

_SCHEDULE = re.compile(r"^(?!.*(^|_)(lr|learning_rate)(_|$)).*(schedule|curriculum|stages)")


def ramps(curve: Curve) -> tuple[int, ...]:
    """Steps at which the loss falls back to begin the same climb again, for data sorted within each epoch; else empty.

    At least three climbs of equal length, the first from the start of the log, the last as far as the log goes.
    """
    value = curve.value
    moves = np.diff(value)
    if len(moves) < FEWEST_RAMPS * SHORTEST_RAMP:
        return ()
    falls = np.flatnonzero(moves < -FALL * max(robust_sigma(moves), 1e-300)) + 1
    edges = np.concatenate([[0], falls, [len(value)]])
    lengths = np.diff(edges)
    whole = lengths[:-1] if len(lengths) > FEWEST_RAMPS else lengths
    if len(whole) < FEWEST_RAMPS or whole.min() < SHORTEST_RAMP or lengths[-1] > (1 + EQUAL) * whole.max():
        return ()
    if whole.max() > (1 + EQUAL) * whole.min() or not all(
        _climbs(part) for part in np.split(value, falls)[: len(whole)]
    ):
        return ()
    return tuple(int(curve.step[at]) for at in falls)


def _climbs(values: Floats) -> bool:
    heights = np.array([np.median(part) for part in np.array_split(values, EIGHTHS)])
    return bool(np.mean(np.diff(heights) > 0) >= CLIMBING and heights[-1] > heights[0])


def announced(signals: Signals, before: int, step: int) -> bool:
    """Whether a counter of stages (folds, rounds, difficulties) or a length of sequences that is kept for long moves on
    between two logged steps, or the configuration names a step there: a change by plan."""
    if any(before <= planned <= step for planned in _planned_changes(signals)):
        return True
    stages = (*signals.curves("stage"), *(c for c in signals.curves("seq_len") if c.series.rank is None))
    return any(changes_between(stage, before, step) for stage in stages)


def _planned_changes(signals: Signals) -> list[int]:
    """Steps that key the entries of a schedule in the configuration, `rollout_schedule: {0: 1, 500: 2, 900: 4}`, and
    the epoch from which on augmentation is off, `epochs: 300, close_mosaic: 10`."""
    schedules = (value for key, value in signals.config.items() if _SCHEDULE.search(key.lower()))
    entries = (key for value in schedules if isinstance(value, Mapping) for key in value)
    return [int(key) for key in entries if str(key).isdigit() and int(key) > 0] + _plain_epochs(signals)


def _plain_epochs(signals: Signals) -> list[int]:
    """The epoch after which the last ones run without augmentation, in a log that counts epochs."""
    if signals.axis.unit != "epoch":
        return []
    known = {key: value for key, value in stated(signals) if isinstance(value, int) and value > 0}
    last = [known[key] for key in AUGMENTATION_OFF if key in known]
    total = [known[key] for key in EPOCHS if key in known]
    return [whole - few for whole in total for few in last if few < whole]


def changes_between(setting: Curve, before: int, step: int) -> bool:
    """Whether a series that keeps each of its values for several points changes between two steps."""
    changes = np.flatnonzero(np.diff(setting.value)) + 1
    if not 0 < len(changes) <= len(setting) / FEWEST_STAGE:
        return False
    return bool(np.any((setting.step[changes] >= before) & (setting.step[changes - 1] <= step)))
