"""Where two runs' curves of one series part beyond their noise, and what constant relation they stand in before.

Two runs that share seed and data are equal to the digit until something sets them apart: there the first unequal point
counts, and the noise is only the measure of how far it grows. Independent runs have noise of their own: they part where
the level of their difference leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainforensics.compare.pairing import SCHEDULED
from trainforensics.compare.rounding import printed_shorter
from trainforensics.compare.wording import NEAR_INTEGER, ROUNDED, describe, integer_factor
from trainforensics.model import Parting, Relation, Series, SeriesDifference
from trainforensics.signals.curve import Bools, Curve, Floats, Ints
from trainforensics.signals.excursions import HUGE, excursions
from trainforensics.signals.noise import printed_grid, robust_sigma
from trainforensics.signals.run import stack
from trainforensics.signals.stretches import stretches
from trainforensics.signals.trend import level, moving_median, span, spans_decades

SAME = 1e-6  # relative; a float32 printed with all its digits or only six of them
FULL_PRECISION = 1e-6  # values on no coarser grid than this cannot be equal by chance
ROUNDED_POINTS = 3  # equal points that prove a common start where values are rounded
FEWEST = 5  # common points without which the noise of a difference is unknown
VISIBLE = 2.0  # noise widths: levels nearer than that are left alone (the same bar as for a rise within one run)
SURE = 6.0  # standard errors of the median that a lasting distance must reach
MEDIAN_ERROR = 1.2533  # standard error of a median, in standard errors of the mean
NOISELESS = 1e6  # distances of more noise widths than this are of series without noise
WHOLE = 0.75  # share of points that a constant relation must bring together; what is left may part
ALIKE = 0.9  # correlation of the levels of two curves that take one course
MAX_LAG = 32  # logged points
LAG_POINTS = 8_192  # points on which lags are tried


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Values of A and B on their common steps where both are finite, shape (n,) each, in the space of judgement.

    `exact`: every inequality counts, because a schedule set the values or because they began equal. `sigma`, shape
    (n,): one width of noise, of their difference where they are independent, of both together where they are not; None
    where there is none.
    """

    step: Ints
    a: Floats
    b: Floats
    exact: bool
    sigma: Floats | None
    logged: bool
    unit: float = 1.0

    def as_logged(self, values: Floats) -> Floats:
        """Values of the space of judgement as they stand in the log."""
        return np.exp(values) if self.logged else values * self.unit


@np.errstate(all="ignore")
def compare_curves(a: Curve, b: Curve, *, scalable: bool = True) -> SeriesDifference | None:
    """How B's curve of a series stands to A's; None where they have no step in common.

    `scalable`: whether one may be a multiple of the other, as it is not where the runs' scores differ.
    """
    matrix = stack([a, b])
    if matrix is None:
        return None
    step, (left, right) = matrix.step, matrix.value
    rounded = printed_shorter(left, right)
    if rounded is not None:
        left, right = rounded
        a, b = _with_values(a, step, left), _with_values(b, step, right)
    pair = _pair(a, b)
    relation, amount, partings = _judge(a, b, pair, scalable)
    broken = _where_one_breaks(step, left, right)
    if broken is not None:
        partings = sorted([*partings, broken], key=lambda parting: parting.step)
        if relation in ("identical", "together", "unjudged"):
            relation = "together" if _is_short(broken, step) else "parted"
    equal = _equal_points(left, right)
    difference = SeriesDifference(
        name=a.name,
        other=b.name,
        role=a.series.role or b.series.role,
        rank=a.series.rank,
        common=len(step),
        first_step=int(step[0]),
        last_step=int(step[-1]),
        relation=relation,
        amount=amount,
        equal_until=int(step[equal - 1]) if pair.exact and equal else None,
        unequal_from=int(step[equal]) if pair.exact and equal < len(step) else None,
        partings=tuple(partings),
        text="",
    )
    same = rounded is not None and relation == "identical"
    return replace(difference, text=describe(difference) + (ROUNDED if same else ""))


def _with_values(curve: Curve, step: Ints, values: Floats) -> Curve:
    """The curve with other values at some of its steps."""
    changed = curve.value.copy()
    changed[np.searchsorted(curve.step, step, side="right") - 1] = values
    return replace(curve, value=changed)


