"""Where a run was restarted, and whether a series joins smoothly there.

A join is judged against the run itself: the same difference of levels, taken at every other place of the old life
nearby, says what slope, wander and bursts do to it without any restart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainforensics.model import Event
from trainforensics.signals.curve import Curve, Floats, Ints
from trainforensics.signals.noise import MAD_TO_SIGMA, median, medians, robust_sigma
from trainforensics.signals.run import Signals

RESUME_EVENTS = frozenset({"restart", "resume", "resumed", "checkpoint-loaded", "load-checkpoint", "checkpoint-load"})
WIDTHS = (3, 6, 12, 24, 48, 96)  # points a side; short ones see a bump, long ones a small lasting change
NEIGHBOURHOOD = 12  # points looked at on the old side, in widths
FEWEST = 150  # and at least these, so that slow wander is seen by the short widths too
AT_ONCE = 3  # pairs that tell whether the schedule went on; later ones may lie in a rate that was rolled back itself
PAIRS = 12  # points logged by both lives that are compared; later ones may lie in the event that was rolled back
BUMP, BEFORE = 6, 12  # points after a border in which a bump is sought, and points before it that give the level
BUMP_RATIO = 1.5  # times the highest such bump of the old life nearby
PAUSE = 20.0  # times the usual time between two points, and at least a minute
MAX_PAUSES = 4  # more pauses than this are a habit (evaluation, checkpoints), not restarts
CLEAR = 4.0  # times its noise that a change is known to
AT_BORDER, STEEPEST = 0.5, 0.75  # of a change, and of the steepest change around: what must lie at the border
_STEP_IN_TEXT = re.compile(
    r"(?:step|iter(?:ation)?|update|checkpoint|ckpt|\bba)[ _=:/-]*0*(\d+)|@?\s*(\d+)\s+(?:updates|steps|iterations)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Restart:
    """A process life that begins after another. Steps on the run's axis.

    `step`: first step the new life logged; `before`: last logged step of the old life that still counts; `reached`:
    last step the old life had logged; `pause` in seconds where wall times are known; `how` the restart is known;
    `sure`: more than a pause says so.
    """

    step: int
    before: int
    reached: int
    segment: int
    pause: float | None
    how: tuple[str, ...]
    sure: bool

    @property
    def repeated(self) -> int:
        """Steps that both lives logged: from the first of the new life to the last of the old."""
        return max(0, self.reached - self.step + 1)


@dataclass(frozen=True, slots=True)
class Join:
    """Levels on both sides of a restart, the change beyond what the old life does by itself, and its significance.

    `width`: points a side; `noise`: spread of the old life's last points around their line. All in the space of the
    values given.
    """

    before: float
    after: float
    change: float
    z: float
    width: int
    noise: float


def restarts(signals: Signals) -> tuple[Restart, ...]:
    """Every restart that the log shows: a new process life, a message, or a lone long pause."""
    return signals.derive("restarts", lambda: _restarts(signals))


def _restarts(signals: Signals) -> tuple[Restart, ...]:
    curve = signals.curve("train_loss") or max(signals.every_curve(), key=len, default=None)
    if curve is None or len(curve) < 2:
        return ()
    how: dict[int, list[str]] = {}
    for border in np.flatnonzero(np.diff(curve.segment) != 0) + 1:
        how.setdefault(int(border), []).append("a new process life")
    pauses = tuple(_pauses(curve))
    for event in signals.events:
        where = _position(event, curve)
        if where is not None and 0 < where < len(curve):
            how.setdefault(_nearest(where, (*how, *pauses)), []).append(_said(event))
    sure = set(how)
    for at in pauses:
        how.setdefault(at, []).append("a long pause")
    return tuple(_restart(curve, at, tuple(dict.fromkeys(how[at])), at in sure) for at in sorted(how))


def _nearest(where: int, known: tuple[int, ...]) -> int:
    """A message belongs to the border next to it: it is printed a point earlier or later than the border."""
    return min((at for at in known if abs(at - where) <= 1), key=lambda at: abs(at - where), default=where)


def _said(event: Event) -> str:
    text = " ".join(event.text.split())
    return f"the log says: {text[:80]}" if text else f"a {event.kind} event"


def _position(event: Event, curve: Curve) -> int | None:
    """Index of the first point after a resume message: by its step, else its time, else a step named in its text."""
    if event.kind.replace("_", "-").replace(" ", "-") not in RESUME_EVENTS:
        return None
    same_clock = event.naive_time == curve.series.naive_time
    if event.step is not None:
        after = int(np.searchsorted(curve.step, event.step, side="right"))
        first = int(np.searchsorted(curve.step, event.step))
        named_next = event.wall_time is not None and same_clock and first < after
        return first if named_next and curve.time[first] > event.wall_time else after
    if event.wall_time is not None and same_clock and np.isfinite(curve.time).all():
        return int(np.searchsorted(np.maximum.accumulate(curve.time), event.wall_time, side="right"))
    match = _STEP_IN_TEXT.search(event.text)
    if match is None:
        return None
    return int(np.searchsorted(curve.step, int(match[1] or match[2]), side="right"))


def _pauses(curve: Curve) -> Iterator[int]:
    """First points after the few pauses that are far beyond the usual time between points."""
    gaps = np.diff(curve.time)
    known = gaps[np.isfinite(gaps)]
    if len(known) < 20:
        return
    long = np.flatnonzero(gaps > max(PAUSE * median(known), 60.0))
    if len(long) <= MAX_PAUSES:
        yield from (int(i) + 1 for i in long)


def _restart(curve: Curve, at: int, how: tuple[str, ...], sure: bool) -> Restart:
    step, before = int(curve.step[at]), int(curve.step[at - 1])
    reached = before
    old = curve.superseded
    if old is not None:
        repeated = old.step[(old.segment < curve.segment[at]) & (old.step >= step)]
        reached = max(before, int(repeated.max())) if len(repeated) else before
    pause = float(curve.time[at] - curve.time[at - 1])
    return Restart(
        step, before, reached, int(curve.segment[at]), pause if math.isfinite(pause) and pause > 0 else None, how, sure
    )


def join(value: Floats, border: int) -> Join | None:
    """How the values before and from index `border` on join; None where either side has fewer than 3 points.

    Of all widths the one with the clearest change speaks. `z` is 0 where the run makes such a change by itself.
    """
    joins = [_join(value, border, width) for width in WIDTHS if width <= min(border, len(value) - border)]
    return max((j for j in joins if j is not None), key=lambda j: abs(j.z), default=None)


def _join(value: Floats, border: int, width: int) -> Join | None:
    start_up = max(0, min(border // 4, border - 4 * width))  # its steepness says nothing about the border
    start = max(start_up, border - max(NEIGHBOURHOOD * width, FEWEST) - width)
    near = value[start : border + width]
    levels = medians(sliding_window_view(near, width))
    difference = levels[width:] - levels[:-width]  # at place i: level of the points from i on less that before i
    here, others = float(difference[-1]), difference[:-width]
    if len(others) < 2:
        return None
    old = near[: border - start]
    noise = robust_sigma(np.diff(old)) / math.sqrt(2)
    wander = max(robust_sigma(old - _line(old, 1, 1)[:-1]), noise, 1e-12)
    # neighbours share their noise over this many points (1 - autocorrelation is the squared ratio of both noises)
    memory = max(width, int(min(len(near), 2 * (wander / max(noise, 0.05 * wander)) ** 2 - 1)))
    course = _line(others, memory, width)
    usual, others = course[-1], others - course[:-1]
    scale = max(robust_sigma(others), 1.2533 * noise * math.sqrt(2 / width), 1e-9 * abs(float(levels[-1])))
    change = here - usual
    alike = np.flatnonzero(np.abs(others) >= abs(change) / 1.2)
    alone = not len(alike) or _apart_from_stairs(alike + start + width, border, width, len(others))
    few = math.sqrt(min(1.0, len(others) / (3 * memory)))  # few independent places prove little
    z = few * change / scale if alone and scale > 0 and _lies_at(near, border - start, width, change, noise) else 0.0
    recent = old[-max(4 * width, 48) :]
    spread = max(robust_sigma(recent - _line(recent, 1, 1)[:-1]), noise, 1e-12)
    return Join(float(levels[-1 - width]), float(levels[-1]), change, z, width, spread)


def _lies_at(near: Floats, border: int, width: int, change: float, noise: float) -> bool:
    """Whether a change of level lies at the border itself, and is no slope or bend that the border happens to lie on.

    Judged by the fewest points a side whose noise is small against the change: their levels differ by half of it more
    than at the places beside, and by no less than at the steepest place around.
    """
    if not change:
        return False
    enough = 2 * (1.2533 * noise * CLEAR / change) ** 2
    m = int(min(width, max(WIDTHS[0], math.ceil(enough))))
    first = max(0, border - m - width)
    levels = medians(sliding_window_view(near[first:], m))
    step = math.copysign(1, change) * (levels[m:] - levels[:-m])  # at place i: across point first + m + i
    here, slack = border - first - m, max(2, m // 4)
    best = float(step[max(0, here - slack) : here + slack + 1].max())
    sides = (step[max(0, here - 2 * m + 1) : max(0, here - m + 1)], step[here + m : here + 2 * m])
    slope = max((median(side) for side in sides if len(side)), default=0.0)
    jumps = best - max(slope, 0.0) >= AT_BORDER * abs(change) and best >= STEEPEST * float(step.max())
    return jumps or _bends_at(near, border, math.copysign(1, change))


def _bends_at(near: Floats, border: int, sign: float) -> bool:
    """Whether a long straight course is left for good within a few points after the border, and not before."""
    past = near[max(0, border - FEWEST) : border]
    after = near[border:]
    if len(past) < FEWEST or len(after) < 2 * BUMP:
        return False
    line = _line(past, 1, 1)
    limit = CLEAR * max(robust_sigma(past - line[:-1]), 1e-12)
    slope = line[-1] - line[-2]
    gone = sign * (after - line[-1] - slope * np.arange(len(after))) > limit
    kept = sign * (past[-BUMP:] - line[-1 - BUMP : -1]) <= limit
    leaves = int(np.argmax(gone))
    return bool(gone[leaves:].all() and 0 < leaves < BUMP and kept.all())


def bump(value: Floats, border: int) -> Join | None:
    """A few points right after the border far above the level before it: what an optimiser without its moments does.

    Judged by the second highest of six points, which one outlier does not raise, against the same at every other place
    of the old life nearby; None where a side is too short for that.
    """
    start = max(border // 10, border - FEWEST - BEFORE)
    if border - start < 4 * (BEFORE + BUMP) or len(value) - border < BUMP:
        return None
    near = value[start : border + BUMP]
    levels = medians(sliding_window_view(near, BEFORE))[:-BUMP]
    tops = np.sort(sliding_window_view(near, BUMP), axis=1)[BEFORE:, -2]
    height = tops - levels
    here, others = float(height[-1]), height[:-BUMP]
    usual, spread = median(others), robust_sigma(others)
    if here <= BUMP_RATIO * float(others.max()) or spread <= 0:
        return None
    noise = robust_sigma(np.diff(near[:-BUMP])) / math.sqrt(2)
    return Join(float(levels[-1]), float(tops[-1]), here, (here - usual) / spread, BUMP, max(noise, 1e-12))


def _apart_from_stairs(alike: Ints, border: int, width: int, places: int) -> bool:
    """Whether the old life's changes of this size are few sharp steps (epochs) in whose rhythm the border is not."""
    stairs = np.split(alike, np.flatnonzero(np.diff(alike) > 1) + 1)
    if len(stairs) > 3 or places < 8 * width * len(stairs) or max(len(stair) for stair in stairs) > 2.5 * width:
        return False
    at = np.array([median(stair.astype(np.float64)) for stair in stairs])
    period = float(np.diff(at).mean()) if len(at) > 1 else at[0]
    turns = float((border - at[0]) / period)
    return abs(turns - round(turns)) * period > max(2 * width, 0.05 * period)


