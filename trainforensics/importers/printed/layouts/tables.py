"""Tables in console text, row by row or one metric a line, rewritten as lines of `name=value`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainforensics import roles
from trainforensics.importers.printed.text.prefix import prefix_of
from trainforensics.importers.printed.text.tokens import NUMBER, TIME
from trainforensics.importers.printed.text.vocabulary import SPLITS, STEP_TRUST

_METRIC = re.compile(
    rf"\|\s+(?=[^|]*[^\W\d])([^|\s](?:[^|]*[^|\s])?)\s*\|\s+({NUMBER})\s*\|$"
)  # "|    ep_rew_mean      | 1.86     |"
_PAIRED_RULER = re.compile(r"(?<!-)-{3,}+\s{2,}+-{3,}+\s*$")  # of two columns without bars, name and number
_PAIR = re.compile(rf"([A-Za-z]\S*(?: \S+)*)\s{{2,}}({NUMBER})\s*$")
_HEADING = re.compile(r"\|\s+([\w-]+/)\s*\|\s*\|$")  # "| rollout/            |          |"
_RULER = re.compile(r"[\s|+:=-]*-{2}[\s|+:=-]*$|[\s\u2500-\u257f]+$")
_BOX = str.maketrans(dict.fromkeys("│┃║┆┊", "|"))
_LIST = rf"\[{NUMBER}(?:,\s*{NUMBER})*\]"
_NUMERIC = re.compile(
    rf"(?:{NUMBER}|{_LIST}|\[\]|\d+\s*/\s*\d+|\d+:\d\d(?::\d\d)?|(?:\d+h)?\d+m\d+s|-+|None|N/A)(?:%|[kKMGT]i?B?|s|m|ms)?:?$"
)
_WIDE = re.compile(r"\s{2,}|\t+")
# What is said of a row behind its last cell: "| 0.5 |  19.6s  <- best", "0.5 *", "0.5  (saved)", "| 0.5 | new best".
_REMARK = re.compile(
    r"(?:(?<=[|\s])(?:<[-=]+|[-=]+>|[*([#!\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff])[^|]*"
    r"|(?<=[|\s])[^\W\d][^|\d]*(?:\([^|()]*\))?|\*+)$"
)
_STAMPED = re.compile(rf"\s*\[?(?:{TIME}|(?:INFO|DEBUG)\b)")
_STEPS = frozenset(STEP_TRUST) - {"s", "it"} | {"epoch", "epochs"}
_COUNT_BEGINS = re.compile(rf"[#\s]*(?:\w+[\s,]+)?(?:{'|'.join(sorted(_STEPS))})[\s,]", re.IGNORECASE)
_SIGNS = {"#": "step", "E": "epoch"}  # a header's short names of counts
_SAYS_NUMBER = re.compile(r":\s*[-+]?\.?\d|\s[-+]?\d+\.\d+$")
_PLAIN_NAME = re.compile(r"[A-Za-z][\w@./-]*")
_DIGIT = re.compile(r"\d")
_FEWEST, _MOST, _LONGEST_NAME, _LONGEST_ROW = 2, 200, 40, 1000
# Headers that do not begin with what counts, and what their columns are.
_KNOWN_HEADERS = {
    ("loss", "last", "counter", "weight", "label", "predict", "features"):  # Vowpal Wabbit
    ("average loss", "loss since last", "counter", "weight", "label", "predict", "features"),
}  # fmt: skip
# RLlib's results: a heading, and indented entries under it.
_RESULT_OF = re.compile(r"Result for (\S+):$")
_ENTRY = re.compile(r"( *)([\w/.-]+):(?: (.*))?$")
_BARE_RESULT = "custom_metrics: {}"  # with which one of an older version begins, without a heading
_WHOLE_NUMBER = re.compile(NUMBER)
# pycocotools' summary, and what it is of
_ANNOTATED = re.compile(r".*Evaluate annotation type \*(\w+)\*")
_RESULTS_FOR = re.compile(r".*Evaluation results for (\w+):\s*$")  # Detectron2
_AVERAGE = re.compile(
    r" ?Average (?:Precision|Recall)  \((A[PR])\) @\[ IoU=([\d.]+)(:[\d.]+)?\s*\| area=\s*(\w+)\s*\| maxDets=\s*(\d+)"
    r"\s*\] = ([\d.]+)\s*$"
)
# The table of an evaluation harness, a metric a row: "|Tasks|Version|Filter|n-shot|Metric|   |Value|   |Stderr|".
_TASKS = frozenset({"task", "tasks", "group", "groups"})
_NO_NAME = re.compile(r"[^\w/]+")
_RESULTS = frozenset({"train_loss", "val_loss", "val_metric", "reward"})


@dataclass(slots=True)
class Tables:
    """The table that the text is in.

    `_pairs`: where the names of a table of two columns begin in the line. `_splits`: the parts of the data that the
    columns are of, in a table of one metric a line. `_classes`: the columns of a table of one class a line, of which
    the line of all counts. `_entries`: the names over an indented one, with their indentation, None outside a result.
    `_headless`: it has no heading, and its entries are not indented. `_trial`: whose results came first.
    `_annotated`: what an evaluation's averages are of;
    `_results_for`: what its table is of. `_harness`: the columns of an evaluation harness's table, `_task`: that of the
    row before.
    """

    _header: list[str] = field(default_factory=list)
    _metrics: dict[str, str] = field(default_factory=dict)
    _heading: str = ""
    _pairs: int | None = None
    _splits: list[str] = field(default_factory=list)
    _classes: list[str] = field(default_factory=list)
    _entries: list[tuple[int, str]] | None = None
    _headless: bool = False
    _trial: str = ""
    _annotated: str = ""
    _results_for: str = ""
    _harness: list[str] = field(default_factory=list)
    _task: str = ""

    @property
    def has_header(self) -> bool:
        """Whether rows may follow."""
        return bool(self._header)

    @property
    def open(self) -> bool:
        """Whether the next line may end it."""
        return bool(self._metrics) or self._entries is not None

    def end(self) -> str:
        """The row that is not finished at the end of the text, in other words."""
        row, self._metrics, self._heading, self._entries = self._metrics, {}, "", None
        return _said(list(row), list(row.values()))

    def line_of(self, line: str, *, under_count: bool = False) -> str | None:
        """A finished row in other words; an empty text while a table goes on; None for what is no table.

        `under_count`: the line before said the step or the epoch, so that the names of a header need not.
        """
        if (told := self._of_evaluation(line)) is not None or (told := self._of_result(line)) is not None:
            return told
        line = line if line.isascii() else line.translate(_BOX)
        bars = line.startswith("|") and line.rstrip().endswith("|")
        if bars and (told := self._of_harness(_cells(line, 0))) is not None:
            return told
        self._harness = self._harness if bars or line.startswith("val/") else []
        if bars and (found := _METRIC.match(line.rstrip())):
            self._metrics[f"{self._heading}{found[1]}"] = found[2]
            return ""
        if bars and (found := _HEADING.match(line.rstrip())):
            self._heading = found[1]
            return ""
        if not self._header and self._in_pairs(line):
            return ""
        if self._metrics:
            return self.end()
        if _RULER.match(line):
            return "" if self._header else None
        start = prefix_of(line).end if _STAMPED.match(line) else 0
        said = self._row(line[start:], under_count)
        return f"{line[:start]} {said}" if start and said else said

    def _of_evaluation(self, line: str) -> str | None:
        """One of pycocotools' averages in other words."""
        if (found := _ANNOTATED.match(line)) is not None:
            self._annotated = f"{found[1]}_"
            return ""
        if (found := _RESULTS_FOR.match(line)) is not None:
            self._results_for = found[1]
            return ""
        found = _AVERAGE.match(line)
        return f"val/{self._annotated}{_average(*found.groups())}: {found[6]}" if found else None

    def _of_harness(self, cells: Sequence[str]) -> str | None:
        """A row of an evaluation harness in other words; empty for its header and its ruler."""
        named = [cell.lower() for cell in cells]
        if named[0] in _TASKS and {"metric", "value"} <= set(named):
            self._harness = named
            return ""
        if len(cells) != len(self._harness):
            return None
        row = dict(zip(self._harness, cells, strict=True))
        self._task = _NO_NAME.sub("_", cells[0].lstrip("- ")) or self._task
        way = row.get("filter", "")
        name = _NO_NAME.sub("_", row["metric"]) + ("" if way in {"", "none"} else f"_{_NO_NAME.sub('_', way)}")
        return f"val/{self._task}/{name}: {row['value']}" if _WHOLE_NUMBER.fullmatch(row["value"]) else ""

    def _of_result(self, line: str) -> str | None:
        """The result of RLlib that ends with a line; an empty text inside one."""
        headless = line.rstrip() == _BARE_RESULT
        found = None if self._entries is None or headless else _ENTRY.match(line)
        if found is not None and (found[1] or self._headless):
            self._enter(*found.groups())
            return ""
        begins = _RESULT_OF.match(line)
        if begins is None and not (self._entries or headless):
            return None
        row = self.end()
        self._headless = headless
        if begins is not None:
            self._trial = self._trial or begins[1]
            self._heading = "" if begins[1] == self._trial else f"{begins[1]}/"
        if begins is not None or headless:
            self._entries = []
        return row

    def _enter(self, indent: str, name: str, value: str | None) -> None:
        """An entry of a result; one without a value is over those that are indented further."""
        over = [entry for entry in self._entries or [] if entry[0] < len(indent)]
        self._entries = [*over, (len(indent), name)]
        if value and _WHOLE_NUMBER.fullmatch(value):
            self._metrics[self._heading + "/".join([*(entry[1] for entry in over[-1:]), name])] = value

    def _in_pairs(self, line: str) -> bool:
        """Whether a table of names and numbers begins with this line, or goes on with it."""
        if self._pairs is None:
            ruler = _PAIRED_RULER.search(line)
            self._pairs = ruler.start() if ruler else None
            return ruler is not None
        found = _PAIR.match(line[self._pairs :])
        if found is None:
            self._pairs = None
            return False
        self._metrics[found[1]] = found[2]
        return True

    def _row(self, line: str, under_count: bool) -> str | None:
        """What a line is that is neither a ruler nor a metric between bars."""
        cells = _cells(line, len(self._header))
        if self._header and (said := self._told(line, cells)):
            return said
        if len(cells) == len(self._header) >= _FEWEST and self._goes_on(cells, "|" in line):
            self._header = [f"{first} {second}".strip() for first, second in zip(self._header, cells, strict=True)]
            return ""
        if (
            len(cells) == len(self._header) + 1
            and cells[0].isdigit()
            and all(map(_NUMERIC.match, cells))
            and self._header
        ):
            return _said(self._header, cells[1:])  # pandas prints its index before the row
        if not _FEWEST <= len(cells) <= _MOST:
            return self._header_of_words(line)
        if cells[0] == "all" and len(cells) == len(self._classes) and all(map(_NUMERIC.match, cells[1:])):
            return _said([f"val/{name}" for name in self._classes[1:]], cells[1:])
        if len(cells) == len(self._splits) + 1 and all(map(_NUMERIC.match, cells[1:])):
            return _said([f"{split} {cells[0]}" for split in self._splits], cells[1:])
        return self._begin(cells, under_count)

    def _told(self, line: str, cells: Sequence[str]) -> str:
        """A row in other words, without what is remarked behind it; empty if it is none."""
        if said := _told(self._header, cells):
            return said
        row = _REMARK.sub("", line.strip().strip("|").rstrip()) if len(line) <= _LONGEST_ROW else line
        return _told(self._header, _cells(row, len(self._header))) or _told_beside_word(self._header, cells)

    def _goes_on(self, cells: Sequence[str], barred: bool) -> bool:
        """Whether cells go on with the names of the header: MATLAB's stand in two lines."""
        filled = [cell for cell in cells if cell or not barred]
        return len(filled) < len(cells) and not any(map(_NUMERIC.match, filled))

    def _begin(self, cells: Sequence[str], under_count: bool) -> str | None:
        """Take note of a header; None if it is none."""
        if all(cell.lower() in SPLITS for cell in cells):
            self._splits = [cell.lower() for cell in cells]
        elif self._results_for and tuple(cells[:2]) == ("AP", "AP50"):
            self._header = [f"val/{self._results_for}/{cell}" for cell in cells]
        elif cells[0] == "Class" and "Images" in cells[1:3]:
            self._classes = [cell.rpartition("(")[2].rstrip("):") for cell in cells]
        elif (names := tuple(" ".join(cells).split())) in _KNOWN_HEADERS:
            self._header = list(_KNOWN_HEADERS[names])
        elif _is_header(cells) or (under_count and _names_scores(cells)):
            self._header = [_SIGNS.get(cell, cell) for cell in cells]
        else:
            return None
        return ""

    def _header_of_words(self, line: str) -> str | None:
        """Names with single blanks or commas between are a header if they begin with what counts and hold a result."""
        if _COUNT_BEGINS.match(line) is None:
            return None
        parts = r",\s*" if line.count(",") > 1 else r"[\s,]+"
        cells = [cell for cell in re.split(parts, line.lstrip("# ").rstrip()) if cell]
        if not (_FEWEST < len(cells) <= _MOST and _is_header(cells)):
            return None
        if not any(roles.resolve(cell).role in _RESULTS or cell.lower() == "loss" for cell in cells):
            return None
        self._header = cells
        return ""