def _pair(a: Curve, b: Curve) -> Pair:
    matrix = stack([a, b])
    step, (left, right) = (matrix.step, matrix.value) if matrix is not None else (a.step[:0], np.empty((2, 0)))
    finite = np.isfinite(left) & np.isfinite(right)
    step, left, right = step[finite], left[finite], right[finite]
    logged = spans_decades(np.concatenate([left, right]))
    largest = float(np.abs(np.concatenate([left, right])).max(initial=0.0))
    unit = largest if largest > HUGE and not logged else 1.0
    twins = _same_start(left, right)
    left, right = (np.log(left), np.log(right)) if logged else (left / unit, right / unit)
    if a.series.role in SCHEDULED and len(step):
        return Pair(step, left, right, True, None, logged, unit)
    if len(step) < FEWEST:
        return Pair(step, left, right, twins, None, logged, unit)
    own = np.hypot(level(left).sigma, level(right).sigma)
    return Pair(step, left, right, twins, own if twins else level(left - right).sigma, logged, unit)


def _equal(a: Floats, b: Floats) -> Bools:
    """Which values are the same number, up to the last digits of a float32; not finite in both counts as the same."""
    with np.errstate(invalid="ignore"):
        same: Bools = np.abs(a - b) <= SAME * np.maximum(np.abs(a), np.abs(b))
    return same | (~np.isfinite(a) & ~np.isfinite(b))


def _equal_points(a: Floats, b: Floats) -> int:
    """How many values are equal before the first that is not."""
    unequal = np.flatnonzero(~_equal(a, b))
    return int(unequal[0]) if len(unequal) else len(a)


def _same_start(a: Floats, b: Floats) -> bool:
    """Whether the curves begin with equal values, more of them where rounding could make them equal by chance."""
    if not len(a):
        return False
    equal = _equal_points(a, b)
    shared = np.unique(a[:equal])
    if equal < len(a):
        shared = shared[shared != 0]  # what has not begun yet is zero in any run
    rounded = printed_grid(a) > FULL_PRECISION * float(np.median(np.abs(a)))
    return len(shared) >= (ROUNDED_POINTS if rounded else 1)


# --- relations ---------------------------------------------------------------------------------------------------


def _judge(a: Curve, b: Curve, pair: Pair, scalable: bool) -> tuple[Relation, float | None, list[Parting]]:
    if pair.sigma is None and not pair.exact:
        return "unjudged", None, []
    if _equal(pair.a, pair.b).all():
        return "identical", None, []
    if pair.sigma is None or not pair.exact:
        lag = _lag(pair)
        if lag:
            moved = _pair(a, replace(b, step=b.step + lag))
            return "shifted", float(lag), [] if _equal(moved.a, moved.b).all() else _partings(moved)
        if _share_outside(pair) > 0.5 and len(pair.step) >= FEWEST:
            related = _constant_relation(pair, scalable)
            if related is not None:
                return related
    partings = _partings(pair)
    if pair.exact and pair.sigma is not None and all(parting.beyond is None for parting in partings):
        return "together", None, []
    short = not pair.exact and all(_is_short(parting, pair.step) for parting in partings)
    return "together" if short else "parted", None, partings


def _is_short(parting: Parting, step: Ints) -> bool:
    """Whether a parting holds fewer points than half the window that makes a level."""
    until = int(np.searchsorted(step, parting.until)) if parting.until is not None else len(step)
    return until - int(np.searchsorted(step, parting.step)) < span(len(step)) // 2


def _constant_relation(pair: Pair, scalable: bool) -> tuple[Relation, float, list[Parting]] | None:
    """The factor or offset that brings at least three quarters of the points together, where the curves stand apart."""
    found: list[tuple[Relation, float, Pair]] = []
    if not pair.logged:
        offset = float(np.median(pair.a - pair.b))
        found.append(("offset", offset * pair.unit, replace(pair, b=pair.b + offset, exact=False)))
    factor = _factor(pair) if scalable else None
    if factor is not None:
        scaled = pair.b + np.log(factor) if pair.logged else pair.b * factor
        found.append(("scaled", factor, replace(pair, b=scaled, exact=False)))
    good = [
        choice
        for choice in found
        if _share_outside(choice[2]) <= 1 - WHOLE and (_is_whole(choice) or _move_together(pair, choice[2]))
    ]
    if not good:
        return None
    relation, amount, related = min(good, key=_preference)
    partings = _partings(related)
    at = np.searchsorted(pair.step, [parting.step for parting in partings])
    logged = pair.as_logged(pair.b[at])
    return relation, amount, [replace(p, b=float(value)) for p, value in zip(partings, logged, strict=True)]