def _line(values: Floats, memory: int, ahead: int) -> Floats:
    """A line through the medians of both halves, with one value more: `ahead` places beyond the last.

    Fewer than 6 `memory` values get a constant: a line through few independent ones would follow their noise.
    """
    n = len(values)
    if n < 6 * memory:
        return np.full(n + 1, median(values))
    first, second = median(values[: n // 2]), median(values[n // 2 :])
    at = np.append(np.arange(n), n - 1 + ahead)
    return first + (second - first) * (at - n / 4) / (n / 2)


def noise_ratio(value: Floats, border: int, width: int = 48) -> float:
    """Point-to-point noise after the border against before, where the old life never changed it as much; else 1.

    It has to last for three times `width`, as far as there are points: over one, chance doubles it now and then.
    """
    if min(border, len(value) - border) < width:
        return 1.0
    start = max(0, border - NEIGHBOURHOOD * width)
    bend = np.abs(np.diff(value[start : border + width], 2))
    inner = border - start
    bend = np.delete(bend, [i for i in (inner - 2, inner - 1) if 0 <= i < len(bend)])
    blocks = bend[len(bend) % (width - 2) :].reshape(-1, width - 2)
    if len(blocks) < 3 or not bend.max() > 0:
        return 1.0
    sigma = np.log(np.maximum(MAD_TO_SIGMA * medians(blocks) / bend.max(), 1e-9))
    usual = float(np.abs(np.diff(sigma[:-1])).max())
    change = float(sigma[-1] - np.median(sigma[-4:-1]))
    later = np.abs(np.diff(value[border : border + 3 * width], 2))
    lasting = math.log(max(MAD_TO_SIGMA * median(later) / bend.max(), 1e-9)) - median(sigma[-4:-1])
    lasts = lasting * change > 0 and abs(lasting) > math.log(2)
    return math.exp(change) if lasts and abs(change) > max(math.log(2), 2 * usual) else 1.0


def repeated_points(curve: Curve, restart: Restart) -> tuple[Ints, Floats, Floats]:
    """First steps that both lives logged, with the old and the new finite values there (at most `PAIRS`)."""
    empty = np.empty(0)
    old = curve.superseded
    if old is None:
        return np.empty(0, dtype=np.int64), empty, empty
    old = old.take(np.isfinite(old.value) & (old.segment < restart.segment) & (old.step >= restart.step))
    first, last = np.searchsorted(curve.step, [restart.step, old.step.max(initial=restart.step) + 1])
    new = curve.take(np.arange(first, last)).only_finite()
    step, i, j = np.intersect1d(old.step, new.step, return_indices=True)
    return step[:PAIRS], old.value[i][:PAIRS], new.value[j][:PAIRS]


def schedule_step(curve: Curve, restart: Restart) -> tuple[float, float] | None:
    """Expected and logged learning rate at a restart where they disagree; None where the schedule simply goes on.

    Expected is what the old life logged at the same step, else its slope carried on. The logged one must lie beyond
    three times the worst error of that extrapolation in the old life and beyond 5 % of the level. A rate that is zero
    from a mere pause to the end of the log is a schedule that went wrong, and tells of no restart.
    """
    since = curve.only_finite()
    if not restart.sure and not since.value[since.step >= restart.step].any():
        return None
    step, old, new = repeated_points(curve, restart)
    if len(step):
        worst = int(np.argmax(np.abs(new - old)[:AT_ONCE]))
        apart = abs(new[worst] - old[worst]) > 0.01 * np.abs(old).max()
        return (float(old[worst]), float(new[worst])) if apart else None
    points = curve.only_finite()
    at = int(np.searchsorted(points.step, restart.step))
    if at < 3 or at >= len(points):
        return None
    start = max(0, at - 50)
    steps, values = points.step[start : at + 1].astype(np.float64), points.value[start : at + 1]
    gaps = np.maximum(np.diff(steps), 1.0)
    slope = np.diff(values) / gaps
    ahead = slope[:-1] * np.minimum(gaps[1:], gaps[:-1])  # a stair's short step tells nothing of a longer one
    error = np.abs(values[2:] - (values[1:-1] + ahead))
    tolerance = max(3 * float(error[:-1].max(initial=0.0)), 0.05 * float(np.abs(values[:-1]).max()))
    if error[-1] <= tolerance:
        return None
    return float(values[-2] + ahead[-1]), float(values[-1])


def scale_step(curve: Curve, restart: Restart) -> tuple[float, float] | None:
    """Loss scale before and after a restart where it was not carried over: a factor of four the old life never took."""
    points = curve.take(curve.finite & (curve.value > 0))
    at = int(np.searchsorted(points.step, restart.step))
    if at < 3 or at >= len(points):
        return None
    logs = np.log2(points.value)
    jump, usual = float(abs(logs[at] - logs[at - 1])), float(np.abs(np.diff(logs[at // 10 : at])).max(initial=0.0))
    return (float(points.value[at - 1]), float(points.value[at])) if jump >= 2 and jump > usual else None
