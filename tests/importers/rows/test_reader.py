from __future__ import annotations

import math

import pytest

from trainforensics.importers.base import EMPTY, STRING, VALUE
from trainforensics.importers.rows.block import TEXT, flatten, read_text


@pytest.mark.parametrize(
    ("text", "number", "state"),
    [
        ("2.517", 2.517, VALUE),
        (" 2.09715e+06 ", 2097150.0, VALUE),
        ("1e999", math.inf, VALUE),
        ("nan", math.nan, STRING),
        ("-Infinity", -math.inf, STRING),
        ("", math.nan, EMPTY),
        ("7/1500", 7.0, VALUE),
        ("1,234,567.5", 1234567.5, VALUE),
        ("47.31GiB", 47.31, VALUE),
        ("120 tok/s", 120.0, VALUE),
        ("false", 0.0, VALUE),
        ("tensor(nan)", math.nan, STRING),
        ("tensor(0.5, grad_fn=<NllLossBackward0>)", 0.5, VALUE),
        ("0:00:22", math.nan, TEXT),
        ("1_000", math.nan, TEXT),
        ("0x1f", math.nan, TEXT),
        ("1h 17m 8s", math.nan, TEXT),
    ],
)
def test_numbers_in_texts(text: str, number: float, state: int) -> None:
    found, how = read_text(text)
    assert how == state
    assert found == number or (math.isnan(found) and math.isnan(number))


def test_nested_rows_on_one_level() -> None:
    row = {"a": {"b": 1, "c": {"d": [1, 2]}}, "lr": [0.1], "e": [], "f": [{"g": 2}]}
    assert flatten(row) == {"a/b": 1, "a/c/d/0": 1, "a/c/d/1": 2, "lr": 0.1, "e": [], "f/g": 2}
