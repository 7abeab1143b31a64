"""Reads console text line by line: records, progress bars, tables, events and settings, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from trainforensics.importers.base import Config, Rank, Record, Source, naive_times
from trainforensics.importers.printed.kinds.evaluations import as_evaluation
from trainforensics.importers.printed.kinds.known import Known
from trainforensics.importers.printed.kinds.learner import Learner
from trainforensics.importers.printed.layouts.dictionaries import Dictionaries
from trainforensics.importers.printed.layouts.histories import histories_of
from trainforensics.importers.printed.layouts.tables import Tables
from trainforensics.importers.printed.points import Collector
from trainforensics.importers.printed.records.ahead import Ahead
from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.remarks.happenings import Happenings
from trainforensics.importers.printed.remarks.provenance import Provenance
from trainforensics.importers.printed.remarks.sections import Section
from trainforensics.importers.printed.remarks.settings import Settings
from trainforensics.importers.printed.remarks.trainers import announces_repeat, continued_at, says_diverged
from trainforensics.importers.printed.remarks.unread import Unread
from trainforensics.importers.printed.rows import Rows
from trainforensics.importers.printed.steps.bars import GLUED, PLAIN_BAR, Bar, endless_bar, find_bar, worded_bar
from trainforensics.importers.printed.steps.clock import Clock
from trainforensics.importers.printed.steps.progress import Progress
from trainforensics.importers.printed.steps.steps import Steps
from trainforensics.importers.printed.text.numbers import count_of
from trainforensics.importers.printed.text.plain import pieces, plain, records_of
from trainforensics.importers.printed.text.programs import Listing
from trainforensics.importers.printed.text.wordings import other_words
from trainforensics.importers.rows.axes import says_validation

_MOST_REWORDED = 8  # times in a row that a line is read as another one that is no shorter
_PERCENT = re.compile(r"\d{1,3}$")


@dataclass(slots=True, eq=False)
class Reader:
    """What is known of one log, passed from line to line.

    `begins`: the number (`seq`) that the next row had at each line of the last block.
    """

    source: Source
    begins: list[int] = field(default_factory=list)
    _lines: Ahead = field(default_factory=Ahead)  # of the block
    _clock: Clock = field(default_factory=Clock)
    _listing: Listing = field(default_factory=Listing)
    _tables: Tables = field(default_factory=Tables)
    _dictionaries: Dictionaries = field(default_factory=Dictionaries)
    _section: Section = field(default_factory=Section)
    _settings: Settings = field(default_factory=Settings)
    _unread: Unread = field(default_factory=Unread)
    _provenance: Provenance = field(default_factory=Provenance)
    _happenings: Happenings = field(init=False)
    _collector: Collector = field(init=False)
    _progress: Progress = field(init=False)
    _known: Known = field(init=False)
    _learner: Learner = field(init=False)
    _steps: Steps = field(init=False)
    _rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        path, label, lines, clock = self.source.path, self.source.label, self._lines, self._clock
        self._happenings = Happenings(label)
        self._collector = Collector(label)
        self._progress = Progress(clock)
        self._known = Known(clock)
        self._learner = Learner(path, lines, self._known, self._unread)
        self._steps = Steps(path, lines, self._settings, self._dictionaries, clock, self._progress)
        self._rows = Rows(
            lines, clock, self._known, self._progress, self._steps, self._section, self._happenings, self._collector
        )

    @property
    def records(self) -> int:
        """How many records were found."""
        return self._rows.found

    @property
    def stated(self) -> int:
        """How many settings were found."""
        return len(self._settings.found)

    def block(self, text: str, line: int) -> Iterator[Record]:
        """The records of a block of whole lines, of which the first has the number `line`."""
        rows, front, alert = self._rows, self._known.front, True
        self.begins = []
        lines = plain(text).split("\n")
        self._lines.turn_to(lines, line)
        for number, whole in enumerate(lines, line):
            self.begins.append(rows.seq)
            for shape in () if alert else front:  # a further row of a plain shape; the clock is told later
                found = shape.pattern.match(whole)
                if found is not None:
                    shape.rows.append(found.groups())
                    shape.seqs.append(rows.seq)
                    rows.seq += 1
                    rows.latest = shape
                    break
            else:
                if rows.latest is not None:
                    self._catch_up(number - 1)
                if (kind := self._unread.idle_kind(whole)) and not self._is_open():
                    self._unread.again(kind)
                    continue
                for piece in pieces(whole):
                    self._piece(piece, number)
                alert = self._happenings.waits or rows.repeats  # the next record must not be taken without thought
        if rows.latest is not None:
            self._catch_up(line + len(lines) - 1)
        self._provenance.look(text, lines, [*self.begins, rows.seq])
        yield from self._flush()

    def end(self) -> Iterator[Record]:
        """What only the end of the log decides."""
        self._piece(self._tables.end(), self._steps.stated)
        self._happenings.end(self._clock.step)
        yield from self._flush()
        if self._clock.axis is not None:
            yield self._clock.axis
        if self._clock.planned:
            self._settings.found.setdefault("max_steps", self._clock.planned)
        if self._settings.found:
            yield Config(dict(self._settings.found))
        if (rank := self._collector.rank) is not None:
            yield Rank(rank)
        yield from self._unread.warnings()
        yield from self._collector.warnings()
        if self._collector.naive or self._happenings.naive:
            yield naive_times(self.source.label)

    def _flush(self) -> Iterator[Record]:
        points = list(self._rows.points())
        yield from points
        yield from self._provenance.batches(points)
        yield from self._happenings.take()

    def _catch_up(self, number: int) -> None:
        """The row on the line of a number was the last one that was taken without thought."""
        self._listing.end()
        self._rows.catch_up(number)
        self._steps.stated = number

    def _is_open(self) -> bool:
        """Whether something has begun to which any line may belong."""
        return bool(
            self._section.count
            or self._section.evaluating
            or self._dictionaries.open
            or self._listing.inside
            or self._learner.in_summary
            or self._tables.open
            or self._happenings.traces
        )

    # --- a line --------------------------------------------------------------------------------------------------

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
        if self._known.front and self._clock.epoch is not None:
            self._known.mind_epochs()

    def _begin(self, line: str, number: int) -> str:
        """Read what a line begins with; what is left of it."""
        if self._section.evaluating:
            line = as_evaluation(line, self._section, self._known, self._progress)
        at = line.find("%|")
        if at >= 0 and (found := PLAIN_BAR.match(line)) is not None:
            self._rows.take_bar(Bar(0, 0, count_of(found[1]), count_of(found[2])))
            return ""
        if at >= 0 and (bar := find_bar(line, at)) is not None:
            self._around_bar(line, bar, number)
            return ""
        if (known := self._known.match(line)) is not None:
            shape, found = known
            self._take(shape, found, number)
            return line[found.end() :]
        return self._other(line, number)

    def _take(self, shape: Shape, found: re.Match[str], number: int) -> None:
        self._listing.end()
        self._rows.take(shape, found.groups(), number)

    def _around_bar(self, line: str, bar: Bar, number: int) -> None:
        """A progress bar with what stands before and behind it."""
        before, after = line[: bar.start], line[bar.end :]
        if self._tables.has_header and (row := self._tables.line_of(_PERCENT.sub("", line[: bar.percent]))):
            if bar.count == bar.total:
                self._line(row, number)
        elif before and not before.isspace():
            self._line(before, number)
        if not bar.postfix and GLUED.fullmatch(after):
            bar, after = replace(bar, postfix=after), ""
        self._rows.take_bar(bar)
        if after and not after.isspace():
            self._line(after, number)

    def _other(self, line: str, number: int) -> str:
        """A line of no known shape: a record of a new shape, part of a table, or text. What is left of it."""
        if self._listing.holds(line) and not (self._listing.may_end_with(line) and isinstance(learn(line), Shape)):
            return ""
        if self._dictionaries.holds(line, number, self._lines):
            return self._dictionaries.gather(line, number)
        if (row := self._as_row(line)) is not None:
            return row
        if self._holds_all_at_once(line):
            return ""
        if (said := other_words(line)) != line:
            return said
        rest = self._nearly_known(line, number)
        if rest is not None or (rest := self._learns(line, number)) is not None:
            return rest
        self._section.text(line)
        self._text(line, number)
        return ""

    def _as_row(self, line: str) -> str | None:
        """A row of a table, or a bar without an end, in other words; empty where more lines belong to it, or none of
        it is a row."""
        row = self._tables.line_of(line, under_count=bool(self._section.count))
        if row is None and (row := endless_bar(line)) is None:
            return None
        if not row:
            self._unread.forget_idle()  # its rows may have been idle before the header
        return row if row != line else ""

    def _holds_all_at_once(self, line: str) -> bool:
        """Whether a line is a bar in words, or a whole curve."""
        if (bar := worded_bar(line)) is not None:
            self._rows.take_bar(bar)
            return True
        if curves := histories_of(line):
            self._rows.tell(curves)
        return bool(curves)

    def _nearly_known(self, line: str, number: int) -> str | None:
        """A record of a known shape with words for numbers, or behind what ends with a number; None without."""
        if (worded := self._known.match_with_words(line)) is not None:
            self._take(*worded, number)
            return ""
        if (at := self._known.behind(line)) is not None:
            self._line(line[:at], number)
            return line[at:]
        return None

    def _learns(self, line: str, number: int) -> str | None:
        """What is left to read if a line begins with a record of a new shape; None if it does not."""
        header = self._section.count
        learned = self._learner.learn(line, number, header, begun=self.records > 0)
        if isinstance(learned, int):
            first, *others = records_of(line, learned)
            for record in (first, *others[:-1]):
                self._line(record, number)
            return others[-1]
        if learned is None:
            return None
        if self._section.training and learned.only_scores and not says_validation(line):
            learned.validation = False
        if self._section.evaluating and learned.counted and learned.tells_scores:
            learned.be_evaluation()
        self._listing.end()
        self._unread.forget_idle()
        self._known.add(self._learner.mind_others(learned, line, number, header))
        return line

    def _text(self, line: str, number: int) -> None:
        """What a line that is no record says of events and settings, and of the line under it."""
        begun = self.records > 0
        says = self._section.look(line, number, self._lines, begun=begun)
        self._happenings.look(line, number, self._clock.here)
        says |= self._settings.look(line, begun=begun) or self._happenings.found
        if says_diverged(line):
            self._rows.diverge()
            says = True
        self._rows.repeats = announces_repeat(line)
        if (step := continued_at(line)) is not None:
            self._clock.continued(step)
            says = True
        says |= self._rows.repeats or self._learner.undecided or self._learner.in_summary or bool(self._section.count)
        if not says:
            self._unread.note(number, line)
