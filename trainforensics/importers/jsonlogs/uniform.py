"""Blocks of JSON lines that are all alike: the same keys in the same order, no nesting, no comma within a value.

Most logs are. Such a block is a table whose cells are `"key": value`; splitting it at its commas takes less than
parsing it as JSON, and a NaN is a number like any other. What is not alike makes the block None.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainforensics.importers.base import EMPTY, VALUE
from trainforensics.importers.lines import newlines
from trainforensics.importers.literals import literal
from trainforensics.importers.rows.block import TEXT, Block, Cells, read_text

if TYPE_CHECKING:
    import polars as pl

_KEY = r'\s*"([^"\\\x00-\x1f]*)"\s*:\s*'
_PLAIN = r'[-+.#%()/<>\w]*|"[^"\\,\x00-\x1f]*"'  # a number, a literal, nothing or a simple text
_FIRST, _FURTHER = re.compile(rf"(\s*\{{{_KEY})(?:{_PLAIN})"), re.compile(rf"({_KEY})(?:{_PLAIN})")
_END = re.compile(r"(?<!\s)\s*+\}\s*$")
_PLAIN_TEXT = re.compile(r'"([^"\\\x00-\x1f]*)"')
_OTHER = {"true": (1.0, VALUE), "false": (0.0, VALUE), "": (math.nan, EMPTY)}
_SAMPLED_LINES = 16


@dataclass(frozen=True, slots=True)
class _Template:
    """What all lines share: per key what stands before its value, and what ends a line."""

    before: dict[str, str]
    end: str

    @classmethod
    def of(cls, line: str) -> _Template | None:
        """That of one line; None where it is not plain."""
        end = _END.search(line)
        if end is None:
            return None
        fields = line[: end.start()].split(",")
        found = [(_FURTHER if i else _FIRST).fullmatch(field) for i, field in enumerate(fields)]
        before = {match[2]: match[1] for match in found if match is not None}
        return cls(before, end[0].rstrip("\r")) if len(before) == len(fields) else None


def parse(data: bytes, line: int) -> Block | None:
    """The rows of a block of lines, the first of which is number `line`."""
    import polars as pl  # noqa: PLC0415  (heavy)

    template = _sampled(data)
    if template is None:
        return None
    schema = {str(i): pl.String for i in range(len(template.before))}  # a key may be "*", which means all columns
    try:
        raw = pl.read_csv(data, has_header=False, separator=",", quote_char=None, schema=schema)
    except (pl.exceptions.PolarsError, ValueError):
        return None
    lines = newlines(data) + (not data.endswith(b"\n"))
    cells = [pl.col(name).str for name in schema]
    starts = template.before.values()
    alike = [cell.starts_with(start).all() for cell, start in zip(cells, starts, strict=True)]
    alike.append(cells[-1].ends_with(template.end).all())
    values = [cell.slice(len(start)) for cell, start in zip(cells, starts, strict=True)]
    values[-1] = values[-1].str.head(-len(template.end))
    frame = raw.select(*(value.cast(pl.Float64, strict=False) for value in values), alike=pl.all_horizontal(alike))
    if raw.height != lines or not frame["alike"][0]:
        return None
    columns: dict[str, Cells] = {}
    for name, value, number in zip(template.before, values, frame.drop("alike"), strict=True):
        read = _cells(number, raw.select(value).to_series() if number.null_count() else None)
        if read is None:
            return None
        columns[name] = read
    return Block(columns, np.arange(line, line + lines, dtype=np.int64))


def _sampled(data: bytes) -> _Template | None:
    """The template that lines throughout a block share."""
    at, template = 0, None
    for i in range(_SAMPLED_LINES):
        at = data.rfind(b"\n", 0, len(data) * i // _SAMPLED_LINES) + 1
        end = data.find(b"\n", at)
        found = _Template.of(data[at : end if end >= 0 else len(data)].decode("utf-8", "replace"))
        if found is None or (template is not None and found != template):
            return None
        template = found
    return template


def _cells(number: pl.Series, written: pl.Series | None) -> Cells | None:
    """A column from its values read as numbers, and as they are written where some are none.

    None where one of these is not plain JSON.
    """
    numbers, state = number.to_numpy(), np.zeros(len(number), np.uint8)
    if written is None:
        return Cells(numbers, state)
    at = number.is_null().arg_true()
    words = written.gather(at).to_list()
    known = {word: _value(word) for word in set(words)}
    numbers, texts = numbers.copy(), np.full(len(number), None, dtype=object)
    for row, word in zip(at.to_list(), words, strict=True):
        value = known[word]
        if word is None or value is None:
            return None
        numbers[row], state[row] = value
        if value[1] == TEXT:
            texts[row] = word[1:-1]
    return Cells(numbers, state, texts if (state == TEXT).any() else None)


def _value(word: str | None) -> tuple[float, int] | None:
    """Number and state of a value that is written as no number; None where it is none that stands alone."""
    if word is None:
        return None
    quoted = _PLAIN_TEXT.fullmatch(word)
    return read_text(quoted[1]) if quoted else _OTHER.get(word.lower()) or literal(word)
