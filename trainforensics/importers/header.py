"""What the head of a text table says: how its cells are set apart, what its columns are called, where its rows begin.

A table may have its header in a comment, columns that are only aligned (an empty cell is blank), or no header at all.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import PurePath
from statistics import median

from trainforensics import roles
from trainforensics.importers.base import EMPTY, STRING, VALUE
from trainforensics.importers.rows.axes import is_step_name, says_validation
from trainforensics.importers.rows.block import read_text

_DELIMITERS = (",", "\t", ";", "|")
_LINES = 60
_MOST_ABOVE = 50
_FEWEST_ROWS = 8  # of a table without header: fewer numbers may be anything
_FEWEST_NAMED = 3  # of one column that its file names
_COUNTED = ("epoch", "step")  # numbers that rise by the same in every row
NAMELESS = "column_"  # what a column without a name is called, with its number behind
_COMMENTS = ("#", "%")
_LIST = re.compile(r"\s*\[\s*([-+.\dnNI][^\[\]{}\"]*)\]?\s*$")  # one array of numbers, perhaps over lines or cut off
_STAMPED = re.compile(r"\W?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d")  # a message of a logger, no header
_BETWEEN = r"[,;|\s]+"  # cells
_PART = re.compile(r"\s*\(\w+ set\)$")  # "accuracy (train set)"
_JOINED = re.compile(r"\d+_[-+]?\d+\.\d+(?:e[-+]?\d+)?\s*")  # "5_0.25"
_BREAKS = re.compile(r"[,;\s]")
_WORD = re.compile(r"\S+")
_WIDE = re.compile(r"\S+(?: \S+)*")
_INDEX = frozenset({"", "unnamed: 0"})  # what pandas calls the column of its index, when written and when read again
_DOWNLOADED = ["Wall time", "Step", "Value"]
_TAGGED = re.compile(r"(?:run-(.*)-)?tag-(.+?)(?: ?\(\d+\))?$")
_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "eval"})
_RESULTS = frozenset({"train_loss", "val_loss", "val_metric", "reward", "grad_norm"})
# Words of a file's name that do not say what it holds.
_FILE_WORDS = frozenset(
    {"log", "logs", "history", "curve", "curves", "data", "values", "all", "file", "list", "per", "step"}
)
_LOG_WORDS = frozenset({"log", "logs", "history", "train", "training"})
_PLURALS = {"losses": "loss", "accuracies": "accuracy", "rewards": "reward", "errors": "error", "scores": "score"}


@dataclass(frozen=True, slots=True)
class Shape:
    """The delimiter (" " for blanks of any width), the columns, the first rows, and how many lines the header takes.

    `spans`: where the names stand in the header line, of a table set apart by blanks. `named`: the names were given by
    place, because the table has no header. `across`: its only line holds one column, value after value.
    """

    delimiter: str
    header: list[str]
    rows: list[list[str]]
    lines: int
    spans: tuple[tuple[int, int], ...] = ()
    named: bool = False
    across: bool = False


def shape_of(data: bytes, name: str, options: Mapping[str, str]) -> Shape | None:
    """The shape of a table whose text begins so, None for what is none. `name`: of the file; `options`: of --map."""
    if b"\x00" in data[:4096]:
        return None
    lines = data.decode("utf-8", "replace").splitlines()
    above = 0
    while above < min(len(lines), _MOST_ABOVE) and (not lines[above].strip() or lines[above].startswith("#")):
        above += 1
    if lines and lines[0].lstrip()[:1] == "[" and (values := _LIST.match(" ".join(lines))):
        lines = [values[1].strip()]
    if above >= len(lines) or lines[above].lstrip()[:1] in {"{", "[", "<"}:
        return None
    if above and lines[above - 1].startswith("#") and _is_numeric(lines[above]):
        above -= 1
        lines[: above + 1] = _header_last(lines[: above + 1], len(re.split(_BETWEEN, lines[above + 1].strip())))
    if lines[above][:1] in _COMMENTS:
        lines[above] = " " + lines[above][1:].rstrip()
    found = _with_header(lines, above, name) or _one_column(lines, above, options)
    return found or _without_header(lines, above, name, options)


def by_place(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The cells of a line of aligned columns: each goes to the column whose name begins or ends nearest to it."""
    cells = [""] * len(spans)
    free = 0
    words = list(_WORD.finditer(line))
    for left, word in enumerate(words):
        last = len(spans) - (len(words) - left)
        if last < free:
            break
        start, end = word.span()
        free = min(range(free, last + 1), key=lambda i: min(abs(start - spans[i][0]), abs(end - spans[i][1])))
        cells[free] = word[0]
        free += 1
    return cells