def _move_together(pair: Pair, related: Pair) -> bool:
    """Whether both curves visibly move where a relation brings them together, which alone shows a fractional factor.

    Curves that stand still there, or each move elsewhere, are apart by whatever their levels are.
    """
    if pair.exact:
        return True
    width, together = span(len(pair.step)), ~_outside(related)
    noise = 0.0 if pair.sigma is None else float(np.median(pair.sigma))
    left, right = (moving_median(values, width)[together] for values in (pair.a, pair.b))
    if min(float(np.ptp(left)), float(np.ptp(right))) <= VISIBLE * noise:
        return False
    return float(np.corrcoef(left, right)[0, 1]) >= ALIKE


def _preference(choice: tuple[Relation, float, Pair]) -> tuple[bool, float]:
    """Whole factors first, then what leaves less scatter."""
    pair = choice[2]
    return not _is_whole(choice), robust_sigma(pair.a - pair.b)


def _is_whole(choice: tuple[Relation, float, Pair]) -> bool:
    """Whether a factor shows a scale by being whole; of large ones that says nothing, as every one is near a whole."""
    whole = integer_factor(choice[1]) if choice[0] == "scaled" else None
    return whole is not None and 2 * NEAR_INTEGER * whole < 1


def _factor(pair: Pair) -> float | None:
    if pair.logged:
        return float(np.exp(np.median(pair.a - pair.b)))
    usable = (pair.b != 0) & (pair.a * pair.b > 0)
    return float(np.median(pair.a[usable] / pair.b[usable])) if usable.mean() >= WHOLE else None


def _lag(pair: Pair) -> int:
    """Steps by which B's values come earlier (negative: later) than A's, where a shift explains the difference; else 0.

    Both must be logged at one cadence; the best lag must halve the distance that any other leaves, as shared noise does
    and smooth curves do not, unless it makes them equal.
    """
    gaps = np.diff(pair.step[:LAG_POINTS])
    if len(gaps) < 2 * MAX_LAG or (gaps != gaps[0]).any():
        return 0
    a, b = pair.a[:LAG_POINTS], pair.b[:LAG_POINTS]
    if len(np.unique(a)) < 8:
        return 0
    left = {k: float(np.median(np.abs(_overlap(a, k) - _overlap(b, -k)))) for k in range(-MAX_LAG, MAX_LAG + 1)}
    best = min(left, key=lambda k: (left[k], abs(k)))
    second = min(value for k, value in left.items() if k != best)
    return best * int(gaps[0]) if left[best] < 0.5 * second else 0


def _overlap(values: Floats, lag: int) -> Floats:
    return values[max(lag, 0) : len(values) + min(lag, 0)]


# --- partings ----------------------------------------------------------------------------------------------------


def _share_outside(pair: Pair) -> float:
    return float(_outside(pair).mean())


def _outside(pair: Pair) -> Bools:
    """Which points stand apart, shape (n,): unequal ones of curves that are to be equal, else levels beyond the noise.

    Levels are apart only where A's lies beyond all that B's reaches within half a window, so that two steep descents,
    one a few points ahead, are together.
    """
    if pair.exact or pair.sigma is None:
        return ~_equal(pair.a, pair.b)
    width = span(len(pair.step))
    persistence = level(pair.a - pair.b).persistence(1)
    bar = max(VISIBLE, SURE * MEDIAN_ERROR * persistence / np.sqrt(width)) * pair.sigma
    core = _outlies(moving_median(pair.a, width), pair.b, bar)
    return _grown(core, np.abs(moving_median(pair.a - pair.b, width)) > bar)