def _cells(line: str, wanted: int) -> list[str]:
    if "|" in line:
        return [cell.strip() for cell in line.strip().strip("|").split("|")]
    cells = [cell for cell in _WIDE.split(line.strip()) if cell]
    if len(cells) == wanted:
        return cells
    words = line.split() if " " in line.strip() else line.strip().split(",")
    return words if len(words) in {wanted, len(cells)} else cells


def _told(header: Sequence[str], cells: Sequence[str]) -> str:
    """A row in other words; empty if it is none."""
    filled = [cell for cell in cells if cell]
    fits = len(cells) == len(header) and len(filled) >= _FEWEST and all(map(_NUMERIC.match, filled))
    return _said(header, [cell.rstrip(":") for cell in cells]) if fits else ""


def _told_beside_word(header: Sequence[str], cells: Sequence[str]) -> str:
    """The numbers of a row of which one cell is a word: it may say the data that they are of."""
    words = [cell for cell in cells if cell and not _NUMERIC.match(cell)]
    if len(words) != 1 or words[0] == cells[0] or _DIGIT.search(words[0]):
        return ""
    at = cells.index(words[0])
    split = f"{words[0].lower()} " if words[0].lower() in SPLITS else ""
    names = [name if name.lower() in _STEPS else f"{split}{name}" for name in (*header[:at], *header[at + 1 :])]
    numbers = [*cells[:at], *cells[at + 1 :]]
    return _told(names, numbers) if sum(map(bool, numbers)) > _FEWEST else ""


def _is_header(cells: Sequence[str]) -> bool:
    """Names without numbers, the first or second of which counts steps or epochs."""
    return any(cell.lower() in _STEPS or cell in _SIGNS for cell in cells[:2]) and not any(
        _NUMERIC.match(cell) or "=" in cell or _SAYS_NUMBER.search(cell) or not 0 < len(cell) <= _LONGEST_NAME
        for cell in cells
    )


def _names_scores(cells: Sequence[str]) -> bool:
    """Names without numbers, of which several are metrics."""
    known = sum(roles.resolve(f"val/{cell}").role in {"val_loss", "val_metric"} for cell in cells)
    return known >= _FEWEST and all(_PLAIN_NAME.fullmatch(cell) for cell in cells)


def _average(kind: str, iou: str, to: str | None, area: str, most: str, _: str) -> str:
    """The name of one of pycocotools' averages: AP, AP50, AP_small, AR_100, AR_100_small."""
    over = "" if to else f"{round(100 * float(iou))}"
    of = "" if area == "all" else f"_{area}"
    return f"{kind}{over}{of}" if kind == "AP" else f"{kind}_{most}{of}"


def _said(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{name}={value}" for name, value in pairs if value.strip("-") not in {"", "N/A", "[]"})