def _with_header(lines: Sequence[str], above: int, name: str) -> Shape | None:
    if _STAMPED.match(lines[above]):
        return None
    delimiter = max(_DELIMITERS, key=lines[above].count)
    picked = list(lines[above : above + _LINES])
    spans: tuple[tuple[int, int], ...] = ()
    if delimiter not in lines[above]:
        delimiter = " "
        spans = tuple(word.span() for word in _WORD.finditer(lines[above]))
        picked = [" ".join(line.split()) for line in picked]
        if not any(is_step_name(name) for name in picked[0].split()):
            return None
    rows = list(csv.reader(picked, delimiter=delimiter))
    body = [row for row in rows[1:] if row]
    header = _downloaded(_beside_index([cell.strip() for cell in rows[0]], body, name), name)
    trained = [i for i, name in enumerate(header) if not says_validation(name)]
    if spans and 1 < len(trained) < len(header) and all(len(row) == len(trained) for row in rows[1:-1]):
        header, spans = [header[i] for i in trained], tuple(spans[i] for i in trained)  # nothing is held out
    wide = list(_WIDE.finditer(lines[above])) if spans else []
    if 1 < len(wide) < len(header) and sum(len(row) == len(wide) for row in rows[1:]) > len(rows[1:]) / 2:
        header, spans = [found[0] for found in wide], tuple(found.span() for found in wide)  # "Train Loss" is one name
    if not header or sum(map(is_number, header)) > len(header) // 3:
        return None
    if spans and any(is_step_name(one) and is_number(two) for one, two in pairwise(header)):
        return None  # "Iter 5 (1.5 / 2.5):" is a record
    if spans and sum(len(row) > len(header) or _repeats(row, header) for row in body) > len(body) // 10:
        return None  # running text
    return Shape(delimiter, header, body, above + 1, spans)


def _beside_index(header: list[str], rows: Sequence[Sequence[str]], name: str) -> list[str]:
    """The columns of a table that pandas wrote with its index: that is the step where results stand beside it and
    nothing else counts. A lone column without a name of its own, "0", is called as the file is.
    """
    whole = [row for row in rows[:-1] if len(row) == len(header)]
    if header[0].lower() not in _INDEX or any(map(is_step_name, header[1:])) or not whole:
        return header
    others = [named_after(name)] if header[1:] == ["0"] else header[1:]
    results = {match.role for match in roles.resolve_all(others).values()} & _RESULTS
    return ["step", *others] if results and _counts([read_text(row[0])[0] for row in whole]) else header


def _downloaded(header: list[str], name: str) -> list[str]:
    """The columns of a series as TensorBoard downloads it; its name is the file's: "run-train-tag-loss.csv"."""
    if header != _DOWNLOADED:
        return header
    found = _TAGGED.match(PurePath(name).stem)
    if found is None:
        return [*header[:2], named_after(name) or header[2]]
    split = [word for word in re.split(r"[_. -]", found[1] or "") if word.lower() in _SPLITS]
    return [*header[:2], "/".join([*split[-1:], found[2]])]


def _header_last(comments: list[str], width: int) -> list[str]:
    """The comments above a table's rows with its header as the last: the one of as many names, else one with a step."""
    names = [re.split(_BETWEEN, line.strip("# \t")) for line in comments]
    fitting = [i for i, found in enumerate(names) if comments[i][:1] == "#" and len(found) == width]
    counting = [i for i, found in enumerate(names) if comments[i][:1] == "#" and is_step_name(found[0])]
    at = max(fitting or counting, default=len(comments) - 1)
    return [*comments[:at], *comments[at + 1 :], comments[at]]


def _one_column(lines: Sequence[str], above: int, options: Mapping[str, str]) -> Shape | None:
    """A number a line below a line that names a metric."""
    header, numbers = lines[above].strip(), [line.strip() for line in lines[above + 1 : above + _LINES] if line.strip()]
    if len(numbers) < _FEWEST_ROWS or not all(is_number(text) and not _BREAKS.search(text) for text in numbers[:-1]):
        return None
    known = {roles.resolve(name, options).role for name in (header, f"val/{_PART.sub('', header)}")} - {None}
    if is_number(header) or not known:
        return None
    return Shape(" ", [header], [[text] for text in numbers], above + 1)


