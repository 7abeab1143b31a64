"""Rows of a log: those without a training loss, being of another sort, those that lost it, and those missing."""

from __future__ import annotations

import re

import numpy as np

from trainforensics.signals.curve import Curve, Ints
from trainforensics.signals.run import Signals
from trainforensics.signals.scale import skipped_by_scaler
from trainforensics.signals.stretches import at_steps, contained

# What a row of training always holds: where one of these is NaN, the row is of another sort.
ROW_ROLES = ("learning_rate", "epoch", "tokens_seen", "step_time", "tokens_per_sec", "batch_size")
# What stands in the row of the loss and goes on when the loss is left out.
MATE_ROLES = ("learning_rate", "grad_norm", "loss_scale", "batch_size", "tokens_seen", "skipped_steps")
MIN_ROWS = 5  # rows without a loss before that counts as vanished
ODD_ROWS = 0.1  # share of rows without a loss within its span above which the two are not logged together
FEWEST_EVEN, EVEN = 50, 0.95  # rows of a log whose cadence is known, and the share of them that keep it
LOST_ROWS = 0.05  # of the rows with a loss: fewer rows after its end are a writer's unflushed rest

_LOSS_LIKE = re.compile(r"loss|(^|[/_.])nll", re.IGNORECASE)
_EVAL = re.compile(r"(^|[/_.\- ])(eval|evaluation|val|valid|validation|test|dev)([/_.\- ]|$)", re.IGNORECASE)


def loss_like(signals: Signals) -> list[Curve]:
    """Losses of any name that are not measured in evaluation: components, second losses, domains."""
    named = [c for c in signals.unmapped if _LOSS_LIKE.search(c.name) and not _EVAL.search(c.name)]
    return [*(c for c in signals.curves("train_loss") if c.series.rank is None), *named]


def real_rows(signals: Signals, curve: Curve) -> Curve:
    """The curve without NaN that only fill rows of another sort (evaluation rows of a table)."""
    bad = ~curve.finite
    if not bad.any() or bad.all():
        return curve
    empty = np.zeros(len(curve), dtype=bool)
    for role in ROW_ROLES:
        for other in signals.curves(role)[:1]:
            empty |= np.isnan(curve.value) & contained(curve.step, other.step[np.isnan(other.value)])
    for other in signals.curves("val_loss")[:1]:
        sparse = float(np.mean(np.isnan(other.value))) > 0.5
        if sparse and contained(curve.step[bad], other.step[other.finite]).all():
            empty |= bad
    return curve.take(~empty) if empty.any() else curve


def missing_rows(signals: Signals, curve: Curve) -> Ints:
    """Steps of rows that hold everything but the loss where that means NaN, in order.

    Either to the end of the log, at the pace of the rows before and with no other loss that goes on, or where the
    gradient norm of the row is not finite and no scaler skipped the update.
    """
    none = np.empty(0, dtype=np.int64)
    if len(curve) < MIN_ROWS or curve.series.rank is not None:
        return none
    for mate in (signals.curve(role) for role in MATE_ROLES):
        if mate is None or mate.series.source != curve.series.source or len(mate) < MIN_ROWS:
            continue
        missing = np.unique(mate.step[~contained(mate.step, curve.step)])
        inside = (missing > curve.step[0]) & (missing < curve.step[-1])
        if not len(missing) or inside.sum() > ODD_ROWS * len(curve):
            continue
        gradient = signals.curve("grad_norm")
        broken = np.isinf(at_steps(gradient, missing)) if gradient is not None else np.zeros(len(missing), dtype=bool)
        after = missing > curve.step[-1]
        believed = gradient is None or (after.any() and float(broken[after].mean()) > 0.5)
        if after.sum() < MIN_ROWS or not believed or not _goes_on(signals, curve, mate, missing[after]):
            after &= False
        chosen: Ints = missing[after | (broken & inside & ~skipped_by_scaler(signals, missing))]
        return chosen
    return none


