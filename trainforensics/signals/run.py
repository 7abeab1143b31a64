"""The view of a run that detectors get: curves by role, events, configuration, and derived signals computed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from trainforensics.model import Axis, Checkpoint, Event, Outcome, ReadWarning, Series
from trainforensics.signals.curve import Curve, Ints, Matrix

T = TypeVar("T")

LEFT_OVER = 0.1  # of the points of a rank: lines that were torn before they name one leave fewer
_PLAIN_WORDS = frozenset(
    {
        "loss",
        "losses",
        "train",
        "training",
        "total",
        "lm",
        "global",
        "avg",
        "average",
        "mean",
        "reduced",
        "epoch",
        "step",
    }
    | {"val", "valid", "validation", "eval", "evaluation", "test", "grad", "gradient", "norm", "learning", "rate", "lr"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """A run's curves and what surrounds them. `view` narrows it to the roles a detector declared."""

    run: str
    axis: Axis
    by_role: Mapping[str, tuple[Curve, ...]]
    unmapped: tuple[Curve, ...] = ()
    events: tuple[Event, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[ReadWarning, ...] = ()  # what reading the sources left out
    sampled: str = ""  # why the log is known to be partial (an export sampled to 500 rows ...), empty if it is not
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # of phase 1, by kind; only phase 2 gets them
    _cache: dict[Hashable, Any] = field(default_factory=dict)

    def view(self, roles: frozenset[str]) -> Signals:
        """The same run with only these roles; "*" keeps everything. The cache is shared."""
        if "*" in roles:
            return self
        return replace(self, by_role={r: c for r, c in self.by_role.items() if r in roles}, unmapped=())

    def has(self, role: str) -> bool:
        """Whether any point of the role was logged."""
        return bool(self.by_role.get(role))

    def curves(self, role: str) -> tuple[Curve, ...]:
        """Every series of a role (ranks, layers, domains apart), longest first."""
        return self.by_role.get(role, ())

    def curve(self, role: str) -> Curve | None:
        """The series that speaks for a role: the global one; else, across ranks, their mean (NaN where any is NaN)."""
        if not self.has(role):  # a narrowed view must not remember for the others that a role is absent
            return None
        return self.derive(("primary", role), lambda: _primary(self.curves(role)))

    def every_curve(self) -> tuple[Curve, ...]:
        """All curves, mapped ones first."""
        return (*(curve for curves in self.by_role.values() for curve in curves), *self.unmapped)

    def ranks(self, role: str) -> Matrix | None:
        """The per-rank series of a role on common steps, or None with fewer than two."""
        if not self.has(role):
            return None
        return self.derive(("ranks", role), lambda: stack(_own_of_ranks(self.curves(role))))

    def layers(self, role: str) -> Matrix | None:
        """The per-layer series of a role on common steps, or None with fewer than two."""
        if not self.has(role):
            return None
        return self.derive(("layers", role), lambda: stack([c for c in self.curves(role) if c.series.layer]))

    def derive(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A derived signal, computed once per run and key."""
        if key not in self._cache:
            self._cache[key] = compute()
        return cast("T", self._cache[key])


def _is_plain_rank(series: Series) -> bool:
    return series.rank is not None and series.layer is None and series.expert is None


def _of_ranks(curves: Sequence[Curve]) -> list[list[Curve]]:
    """The plain curves of ranks; where ranks have several of a role, those of one name apart, most ranks first."""
    ranked = [curve for curve in curves if _is_plain_rank(curve.series)]
    if len({curve.series.rank for curve in ranked}) == len(ranked):
        return [ranked] if ranked else []
    names: dict[str, list[Curve]] = {}
    for curve in ranked:
        names.setdefault(re.sub(r"\d+", "", curve.name), []).append(curve)
    return sorted(names.values(), key=len, reverse=True)


def _own_of_ranks(curves: Sequence[Curve]) -> list[Curve]:
    """One curve a rank, those of a name that says something else on each: a global value is the same on all."""
    groups = _of_ranks(curves)
    return next((group for group in groups if not _all_equal(group)), groups[0] if groups else [])


def _all_equal(curves: Sequence[Curve]) -> bool:
    return all(np.array_equal(curve.value, curves[0].value, equal_nan=True) for curve in curves[1:])


def _is_global(series: Series) -> bool:
    return series.rank is None and series.layer is None and series.expert is None


def _is_whole(name: str) -> bool:
    """Whether a name says no more than its role does ("train/loss", "lm loss"); components have names of their own."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return set(words) <= _PLAIN_WORDS


def _primary(curves: tuple[Curve, ...]) -> Curve | None:
    whole = [curve for curve in curves if _is_global(curve.series)]
    groups = _of_ranks(curves)
    ranked = next((group for group in groups if _is_whole(group[0].name)), groups[0] if groups else [])
    if whole and max(map(len, whole)) >= LEFT_OVER * max(map(len, ranked), default=0):
        plain = [curve for curve in whole if curve.series.domain is None] or whole
        longest = max(map(len, plain))
        return max((c for c in plain if 2 * len(c) >= longest), key=lambda c: (_is_whole(c.name), len(c)))
    matrix = stack(ranked)
    if matrix is None:
        return ranked[0] if ranked else None
    template = ranked[0]
    at = np.searchsorted(template.step, matrix.step, side="right") - 1
    series = replace(template.series, rank=None, name=f"{template.name} (mean of {len(ranked)} ranks)")
    return Curve(series, matrix.step, matrix.value.mean(axis=0), template.time[at], template.segment[at])


def _distinct(step: Ints) -> Ints:
    """Steps that never fall, each once."""
    return step[np.diff(step, prepend=step[:1] - 1) > 0]


def stack(curves: list[Curve]) -> Matrix | None:
    """Curves on the steps they share, one row each, the last value where a step repeats; None for fewer than two."""
    if len(curves) < 2:
        return None
    common = _distinct(curves[0].step)
    for curve in curves[1:]:
        if not np.array_equal(common, curve.step):
            common = np.intersect1d(common, _distinct(curve.step), assume_unique=True)
    if not len(common):
        return None
    rows = [curve.value[np.searchsorted(curve.step, common, side="right") - 1] for curve in curves]
    return Matrix(tuple(curve.series for curve in curves), common, np.vstack(rows))
