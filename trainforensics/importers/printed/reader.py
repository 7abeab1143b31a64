"""Reads console text line by line: records, progress bars, tables, events and settings, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import Config, Points, Rank, Record, Source, naive_times
from trainforensics.importers.printed.kinds.known import MOST_FRONT, Known
from trainforensics.importers.printed.kinds.learner import Learner, may_be_record
from trainforensics.importers.printed.layouts.dictionaries import Dictionaries
from trainforensics.importers.printed.layouts.histories import histories_of
from trainforensics.importers.printed.layouts.tables import Tables
from trainforensics.importers.printed.points import Collector
from trainforensics.importers.printed.records.ahead import Ahead
from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.remarks.happenings import Happenings
from trainforensics.importers.printed.remarks.sections import heading, under_evaluation
from trainforensics.importers.printed.remarks.settings import settings_of
from trainforensics.importers.printed.remarks.unread import Unread
from trainforensics.importers.printed.steps.bars import GLUED, PLAIN_BAR, Bar, endless_bar, find_bar, worded_bar
from trainforensics.importers.printed.steps.clock import Clock
from trainforensics.importers.printed.steps.progress import Progress
from trainforensics.importers.printed.text.numbers import LARGEST_COUNT, count_of, whole_number
from trainforensics.importers.printed.text.plain import pieces, plain, records_of
from trainforensics.importers.printed.text.programs import Listing
from trainforensics.importers.printed.text.vocabulary import TRAIN
from trainforensics.importers.printed.text.wordings import other_words
from trainforensics.importers.rows.axes import logging_interval, logging_interval_beside, says_validation
from trainforensics.model import Event

_SUMMARY_BEGINS = re.compile(r"\*{3,}\s*(?:train|eval|predict|test) metrics")
_LABELLED = re.compile(r"\s*[^\s\d:][^:]{0,60}:\s+[-+]?\d")
_GOES_ON = re.compile(r"\s*>{2,}\s+\w[\w /]*: [-+]?\d")  # ">>> loss_box: 0.5" under a row
_SUMMARY_LINE = re.compile(r"\s+\w+\s+=\s")
_LONGEST_LEAD = 120  # of what stands before a record
_NOT_RECORDS = ("wandb:", "Averaged stats")
# "WARNING - Step 5: spiky gradient (norm=2.5); skipping optimizer step": what happened, and no row of the log.
_SKIPS = re.compile(r"\bWARN(?:ING)?\b.{0,120}\bskip(?:s|ped|ping)?\b.{0,20}\b(?:step|update)s?\b")
_CONTINUED = re.compile(r"Continuing training from global step (\d+)")
_LONGEST_IDLE = 400
_MOST_UNKNOWN = 20_000
_MOST_SHAPES = 1_000  # each costs milliseconds to learn, and no trainer prints so many kinds of records
_MOST_REWORDED = 8  # times in a row that a line is read as another one that is no shorter
_NUMBERS = re.compile(r"\d+")
_PERCENT = re.compile(r"\d{1,3}$")
# What a trainer says as it stops, instead of the row that would have held it: TensorFlow's hook, Keras, DETR.
_DIVERGED = re.compile(
    r"Model diverged with loss = NaN|Batch \d+: Invalid loss, terminating training|\bLoss is nan, stopping training"
)
_REPEATED = re.compile(r"best iteration is:\s*$", re.IGNORECASE)  # and LightGBM prints its row once more
# What ends with a number before a word, "the error is: 0.5 Epoch [2/5]".
_NUMBER_ENDS = re.compile(r"[:=]\s*[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?\s?%?\s+(?=[A-Z\[])")
_BOX_RULER = re.compile(r"\s*[-=]{10,}\s*$")


@dataclass(slots=True, eq=False)
class Reader:
    """State that runs through one log.

    `records`: how many were found. `begins`: the number (`seq`) that the next row had at each line of the last block.
    """

    source: Source
    clock: Clock = field(default_factory=Clock)
    records: int = 0
    begins: list[int] = field(default_factory=list)
    _happenings: Happenings = field(init=False)
    _collector: Collector = field(init=False)
    _listing: Listing = field(default_factory=Listing)
    _tables: Tables = field(default_factory=Tables)
    _known: Known = field(init=False)
    _learner: Learner = field(init=False)
    _progress: Progress = field(init=False)
    _latest: Shape | None = None  # whose last row the clock does not know yet
    _unknown: set[tuple[str, str, bool]] = field(default_factory=set)
    _idle: set[str] = field(default_factory=set)  # lines that said nothing, without their numbers
    _settings: dict[str, Any] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _diverged: list[Points] = field(default_factory=list)  # what was said of a loss that no row holds
    _diverged_at: int | None = None  # the step before
    _seq: int = 0
    _interval_known: bool = False
    _dictionaries: Dictionaries = field(default_factory=Dictionaries)
    _header: str = ""  # what counts in the line that said the step of the lines under it
    _stated: int = -1  # the line of the last record that stated its step
    _in_summary: bool = False
    _repeated: bool = False  # the next record was printed before
    _lines: Ahead = field(default_factory=Ahead)  # of the block
    _unread: Unread = field(default_factory=Unread)
    _done: float | None = None  # epochs of the training whose summary came last
    _evaluating: bool = False  # under the heading of an evaluation
    _training: bool = False  # under that of the training
    _headed: bool = False  # the log has headings of the training, too
    _told: bool = False  # the log prints whole curves
    _in_turn: set[int] = field(default_factory=set)  # the kinds of records of the last row that was counted

    def __post_init__(self) -> None:
        self._happenings = Happenings(self.source.label)
        self._collector = Collector(self.source.label)
        self._known = Known(self.clock)
        self._learner = Learner(self.source.path, self._known)
        self._progress = Progress(self.clock)

    @property
    def stated(self) -> int:
        """How many settings were found."""
        return len(self._settings)

    # --- lines ---------------------------------------------------------------------------------------------------

    def block(self, text: str, line: int) -> Iterator[Record]:
        """The records of a block of whole lines, of which the first has the number `line`."""
        front, alert = self._known.front, True
        self.begins = []
        lines = plain(text).split("\n")
        self._lines = self._learner.lines = Ahead(lines, line)
        for number, whole in enumerate(lines, line):
            self.begins.append(self._seq)
            for shape in () if alert else front:  # a further row of a plain shape; the clock is told later
                found = shape.pattern.match(whole)
                if found is not None:
                    shape.rows.append(found.groups())
                    shape.seqs.append(self._seq)
                    self._seq += 1
                    self._latest = shape
                    break
            else:
                if self._latest is not None:
                    self._catch_up(number - 1)
                    self._stated = number - 1
                if self._idle and self._is_idle(whole):
                    continue
                for piece in pieces(whole):
                    self._piece(piece, number)
                alert = self._happenings.waits or self._repeated  # the next record must not be taken without thought
        yield from self._flush()

    def _is_idle(self, line: str) -> bool:
        """Whether a line says nothing: it differs in its numbers alone from one that said nothing."""
        if len(line) > _LONGEST_IDLE or "%|" in line or (kind := _NUMBERS.sub("#", line)) not in self._idle:
            return False
        if (self._header or self._evaluating or self._dictionaries.open or self._listing.inside or self._in_summary
                or self._tables.open or self._happenings.traces):  # fmt: skip
            return False
        self._unread.again(kind)
        return True

    def end(self) -> Iterator[Record]:
        """What only the end of the log decides."""
        self._catch_up(-1)
        self._piece(self._tables.end(), self._stated)
        self._events += self._happenings.end(self.clock.step)
        yield from self._flush()
        if self.clock.axis is not None:
            yield self.clock.axis
        if self.clock.planned:
            self._settings.setdefault("max_steps", self.clock.planned)
        if self._settings:
            yield Config(dict(self._settings))
        if (rank := self._collector.rank) is not None:
            yield Rank(rank)
        yield from self._unread.warnings()
        yield from self._collector.warnings()
        if self._collector.naive or self._happenings.naive:
            yield naive_times(self.source.label)

    def _flush(self) -> Iterator[Record]:
        self._known.mind_restarts()
        self._mind_lost_count(self.clock.step, None)
        self._progress.taken()
        yield from self._collector.take(self._known.every)
        yield from self._diverged
        yield from self._events
        self._events, self._diverged = [], []

    def _catch_up(self, number: int) -> None:
        """Tell the clock of the last row, on the line of a number, that was taken without it."""
        shape, self._latest = self._latest, None
        if shape is not None and shape.rows:
            self.records += 1
            self._listing.end()
            self._progress.counted_row()
            self._header = shape.step_name if _GOES_ON.match(self._lines.after(number)) else ""
            if abs(step := whole_number(shape.rows[-1][shape.step - 1])) < LARGEST_COUNT:
                self.clock.declared(step, shape.step_name)

    def _piece(self, piece: str, number: int) -> None:
        try:
            self._line(piece, number)
        except (ArithmeticError, LookupError, RecursionError, ValueError, re.error) as error:  # none stops the others
            self._unread.fails(number, error)

    def _line(self, line: str, number: int) -> None:
        reworded = 0
        while line and not line.isspace() and reworded < _MOST_REWORDED:
            rest = self._begin(line, number)
            reworded = reworded + 1 if len(rest) >= len(line) else 0
            line = rest
        if reworded >= _MOST_REWORDED:
            self._text(line, number)  # counted among what was not read
        if self._known.front and self.clock.epoch is not None:
            self._known.mind_epochs()

    def _begin(self, line: str, number: int) -> str:
        """Read what a line begins with; what is left of it."""
        if self._evaluating:
            line = self._under_evaluation(line)
        at = line.find("%|")
        if at >= 0 and (found := PLAIN_BAR.match(line)) is not None:
            self._bar(Bar(0, 0, count_of(found[1]), count_of(found[2])))
            return ""
        if at >= 0 and (bar := find_bar(line, at)) is not None:
            self._bar_line(line, bar, number)
            return ""
        if (known := self._known.match(line)) is not None:
            shape, found = known
            self._take(shape, found.groups(), number)
            return line[found.end() :]
        return self._other(line, number)

    def _under_evaluation(self, line: str) -> str:
        """A line under the heading of an evaluation, as one of it.

        What the training prints too ends the evaluation, unless it has headings of its own; its bar that goes on does.
        """
        at = line.find("%|")
        if at >= 0 and (bar := find_bar(line, at)) is not None and self._progress.goes_on(bar):
            self._evaluating = False
            return line
        known = next((shape for shape in self._known.recent if shape.pattern.match(line)), None)
        said = under_evaluation(line)
        if known is None and any(shape.validation and shape.pattern.match(said) for shape in self._known.recent):
            return said
        if known is None and (len(self._known.every) >= _MOST_SHAPES or not (self._header or may_be_record(said))):
            return line
        as_it_is = known or learn(line, counted=True)
        if isinstance(as_it_is, Shape) and (not as_it_is.values or as_it_is.validation or as_it_is.counted):
            return line
        if known is not None and known.training and not (self._headed and not any(map(TRAIN.search, known.names))):
            self._evaluating = False
            return line
        return said if isinstance(learn(said, counted=True), Shape) else line

    def _bar_line(self, line: str, bar: Bar, number: int) -> None:
        """A progress bar with what stands before and behind it."""
        before, after = line[: bar.start], line[bar.end :]
        if self._tables.has_header and (row := self._tables.line_of(_PERCENT.sub("", line[: bar.percent]))):
            if bar.count == bar.total:
                self._line(row, number)
        elif before and not before.isspace():
            self._line(before, number)
        if not bar.postfix and GLUED.fullmatch(after):
            bar, after = replace(bar, postfix=after), ""
        self._bar(bar)
        if after and not after.isspace():
            self._line(after, number)

    def _other(self, line: str, number: int) -> str:
        """A line of no known shape: a record of a new shape, part of a table, or text. What is left of it."""
        if self._listing.holds(line) and not (self._listing.may_end_with(line) and isinstance(learn(line), Shape)):
            return ""
        if self._dictionaries.holds(line, number, self._lines):
            return self._dictionaries.gather(line, number)
        row = self._tables.line_of(line, under_count=bool(self._header))
        if row is not None or (row := endless_bar(line)) is not None:
            if not row:
                self._idle.clear()  # its rows may have been idle before the header
            return row if row != line else ""
        bar, curves = worded_bar(line), histories_of(line)
        if bar is not None:
            self._bar(bar)
        elif curves:
            self._tell(curves)
        if bar is not None or curves:
            return ""
        if (said := other_words(line)) != line:
            return said
        for shape in self._known.recent[:MOST_FRONT]:
            if (found := shape.match_with_words(line)) is not None:
                self._take(shape, found.groups(), number)
                return ""
        if (rest := self._known_behind(line, number) or self._learns(line, number)) is not None:
            return rest
        if self._header and not (_LABELLED.match(line) or _BOX_RULER.match(line)):
            self._header = ""
        self._text(line, number)
        return ""

    def _known_behind(self, line: str, number: int) -> str | None:
        """The record of a known shape behind what ends with a number of its own, which is read first; None without."""
        if _NUMBER_ENDS.search(line) is None:
            return None
        for shape in self._known.recent[:MOST_FRONT]:
            at = line.find(shape.lead) if shape.lead and shape.counted else 0
            if at > 0 and _NUMBER_ENDS.search(line, 0, at + 1) and shape.pattern.match(line[at:]):
                self._line(line[:at], number)
                return line[at:]
        return None

    def _text(self, line: str, number: int) -> None:
        """What a line that is no record says of events and settings, and of the line under it."""
        announced = heading(line)
        self._training &= not announced
        announced = announced if self.records or not announced else None
        if announced is not None:
            said = _NUMBERS.split(line, maxsplit=1)[0] or line
            self._headed |= not announced and self._lines.begin_so(said, number) > 1  # it comes again
            self._evaluating, self._training = announced, self._headed and not announced
        idle = announced is None and not (
            self._header or self._learner.undecided or self._in_summary or len(line) > _LONGEST_IDLE
        )
        self._events += self._happenings.look(line, number, self.clock.here)
        if (not self.records or "=" in line or " .." in line) and (stated := settings_of(line, len(self._settings))):
            self._settings = {**stated, **self._settings}
            idle = False
        if "loss" in line.lower() and _DIVERGED.search(line):
            self._diverge()
            idle = False
        self._repeated = _REPEATED.search(line) is not None
        idle &= not self._repeated
        if (found := _CONTINUED.search(line)) is not None:
            self.clock.continued(count_of(found[1]))
            idle = False
        if idle and not self._happenings.found and len(self._idle) < _MOST_UNKNOWN:
            self._idle.add(kind := _NUMBERS.sub("#", line))
            self._unread.note(kind, number, line)

    def _tell(self, curves: Mapping[str, NDArray[np.float64]]) -> None:
        """Curves that are printed at once, row by row; behind rows of the log they say again what those said."""
        if self.records and not self._told:
            return
        self._told = True
        rows = len(next(iter(curves.values())))
        self.clock.row()
        step, seq = np.arange(1, rows + 1), np.arange(self._seq, self._seq + rows)
        self._diverged += [Points(name, step, curve, seq) for name, curve in curves.items()]
        self._seq += rows
        self.records += rows

    def _diverge(self) -> None:
        """The loss was NaN at a step behind the last row: at the next one at the earliest. Each rank may say so."""
        last = next((shape for shape in reversed(self._known.every) if shape.training and shape.losses), None)
        if last is None or self._collector.ranked or self.clock.step in {None, self._diverged_at}:
            return
        self._diverged_at = self.clock.step
        step, seq = np.array([(self.clock.step or 0) + 1]), np.array([self._seq])
        self._diverged += [Points(last.label(name), step, np.array([np.nan]), seq) for name in sorted(last.losses)]
        self._seq += 1

    def _learns(self, line: str, number: int) -> str | None:
        """What is left to read if a line begins with a record of a new shape; None if it does not."""
        self._in_summary = bool(_SUMMARY_BEGINS.search(line) or (self._in_summary and _SUMMARY_LINE.match(line)))
        self._learner.undecided = False
        if self._in_summary or any(words in line[:_LONGEST_LEAD] for words in _NOT_RECORDS) or _SKIPS.search(line):
            return None
        skeleton = (_NUMBERS.sub("#", line[:160]), self._header, self.clock.step is None)
        if not (self._header or may_be_record(line)) or skeleton in self._unknown:
            return None
        if len(self._known.every) >= _MOST_SHAPES:
            self._unread.of_too_many(number)
            return None
        learned = self._learner.shape_of(line, number, self._header, begun=self.records > 0)
        if isinstance(learned, int) and 0 < learned < len(line):
            first, *others = records_of(line, learned)
            for record in (first, *others[:-1]):
                self._line(record, number)
            return others[-1]
        if not isinstance(learned, Shape):
            if len(self._unknown) < _MOST_UNKNOWN and not self._learner.undecided:
                self._unknown.add(skeleton)
            return None
        if self._training and learned.only_scores and not says_validation(line):
            learned.validation = False
        self._listing.end()
        self._idle.clear()
        self._known.add(self._learner.mind_others(learned, line, number, self._header))
        return line

    # --- records -------------------------------------------------------------------------------------------------

    def _take(self, shape: Shape, groups: tuple[str | None, ...], line: int) -> None:
        self._listing.end()
        if shape.summary:
            said = "the trainer's summary of the training"
            self._events.append(Event("finish", self.clock.step, text=said, source=self.source.label, line=line))
            self._done = shape.value_of("epoch", groups)
            return
        self._mind_next_training(shape, groups)
        if self._repeated:
            self._repeated = False
            return
        shape = self._known.of_pass(shape, groups)
        if shape.plain and shape.epoch:
            self._known.mind_restart(shape, groups)
        self._mind_batches(shape, groups)
        step = (self.clock.step or 0) if shape.follows else self._step(shape, groups, line)
        if shape.counted:
            self._evaluating = shape.validation and (self._evaluating or not shape.values)
            self._training = False
            self._headed |= not (shape.values or shape.validation) and TRAIN.search(shape.lead) is not None
            goes_on = not shape.values or _GOES_ON.match(self._lines.after(line))
            self._header = (shape.step_name or "epoch") if goes_on else ""
        if step is None:
            return
        self._mind_lost_count(step, line)
        self._events += self._happenings.reached(step)
        if not shape.values:
            return
        batches = shape.validation and (shape.batches or bool(shape.inner))
        if not batches and shape.held_out:
            self._known.set_apart(shape, step)
        if shape.bar:
            self._known.drawn_again(shape, step)
        self._append(shape, groups, step, again=batches or shape.timed)
        self._progress.row(shape, step)
        if lost := self._known.loss_left_out(shape):
            text = f"a record without {', '.join(sorted(lost))}, which those before it hold"
            self._events.append(Event("missing-loss", step, text=text, source=self.source.label, line=line))

    def _mind_lost_count(self, step: int | None, line: int | None) -> None:
        if self.clock.lost:
            text = f"{self.clock.lost}: it was not restored, and is counted on here"
            self._events.append(Event("counter-restart", step, text=text, source=self.source.label, line=line))
            self.clock.lost = ""

    def _mind_next_training(self, shape: Shape, groups: tuple[str | None, ...]) -> None:
        """Behind the summary of a training another may begin, with its first epoch: its rows are counted anew."""
        if self._done is None or not (shape.dictionary and shape.training):
            return
        begun = shape.value_of("epoch", groups)
        if begun is not None and begun < self._done and not self._progress.is_drawn:
            self.clock.begun_anew()
        self._done = None

    def _mind_batches(self, shape: Shape, groups: tuple[str | None, ...]) -> None:
        """Decide by its first row behind one of the training whose iterations an evaluation without an epoch counts."""
        if not (shape.validation and shape.inner) or shape.epoch or shape.batches:
            return
        count, total = (count_of(groups[group - 1]) for group in (shape.inner, shape.total))
        if self.clock.counts_on(count, total):
            shape.state_step()
        else:
            shape.batches = self.clock.iterates

    def _append(self, shape: Shape, groups: tuple[str | None, ...], step: int, *, again: bool) -> None:
        """Add a row. `again`: progress that is written again and again, of which the last row of a step counts."""
        self.records += 1
        if again and shape.steps and shape.steps[-1] == step:
            shape.rows[-1] = groups
            return
        shape.rows.append(groups)
        if not shape.plain:
            shape.steps.append(step)
        shape.seqs.append(self._seq)
        self._seq += 1

    def _step(self, shape: Shape, groups: tuple[str | None, ...], line: int) -> int | None:
        """The record's step; None for one that is to be left out."""
        epoch = count_of(groups[shape.epoch - 1]) if shape.epoch else None
        piece = count_of(groups[shape.piece - 1]) if shape.piece else 0
        total = count_of(groups[shape.total - 1]) if shape.total else 0
        if shape.length:
            self.clock.epoch_has(count_of(groups[shape.length - 1]))
        if shape.step:
            total = 0 if shape.inner else total
            self._stated = line
            step = groups[shape.step - 1]
            if shape.plain and abs(whole_number(step)) == LARGEST_COUNT:
                self.clock.named(shape.step_name)
                return self.clock.step or 0  # what its rows have instead is decided with the others
            if shape.validation:
                return self._evaluated_step(shape, count_of(step), total, epoch)
            return self.clock.declared(count_of(step), shape.step_name, epoch, total, piece)
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
            if self._stated + 1 in {line, self._dictionaries.at} and not self._progress.is_drawn:
                return self.clock.step or 0
            return self._printed_step(shape)
        epoch = self.clock.epoch if self.clock.by_epoch else None
        if epoch is not None and not (shape.training and self._lines.several_an_epoch(shape, line)):
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
        if self._progress.is_drawn:
            return self._progress.step_beside(shape)
        if not self._interval_known:
            self._interval_known = True
            found = logging_interval(self._settings) or logging_interval_beside(self.source.path)
            self.clock.interval = found or 1
        return self.clock.step or 0 if self._progress.adds(shape) else self.clock.row()

    # --- progress bars -------------------------------------------------------------------------------------------

    def _bar(self, bar: Bar) -> None:
        """Its numbers are a record: of an evaluation where it is full, else of the step that it counts or declares."""
        if not bar.total:
            return
        if not (bar.count == bar.total if bar.held_out else self._progress.draw(bar, begun=self.records > 0)):
            return
        learned = self._progress.shape_of(bar) if bar.says_numbers else None
        if learned is None:
            return
        shape, groups, is_new = learned
        if is_new:
            self._known.every.append(shape)
        if not shape.values:
            return
        step = (self.clock.step or 0) if bar.held_out else self._progress.step_of(bar, shape, groups)
        self._events += self._happenings.reached(step)
        self._append(shape, groups, step, again=True)
