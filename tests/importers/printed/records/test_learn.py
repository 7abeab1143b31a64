"""A kind of record takes the line that it was learned from; a line of several is parted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Shape

NUMBERS = st.sampled_from(
    ["0", "12", "0.5", "-1.25e-05", "1e+20", "nan", "inf", "1,024", "5K", "None", "3/40", "12.5%"]
)
MARKS = st.sampled_from([": ", "=", " ", ":", "\t", " | ", "[", " ("])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["loss", "lr", "acc", "x", "e", "Ns", "", "k", "t-"]), MARKS, NUMBERS, NUMBERS)),
    st.sampled_from([" ", ", ", " | ", "  ", " - ", ") ", "] "]),
)
def test_a_kind_of_record_takes_the_line_it_was_learned_from_and_its_like(
    items: list[tuple[str, str, str, str]], between: str
) -> None:
    line = between.join(["step 5", "loss: 0.5", *(f"{name}{mark}{first}" for name, mark, first, _ in items)])
    shape = learn(line)
    if not isinstance(shape, Shape):
        return
    assert shape.pattern.match(line)
    wider = re.sub(r"(?<=[ \t:=])(\d+)\.(\d+)", r"1\1.\g<2>5", line)
    assert shape.pattern.match(wider)


@pytest.mark.parametrize(
    "line",
    [
        "1/10 [=>...] - loss: 2.5 - acc: 0.25 2/10 [==>..] - loss: 2.25 - acc: 0.5",
        "1/10 loss: 2.5 acc: 0.25 2/10 loss: 2.25 acc: 0.5",
        "step 1 loss 2.5 acc 0.25 step 2 loss 2.25 acc 0.5",
    ],
)
def test_a_second_record_begins_where_the_count_comes_again(line: str) -> None:
    second = learn(line)
    assert isinstance(second, int)
    assert re.match(r"(?:step )?2", line[second:])
