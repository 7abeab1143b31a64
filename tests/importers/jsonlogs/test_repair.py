from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.importers.jsonlogs import document
from trainforensics.importers.jsonlogs.document import loads
from trainforensics.importers.jsonlogs.repair import repaired

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_json_stays_as_it_is(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repaired(text) == text


@given(st.text(max_size=200))
def test_any_text_stays_as_it_is_once_repaired(text: str) -> None:
    assert repaired(repaired(text)) == repaired(text)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("nan", math.nan),
        ("-nan(ind)", math.nan),
        ("1.#QNAN0", math.nan),
        ("-inf", -math.inf),
        ("None", None),
        ("#N/A", None),
        ("True", True),
        ("", ""),
        ("+1.5", "+1.5"),
        ("ERR 5", "ERR 5"),
        ("tensor(2.5)", "tensor(2.5)"),
    ],
)
def test_values_that_are_no_json(written: str, value: Any) -> None:
    text = f'{{"a": {written}, "b": [1, {written or 2}\n], "c": "x, {written}, y", "d":{written}}}'
    plain = json.loads(repaired(text))
    for found in (plain["a"], plain["d"], plain["b"][1] if written else value):
        assert found == value or math.isnan(found)
    assert plain["c"] == f"x, {written}, y"


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2.', '{"a": 1, "b": \x00\x00}', '{"a": 1,, "b": 2}', '{"a": {nan}}'])
def test_damage_is_not_repaired(text: str) -> None:
    with pytest.raises(ValueError):
        json.loads(repaired(text))


def test_a_value_that_is_no_json_is_repaired_wherever_it_stands_in_a_long_document() -> None:
    lines = "".join(f'{{"step": {i}, "loss": {"nan" if i in {3, 19_990} else 1.5}}},\n' for i in range(20_000))
    rows = loads(f"[\n{lines}{{}}]")
    assert [i for i, row in enumerate(rows) if row.get("loss") != 1.5] == [3, 19_990, 20_000]


def test_text_that_no_repair_makes_a_document_is_refused_after_its_first_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(document, "repaired", lambda text: seen.append(len(text)) or repaired(text))
    with pytest.raises(json.JSONDecodeError):
        loads("[2026-01-01 10:00:00] iteration 1 | loss: nan, next\n" * 40_000)
    assert sum(seen) < 1 << 18
