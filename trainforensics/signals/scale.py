"""The dynamic loss scale: its reductions, its start-up search, and decays that no growth interrupts.

A dynamic scaler halves its scale when a gradient overflows and doubles it after a window without overflow (2,000 steps
in PyTorch, 1,000 in DeepSpeed and Megatron). A search from 2^16 or 2^32 at the start, saw-teeth and growth are normal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainforensics.model import Event, Recovery
from trainforensics.signals.curve import Bools, Curve, Floats, Ints
from trainforensics.signals.run import Signals

# A search from 2^32 takes at most 32 halvings, one an update; a message or a row may stand for several updates.
SEARCH_ROWS, SEARCH_STEPS = 3, 8
# One growth multiplies by two; a jump by eight between two rows is a scaler that starts again.
RESET_DOUBLINGS = 3.0
MIN_MOVE = 0.3  # doublings
FLOOR = 1.0
FEWEST_LATER = 4  # gaps between reductions that tell how far apart they come
NOTHING_FITS = 2.0**-7  # gradients above 8 million; sums over a batch settle at 0.1 to 1
GROWTH = 2000  # updates without an overflow after which PyTorch's and apex's scalers grow their scale
BY_CHANCE = 0.01

_ATTEMPT = re.compile(r"[Aa]ttempted loss scale:\s*([\d.eE+]+),\s*reducing to\s*([\d.eE+-]+)")
_SETTING = re.compile(r"(?:setting|reducing|decreasing)\b.{0,20}\bloss scale (?:to|by)?:?\s*([\d.eE+-]+)")
# bf16 has the range of fp32: it needs no scale and flushes nothing.
_LOW_PRECISION = re.compile(r"(?<!b)(fp16|float16|f16)|half|(?<!f)16-mixed|^16$|fp8|float8", re.IGNORECASE)
_LOW_SWITCH = re.compile(r"(^|[./_])(fp16|fp8|float16|half)([./]enabled)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Decay:
    """A run of reductions without growth in between.

    `steps`: where the scale was seen lower; `before`: the last step seen before the first; `halvings`: factors of two;
    `overflows_at_floor`: overflows seen while the scale could not fall any further.
    """

    steps: tuple[int, ...]
    before: int | None
    start: float
    low: float
    halvings: float
    overflows_at_floor: int
    recovery: Recovery


@dataclass(frozen=True, slots=True, eq=False)
class LossScale:
    """The scaler's history. `step` and `value`, shape (n,): every logged scale, or one per overflow message.

    `reduced`: steps at which the scale was seen lower than before; `search_until`: last step of the start-up search, or
    None; `dynamic`: whether the scale ever moved.
    """

    name: str
    step: Ints
    value: Floats
    reduced: Ints
    search_until: int | None
    dynamic: bool
    decay: Decay | None


def loss_scale(signals: Signals) -> LossScale | None:
    """The run's loss scale from its series, or from overflow messages where no series moves; None without either."""
    return signals.derive(("loss_scale",), lambda: _loss_scale(signals))


def skipped_by_scaler(signals: Signals, first: Ints, last: Ints | None = None) -> Bools:
    """Which stretches of steps, shape (n,), the dynamic loss scaler skipped: its scale fell, or it counted a skip.

    A scaler with hysteresis skips once or twice before it lowers the scale.
    """
    skipped = np.zeros(len(first), dtype=bool)
    scale = loss_scale(signals)
    if scale is None or not scale.dynamic:
        return skipped
    last = first if last is None else last
    spread = np.diff(scale.step)
    slack = max(1, int(np.median(spread))) if len(spread) and spread.any() else 1
    noted = [np.sort(scale.reduced)]
    for role in ("skipped_steps", "overflow"):
        curve = signals.curve(role)
        if curve is not None:
            curve = curve.only_finite()
            noted.append(curve.step[skips_per_row(curve.value) > 0])
    for steps in noted:
        skipped |= np.searchsorted(steps, last + 2 * slack, side="right") > np.searchsorted(steps, first - slack)
    return skipped


def skips_per_row(value: Floats) -> Floats:
    """Skipped updates of each row from counts, flags, or a running total (which never falls); shape (n,).

    The same count above one at each row is a total that stands.
    """
    if not len(value):
        return value
    change = np.diff(value, prepend=value[0])
    running = bool((change >= 0).all()) and (value[-1] > value[0] or (value[0] > 1 and len(value) > 1))
    return np.clip(change if running else value, 0, None)


def low_precision(signals: Signals) -> bool:
    """Whether configuration or a moving loss scale say that the run computed in fp16 or fp8."""
    scale = loss_scale(signals)
    return (scale is not None and scale.dynamic) or _says_low_precision(signals.config)