def _outlies(values: Floats, other: Floats, bar: Floats) -> Bools:
    """Which values lie by more than `bar` beyond all levels that the other curve takes within half a window."""
    width = span(len(other))
    padded = np.pad(moving_median(other, width), width // 2, mode="edge")
    near = sliding_window_view(padded, 2 * (width // 2) + 1)
    return np.asarray((values > near.max(axis=1) + bar) | (values < near.min(axis=1) - bar))


def _grown(core: Bools, mask: Bools) -> Bools:
    """Those runs of true values of `mask` that hold one of `core`."""
    grown = np.zeros(len(mask), dtype=bool)
    for first, last in zip(*stretches(mask), strict=True):
        if core[first : last + 1].any():
            grown[first : last + 1] = True
    return grown


def _partings(pair: Pair) -> list[Parting]:
    n = len(pair.step)
    # twins whose weights differ in the last digits show equal values for a while yet
    calm = span(n) if pair.sigma is not None else ROUNDED_POINTS
    first, last = stretches(_outside(pair))
    spans = _joined(first.tolist(), last.tolist(), calm)
    spans = [(start, stop if stop < n - calm else n) for start, stop in spans]
    partings = [_parting(pair, start, stop) for start, stop in spans]
    if pair.sigma is not None and not pair.exact:
        bar = max(VISIBLE, float(np.sqrt(2 * np.log(n))))  # what normal noise reaches by chance in n points
        bursts = (b for b in _bursts(pair) if not any(start < b[1] and b[0] < stop for start, stop in spans))
        partings += [p for start, stop in bursts if (p := _parting(pair, start, stop)).size is None or p.size >= bar]
    return sorted(partings, key=lambda parting: parting.step)


def _joined(first: list[int], last: list[int], calm: int) -> list[tuple[int, int]]:
    """Half-open spans, those fewer than `calm` points apart as one."""
    spans: list[tuple[int, int]] = []
    for start, stop in zip(first, last, strict=True):
        if spans and start - spans[-1][1] < calm:
            spans[-1] = (spans[-1][0], stop + 1)
        else:
            spans.append((start, stop + 1))
    return spans


def _bursts(pair: Pair) -> Iterable[tuple[int, int]]:
    """Climbs of one curve out of its own, possibly heavy-tailed noise that the other does not show nearby."""
    n, reach = len(pair.step), span(len(pair.step)) // 2
    climbs = [excursions(_curve(pair, values)) for values in (pair.a, pair.b)]
    for own, others in (climbs, climbs[::-1]):
        for climb in own:
            if not any(o.onset - reach <= climb.end and climb.onset <= o.end + reach for o in others):
                yield climb.onset, max(climb.onset + 1, climb.end if climb.returned else n)


def _curve(pair: Pair, values: Floats) -> Curve:
    n = len(values)
    return Curve(Series(0, "", ""), pair.step, pair.as_logged(values), np.full(n, np.nan), np.zeros(n, np.int32))


def _parting(pair: Pair, start: int, stop: int) -> Parting:
    step = pair.step
    size = beyond = None
    if pair.sigma is not None:
        width = 1 if pair.exact or stop - start < span(len(step)) else span(len(step))
        difference = np.abs(moving_median(pair.a[start:stop] - pair.b[start:stop], width))
        far = np.flatnonzero(difference >= pair.sigma[start:stop])
        beyond = int(step[start + far[0]]) if len(far) else None
        size = float((difference / pair.sigma[start:stop]).max())
        size = None if size > NOISELESS else size
    return Parting(
        int(step[start]),
        (int(step[max(start - 1, 0)]), int(step[start])),
        int(step[stop]) if stop < len(step) else None,
        size,
        beyond,
        float(pair.as_logged(pair.a[start])),
        float(pair.as_logged(pair.b[start])),
    )


def _where_one_breaks(step: Ints, a: Floats, b: Floats) -> Parting | None:
    """The first stretch in which one of the two is not finite and the other is."""
    odd = np.isfinite(a) != np.isfinite(b)
    first, last = stretches(odd)
    if not len(first):
        return None
    start, stop = int(first[0]), int(last[0]) + 1
    return Parting(
        int(step[start]),
        (int(step[max(start - 1, 0)]), int(step[start])),
        int(step[stop]) if stop < len(step) else None,
        None,
        int(step[start]),
        float(a[start]),
        float(b[start]),
    )
