"""What lines stand under: the heading of an evaluation, "> EVALUATION", or a line that said the step."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainforensics.importers.printed.records.ahead import Ahead
from trainforensics.importers.printed.records.shape import Shape
from trainforensics.importers.printed.text.prefix import prefix_of
from trainforensics.importers.printed.text.vocabulary import SPLITS, TRAIN

_HELD_OUT = frozenset(word for word, held_out in SPLITS.items() if held_out)
_TRAIN = frozenset(SPLITS) - _HELD_OUT
_AROUND = frozenset({
    "start", "starting", "begin", "beginning", "running", "run", "now", "on", "the", "set", "results", "result",
    "phase", "performance", "metrics", "metric", "epoch", "step", "iteration", "iter", "model", "mode", "stats",
    "scores", "report", "for", "at", "of", "and", "end", "in", "summary", "loop", "error", "errors",
    "perplexity", "accuracy",
})  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")
_COUNT = re.compile(r"\b(?:epoch|step|iter(?:ation)?)\W*\d+(?:\s*/\s*\d+)?", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_LONGEST, _MOST_WORDS = 120, 7
_MARKS = " \t|>*#+-"
_HEADED = "val: "
_DIGITS = re.compile(r"\d+")
_GOES_ON = re.compile(r"\s*>{2,}\s+\w[\w /]*: [-+]?\d")  # ">>> loss_box: 0.5" under a row
_LABELLED = re.compile(r"\s*[^\s\d:][^:]{0,60}:\s+(?:[A-Za-z]\w*=)?[-+]?\d")
_BOX_RULER = re.compile(r"\s*[-=]{10,}\s*$")


@dataclass(slots=True)
class Section:
    """Where the next lines stand.

    `evaluating`: under the heading of an evaluation; `training`: under that of the training; `count`: what counts in
    the line that said the step of those under it, empty where there is none.
    """

    evaluating: bool = False
    training: bool = False
    count: str = ""
    _headed: bool = False  # the log has headings of the training, too

    def look(self, line: str, number: int, lines: Ahead, *, begun: bool) -> bool:
        """Whether a line that is no record is a heading; of an evaluation only once the log has `begun`."""
        announced = heading(line)
        self.training &= not announced
        if announced is None or (announced and not begun):
            return False
        said = _DIGITS.split(line, maxsplit=1)[0] or line
        self._headed |= not announced and lines.begin_so(said, number) > 1  # it comes again
        self.evaluating, self.training = announced, self._headed and not announced
        return True

    def row(self, shape: Shape, number: int, lines: Ahead) -> None:
        """A row was read, like those before it, on the line of a number."""
        self.count = shape.step_name if _GOES_ON.match(lines.after(number)) else ""

    def counted(self, shape: Shape, number: int, lines: Ahead) -> None:
        """A record was read that says where the run stands, on the line of a number."""
        self.evaluating = shape.validation and (self.evaluating or not shape.values)
        self.training = False
        self._headed |= not (shape.values or shape.validation) and TRAIN.search(shape.lead) is not None
        goes_on = not shape.values or _GOES_ON.match(lines.after(number))
        self.count = (shape.step_name or "epoch") if goes_on else ""

    def text(self, line: str) -> None:
        """A line was read that is no record: what stands under a count ends with it, unless it names a number."""
        if self.count and not (_LABELLED.match(line) or _BOX_RULER.match(line)):
            self.count = ""

    def is_left_by(self, shape: Shape) -> bool:
        """Whether records of a shape of the training end an evaluation, as where the training has no headings."""
        return shape.training and not (self._headed and not any(map(TRAIN.search, shape.names)))


def heading(line: str) -> bool | None:
    """Whether a line that is no record announces an evaluation; False for training, None for neither."""
    if len(line) > _LONGEST:
        return None
    behind = line[prefix_of(line).end :]
    said = _COUNT.sub(" epoch ", behind if _WORD.search(behind) else line)  # "Test Error:" looks like a logger's level
    words = [word.lower() for word in _WORD.findall(said)]
    known = _HELD_OUT | _TRAIN | _AROUND
    if _DIGIT.search(said) or not 0 < len(words) <= _MOST_WORDS or not known.issuperset(words):
        return None
    return False if not _TRAIN.isdisjoint(words) else True if not _HELD_OUT.isdisjoint(words) else None


def under_evaluation(line: str) -> str:
    """A line as it reads with the heading of an evaluation before it, which is put there once."""
    end = prefix_of(line).end
    lead, said = (f"{line[:end]} " if end and line[:end].strip(_MARKS) else ""), line[end:].lstrip(_MARKS)
    return line if said.startswith(_HEADED) else f"{lead}{_HEADED}{said}"
