"""The step of each record: what it states, else the epoch's, the bar's, or the row's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainforensics.importers.printed.layouts.dictionaries import Dictionaries
from trainforensics.importers.printed.records.ahead import Ahead
from trainforensics.importers.printed.records.shape import Groups, Shape
from trainforensics.importers.printed.remarks.settings import Settings
from trainforensics.importers.printed.steps.clock import Clock
from trainforensics.importers.printed.steps.progress import Progress
from trainforensics.importers.printed.text.numbers import LARGEST_COUNT, count_of, whole_number
from trainforensics.importers.rows.axes import logging_interval, logging_interval_beside


@dataclass(slots=True, eq=False)
class Steps:
    """`stated`: the line of the last record that stated its step."""

    path: Path
    lines: Ahead
    settings: Settings
    dictionaries: Dictionaries
    clock: Clock
    progress: Progress
    stated: int = -1
    _in_turn: set[int] = field(default_factory=set)  # the kinds of records of the last row that was counted
    _interval_known: bool = False

    def of(self, shape: Shape, groups: Groups, line: int) -> int | None:
        """The step of a record on a line; None for one that is to be left out."""
        self._mind_batches(shape, groups)
        if shape.follows:
            return self.clock.step or 0
        epoch = count_of(groups[shape.epoch - 1]) if shape.epoch else None
        total = count_of(groups[shape.total - 1]) if shape.total else 0
        if shape.length:
            self.clock.epoch_has(count_of(groups[shape.length - 1]))
        if shape.step:
            return self._stated_step(shape, groups, line, 0 if shape.inner else total, epoch)
        if shape.bar:
            done = not shape.inner or count_of(groups[shape.inner - 1]) == total
            return self.clock.of_epoch(self.clock.epoch or 0) if done else None
        if shape.inner and not shape.validation:
            return self.clock.iterated(count_of(groups[shape.inner - 1]), total, epoch)
        if epoch is not None and not (shape.validation and shape.inner):
            if shape.values:
                return self.clock.of_epoch(epoch)
            self.clock.turned(epoch)
            return None
        return self._unsaid_step(shape, line)

    def _mind_batches(self, shape: Shape, groups: Groups) -> None:
        """Decide by its first row behind one of the training whose iterations an evaluation without an epoch counts."""
        if not (shape.validation and shape.inner) or shape.epoch or shape.batches:
            return
        count, total = (count_of(groups[group - 1]) for group in (shape.inner, shape.total))
        if self.clock.counts_on(count, total):
            shape.state_step()
        else:
            shape.batches = self.clock.iterates

    def _stated_step(self, shape: Shape, groups: Groups, line: int, total: int, epoch: int | None) -> int:
        self.stated = line
        step = groups[shape.step - 1]
        piece = count_of(groups[shape.piece - 1]) if shape.piece else 0
        if shape.plain and abs(whole_number(step)) == LARGEST_COUNT:
            self.clock.named(shape.step_name)
            return self.clock.step or 0  # what its rows have instead is decided with the others
        if shape.validation:
            return self._evaluated_step(shape, count_of(step), total, epoch)
        return self.clock.declared(count_of(step), shape.step_name, epoch, total, piece)

    def _evaluated_step(self, shape: Shape, count: int, total: int, epoch: int | None) -> int:
        """The step of an evaluation that states a count; that of all the batches of an epoch is its epoch's."""
        if epoch is not None and count == total > 0:
            return self.clock.of_epoch(epoch)
        if shape.batches and total and self.clock.out_of not in {0, total}:
            return self.clock.step or 0
        step = self.clock.evaluated(count, shape.step_name)
        shape.batches |= self.clock.alone
        return step

    def _unsaid_step(self, shape: Shape, line: int) -> int:
        """The step of a record that does not say it."""
        if shape.dictionary and shape.training:
            if self.stated + 1 in {line, self.dictionaries.at} and not self.progress.is_drawn:
                return self.clock.step or 0
            return self._printed_step(shape)
        epoch = self.clock.epoch if self.clock.by_epoch else None
        if epoch is not None and not (shape.training and self.lines.several_an_epoch(shape, line)):
            return self.clock.of_epoch(epoch)
        return self._row_step(shape) if shape.training and self.clock.by_row else self.clock.step or 0

    def _row_step(self, shape: Shape) -> int:
        """The step of a row of a log that says none: records of several kinds that come in turn are of one row."""
        if not self._in_turn or id(shape) in self._in_turn:
            self._in_turn = set()
            self.clock.row()
        self._in_turn.add(id(shape))
        return self.clock.step or 0

    def _printed_step(self, shape: Shape) -> int:
        """The step of a printed dictionary: the bar's, else the row's."""
        if self.progress.is_drawn:
            return self.progress.step_beside(shape)
        if not self._interval_known:
            self._interval_known = True
            found = logging_interval(self.settings.found) or logging_interval_beside(self.path)
            self.clock.interval = found or 1
        return self.clock.step or 0 if self.progress.adds(shape) else self.clock.row()
