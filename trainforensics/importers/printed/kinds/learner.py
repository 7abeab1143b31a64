"""New kinds of record: whether a line is one, and what its counts count, by the lines that follow and those known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from trainforensics.importers.header import named_after
from trainforensics.importers.printed.kinds.known import Known
from trainforensics.importers.printed.records.ahead import ENOUGH_BARE, Ahead
from trainforensics.importers.printed.records.bare import COUNTED_RESULT, NAME_AND_NUMBER
from trainforensics.importers.printed.records.hints import may_be_record
from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.remarks.unread import Unread
from trainforensics.importers.printed.text.numbers import count_of, whole_number
from trainforensics.importers.printed.text.prefix import prefix_of

# What lines of unknown names hold if they are records: "gd step 5 |", "it   20  total", "i=5 ", "| Steps = 100".
_COUNTS = re.compile(
    r"(?i:\b(?:steps?|iter(?:ation)?s?|it|itr|epochs?|rounds?|gen(?:eration)?|tick|updates?|episodes?)\b|^\s*[it](?==))"
    r"\s*[:=#\[(]{0,2}\s*\d|^\s*\[\d+/\d+\]"
)
_ASSIGNMENT = re.compile(r"\s*\w+ +=\s+\d+\s*$")  # "epoch = 20" may be a setting
_LOGS = frozenset({".log", ".out"})
_SUMMARY_BEGINS = re.compile(r"\*{3,}\s*(?:train|eval|predict|test) metrics")
_SUMMARY_LINE = re.compile(r"\s+\w+\s+=\s")
_NOT_RECORDS = ("wandb:", "Averaged stats")
_LONGEST_LEAD = 120  # of what stands before a record
# "WARNING - Step 5: spiky gradient (norm=2.5); skipping optimizer step": what happened, and no row of the log.
_SKIPS = re.compile(r"\bWARN(?:ING)?\b.{0,120}\bskip(?:s|ped|ping)?\b.{0,20}\b(?:step|update)s?\b")
_MOST_UNKNOWN, _LONGEST_SKELETON = 20_000, 160
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True, eq=False)
class Learner:
    """`undecided`: the lines that would tell of the last one lie in the next block; `in_summary`: among the results
    that a trainer prints at its end, one a line.
    """

    path: Path
    lines: Ahead
    known: Known
    unread: Unread
    undecided: bool = False
    in_summary: bool = False
    _unknown: set[tuple[str, str, bool]] = field(default_factory=set)  # beginnings of lines that are no records

    def learn(self, line: str, number: int, header: str, *, begun: bool) -> Shape | int | None:
        """The shape of a line under a header, once the log has `begun`, or not; where its second record begins, if it
        holds several; None if it is no record."""
        self.in_summary = bool(_SUMMARY_BEGINS.search(line) or (self.in_summary and _SUMMARY_LINE.match(line)))
        self.undecided = False
        if self.in_summary or any(words in line[:_LONGEST_LEAD] for words in _NOT_RECORDS) or _SKIPS.search(line):
            return None
        skeleton = (_NUMBERS.sub("#", line[:_LONGEST_SKELETON]), header, self.known.clock.step is None)
        if not (header or may_be_record(line)) or skeleton in self._unknown:
            return None
        if self.known.full:
            self.unread.of_too_many(number)
            return None
        learned = self._shape_of(line, number, header, begun=begun)
        if isinstance(learned, Shape) or (learned is not None and 0 < learned < len(line)):
            return learned
        if len(self._unknown) < _MOST_UNKNOWN and not self.undecided:
            self._unknown.add(skeleton)
        return None

    def mind_others(self, shape: Shape, line: str, number: int, header: str) -> Shape:
        """The shape with its counts taken for what the lines around say that they are."""
        self._mind_counts(shape, line, number)
        if shape.rival and shape.plain:
            finer = learn(line, header=header, distrust=True)
            if isinstance(finer, Shape) and self._is_better(finer, shape, number):
                shape = finer
        shape.follows = shape.plain and self._counts_otherwise(shape, number)
        return shape

    def _shape_of(self, line: str, number: int, header: str, *, begun: bool) -> Shape | int | None:
        learned = learn(line, header=header, counted=self.known.clock.step is not None)
        bare = COUNTED_RESULT.match(line, prefix_of(line).end)
        if (bare or not header) and not isinstance(learned, int):
            learned = self._doubtful(line, number, learned, header, begun=begun)
        if isinstance(learned, Shape) and learned.only_rate and not (header or self.lines.repeats(learned, number)):
            return None  # of the arguments
        if isinstance(learned, Shape) and (learned.setting or (not learned.values and _ASSIGNMENT.match(line))):
            return learned if self._comes_again(learned, number) else None
        if isinstance(learned, Shape) and learned.of_batch_size and not header and not self._counts_on(learned, number):
            return None
        return learned

    def _counts_on(self, shape: Shape, number: int) -> bool:
        """Whether rows of a shape follow, as they do where it counts."""
        found = self._comes_again(shape, number) or self.lines.repeats(shape, number)
        self.undecided = not found and self.lines.ends_before(number)
        return found

    def _comes_again(self, shape: Shape, number: int) -> bool:
        return self.lines.recurs(shape, number, 2, far=True)

    def _counts_otherwise(self, shape: Shape, number: int) -> bool:
        """Whether a shape counts something else than the log's axis: timesteps where that counts episodes."""
        axis = self.known.clock.axis
        if axis is None or axis.name == shape.step_name:
            return False
        others = [known for known in self.known.every if known.step and known.step_name == axis.name]
        return bool(others) and self.lines.counts_otherwise(shape, others, number)

    def _mind_counts(self, shape: Shape, line: str, number: int) -> None:
        """Take a count of a new shape for what the lines around say that it is."""
        counted = shape.training and any(known.step_name == shape.step_name for known in self.known.every)
        still = shape.step and shape.epoch and not (counted or shape.total)
        if still and self.lines.stands_still(shape, number):
            shape.step, shape.step_name, shape.length = 0, "", shape.step
        if (
            shape.step_name == "iteration"
            and line.startswith("[")
            and any(known.of_batches for known in self.known.every)
        ):
            shape.count_epochs()  # "[1] Train-accuracy=0.5"
        if shape.total and not shape.epoch and self.lines.counts_epochs(shape, number):
            shape.part_share()
        if self._counts_other_data(shape, line):
            shape.validation, shape.training, shape.plain, shape.batches = True, False, False, True

    def _counts_other_data(self, shape: Shape, line: str) -> bool:
        """Whether a shape without an epoch counts, out of another total, what those of the training count in each."""
        if not (shape.step and shape.total) or shape.epoch or shape.validation or not self.known.clock.out_of:
            return False
        found = shape.pattern.match(line)
        return (
            found is not None
            and count_of(found[shape.total]) != self.known.clock.out_of
            and any(known.epoch and known.training and known.step_name == shape.step_name for known in self.known.every)
        )

    def _is_better(self, finer: Shape, shape: Shape, number: int) -> bool:
        """Whether a less trusted count tells lines apart that share the other, or rises where the other does not."""
        if self.lines.tells_apart(finer.step_name, shape.step_name, number):
            return True
        return self.lines.recurs(finer, number) and not self.lines.recurs(shape, number)

    def _doubtful(self, line: str, number: int, learned: Shape | None, header: str, *, begun: bool) -> Shape | None:
        """The shape of a line that is a record only if others like it follow, and their count rises."""
        counted = COUNTED_RESULT.match(line, prefix_of(line).end)
        lone = NAME_AND_NUMBER.match(line, prefix_of(line).end)
        if counted is None and ((learned and learned.counted) or not ("{'" in line or lone or _COUNTS.search(line))):
            return learned
        shape = learn(line, trust=True)
        if not isinstance(shape, Shape):
            return learned
        if shape.rival:
            finer = learn(line, trust=True, distrust=True)
            shape = finer if isinstance(finer, Shape) and self._is_better(finer, shape, number) else shape
        if counted is None:
            found = (self.lines.recurs if shape.counted else self.lines.repeats)(shape, number)
        elif counted["bare"] or counted["beside"]:
            said = named_after(self.path.name)
            of_log = counted["bare"] or said or self.path.suffix in _LOGS  # two columns of numbers may be anything
            found = bool(of_log) and not begun and self.lines.recurs(shape, number, ENOUGH_BARE)
            shape.rename({"loss": said} if said else {})
        elif counted["behind"]:
            found = bool(header) and self.lines.recurs(shape, number)
        else:
            told = whole_number(counted["count"]) == self.known.clock.step
            found = told or self._comes_again(shape, number)
        self.undecided = not found and self.lines.ends_before(number)
        return shape if found else learned
