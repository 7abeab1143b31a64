"""The rows of a log: every record that was found, in the order of the text, at the step where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import Points
from trainforensics.importers.printed.kinds.known import Known
from trainforensics.importers.printed.points import Collector
from trainforensics.importers.printed.records.ahead import Ahead
from trainforensics.importers.printed.records.shape import Groups, Shape
from trainforensics.importers.printed.remarks.happenings import Happenings
from trainforensics.importers.printed.remarks.sections import Section
from trainforensics.importers.printed.steps.bars import Bar
from trainforensics.importers.printed.steps.clock import Clock
from trainforensics.importers.printed.steps.progress import Progress
from trainforensics.importers.printed.steps.steps import Steps
from trainforensics.importers.printed.text.numbers import LARGEST_COUNT, whole_number


@dataclass(slots=True, eq=False)
class Rows:
    """`found`: how many records; `seq`: the number of the next row; `latest`: the shape of a row that the clock does
    not know yet; `repeats`: the next record was printed before.
    """

    lines: Ahead
    clock: Clock
    known: Known
    progress: Progress
    steps: Steps
    section: Section
    happenings: Happenings
    collector: Collector
    found: int = 0
    seq: int = 0
    latest: Shape | None = None
    repeats: bool = False
    _done: float | None = None  # epochs of the training whose summary came last
    _apart: list[Points] = field(default_factory=list)  # said otherwise than in records
    _diverged_at: int | None = None  # the step before
    _told: bool = False  # the log prints whole curves

    def catch_up(self, number: int) -> None:
        """Tell the clock of the last row, on the line of a number, that was taken without it."""
        shape, self.latest = self.latest, None
        if shape is not None and shape.rows:
            self.found += 1
            self.progress.counted_row()
            self.section.row(shape, number, self.lines)
            if abs(step := whole_number(shape.rows[-1][shape.step - 1])) < LARGEST_COUNT:
                self.clock.declared(step, shape.step_name)

    def take(self, shape: Shape, groups: Groups, line: int) -> None:
        """A record of a known shape was read."""
        if shape.summary:
            self.happenings.note("finish", self.clock.step, "the trainer's summary of the training", line)
            self._done = shape.value_of("epoch", groups)
            return
        self._mind_next_training(shape, groups)
        if self.repeats:
            self.repeats = False
            return
        shape = self.known.of_pass(shape, groups)
        if shape.plain and shape.epoch:
            self.known.mind_restart(shape, groups)
        step = self.steps.of(shape, groups, line)
        if shape.counted:
            self.section.counted(shape, line, self.lines)
        if self.clock.freed:
            self.clock.freed = False
            self.known.stand_at_epochs()
        if step is None:
            return
        self._mind_lost_count(step, line)
        self.happenings.reached(step)
        if shape.values:
            self._add(shape, groups, step, line)

    def take_bar(self, bar: Bar) -> None:
        """Its numbers are a record: of an evaluation where it is full, else of the step that it counts or declares."""
        if not bar.total:
            return
        if not (bar.count == bar.total if bar.held_out else self.progress.draw(bar, begun=self.found > 0)):
            return
        learned = self.progress.shape_of(bar) if bar.says_numbers else None
        if learned is None:
            return
        shape, groups, is_new = learned
        if is_new:
            self.known.every.append(shape)
        if not shape.values:
            return
        step = (self.clock.step or 0) if bar.held_out else self.progress.step_of(bar, shape, groups)
        self.happenings.reached(step)
        self._append(shape, groups, step, again=True)

    def tell(self, curves: Mapping[str, NDArray[np.float64]]) -> None:
        """Curves that are printed at once, row by row; behind rows of the log they say again what those said."""
        if self.found and not self._told:
            return
        self._told = True
        rows = len(next(iter(curves.values())))
        self.clock.row()
        step, seq = np.arange(1, rows + 1), np.arange(self.seq, self.seq + rows)
        self._apart += [Points(name, step, curve, seq) for name, curve in curves.items()]
        self.seq += rows
        self.found += rows

    def diverge(self) -> None:
        """The loss was NaN at a step behind the last row: at the next one at the earliest. Each rank may say so."""
        last = next((shape for shape in reversed(self.known.every) if shape.training and shape.losses), None)
        if last is None or self.collector.ranked or self.clock.step in {None, self._diverged_at}:
            return
        self._diverged_at = self.clock.step
        step, seq = np.array([(self.clock.step or 0) + 1]), np.array([self.seq])
        self._apart += [Points(last.label(name), step, np.array([np.nan]), seq) for name in sorted(last.losses)]
        self.seq += 1

    def points(self) -> Iterator[Points]:
        """Those of the rows since the last call."""
        self.known.mind_restarts()
        self._mind_lost_count(self.clock.step, None)
        self.progress.taken()
        yield from self.collector.take(self.known.every)
        yield from self._apart
        self._apart = []

    def _add(self, shape: Shape, groups: Groups, step: int, line: int) -> None:
        batches = shape.validation and (shape.batches or bool(shape.inner))
        if not batches and shape.held_out:
            self.known.set_apart(shape, step)
        if shape.bar:
            self.known.drawn_again(shape, step)
        self._append(shape, groups, step, again=batches or shape.timed)
        self.progress.row(shape, step)
        if lost := self.known.loss_left_out(shape):
            text = f"a record without {', '.join(sorted(lost))}, which those before it hold"
            self.happenings.note("missing-loss", step, text, line)

    def _append(self, shape: Shape, groups: Groups, step: int, *, again: bool) -> None:
        """Add a row. `again`: progress that is written again and again, of which the last row of a step counts."""
        self.found += 1
        if again and shape.steps and shape.steps[-1] == step:
            shape.rows[-1] = groups
            return
        shape.rows.append(groups)
        if not shape.plain:
            shape.steps.append(step)
        shape.seqs.append(self.seq)
        self.seq += 1

    def _mind_lost_count(self, step: int | None, line: int | None) -> None:
        if self.clock.lost:
            text = f"{self.clock.lost}: it was not restored, and is counted on here"
            self.happenings.note("counter-restart", step, text, line)
            self.clock.lost = ""

    def _mind_next_training(self, shape: Shape, groups: Groups) -> None:
        """Behind the summary of a training another may begin, with its first epoch: its rows are counted anew."""
        if self._done is None or not (shape.dictionary and shape.training):
            return
        begun = shape.value_of("epoch", groups)
        if begun is not None and begun < self._done and not self.progress.is_drawn:
            self.clock.begun_anew()
        self._done = None
