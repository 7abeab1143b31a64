"""The kinds of record that a log was found to hold, and what further rows of one tell of the others."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

from trainforensics.importers.printed.records.shape import Groups, Shape
from trainforensics.importers.printed.steps.clock import Clock
from trainforensics.importers.printed.text.numbers import LARGEST_COUNT, count_of, whole_number
from trainforensics.importers.printed.text.vocabulary import is_global

_MOST_FRONT = 8
_MOST_RECENT = 400
_MOST = 1_000  # each costs milliseconds to learn, and no trainer prints so many kinds of records
# What ends with a number before a word, "the error is: 0.5 Epoch [2/5]".
_NUMBER_ENDS = re.compile(r"[:=]\s*[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?\s?%?\s+(?=[A-Z\[])")


@dataclass(slots=True)
class Known:
    """`every` shape in the order of learning; `front`: plain ones, tried first; `recent`: the last one used first."""

    clock: Clock
    every: list[Shape] = field(default_factory=list)
    front: list[Shape] = field(default_factory=list)
    recent: list[Shape] = field(default_factory=list)
    _split: str = ""  # the held-out data that came first
    _ended: list[tuple[int, int]] = field(default_factory=list)  # epoch and step that rows stated last
    _carried: int = 0  # how often such a step went on from one epoch to the next
    _missing: set[frozenset[str]] = field(default_factory=set)

    def add(self, shape: Shape) -> None:
        """A shape was learnt; its series are named so that they stay apart from those of the others."""
        if shape.epoch and not (shape.step or shape.inner or shape.validation):
            finer = {name for known in self.every if known.step or known.inner for name in known.names}
            shape.validation = bool(finer) and shape.only_scores and finer.isdisjoint(shape.names)
            shape.rename({name: f"epoch/{name}" for name in finer})
        if shape.validation and self._split == shape.split:
            shape.split = "val"  # the only held-out data so far
        elif shape.validation and not self._split:
            self._split, shape.split = shape.split, "val"
        elif shape.validation:
            own = {name: f"{shape.split}/{name[4:]}" for name in shape.names if name.startswith("val/")}
            shape.rename(own)
        self.every.append(shape)
        shape.plain &= not (shape.validation or shape.follows)
        shape.plain &= self.clock.epoch is None or is_global(shape.step_name)
        if shape.plain and len(self.front) < _MOST_FRONT:
            self.front.append(shape)
        self.recent.insert(0, shape)
        if len(self.recent) > _MOST_RECENT:
            self.recent.pop()

    def match(self, line: str) -> tuple[Shape, re.Match[str]] | None:
        """The shape of which a line begins with a record."""
        for i, shape in enumerate(self.recent):
            found = shape.pattern.match(line)
            if found is not None:
                if i:
                    self.recent.insert(0, self.recent.pop(i))
                return shape, found
        return None

    def match_with_words(self, line: str) -> tuple[Shape, re.Match[str]] | None:
        """The shape of which a line is a record with words where others hold numbers, of those used last."""
        found = ((shape, shape.match_with_words(line)) for shape in self.recent[:_MOST_FRONT])
        return next(((shape, match) for shape, match in found if match is not None), None)

    def behind(self, line: str) -> int | None:
        """Where a record begins behind what ends with a number of its own; None without."""
        if _NUMBER_ENDS.search(line) is None:
            return None
        for shape in self.recent[:_MOST_FRONT]:
            at = line.find(shape.lead) if shape.lead and shape.counted else 0
            if at > 0 and _NUMBER_ENDS.search(line, 0, at + 1) and shape.pattern.match(line[at:]):
                return at
        return None

    @property
    def full(self) -> bool:
        """Whether no more kinds are learned."""
        return len(self.every) >= _MOST

    def mind_epochs(self) -> None:
        """The log has begun to say epochs: counts may start again with each, so their rows are thought about from now.

        Those taken so far are told to the clock one by one.
        """
        for shape in self.front:
            if not is_global(shape.step_name) and (steps := shape.counts()) is not None:
                shape.steps, shape.plain = steps, False
                self.clock.before_epochs(steps, shape.step_name)
        self.front[:] = [shape for shape in self.front if shape.plain]

    def stand_at_epochs(self) -> None:
        """Move the rows so far to the epochs that they state, or that was under way."""
        told = sorted(
            (seq, whole_number(row[shape.epoch - 1]))
            for shape in self.every
            if shape.epoch
            for seq, row in zip(shape.seqs, shape.rows, strict=True)
        )
        for shape in self.every:
            if shape.epoch and not (shape.step or shape.inner):
                shape.rename({name: name.removeprefix("epoch/") for name in shape.names})
        begins = min(0, told[0][1]) if told else 0
        for shape in (shape for shape in self.every if shape.rows):
            before = [bisect_right(told, (seq, LARGEST_COUNT)) for seq in shape.seqs]
            shape.steps = [told[at - 1][1] if at else begins for at in before]
            shape.plain = False
        self.front.clear()

    def mind_restarts(self) -> None:
        """A count that is called global may begin again with an epoch, too: from then on its rows are thought about."""
        told = [*self._ended, *((epoch, step) for _, epoch, step, _ in self._global_rows())]
        if any(one[0] < two[0] and one[1] >= two[1] for one, two in pairwise(told)):
            self._leave_global()
        self._carried += _carried_over(told)
        self._ended = told[-1:]

    def mind_restart(self, shape: Shape, groups: Groups) -> None:
        """The same for the row of a shape that comes next: what is said between the two is placed by its step."""
        others = [known for known in self.every if known.plain and known.epoch and known.rows]
        last = max(others, key=lambda known: known.seqs[-1], default=None)
        told = [(_epoch_and_step(last, last.rows[-1]))] if last is not None else self._ended
        epoch, step = _epoch_and_step(shape, groups)
        if told and told[0][0] < epoch and told[0][1] >= step:
            self._leave_global()
            shape.plain, self._ended = False, []

    def _global_rows(self) -> list[tuple[int, int, int, Shape]]:
        """The rows since the last flush whose counts are called global: place in the log, epoch, step, shape."""
        rows = [
            (seq, *_epoch_and_step(shape, row), shape)
            for shape in self.every
            if shape.plain and shape.epoch
            for seq, row in zip(shape.seqs, shape.rows, strict=True)
        ]
        return sorted(rows, key=itemgetter(0))

    def _leave_global(self) -> None:
        rows = self._global_rows()
        name = next((shape.step_name for shape in self.every if shape.plain and shape.epoch), "")
        for epoch, step in self._ended:
            self.clock.declared(step, name, epoch)
        self.clock.carried_over(name, self._carried)
        for _, epoch, step, shape in rows:
            shape.steps.append(self.clock.declared(step, shape.step_name, epoch))
        for shape in self.every:
            shape.plain &= not shape.epoch
        self.front[:] = [shape for shape in self.front if shape.plain]

    def set_apart(self, mean: Shape, step: int) -> None:
        """The batches of an evaluation are a series of their own once its mean comes under the same names."""
        labels = set(map(mean.label, mean.names))
        for shape in self.every:
            if shape.validation and (shape.batches or shape.inner) and shape.steps[-1:] == [step]:
                shape.rename({name: f"{name} (current)" for name in shape.names if shape.label(name) in labels})

    def drawn_again(self, shape: Shape, step: int) -> None:
        """A full bar that is drawn again with more numbers, those of the evaluation, replaces the one before it."""
        for other in self.every:
            if other.bar and other is not shape and other.names < shape.names and other.steps[-1:] == [step]:
                other.rows.pop(), other.steps.pop(), other.seqs.pop()

    def of_pass(self, shape: Shape, groups: Groups) -> Shape:
        """The shape, or its like for evaluations where the same words count a second pass after the epoch's."""
        if not (shape.inner and shape.epoch) or shape.validation:
            return shape
        count, total, epoch = (count_of(groups[group - 1]) for group in (shape.inner, shape.total, shape.epoch))
        if not self.clock.passes_again(count, total, epoch):
            return shape
        if shape.evaluating is None:
            shape.evaluating = shape.of_evaluations()
            self.every.append(shape.evaluating)
        return shape.evaluating

    def loss_left_out(self, shape: Shape) -> frozenset[str]:
        """The losses that records like those of a shape held before it; said once, empty where there are none."""
        if shape.training or shape.validation or not shape.step or shape.names in self._missing:
            return frozenset()
        self._missing.add(shape.names)
        for other in self.every:
            lost = other.names - shape.names
            alike = other.training and other.step_name == shape.step_name and shape.names < other.names
            if alike and lost == other.losses and (other.used or other.seqs):
                return lost
        return frozenset()


def _epoch_and_step(shape: Shape, row: Groups) -> tuple[int, int]:
    return whole_number(row[shape.epoch - 1]), whole_number(row[shape.step - 1])


def _carried_over(told: list[tuple[int, int]]) -> int:
    return sum(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(told))
