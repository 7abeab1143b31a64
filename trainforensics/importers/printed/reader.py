"""Reads console text line by line: records, progress bars, tables, events and settings, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from trainforensics.importers.base import Config, Points, Record, Source, naive_times
from trainforensics.importers.header import named_after
from trainforensics.importers.printed.ahead import ENOUGH_BARE, Ahead
from trainforensics.importers.printed.bars import GLUED, PLAIN_BAR, Bar, endless_bar, find_bar, worded_bar
from trainforensics.importers.printed.clock import Clock, is_global
from trainforensics.importers.printed.happenings import Happenings
from trainforensics.importers.printed.naming import TRAIN
from trainforensics.importers.printed.pace import Order, Pace
from trainforensics.importers.printed.points import Collector
from trainforensics.importers.printed.sections import heading, under_evaluation
from trainforensics.importers.printed.settings import settings_of
from trainforensics.importers.printed.shapes import COUNTED_RESULT, NAME_AND_NUMBER, Shape, learn
from trainforensics.importers.printed.tables import Tables
from trainforensics.importers.printed.text import Listing, pieces, plain, records_of
from trainforensics.importers.printed.tokens import LARGEST_COUNT, count_of, prefix_of, whole_number
from trainforensics.importers.printed.unread import Unread
from trainforensics.importers.printed.wordings import in_english, other_words
from trainforensics.importers.rows.axes import logging_interval, logging_interval_beside, says_validation
from trainforensics.model import Event

# A line without a count or a result beside a number is no record; the words are a cheap look before the expression.
_WORDS = (
    "step", "iter", "epoch", "batch", "update", "s:", "train", "test", "val", "[", "loss", "acc", "ppl", "perplexity",
    "bpb", "bpc", "score", "rew", "norm", "error", "mse", "nll", "entropy", "cost", "episode", "up.", "@", "sec",
    "time", " l=", "it ", "it:", "round", "gen", "tick", "i=", "rate", "iou", "dice", "psnr", "ssim", "bleu", "auc",
    "map", "f1", "recall", "precision", "ndcg", "mrr", "wer", "cer", "fid", "rmse", "top", "rank-", "memory",
)  # fmt: skip
_HINT = re.compile(
    r"(?:step|iter|ation|epoch|episode|batch|update|\bs|train|test|val|ba|it|\bup\.)s?['\"]?(?:\([a-z]+\))?[\s:=\[(#]{0,6}\d"
    r"|(?:loss|acc|ppl|perplexity|bp[bc]|score|reward|norm|error|mse|nll|entropy|cost|psnr|ssim|bleu|dice|@\d"
    r"|\b(?:m?iou|map|f1|top-?\d|rank-\d|auc|recall|precision|ndcg|mrr|wer|cer|fid|rmse)\b)\w*['\"]?[\s:=(\[]{1,6}['\"]?(?:[-+\d.ni]|tensor\()"
    r"|\b(?:round|gen|generation|tick)\s?[:=]?\s*\d|^\s*\[\d+[\],]|^\s*\d+:?\s+[-+\d.]|[a-z_)]\s?[:=]\s?[-+]?\d.*[a-z_)]\s?[:=]\s?[-+]?\d"
    r"|\{'[\w/. -]+':\s|\bval/[\w/]+(?:: |=)|\bepoch time: \d|/s(?:ec)?: \d+\.\d"
)
# What lines of unknown names hold if they are records: "gd step 5 |", "it   20  total", "i=5 ", "| Steps = 100".
_COUNTS = re.compile(
    r"(?i:\b(?:steps?|iter(?:ation)?s?|it|itr|epochs?|rounds?|gen(?:eration)?|tick|updates?|episodes?)\b|^\s*[it](?==))"
    r"\s*[:=#\[(]{0,2}\s*\d|^\s*\[\d+/\d+\]"
)
_SUMMARY_BEGINS = re.compile(r"\*{3,}\s*(?:train|eval|predict|test) metrics")
_OPEN_DICTIONARY = re.compile(r"\{['\"][\w/ .@-]+['\"]:\s[^{}]*,\s*$")
_MEMBER = re.compile(r"(\s*['\"][\w/ .@-]+['\"]:)\s['\"]?(?:[-+]?[\d.]|nan|inf|NaN|Inf)")  # alone on a line
_LABELLED = re.compile(r"\s*[^\s\d:][^:]{0,60}:\s+[-+]?\d")
_GOES_ON = re.compile(r"\s*>{2,}\s+\w[\w /]*: [-+]?\d")  # ">>> loss_box: 0.5" under a row
_LONGEST_DICTIONARY = 100  # lines
_SUMMARY_LINE = re.compile(r"\s+\w+\s+=\s")
_LONGEST_LEAD = 120  # of what stands before a record
_LOGS = frozenset({".log", ".out"})
_NOT_RECORDS = ("wandb:", "Averaged stats")
# "WARNING - Step 5: spiky gradient (norm=2.5); skipping optimizer step": what happened, and no row of the log.
_SKIPS = re.compile(r"\bWARN(?:ING)?\b.{0,120}\bskip(?:s|ped|ping)?\b.{0,20}\b(?:step|update)s?\b")
_CONTINUED = re.compile(r"Continuing training from global step (\d+)")
_LONGEST_IDLE = 400
_MOST_SHAPES, _MOST_FRONT, _MOST_UNKNOWN = 400, 8, 20_000
_NUMBERS = re.compile(r"\d+")
_PERCENT = re.compile(r"\d{1,3}$")
_FINISHED = 0.95  # of a bar that begins again: the next epoch
_ASSIGNMENT = re.compile(r"\s*\w+ +=\s+\d+\s*$")  # "epoch = 20" may be a setting
# What a trainer says as it stops, instead of the row that would have held it: TensorFlow's hook, Keras, DETR.
_DIVERGED = re.compile(
    r"Model diverged with loss = NaN|Batch \d+: Invalid loss, terminating training|\bLoss is nan, stopping training"
)
_REPEATED = re.compile(r"best iteration is:\s*$", re.IGNORECASE)  # and LightGBM prints its row once more
# What ends with a number before a word, "the error is: 0.5 Epoch [2/5]".
_NUMBER_ENDS = re.compile(r"[:=]\s*[-+]?\d+\.?\d*(?:e[-+]?\d+)?\s?%?\s+(?=[A-Z\[])")
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
    _known: list[Shape] = field(default_factory=list)  # every shape, in the order of learning
    _front: list[Shape] = field(default_factory=list)  # plain ones, tried first
    _shapes: list[Shape] = field(default_factory=list)  # the last one used first
    _train_bars: list[Shape] = field(default_factory=list)  # of the numbers that bars show
    _held_out_bars: list[Shape] = field(default_factory=list)
    _latest: Shape | None = None  # whose last row the clock does not know yet
    _unknown: set[tuple[str, str, bool]] = field(default_factory=set)
    _idle: set[str] = field(default_factory=set)  # lines that said nothing, without their numbers
    _undecided: bool = False  # the lines that would tell whether the last is a record lie in the next block
    _settings: dict[str, Any] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _diverged: list[Points] = field(default_factory=list)  # what was said of a loss that no row holds
    _diverged_at: int | None = None  # the step before
    _bars: dict[int, int] = field(default_factory=dict)  # count by total
    _main: int | None = None  # total of the bar that counts the training's steps
    _main_seen: bool = False  # since the last printed dictionary
    _last_bar: int | None = None  # since then too
    _ended: list[tuple[int, int]] = field(default_factory=list)  # epoch and step that rows stated last
    _foreign: set[int] = field(default_factory=set)  # totals of bars that cannot be the training's
    _pace: Pace = field(default_factory=Pace)
    _bar_offset: int = 0
    _evaluated: bool = False  # since a bar with numbers was drawn
    _postfix: str = ""  # its numbers
    _bar_epoch: int | None = None  # which was under way when the bar was drawn last
    _ahead: int = 0  # steps by which the bar is ahead of the step that it declares
    _waiting: Shape | None = None  # its last row takes its step from the bar drawn next
    _order: Order = field(default_factory=Order)
    _seq: int = 0
    _interval_known: bool = False
    _header: str = ""  # what counts in the line that said the step of the lines under it
    _stated: int = -1  # the line of the last record that stated its step
    _open: list[str] = field(default_factory=list)  # the lines of a printed dictionary that is not closed yet
    _open_at: int = -1  # the number of the first of them
    _members: set[str] = field(default_factory=set)  # first lines of dictionaries that come again, to the colon
    _in_summary: bool = False
    _repeated: bool = False  # the next record was printed before
    _lines: Ahead = field(default_factory=Ahead)  # of the block
    _missing: set[frozenset[str]] = field(default_factory=set)
    _unread: Unread = field(default_factory=Unread)
    _split: str = ""  # the held-out data that came first
    _done: float | None = None  # epochs of the training whose summary came last
    _evaluating: bool = False  # under the heading of an evaluation
    _training: bool = False  # under that of the training
    _headed: bool = False  # the log has headings of the training, too

    def __post_init__(self) -> None:
        self._happenings = Happenings(self.source.label)
        self._collector = Collector(self.source.label)

    # --- lines ---------------------------------------------------------------------------------------------------

    def block(self, text: str, line: int) -> Iterator[Record]:
        """The records of a block of whole lines, of which the first has the number `line`."""
        front, alert = self._front, True
        self.begins = []
        lines = plain(text).split("\n")
        self._lines = Ahead(lines, line)
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
                    try:
                        self._line(piece, number)
                    except (ArithmeticError, LookupError, ValueError) as error:  # no line stops the others
                        self._unread.fails(number, error)
                alert = self._happenings.waits or self._repeated  # the next record must not be taken without thought
        yield from self._flush()

    def _is_idle(self, line: str) -> bool:
        """Whether a line says nothing: it differs in its numbers alone from one that said nothing."""
        if len(line) > _LONGEST_IDLE or "%|" in line or (kind := _NUMBERS.sub("#", line)) not in self._idle:
            return False
        if (self._header or self._evaluating or self._open or self._listing.inside or self._in_summary
                or self._tables.open or self._happenings.traces):  # fmt: skip
            return False
        self._unread.again(kind)
        return True

    def end(self) -> Iterator[Record]:
        """What only the end of the log decides."""
        self._catch_up(-1)
        self._line(self._tables.end(), self._stated)
        self._events += self._happenings.end(self.clock.step)
        yield from self._flush()
        if self.clock.axis is not None:
            yield self.clock.axis
        if self.clock.planned:
            self._settings.setdefault("max_steps", self.clock.planned)
        if self._settings:
            yield Config(dict(self._settings))
        yield from self._unread.warnings()
        yield from self._collector.warnings()
        if self._collector.naive or self._happenings.naive:
            yield naive_times(self.source.label)

    def _flush(self) -> Iterator[Record]:
        self._mind_restarts()
        self._pace.taken(self.clock.step or 0)
        self._order.taken()
        yield from self._collector.take(self._known)
        yield from self._diverged
        yield from self._events
        self._events, self._diverged = [], []

    def _catch_up(self, number: int) -> None:
        """Tell the clock of the last row, on the line of a number, that was taken without it."""
        shape, self._latest = self._latest, None
        if shape is not None and shape.rows:
            self.records += 1
            self._waiting = None
            self._header = shape.step_name if _GOES_ON.match(self._lines.after(number)) else ""
            if abs(step := whole_number(shape.rows[-1][shape.step - 1])) < LARGEST_COUNT:
                self.clock.declared(step, shape.step_name)

    def _line(self, line: str, number: int) -> None:
        while line and not line.isspace():
            line = self._begin(line, number)
        if self._front and self.clock.epoch is not None:
            self._mind_epochs()

    def _mind_epochs(self) -> None:
        """The log has begun to say epochs: counts may start again with each, so their rows are thought about from now.

        Those taken so far are told to the clock one by one.
        """
        for shape in self._front:
            if not is_global(shape.step_name) and (steps := shape.counts()) is not None:
                shape.steps, shape.plain = steps, False
                self.clock.before_epochs(steps, shape.step_name)
        self._front[:] = [shape for shape in self._front if shape.plain]

    def _mind_restarts(self) -> None:
        """A count that is called global may begin again with an epoch, too: from then on its rows are thought about."""
        shapes = [shape for shape in self._known if shape.plain and shape.epoch and shape.rows]
        rows: list[tuple[int, int, int, Shape]] = []  # place in the log, epoch, step
        for shape in shapes:
            counts = [(whole_number(row[shape.epoch - 1]), whole_number(row[shape.step - 1])) for row in shape.rows]
            rows += [(seq, *count, shape) for seq, count in zip(shape.seqs, counts, strict=True)]
        rows.sort(key=itemgetter(0))
        told = [*self._ended, *((epoch, step) for _, epoch, step, _ in rows)]
        if any(one[0] < two[0] and one[1] >= two[1] for one, two in pairwise(told)):
            for epoch, step in self._ended:
                self.clock.declared(step, shapes[0].step_name, epoch)
            for _, epoch, step, shape in rows:
                shape.steps.append(self.clock.declared(step, shape.step_name, epoch))
                shape.plain = False
            self._front[:] = [shape for shape in self._front if shape.plain]
        self._ended = told[-1:]

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
        for i, shape in enumerate(self._shapes):
            found = shape.pattern.match(line)
            if found is not None:
                if i:
                    self._shapes.insert(0, self._shapes.pop(i))
                self._take(shape, found.groups(), number)
                return line[found.end() :]
        return self._other(line, number)

    def _under_evaluation(self, line: str) -> str:
        """A line under the heading of an evaluation, as one of it.

        What the training prints too ends the evaluation, unless it has headings of its own; its bar that goes on does.
        """
        at = line.find("%|")
        if at >= 0 and (bar := find_bar(line, at)) is not None and 0 < self._bars.get(bar.total, 0) < bar.count:
            self._evaluating = False
            return line
        known = next((shape for shape in self._shapes if shape.pattern.match(line)), None)
        as_it_is = known or learn(line, counted=True)
        if isinstance(as_it_is, Shape) and (not as_it_is.values or as_it_is.validation or as_it_is.counted):
            return line
        if known is not None and known.training and not (self._headed and not any(map(TRAIN.search, known.names))):
            self._evaluating = False
            return line
        said = under_evaluation(line)
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
        if self._open or ("{" in line and self._opens_dictionary(line, number)):
            return self._dictionary(line, number)
        row = self._tables.line_of(line, under_count=bool(self._header))
        if row is not None or (row := endless_bar(line)) is not None:
            if not row:
                self._idle.clear()  # its rows may have been idle before the header
            return row if row != line else ""
        if (bar := worded_bar(line)) is not None:
            self._bar(bar)
            return ""
        if (said := other_words(line)) != line:
            return said
        for shape in self._shapes[:_MOST_FRONT]:
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
        for shape in self._shapes[:_MOST_FRONT]:
            at = line.find(shape.lead) if shape.lead and shape.counted else 0
            if at > 0 and _NUMBER_ENDS.search(line, 0, at + 1) and shape.pattern.match(line[at:]):
                self._line(line[:at], number)
                return line[at:]
        return None

    def _opens_dictionary(self, line: str, number: int) -> bool:
        """Whether a dictionary over several lines begins. One member a line is a row only where others follow: else
        it holds settings.
        """
        if line.strip() == "{":
            found = _MEMBER.match(self._lines.after(number))
            if found is not None and self._lines.begin_so(found[1], number) > 1:
                self._members.add(found[1])
            return found is not None and found[1] in self._members
        return _OPEN_DICTIONARY.search(line) is not None

    def _dictionary(self, line: str, number: int) -> str:
        """Gather a printed dictionary that goes over several lines, and return it once it is closed."""
        self._open_at = self._open_at if self._open else number
        self._open.append(line.strip() if self._open else line)
        if len(self._open) > _LONGEST_DICTIONARY:
            self._open = []
        if "}" not in line:
            return ""
        whole, self._open = " ".join(self._open), []
        return whole.replace("{ ", "{", 1)

    def _text(self, line: str, number: int) -> None:
        """What a line that is no record says of events and settings, and of the line under it."""
        announced = heading(line)
        announced = announced if self.records or not announced else None
        if announced is not None:
            self._headed |= not announced and self._lines.begin_so(line, number) > 1  # it comes again
            self._evaluating, self._training = announced, self._headed and not announced
        idle = announced is None and not (
            self._header or self._undecided or self._in_summary or len(line) > _LONGEST_IDLE
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

    def _diverge(self) -> None:
        """The loss was NaN at a step behind the last row: at the next one at the earliest. Each rank may say so."""
        last = next((shape for shape in reversed(self._known) if shape.training and shape.losses), None)
        if last is None or self._collector.ranked or self.clock.step in {None, self._diverged_at}:
            return
        self._diverged_at = self.clock.step
        step, seq = np.array([(self.clock.step or 0) + 1]), np.array([self._seq])
        self._diverged += [Points(last.label(name), step, np.array([np.nan]), seq) for name in sorted(last.losses)]
        self._seq += 1

    def _learns(self, line: str, number: int) -> str | None:
        """What is left to read if a line begins with a record of a new shape; None if it does not."""
        self._in_summary = bool(_SUMMARY_BEGINS.search(line) or (self._in_summary and _SUMMARY_LINE.match(line)))
        self._undecided = False
        low = line.lower()
        if self._in_summary or any(words in line[:_LONGEST_LEAD] for words in _NOT_RECORDS) or _SKIPS.search(line):
            return None
        if not (self._header or ((low[:1].isdigit() or any(word in low for word in _WORDS)) and _HINT.search(low))):
            return None
        skeleton = (_NUMBERS.sub("#", line[:160]), self._header, self.clock.step is None)
        if skeleton in self._unknown:
            return None
        learned = learn(line, header=self._header, counted=self.clock.step is not None)
        bare = COUNTED_RESULT.match(line, prefix_of(line).end)
        if (bare or not self._header) and not isinstance(learned, int):
            learned = self._doubtful(line, number, learned)
        if isinstance(learned, int) and 0 < learned < len(line):
            first, *others = records_of(line, learned)
            for record in (first, *others[:-1]):
                self._line(record, number)
            return others[-1]
        may_set = isinstance(learned, Shape) and (learned.setting or (not learned.values and _ASSIGNMENT.match(line)))
        if isinstance(learned, Shape) and may_set and not self._lines.recurs(learned, number, 2, far=True):
            learned = None
        if not isinstance(learned, Shape):
            if len(self._unknown) < _MOST_UNKNOWN and not self._undecided:
                self._unknown.add(skeleton)
            return None
        if self._training and learned.only_scores and not says_validation(line):
            learned.validation = False
        self._mind_counts(learned, line, number)
        if learned.rival and learned.plain:
            finer = learn(line, header=self._header, distrust=True)
            if isinstance(finer, Shape) and self._is_better(finer, learned, number):
                learned = finer
        learned.follows = learned.plain and self._counts_otherwise(learned, number)
        self._add(learned)
        return line

    def _counts_otherwise(self, shape: Shape, number: int) -> bool:
        """Whether a shape counts something else than the log's axis: timesteps where that counts episodes."""
        axis = self.clock.axis
        if axis is None or axis.name == shape.step_name:
            return False
        others = [known for known in self._known if known.step and known.step_name == axis.name]
        return bool(others) and self._lines.counts_otherwise(shape, others, number)

    def _mind_counts(self, shape: Shape, line: str, number: int) -> None:
        """Take a count of a new shape for what the lines around say that it is."""
        counted = shape.training and any(known.step_name == shape.step_name for known in self._known)
        still = shape.step and shape.epoch and not (counted or shape.total)
        if still and self._lines.stands_still(shape, number):
            shape.step, shape.step_name, shape.length = 0, "", shape.step
        if shape.step_name == "iteration" and line.startswith("[") and any(known.of_batches for known in self._known):
            shape.count_epochs()  # "[1] Train-accuracy=0.5"
        if shape.total and not shape.epoch and self._lines.counts_epochs(shape, number):
            shape.part_share()
        if self._counts_other_data(shape, line):
            shape.validation, shape.training, shape.plain, shape.batches = True, False, False, True

    def _counts_other_data(self, shape: Shape, line: str) -> bool:
        """Whether a shape without an epoch counts, out of another total, what those of the training count in each."""
        if not (shape.step and shape.total) or shape.epoch or shape.validation or not self.clock.out_of:
            return False
        found = shape.pattern.match(line)
        return (
            found is not None
            and count_of(found[shape.total]) != self.clock.out_of
            and any(known.epoch and known.training and known.step_name == shape.step_name for known in self._known)
        )

    def _is_better(self, finer: Shape, shape: Shape, number: int) -> bool:
        """Whether a less trusted count tells lines apart that share the other, or rises where the other does not."""
        if self._lines.tells_apart(finer.step_name, shape.step_name, number):
            return True
        return self._lines.recurs(finer, number) and not self._lines.recurs(shape, number)

    def _doubtful(self, line: str, number: int, learned: Shape | None) -> Shape | None:
        """The shape of a line that is a record only if others like it follow, and their count rises."""
        counted = COUNTED_RESULT.match(line, prefix_of(line).end)
        lone = self.clock.step is not None and NAME_AND_NUMBER.match(line)
        if counted is None and ((learned and learned.counted) or not ("{'" in line or lone or _COUNTS.search(line))):
            return learned
        shape = learn(line, trust=True)
        if not isinstance(shape, Shape):
            return learned
        if shape.rival:
            finer = learn(line, trust=True, distrust=True)
            shape = finer if isinstance(finer, Shape) and self._is_better(finer, shape, number) else shape
        if counted is None:
            found = (self._lines.recurs if shape.counted else self._lines.repeats)(shape, number)
        elif counted["bare"] or counted["beside"]:
            path = self.source.path
            said = named_after(path.name)
            of_log = counted["bare"] or said or path.suffix in _LOGS  # two columns of numbers may be anything
            found = bool(of_log) and not self.records and self._lines.recurs(shape, number, ENOUGH_BARE)
            shape.rename({"loss": said} if said else {})
        else:
            told = whole_number(counted["count"]) == self.clock.step
            found = told or self._lines.recurs(shape, number, 2, far=True)
        self._undecided = not found and self._lines.ends_before(number)
        return shape if found else learned

    def _add(self, shape: Shape) -> None:
        self._listing.over, self._listing.inside = True, False
        self._idle.clear()
        if shape.epoch and not (shape.step or shape.inner or shape.validation):
            finer = {name for known in self._known if known.step or known.inner for name in known.names}
            shape.validation = bool(finer) and shape.only_scores and finer.isdisjoint(shape.names)
            shape.rename({name: f"epoch/{name}" for name in finer})
        if shape.validation and self._split == shape.split:
            shape.split = "val"  # the only held-out data so far
        elif shape.validation and not self._split:
            self._split, shape.split = shape.split, "val"
        elif shape.validation:
            own = {name: f"{shape.split}/{name[4:]}" for name in shape.names if name.startswith("val/")}
            shape.rename(own)
        self._known.append(shape)
        shape.plain &= not (shape.validation or shape.follows)
        shape.plain &= self.clock.epoch is None or is_global(shape.step_name)
        if shape.plain and len(self._front) < _MOST_FRONT:
            self._front.append(shape)
        self._shapes.insert(0, shape)
        if len(self._shapes) > _MOST_SHAPES:
            self._shapes.pop()

    # --- records -------------------------------------------------------------------------------------------------

    def _take(self, shape: Shape, groups: tuple[str | None, ...], line: int) -> None:
        if shape.summary:
            said = "the trainer's summary of the training"
            self._events.append(Event("finish", self.clock.step, text=said, source=self.source.label, line=line))
            self._done = shape.value_of("epoch", groups)
            return
        self._mind_next_training(shape, groups)
        if self._repeated:
            self._repeated = False
            return
        shape = self._of_pass(shape, groups)
        step = (self.clock.step or 0) if shape.follows else self._step(shape, groups, line)
        if shape.counted:
            self._evaluating = shape.validation and (self._evaluating or not shape.values)
            self._training = False
            goes_on = not shape.values or _GOES_ON.match(self._lines.after(line))
            self._header = (shape.step_name or "epoch") if goes_on else ""
        if step is None:
            return
        self._events += self._happenings.reached(step)
        if not shape.values:
            return
        batches = shape.validation and (shape.batches or bool(shape.inner))
        if not batches and shape.held_out:
            self._set_apart(shape, step)
        self._evaluated |= shape.held_out
        if shape.bar:
            self._drawn_again(shape, step)
        self._append(shape, groups, step, again=batches)
        self._waiting = shape if shape.dictionary and shape.training and not shape.step else None
        if self._waiting and self._bars:
            self._order.printed(shape, step)
        if shape.dictionary and not shape.step:
            self._pace.note(shape)
        self._miss(shape, step, line)

    def _mind_next_training(self, shape: Shape, groups: tuple[str | None, ...]) -> None:
        """Behind the summary of a training another may begin, with its first epoch: its rows are counted anew."""
        if self._done is None or not (shape.dictionary and shape.training):
            return
        begun = shape.value_of("epoch", groups)
        if begun is not None and begun < self._done and not self._bars:
            self.clock.begun_anew()
        self._done = None

    def _set_apart(self, mean: Shape, step: int) -> None:
        """The batches of an evaluation are a series of their own once its mean comes under the same names."""
        labels = set(map(mean.label, mean.names))
        for shape in self._known:
            if shape.validation and (shape.batches or shape.inner) and shape.steps[-1:] == [step]:
                shape.rename({name: f"{name} (current)" for name in shape.names if shape.label(name) in labels})

    def _drawn_again(self, shape: Shape, step: int) -> None:
        """A full bar that is drawn again with more numbers, those of the evaluation, replaces the one before it."""
        for other in self._known:
            if other.bar and other is not shape and other.names < shape.names and other.steps[-1:] == [step]:
                other.rows.pop(), other.steps.pop(), other.seqs.pop()

    def _of_pass(self, shape: Shape, groups: tuple[str | None, ...]) -> Shape:
        """The shape, or its like for evaluations where the same words count a second pass after the epoch's."""
        if not (shape.inner and shape.epoch) or shape.validation:
            return shape
        count, total, epoch = (count_of(groups[group - 1]) for group in (shape.inner, shape.total, shape.epoch))
        if not self.clock.passes_again(count, total, epoch):
            return shape
        if shape.evaluating is None:
            shape.evaluating = shape.of_evaluations()
            self._known.append(shape.evaluating)
        return shape.evaluating

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
                return self._evaluated_step(shape, count_of(step), total)
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

    def _evaluated_step(self, shape: Shape, count: int, total: int) -> int:
        """The step of an evaluation that states a count."""
        if shape.batches and total and self.clock.out_of not in {0, total}:
            return self.clock.step or 0
        step = self.clock.evaluated(count, shape.step_name)
        shape.batches |= self.clock.alone
        return step

    def _unsaid_step(self, shape: Shape, line: int) -> int:
        """The step of a record that does not say it."""
        if shape.dictionary and shape.training:
            if self._stated + 1 in {line, self._open_at} and not self._bars:
                return self.clock.step or 0
            return self._printed_step(shape)
        epoch = self.clock.epoch if self.clock.by_epoch else None
        if epoch is not None and not (shape.training and self._lines.several_an_epoch(shape, line)):
            return self.clock.of_epoch(epoch)
        return self.clock.row() if shape.training and self.clock.by_row else self.clock.step or 0

    def _printed_step(self, shape: Shape) -> int:
        """The step of a printed dictionary: the bar's, else the row's."""
        if self._bars:
            drawn, self._last_bar = self._last_bar, None
            known = self._main in self._bars
            if drawn is not None and not (known and (self._main_seen or self._bars[drawn] == drawn)):
                self._main = drawn
            elif known and not self._main_seen:
                self.clock.step = self._pace.after(self.clock.step or 0, shape)
                return self.clock.step
            self._main_seen = False
            return self.clock.barred(self._bars.get(self._main or 0, 0), self._main or 0)
        if not self._interval_known:
            self._interval_known = True
            found = logging_interval(self._settings) or logging_interval_beside(self.source.path)
            self.clock.interval = found or 1
        return self.clock.step or 0 if self._pace.adds(shape) else self.clock.row()

    def _miss(self, shape: Shape, step: int, line: int) -> None:
        """Say once that a kind of record goes on without the loss that it held before."""
        if shape.training or shape.validation or not shape.step or shape.names in self._missing:
            return
        self._missing.add(shape.names)
        for other in self._known:
            lost = other.names - shape.names
            alike = other.training and other.step_name == shape.step_name and shape.names < other.names
            if alike and lost == other.losses and (other.used or other.seqs):
                text = f"a record without {', '.join(sorted(lost))}, which those before it hold"
                self._events.append(Event("missing-loss", step, text=text, source=self.source.label, line=line))
                return

    # --- progress bars -------------------------------------------------------------------------------------------

    def _bar(self, bar: Bar) -> None:
        if not bar.total:
            return
        said = bar.says_numbers
        if bar.held_out:
            if said and bar.count == bar.total:
                self._behind(bar, self.clock.step or 0)
            return
        if self._is_foreign(bar):
            return
        previous = self._bars.get(bar.total, 0)
        self._bars[bar.total] = bar.count
        self._last_bar = bar.total
        if bar.total == self._main:
            self._main_seen = True
            self._pace.drawn(bar.count)
            if self._waiting is not None and self._waiting.steps and bar.count >= self._waiting.steps[-1]:
                self._order.drawn(self._waiting, bar.count)
            self.clock.step = bar.count
        elif self._main is None and not self.records:
            self.clock.step = bar.count
        self._waiting = None
        if said:
            between = self._evaluated and bar.postfix != self._postfix
            again = bar.count < previous or (bar.count == previous and (between or self.clock.epoch != self._bar_epoch))
            self._evaluated, self._postfix = False, bar.postfix
            if again and previous >= _FINISHED * bar.total:
                self._bar_offset += bar.total
            self._bar_epoch = self.clock.epoch
            self._behind(bar, None)

    def _is_foreign(self, bar: Bar) -> bool:
        """Whether a bar that comes after rows were counted without one is not the training's: it lags behind them.

        Otherwise it tells the steps of those rows.
        """
        counted = self.clock.step or 0
        if bar.total in self._foreign:
            return True
        if self._bars or not (self.records and self.clock.axis and self.clock.by_row):
            return False
        if bar.count < counted or (bar.count == bar.total and counted < bar.total):
            self._foreign.add(bar.total)
            return True
        self._main, self.clock.axis = bar.total, None
        self.clock.barred(bar.count, bar.total)
        return False

    def _behind(self, bar: Bar, step: int | None) -> None:
        """The numbers of a bar are a record: of the step that it declares, else of the one that the bar counts."""
        found = None
        postfix = bar.postfix if bar.postfix.isascii() else in_english(bar.postfix)
        if bar.elapsed is not None and not bar.held_out:
            postfix = f"elapsed_time={bar.elapsed}, {postfix}"
        for shape in self._held_out_bars if bar.held_out else self._train_bars:
            found = shape.pattern.match(postfix)
            if found is not None:
                break
        else:
            learned = learn(postfix, bar=True)
            if not isinstance(learned, Shape):
                return
            shape, found = learned, learned.pattern.match(postfix)
            shape.validation |= bar.held_out
            (self._held_out_bars if bar.held_out else self._train_bars).append(shape)
            self._known.append(shape)
        if found is None or not shape.values:
            return
        if step is None:
            step = self._bar_step(bar, shape, found.groups())
        self._events += self._happenings.reached(step)
        self._append(shape, found.groups(), step, again=True)

    def _bar_step(self, bar: Bar, shape: Shape, groups: tuple[str | None, ...]) -> int:
        if shape.step:
            self.clock.named(shape.step_name)
        if bar.epoch is not None:
            counted = self.clock.iterated(bar.count, bar.total, bar.epoch)
        else:
            counted = self.clock.barred(bar.count + self._bar_offset, bar.total)
        if not shape.step:
            return counted
        declared = groups[shape.step - 1] or ""
        if "e" not in declared:  # else rounded: tqdm shows three digits
            self._ahead = counted - whole_number(declared)
        self.clock.step = counted - self._ahead
        return self.clock.step
