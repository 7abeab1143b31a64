from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainforensics.importers.base import EMPTY, NULL, STRING, VALUE
from trainforensics.importers.jsonlogs import uniform
from trainforensics.importers.rows.block import TEXT, block_of_rows

CELL = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.text(max_size=4),
    st.sampled_from(["NaN", "1.5", "", "-inf", "2024-05-01 12:00:00"]),
)
KEYS = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=4, unique=True)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_taken_is_what_the_standard_library_reads(data: st.DataObject) -> None:
    keys = data.draw(KEYS)
    rows = [
        dict(zip(keys, row, strict=True)) for row in data.draw(st.lists(st.tuples(*[CELL for _ in keys]), min_size=1))
    ]
    separators, end = data.draw(st.sampled_from([None, (",", ":")])), data.draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(json.dumps(row, separators=separators, ensure_ascii=False) for row in rows)
    try:
        found = uniform.parse(text.encode(), 7)
    except UnicodeEncodeError:  # half a surrogate pair stands in no file
        return
    if found is None:
        written = "".join([*keys, *(cell for row in rows for cell in row.values() if isinstance(cell, str))])
        assert any(character in ',"\\' or ord(character) < 32 for character in written)
        return
    same(found.columns, block_of_rows(rows, range(7, 7 + len(rows))).columns)
    assert found.line.tolist() == list(range(7, 7 + len(rows)))


def same(found: Any, expected: Any) -> None:
    assert list(found) == list(expected)
    for name, cells in found.items():
        np.testing.assert_array_equal(cells.state, expected[name].state)
        np.testing.assert_array_equal(cells.number, expected[name].number)
        texts = expected[name].text
        assert (cells.text is None) == (texts is None)
        assert texts is None or cells.text.tolist() == texts.tolist()


def test_values_that_are_no_numbers_keep_what_they_are() -> None:
    words = ["1.5", "NaN", "-Infinity", "nan", '"NaN"', "null", "None", '""', '"1e3"', '"warmup"', "true", "1e400"]
    words.append("-nan(ind)")
    found = uniform.parse("".join(f'{{"step": {i}, "x": {word}}}\n' for i, word in enumerate(words)).encode(), 1)
    assert found is not None
    cells = found.columns["x"]
    assert cells.state.tolist() == [VALUE] * 4 + [STRING, NULL, NULL, EMPTY, VALUE, TEXT, VALUE, VALUE, VALUE]
    numbers = [1.5, math.nan, -math.inf, math.nan, math.nan, math.nan, math.nan, math.nan, 1e3, math.nan, 1.0, math.inf]
    numbers.append(math.nan)
    np.testing.assert_array_equal(cells.number, numbers)
    assert cells.text is not None and cells.text[9] == "warmup"


@pytest.mark.parametrize(
    "odd",
    [
        '{"loss": 2.0, "step": 3}',
        '{"step": 3}',
        '{"step": 3, "loss": 2.0, "lr": 0.1}',
        '{"step": 3, "lr": 2.0}',
        '{"step": 3, "loss": 2.0',
        '{"step": 3, "loss": 2.0}}',
        '{"step": 3, "loss": 2.0} {"step": 4, "loss": 2.0}',
        '{"step": 3, "loss": ERR}',
        '{"step": 3,2.0}',
        '3, "loss": 2.0}',
        '{"step": 3, }',
        '{"step": 3, "loss": [2.0]}',
        '{"step": 3, "loss": {"a": 2.0}}',
        '{"step": 3, "loss": "a, b"}',
        r'{"step": 3, "loss": "a\n"}',
        '{"step": 3, "loss": 2.0 0}',
        '{"step": 3, "loss": 0x10}',
        '{"step":3, "loss": 2.0}',
        '{"step": 3, "loss": 2.0},',
        '"step": 3, "loss": 2.0}',
        "Epoch 3, done",
        "",
        "   ",
        "\x00\x00",
    ],
)
def test_a_line_that_is_not_like_the_others_makes_the_block_none(odd: str) -> None:
    lines = [f'{{"step": {i}, "loss": {i / 7}}}' for i in range(200)]
    assert uniform.parse("\n".join(lines).encode(), 1) is not None
    for at in (0, 3, 100, 199):
        text = "\n".join([*lines[:at], odd, *lines[at + 1 :], ""])
        assert uniform.parse(text.encode(), 1) is None


def test_any_text_may_be_a_key() -> None:
    found = uniform.parse(b'{"*": 1, "^.*$": 2, "": 3, "0": 4}\n', 1)
    assert found is not None
    assert {name: cells.number.tolist() for name, cells in found.columns.items()} == {
        "*": [1.0], "^.*$": [2.0], "": [3.0], "0": [4.0],
    }  # fmt: skip


def test_lines_that_are_alike_but_not_plain() -> None:
    for line in ('{"a": {"b": 1, "c": 2}}', '{"a": [1, 2]}', '{"a": 1, "a": 2}', "{}", "1, 2", '{"a": 1}, {"b": 2}'):
        assert uniform.parse(f"{line}\n{line}\n".encode(), 1) is None
    assert uniform.parse(b'{"a": 1, "b": "\xff"}\n', 1) is None