def at_growth(first: Ints, cadence: int) -> bool:
    """Whether stretches without a finite gradient, of shape (n,), begin as far apart as a scaler grows its scale.

    A scale that has grown too far overflows once and is halved, so that the distances are whole multiples of the
    interval, up to the `cadence` at which the norm is logged.
    """
    if len(first) < 2:
        return False
    apart = np.diff(first)
    times = np.maximum(np.rint(apart / GROWTH), 1)
    likely = min(1.0, (2 * cadence + 1) / GROWTH)
    return bool(np.all(np.abs(apart - times * GROWTH) <= cadence)) and likely ** len(apart) <= BY_CHANCE


def _says_low_precision(config: Any, key: str = "") -> bool:
    if isinstance(config, Mapping):
        return any(_says_low_precision(value, f"{key}.{name}" if key else str(name)) for name, value in config.items())
    if _LOW_SWITCH.search(key):
        return config is True or str(config).lower() == "true" or "loss_scale" in str(config)
    about = re.search(r"precision|dtype|amp", key, re.IGNORECASE) is not None
    return about and isinstance(config, str | int) and _LOW_PRECISION.search(str(config)) is not None


@np.errstate(all="ignore")
def _loss_scale(signals: Signals) -> LossScale | None:
    curve = signals.curve("loss_scale")
    if curve is not None:
        curve = curve.take(curve.finite & (curve.value > 0))
        moves = np.abs(np.diff(np.log2(curve.value)))
        moves = moves[moves > 0]
        if len(moves) and float(np.mean(moves > MIN_MOVE)) < 0.8:
            return None  # a scale of another sort: loss scales move by factors of two
        if len(moves):
            return _from_curve(signals, curve)
    messages = _messages(signals.events)
    if messages:
        return _from_messages(signals, messages)
    if curve is None or not len(curve):
        return None
    return LossScale(curve.name, curve.step, curve.value, np.empty(0, np.int64), None, False, None)


def _from_curve(signals: Signals, curve: Curve) -> LossScale:
    change = np.flatnonzero(np.diff(curve.value) != 0) + 1
    doublings = np.diff(np.log2(curve.value))[change - 1]
    lives = np.append(0, np.flatnonzero(np.diff(curve.segment)) + 1)
    lives = np.union1d(lives, change[doublings >= RESET_DOUBLINGS])
    down = doublings < 0
    search = _search(curve.step, change[down], lives)
    overflow = signals.curve("overflow")
    at_floor = _overflows_at_floor(overflow, curve)
    last_row, next_row = curve.step[change - 1], curve.step[change]
    decay = _decay(next_row, last_row, doublings, search, curve.value[change - 1], int(curve.step[-1]), at_floor)
    until = int(next_row[down][search].max()) if search.any() else None
    return LossScale(curve.name, curve.step, curve.value, next_row[down], until, True, decay)


def _overflows_at_floor(overflow: Curve | None, scale: Curve) -> int:
    if overflow is None:
        return 0
    at = np.clip(np.searchsorted(scale.step, overflow.step, side="right") - 1, 0, None)
    return int(np.sum((overflow.value > 0) & (scale.value[at] <= max(FLOOR, float(scale.value.min())))))


def _messages(events: tuple[Event, ...]) -> list[tuple[int, float, float]]:
    """(step, scale before, scale after) of each overflow message, ranks that repeat one another folded."""
    found: list[tuple[int, float, float]] = []
    scale = np.nan
    for event in events:
        if event.kind != "overflow" or event.step is None:
            continue
        if match := _ATTEMPT.search(event.text):
            before, after = float(match[1]), float(match[2])
        elif match := _SETTING.search(event.text):
            after = float(match[1])
            before = scale if scale > after else 2 * after
        else:
            continue
        scale = after
        if not found or found[-1] != (event.step, before, after):
            found.append((event.step, before, after))
    return sorted(set(found), key=lambda message: (message[0], -message[1]))


def _from_messages(signals: Signals, messages: list[tuple[int, float, float]]) -> LossScale:
    step = np.array([message[0] for message in messages], dtype=np.int64)
    before = np.array([message[1] for message in messages])
    after = np.array([message[2] for message in messages])
    loss = signals.curve("train_loss")
    first = min(int(step[0]), int(loss.step[0]) if loss is not None and len(loss) else int(step[0]))
    last = max(int(step[-1]), int(loss.step[-1]) if loss is not None and len(loss) else 0)
    # A message speaks of reductions only; a scale that starts higher than the last one ended has grown in between.
    doublings, at, last_row = [], [], []
    for i in range(len(step)):
        if i and before[i] > after[i - 1]:
            doublings.append(float(np.log2(before[i] / after[i - 1])))
            at.append(int(step[i - 1]))
            last_row.append(int(step[i - 1]))
        doublings.append(float(np.log2(after[i] / before[i])) if after[i] > 0 else -1.0)
        at.append(int(step[i]))
        last_row.append(max(first - 1, int(step[i]) - 1))
    moved = np.array(doublings)
    where = np.array(at, dtype=np.int64)
    down = moved <= 0
    floor_hits = int(np.sum(moved == 0))
    rows = np.arange(len(where))
    starts = rows[moved >= RESET_DOUBLINGS]
    if int(step[0]) <= first + SEARCH_STEPS:
        starts = np.union1d(0, starts)
    row = loss.cadence if loss is not None and len(loss) > 1 else 0  # a message says its step by the row before it
    search = _search(where, rows[down], starts, rows_apart=0, steps_apart=SEARCH_STEPS + 2 * (row - 1))
    level = np.repeat(np.nan, len(moved))
    level[down] = before
    decay = _decay(where, np.array(last_row), moved, search, level, last, floor_hits)
    until = int(where[down][search].max()) if search.any() else None
    return LossScale("overflow messages", step, after, step, until, True, decay)


