"""New kinds of record: whether a line is one, and what its counts count, by the lines that follow and those known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from trainforensics.importers.header import named_after
from trainforensics.importers.printed.kinds.known import Known
from trainforensics.importers.printed.records.ahead import ENOUGH_BARE, Ahead
from trainforensics.importers.printed.records.bare import COUNTED_RESULT, NAME_AND_NUMBER
from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.numbers import count_of, whole_number
from trainforensics.importers.printed.text.prefix import prefix_of

# A line without a count or a result beside a number is no record; the words are a cheap look before the expression.
_WORDS = (
    "step", "iter", "epoch", "batch", "update", "s:", "train", "test", "val", "[", "loss", "acc", "ppl", "perplexity",
    "bpb", "bpc", "score", "rew", "norm", "error", "mse", "nll", "entropy", "cost", "episode", "up.", "@", "sec",
    "time", " l=", "it ", "it:", "round", "gen", "tick", "i=", "rate", "iou", "dice", "psnr", "ssim", "bleu", "auc",
    "map", "f1", "recall", "precision", "ndcg", "mrr", "wer", "cer", "fid", "rmse", "top", "rank-", "memory", "dist",
    "lr",
)  # fmt: skip
_HINT = re.compile(
    r"(?:step|iter|ation|epoch|episode|batch|update|\bs|train|test|val|ba|it|\bup\.)s?['\"]?(?:\([a-z]+\))?[\s:=\[(#]{0,12}\d"
    r"|(?:loss|acc|ppl|perplexity|bp[bc]|score|reward|norm|error|mse|nll|entropy|cost|dist(?:ance)?|psnr|ssim|bleu|dice|@\d"
    r"|\b(?:m?iou|map|f1|top-?\d|rank-\d|auc|recall|precision|ndcg|mrr|wer|cer|fid|rmse)\b)\w*['\"]?[\s:=(\[]{1,12}['\"]?(?:[-+\d.ni]|(?:tf\.)?tensor\()"
    r"|\b(?:round|gen|generation|tick)\s?[:=]?\s*\d|^\s*\[\d+[\],]|^\s*\d+:?\s+[-+\d.]|[a-z_)]\s?[:=]\s?[-+]?\d.*[a-z_)]\s?[:=]\s?[-+]?\d"
    r"|\{'[\w/. -]+':\s|\bval/[\w/]+(?:: |=)|\bepoch time: \d|/s(?:ec)?: \d+\.\d"
    r"|(?:^|[:\]|-])\W*(?:lr|(?:current |new )?learning[ _]rate)\s?[:=]\s?-?[\d.]|\btimers/"
)
# What lines of unknown names hold if they are records: "gd step 5 |", "it   20  total", "i=5 ", "| Steps = 100".
_COUNTS = re.compile(
    r"(?i:\b(?:steps?|iter(?:ation)?s?|it|itr|epochs?|rounds?|gen(?:eration)?|tick|updates?|episodes?)\b|^\s*[it](?==))"
    r"\s*[:=#\[(]{0,2}\s*\d|^\s*\[\d+/\d+\]"
)
_ASSIGNMENT = re.compile(r"\s*\w+ +=\s+\d+\s*$")  # "epoch = 20" may be a setting
_LOGS = frozenset({".log", ".out"})


def may_be_record(line: str) -> bool:
    """A cheap look at whether a line may hold a record."""
    low = line.lower()
    return (low[:1].isdigit() or any(word in low for word in _WORDS)) and _HINT.search(low) is not None


@dataclass(slots=True)
class Learner:
    """`lines`: those of the block. `undecided`: those that would tell of the last line lie in the next block."""

    path: Path
    known: Known
    lines: Ahead = field(default_factory=Ahead)
    undecided: bool = False

    def shape_of(self, line: str, number: int, header: str, *, begun: bool) -> Shape | int | None:
        """The shape of a line under a header, once the log has `begun`, or not; where its second record begins, if it
        holds several; None if it is no record."""
        learned = learn(line, header=header, counted=self.known.clock.step is not None)
        bare = COUNTED_RESULT.match(line, prefix_of(line).end)
        if (bare or not header) and not isinstance(learned, int):
            learned = self._doubtful(line, number, learned, header, begun=begun)
        if isinstance(learned, Shape) and learned.only_rate and not (header or self.lines.repeats(learned, number)):
            return None  # of the arguments
        if isinstance(learned, Shape) and (learned.setting or (not learned.values and _ASSIGNMENT.match(line))):
            return learned if self._comes_again(learned, number) else None
        return learned

    def mind_others(self, shape: Shape, line: str, number: int, header: str) -> Shape:
        """The shape with its counts taken for what the lines around say that they are."""
        self._mind_counts(shape, line, number)
        if shape.rival and shape.plain:
            finer = learn(line, header=header, distrust=True)
            if isinstance(finer, Shape) and self._is_better(finer, shape, number):
                shape = finer
        shape.follows = shape.plain and self._counts_otherwise(shape, number)
        return shape

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
