"""From the rows of shapes to points: one array a series, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import NO_TIME, Points
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.numbers import numbers, whole_number
from trainforensics.importers.printed.text.tokens import COUNT_SUFFIXES
from trainforensics.importers.rows.axes import MAX_STEP
from trainforensics.importers.rows.times import is_naive, parse_time
from trainforensics.model import ReadWarning

_Ints = NDArray[np.int64]
_MOST_ENGINES = 4  # that print the same names at every step
_REGULAR = 0.8
_YEAR_2000, _LEAP_YEAR = 946_684_800_000_000, 366 * 86_400_000_000  # microseconds
_LARGEST_RATE = 10.0  # that a learning rate may be; what is larger and called a rate counts samples a second


@dataclass(slots=True)
class Collector:
    """Turns rows into points. `ranked`: whether several ranks write records, decided on the first block.

    `naive`: whether their times state no zone.
    """

    label: str
    ranked: bool | None = None
    naive: bool = False
    _ranks: set[int] = field(default_factory=set)  # that rows named, two at most
    _bad: int = 0
    _example: str = ""
    _far: int = 0
    _last_time: int | None = None  # of those that do not say their year
    _throughputs: set[str] = field(default_factory=set)  # what is called a rate and is none of learning
    _cadence: dict[int, tuple[int, int]] = field(default_factory=dict)  # by shape: the last step, and how far apart

    def take(self, shapes: Sequence[Shape]) -> Iterator[Points]:
        """The points of all rows that were read since the last call."""
        parts: dict[tuple[str, int | None], list[Points]] = {}
        self._mind_ranks([shape for shape in shapes if shape.seqs and shape.rank])
        for shape in shapes:
            if shape.seqs:
                for points in self._of(shape):
                    parts.setdefault((points.name, points.rank), []).append(points)
                shape.rows, shape.steps, shape.seqs, shape.used = [], [], [], True
        for pieces in parts.values():
            yield _in_order(pieces)

    @property
    def rank(self) -> int | None:
        """The one rank that all rows name which name any; None without."""
        return next(iter(self._ranks)) if len(self._ranks) == 1 and not self.ranked else None

    def warnings(self) -> Iterator[ReadWarning]:
        """What stood where a number should."""
        if self._bad:
            message = f"{self._bad} values are no numbers, the first {self._example!r}; they are no points"
            yield ReadWarning("wrong-type", self.label, message)
        if self._far:
            message = f"{self._far} steps are beyond what a step can be; rows are counted, or the step before is taken"
            yield ReadWarning("odd-step", self.label, message)

    def _unrounded(self, shape: Shape, step: _Ints, texts: Sequence[str | None]) -> _Ints:
        """Steps that are printed in thousands ("1K", three times) go on at the pace of the exact ones before them."""
        last, apart = self._cadence.get(id(shape), (0, 0))
        rounded = [text is not None and text[-1:] in COUNT_SUFFIXES for text in texts]
        if any(rounded):
            step = step.copy()
        for i, is_rounded in enumerate(rounded) if any(rounded) else ():
            expected = last + apart
            if not is_rounded:
                last, apart = int(step[i]), int(step[i]) - last if last else 0
                continue
            unit = COUNT_SUFFIXES[(texts[i] or "")[-1]] / 10 ** len((texts[i] or "").partition(".")[2][:-1])
            if apart > 0 and abs(expected - step[i]) <= unit / 2:
                step[i] = expected
            last = int(step[i])
        if not any(rounded) and len(step) > 1:
            last, apart = int(step[-1]), int(step[-1] - step[-2])
        self._cadence[id(shape)] = last, apart
        return step

    def _reachable(self, number: NDArray[np.float64], seq: _Ints) -> _Ints:
        """Numbers as steps: rows are counted where they are beyond what a step can be; a few are the step before."""
        far = np.abs(number) >= MAX_STEP
        if not far.any():
            return number.astype(np.int64)
        self._far += int(np.count_nonzero(far))
        if far.all():
            return seq + 1
        near = np.flatnonzero(~far)
        before = np.searchsorted(near, np.arange(len(number)), side="right") - 1
        return number[near[np.maximum(before, 0)]].astype(np.int64)

    def _label(self, name: str, value: NDArray[np.float64]) -> str:
        """The name of a series, with its unit where it is called a mere rate and its first values are throughputs."""
        if name.lower().removeprefix("global").strip("_ ") != "rate":
            return name
        if np.any(value > _LARGEST_RATE):
            self._throughputs.add(name)
        return f"{name} per sec" if name in self._throughputs else name

    def _through_years(self, wall: _Ints) -> _Ints:
        """Times go on in the next year where they do not say theirs, all standing in that of a leap year."""
        known = wall != NO_TIME
        if not known.any() or wall[known].max() >= _YEAR_2000 + _LEAP_YEAR or wall[known].min() < _YEAR_2000:
            return wall
        before = self._last_time if self._last_time is not None else int(wall[known][0])
        wall[known] = np.unwrap(np.append(before, wall[known]), period=_LEAP_YEAR)[1:]
        self._last_time = int(wall[known][-1])
        return wall

    def _mind_ranks(self, shapes: Sequence[Shape]) -> None:
        """Decide by the first rows that name ranks whether several ranks write, and note which one does else."""
        stated = [shape for shape in shapes if not shape.of_several]
        if len(self._ranks) < 2:
            self._ranks |= {rank for shape in stated for rank in np.unique(_ranks(shape)).tolist()}
        if shapes and self.ranked is None:
            self.ranked = len(self._ranks) > 1 or any(map(_several_a_step, (s for s in shapes if s.of_several)))
        for shape in _said_for_all(stated) if self.ranked else ():
            shape.rank = 0

    def _of(self, shape: Shape) -> Iterator[Points]:
        columns = list(zip(*shape.rows, strict=True))
        seq = np.array(shape.seqs, np.int64)
        step = np.array(shape.steps, np.int64)
        if shape.plain:
            step = self._reachable(np.nan_to_num(numbers(columns[shape.step - 1])[0]), seq)
        if shape.step:
            step = self._unrounded(shape, step, columns[shape.step - 1])
        wall = self._through_years(_times(columns[shape.time - 1])) if shape.time else None
        self.naive |= wall is not None and is_naive(next(filter(None, columns[shape.time - 1]), ""))
        ranks = _ranks(shape) if shape.rank and self.ranked else None
        groups = _groups(step, ranks, shape.stated)
        for group, name in shape.values:
            value, state, bad = numbers(columns[group - 1])
            label = self._label(shape.label(name), value)
            self._bad += len(bad)
            self._example = self._example or (f"{name} {bad[0]}" if bad else "")
            for rank, engine, rows in groups:
                yield Points(
                    f"{label} #{engine}" if engine > 1 else label,
                    step[rows],
                    value[rows],
                    seq[rows],
                    None if wall is None else wall[rows],
                    None if state is None else state[rows],
                    rank=rank,
                )


def _ranks(shape: Shape) -> _Ints:
    """The rank of each row, (n,)."""
    return np.array([whole_number(row[shape.rank - 1]) for row in shape.rows], np.int64)


def _said_for_all(shapes: Sequence[Shape]) -> list[Shape]:
    """New kinds of records that the first or the last rank alone prints, as programs do for what concerns all."""
    ranks = {id(shape): np.unique(_ranks(shape)).tolist() for shape in shapes}
    ends = [[pick(map(pick, ranks.values()))] for pick in (min, max)] if shapes else []
    return [
        shape
        for shape in shapes
        if not shape.used
        and ranks[id(shape)] in ends
        and all(other is shape or other.names.isdisjoint(shape.names) for other in shapes)
    ]


def _several_a_step(shape: Shape) -> bool:
    """Whether several of the shares that may be ranks state the same step."""
    steps = shape.counts() if shape.plain else shape.steps
    ranks = _ranks(shape).tolist()
    return len(set(ranks)) > 1 and len(set(zip(steps or ranks, ranks, strict=True))) > len(set(steps or ranks))


def _groups(step: _Ints, ranks: _Ints | None, stated: bool) -> list[tuple[int | None, int, NDArray[np.bool_]]]:
    """Rank, number of the engine, and mask of rows that belong together.

    Two engines (an actor and its critic) may log the same names at the same steps, one behind the other.
    """
    every = np.ones(len(step), bool)
    if ranks is not None:
        return [(int(rank), 1, ranks == rank) for rank in np.unique(ranks)]
    begins = np.flatnonzero(np.diff(step, prepend=step[0] - 1))
    lengths = np.diff(np.append(begins, len(step)))
    usual = int(np.median(lengths))
    if not stated or not 2 <= usual <= _MOST_ENGINES or len(begins) < 2 or np.mean(lengths == usual) < _REGULAR:
        return [(None, 1, every)]
    place = np.arange(len(step)) - np.repeat(begins, lengths)
    return [(None, engine + 1, place == engine) for engine in range(usual)]


def _times(texts: Sequence[str | None]) -> _Ints:
    plain = [(text or "").replace(",", ".", 1).replace("/", "-") for text in texts]
    if all(len(text) <= 26 and text[4:5] == "-" and text[-1:].isdigit() and "+" not in text for text in plain):
        try:
            return np.array(plain, dtype="datetime64[us]").astype(np.int64)
        except ValueError:
            pass
    return np.array([parse_time(text) if text else NO_TIME for text in texts], np.int64)


def _in_order(pieces: Sequence[Points]) -> Points:
    """One series that several shapes hold, in the order of the log."""
    if len(pieces) == 1:
        return pieces[0]
    order = np.argsort(np.concatenate([piece.seq for piece in pieces]), kind="stable")
    wall = state = None
    if any(piece.wall_time is not None for piece in pieces):
        times = [p.wall_time if p.wall_time is not None else np.full(len(p.seq), NO_TIME) for p in pieces]
        wall = np.concatenate(times)[order]
    if any(piece.state is not None for piece in pieces):
        states = [p.state if p.state is not None else np.zeros(len(p.seq), np.uint8) for p in pieces]
        state = np.concatenate(states)[order]
    return Points(
        pieces[0].name,
        np.concatenate([piece.step for piece in pieces])[order],
        np.concatenate([piece.value for piece in pieces])[order],
        np.concatenate([piece.seq for piece in pieces])[order],
        wall,
        state,
        rank=pieces[0].rank,
    )