def rows_after_loss(signals: Signals, curve: Curve) -> Ints:
    """Steps of training rows that go on after the last value of the loss, in order; none where the log is complete.

    A row is one of training where a companion of the loss stands in it that stood beside it before, and no validation
    loss does. None where another training loss goes on, and where `missing_rows` takes the same rows for a NaN.
    """
    none = np.empty(0, dtype=np.int64)
    if len(curve) < MIN_ROWS or curve.series.rank is not None:
        return none
    last = int(curve.step[-1])
    if np.any(missing_rows(signals, curve) > last):
        return none
    mates = [mate for role in MATE_ROLES if (mate := signals.curve(role)) is not None]
    longer = [m for m in mates if m.series.source == curve.series.source and len(m) and int(m.step[-1]) > last]
    beside = [mate for mate in longer if _stood_beside(mate, curve)]
    for mate in beside:
        after = np.unique(mate.step[mate.step > last])
        for evaluated in signals.curves("val_loss"):
            after = after[~contained(after, evaluated.step)]
        if (skipped := signals.curve("skipped_steps")) is not None:
            after = after[~(at_steps(skipped, after) > 0)]  # no update, no loss
        enough = len(after) >= max(MIN_ROWS, LOST_ROWS * len(curve))
        if enough and int(after[0]) - last <= 5 * mate.cadence and not _taken_over(signals, curve):
            return after
    return none


def missing_stretch(curve: Curve, curves: tuple[Curve, ...], least: float) -> int | None:
    """Index of the point before the one stretch of `least` rows or more, in one process life, that a curve lacks.

    None where the log is not even before and after it, or another of its `curves` holds many rows there.
    """
    if len(curve) < FEWEST_EVEN:
        return None
    gaps, cadence = np.diff(curve.step), curve.cadence
    at = int(np.argmax(gaps))
    rest = np.delete(gaps, at)
    alone = gaps[at] // cadence - 1 >= least and rest.max() <= 2 * cadence and np.mean(rest == cadence) >= EVEN
    if not alone or curve.segment[at] != curve.segment[at + 1] or not 2 <= at < len(curve) - 3:
        return None
    before, after = curve.step[at], curve.step[at + 1]
    few = ODD_ROWS * (gaps[at] // cadence - 1)  # as a last evaluation before the rows set in again
    dense = (other.step for other in curves if 2 * len(other) >= len(curve))
    return None if any(np.sum((step > before) & (step < after)) > few for step in dense) else at


def _stood_beside(mate: Curve, curve: Curve) -> bool:
    """Whether a companion was logged in the rows of the loss and in hardly any others, up to the loss's end."""
    within = np.unique(mate.step[(mate.step >= curve.step[0]) & (mate.step <= curve.step[-1])])
    if not len(within):
        return False
    alone = float(np.mean(~contained(within, curve.step)))
    with_loss = float(np.mean(contained(np.unique(curve.step), within)))
    return alone <= ODD_ROWS and with_loss >= 1 - ODD_ROWS


def _taken_over(signals: Signals, curve: Curve) -> bool:
    """Whether another training loss goes on: a second account of the same, or one that only began by then."""
    last = int(curve.step[-1])
    for other in loss_like(signals):
        if other.series == curve.series or other.name.startswith(f"{curve.name}/"):  # the number became an object
            continue
        late = int(np.sum(other.step <= last)) < 0.5 * len(curve)
        if (late or other.series.role == "train_loss") and int(np.sum(other.finite & (other.step > last))) >= MIN_ROWS:
            return True
    return False


def _goes_on(signals: Signals, curve: Curve, mate: Curve, after: Ints) -> bool:
    """Whether rows go on at once and at the same pace, and no other loss (a second stage) takes over."""
    at_once = int(after[0]) - int(curve.step[-1]) <= 5 * mate.cadence
    taken_over = any(
        int(np.sum(other.finite & (other.step > curve.step[-1]))) >= MIN_ROWS
        for other in loss_like(signals)
        if other.series != curve.series
    )
    return at_once and not taken_over


def with_rows(curve: Curve, step: Ints) -> Curve:
    """The curve with a NaN at each of the given steps, none of which it holds."""
    at = np.searchsorted(curve.step, step)
    segment = np.insert(curve.segment, at, curve.segment[np.clip(at - 1, 0, None)])
    value, time = (np.insert(old, at, np.nan) for old in (curve.value, curve.time))
    return Curve(curve.series, np.insert(curve.step, at, step), value, time, segment, curve.superseded)