def _search(
    step: Ints, reduced: Ints, lives: Ints, rows_apart: int = SEARCH_ROWS, steps_apart: int = SEARCH_STEPS
) -> Bools:
    """Which reductions (indices of rows) belong to a search at the start of a life, unbroken from its first rows on."""
    found = np.zeros(len(reduced), dtype=bool)
    for life in lives:
        last_row, last_step = int(life), int(step[life])
        for i in range(int(np.searchsorted(reduced, life)), len(reduced)):
            row = int(reduced[i])
            if row - last_row > rows_apart and int(step[row]) - last_step > steps_apart:
                break
            found[i], last_row, last_step = True, row, int(step[row])
    return found


def _decay(
    step: Ints, last_row: Ints, doublings: Floats, search: Bools, before: Floats, end: int, at_floor: int
) -> Decay | None:
    """The deepest run of reductions that neither growth interrupts nor the run's own habits explain."""
    kept = np.ones(len(step), dtype=bool)
    down = doublings <= 0
    kept[np.flatnonzero(down)[search]] = False
    rows = np.flatnonzero(down & kept)
    grown = np.cumsum(doublings > 0)[rows]
    runs = [
        _without_strays(part, step, doublings)
        for part in np.split(rows, np.flatnonzero(np.diff(grown)) + 1)
        if len(part)
    ]
    searched = np.flatnonzero(down & ~kept)
    found = before[searched[-1]] * 2.0 ** doublings[searched[-1]] if len(searched) else np.inf
    if (at_floor >= 5 and found <= FLOOR) or found < NOTHING_FITS:
        runs.append(np.flatnonzero(down))  # a search that ends on the floor and still overflows has found nothing
    if not runs:
        return None
    depth = np.array([-doublings[rows].sum() for rows in runs])
    deepest = int(np.argmax(depth))
    rows, halvings = runs[deepest], float(depth[deepest])
    others = np.delete(depth, deepest)
    usual = float(np.quantile(others, 0.75)) if len(others) >= 3 else 0.0
    regained = float(doublings[rows[-1] + 1 :].clip(min=0).sum())
    recovery: Recovery = "unrecovered" if not regained else "recovered" if regained >= halvings - 1 else "partial"
    start = float(before[rows[0]])
    low = start * 2.0**-halvings
    stuck = at_floor >= 5 and low <= FLOOR
    if not stuck and not _is_decay(halvings, usual, recovery, step, rows, doublings, end):
        return None
    return Decay(
        tuple(step[rows].tolist()),
        int(last_row[rows[0]]),
        start,
        low,
        halvings,
        at_floor if low <= FLOOR else 0,
        recovery,
    )


def _is_decay(
    halvings: float, usual: float, recovery: Recovery, step: Ints, rows: Ints, doublings: Floats, end: int
) -> bool:
    if halvings < max(3.0, usual + 2):
        return False
    if recovery == "recovered":
        return halvings >= 6
    if halvings >= 4:
        return True
    grown = step[doublings > 0]
    window = float(np.median(np.diff(grown))) if len(grown) > 2 else 2000.0
    return end - int(step[rows[-1]]) > 2 * window or int(step[rows[-1]] - step[rows[0]]) > window


def _without_strays(rows: Ints, step: Ints, doublings: Floats) -> Ints:
    """A run without leading reductions that stand apart: each is a back-off of its own that had not grown back yet.

    Overflows on the floor follow each other at every step and say nothing of the pace.
    """
    gaps = np.diff(step[rows[doublings[rows] < 0]]).astype(float)
    while len(gaps) >= 2 and _stands_apart(gaps[0], gaps[1:]):
        rows, gaps = rows[1:], gaps[1:]
    return rows


def _stands_apart(gap: float, later: Floats) -> bool:
    """Whether a gap is four times the usual later one; of several, twice it and larger than nine in ten."""
    usual = max(1.0, float(np.median(later)))
    return gap > 4 * usual or (len(later) >= FEWEST_LATER and gap > max(2 * usual, float(np.quantile(later, 0.9))))