def _repeats(row: Sequence[str], header: Sequence[str]) -> bool:
    """Whether a row has a word of the header in its place, as the lines "step 1: loss 2.5" and "step 2: loss 2.4"."""
    return any(cell == name and not is_number(cell) for cell, name in zip(row, header, strict=False))


def _without_header(lines: Sequence[str], above: int, name: str, options: Mapping[str, str]) -> Shape | None:
    """Rows of nothing but numbers, all of one width; the file's name may say what they are."""
    delimiter = max(_DELIMITERS, key=lines[above].count)
    delimiter = delimiter if delimiter in lines[above] else "_" if _JOINED.fullmatch(lines[above]) else " "
    picked = [" ".join(line.split()) if delimiter == " " else line for line in lines[above : above + _LINES]]
    rows = [row for row in csv.reader(picked, delimiter=delimiter) if row]
    across = len(lines) == 1 and above == 0
    if across:
        rows = [[cell] for cell in rows[0] if cell.strip()]
    whole = rows[:-1]  # the last one may be cut off
    fewest = _FEWEST_NAMED if whole and len(whole[0]) == 1 and named_after(name) else _FEWEST_ROWS
    if len(whole) < fewest or len({len(row) for row in whole}) > 1:
        return None
    if not all(is_number(cell) or read_text(cell)[1] == STRING for row in whole for cell in row):
        return None
    return Shape(delimiter, _names_by_place(whole, name, options), rows, above, named=True, across=across)


def _names_by_place(rows: Sequence[Sequence[str]], name: str, options: Mapping[str, str]) -> list[str]:
    """`column_1` ..., but leading counts are the step, or the epoch and the step, and the first measured column is
    called as the file is. A file of an epoch, a step and one number a row holds the metric that it is called after.
    """
    names = [f"{NAMELESS}{i + 1}" for i in range(len(rows[0]))]
    mapped = any(name in options for name in names)
    columns = [[read_text(cell)[0] for cell in column] for column in zip(*rows, strict=True)]
    counts = len(list(takewhile(_counts, columns[:-1])))
    counts = 1 if counts and len(columns) != len(_COUNTED) + 1 else counts
    for at, said in enumerate(_COUNTED[-counts:] if counts else ()):
        names[at] = names[at] if names[at] in options else said
    measured = [i for i, column in enumerate(columns) if i >= counts and not all(map(float.is_integer, column))]
    called = PurePath(name).stem if counts == len(_COUNTED) else named_after(name)
    if not called and len(columns) == 1 and _is_log(name) and columns[0][0] > median(columns[0]):
        called = "loss"  # of all that a training logs alone, what falls
    if measured and called and not mapped:
        names[measured[0]] = called
    return names


def _counts(column: Sequence[float]) -> bool:
    """Whether whole numbers rise by the same from row to row."""
    apart = {after - before for before, after in pairwise(column)}
    return len(apart) == 1 and min(apart) > 0 and all(map(float.is_integer, column))


def named_after(name: str) -> str:
    """What a file's name says that it holds ("train_losses.csv": train_loss), "" if it says nothing of the kind."""
    words = [_PLURALS.get(word, word) for word in _words_of(name)]
    said = "_".join(word for word in words if word not in _FILE_WORDS)
    return said if roles.resolve(said).role in _RESULTS else ""


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", PurePath(name).stem)]


def _is_log(name: str) -> bool:
    """Whether a file is called a log, or one of training, and nothing more."""
    words = set(_words_of(name))
    return bool(words & _LOG_WORDS) and words <= _LOG_WORDS | _FILE_WORDS


def is_number(text: str) -> bool:
    """Whether a cell holds a number, with a decimal point or comma, or as a tensor prints it."""
    whole, comma, decimals = text.strip().partition(",")
    if comma and not {",", "."} & set(decimals) and "(" not in text:
        text = f"{whole.replace('.', '')}.{decimals}"
    return read_text(text)[1] == VALUE


def _is_numeric(line: str) -> bool:
    cells = re.split(_BETWEEN, line.strip())
    return all(read_text(cell)[1] in {VALUE, STRING, EMPTY} for cell in cells)
