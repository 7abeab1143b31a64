"""Happenings of values that are not finite, and the curves with their bad points that they are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainforensics.model import Recovery, Series
from trainforensics.signals.curve import Bools, Curve, Ints
from trainforensics.signals.run import Signals
from trainforensics.signals.stretches import stretches

EpisodeKind = Literal["nan-onset", "transient-nan", "grad-nan"]
Disguise = Literal["", "filtered", "missing", "message"]

# Series that live and die with the weights; any other one may be NaN for reasons of its own.
STATE_ROLES = (
    "grad_norm", "param_norm", "update_norm", "update_ratio", "optimizer_state_norm", "activation_norm",
    "activation_mean", "activation_std", "activation_max", "attention_entropy", "attention_logit_max",
)  # fmt: skip
MIN_LIFE = 3  # bad points at the end of a process life that was started again
BY_CONSTRUCTION = 0.05  # share of points above which an auxiliary series is NaN by its making
MOST_OTHERS = 8  # further series that an episode names


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One happening. `onsets` are the steps where it begins (several where it recurs), `before` the last good step.

    `end` is the last bad step, None where it lasts to the end of the log. `series` went bad first, with `value`;
    `others` are further series with the step at which each went bad. `points` counts bad points of the speaking series.
    """

    kind: EpisodeKind
    series: Series
    onsets: tuple[int, ...]
    before: int | None
    end: int | None
    value: float
    points: int
    segment: int
    recovery: Recovery
    disguise: Disguise = ""
    rank: int | None = None
    component: bool = False
    others: tuple[tuple[Series, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Bad:
    """A curve with its bad points: where they are, and how they are dressed."""

    curve: Curve
    mask: Bools
    disguise: Disguise = ""

    @property
    def first(self) -> int:
        """Index of the first of them."""
        return int(np.argmax(self.mask))

    @property
    def first_step(self) -> int:
        """The step of the first of them."""
        return int(self.curve.step[self.first])


def states(signals: Signals) -> list[Curve]:
    """The curves that live and die with the weights."""
    return [curve for role in STATE_ROLES for curve in signals.curves(role)]


def step_before(curve: Curve, index: int) -> int | None:
    """The step of the point before an index; None at the start."""
    return int(curve.step[index - 1]) if index > 0 else None


def seldom(curve: Curve) -> Bad | None:
    """Bad points of an auxiliary series where they are rare and it was finite first; None where NaN is its making."""
    mask = ~curve.finite
    rare = len(curve) >= 20 and bool(mask.any()) and mask.mean() <= BY_CONSTRUCTION and not mask[:5].any()
    return Bad(curve, mask) if rare and len(stretches(mask)[0]) <= 3 else None


def recurring(kind: EpisodeKind, bad: list[Bad], *, lasts: bool, rank: int | None) -> Episode:
    """One episode of all stretches in which any of the curves is bad; the first of them leads."""
    lead, start = bad[0], bad[0].first
    first, last = _stretches_of_any(bad)
    return Episode(
        kind=kind,
        series=lead.curve.series,
        onsets=tuple(first.tolist()),
        before=step_before(lead.curve, start),
        end=None if lasts else int(last[-1]),
        value=float(lead.curve.value[start]),
        points=int(lead.mask.sum()),
        segment=int(lead.curve.segment[start]),
        recovery="ongoing" if lasts else "recovered",
        disguise=lead.disguise,
        rank=rank,
        others=tuple((entry.curve.series, entry.first_step) for entry in bad[1 : MOST_OTHERS + 1]),
    )


def _stretches_of_any(bad: list[Bad]) -> tuple[Ints, Ints]:
    """First and last steps of the stretches in which any of the curves is bad."""
    firsts, lasts = [], []
    for entry in bad:
        first, last = stretches(entry.mask)
        firsts.append(entry.curve.step[first])
        lasts.append(entry.curve.step[last])
    first, last = np.concatenate(firsts), np.concatenate(lasts)
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    cadence = bad[0].curve.cadence
    fresh = np.append(True, first[1:] - reach[:-1] > cadence)
    return first[fresh], reach[np.append(np.flatnonzero(fresh)[1:] - 1, len(first) - 1)]
