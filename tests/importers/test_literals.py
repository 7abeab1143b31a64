"""The same values in every format give the same points, whichever way they are spelled and read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import read

from trainforensics.importers import console, table
from trainforensics.importers.base import EMPTY, NULL, VALUE
from trainforensics.importers.jsonlogs import fast, jsonlines, uniform

NAN = ["nan", "NaN", "NAN", "-nan", "+nan", "-NaN", "nan(ind)", "-nan(ind)", "1.#QNAN", "-1.#IND00", "nan%"]
INFINITE = ["inf", "Inf", "Infinity", "INFINITY", "1.#INF"]
MISSING = ["null", "None", "NULL", "undefined", "NA", "N/A", "n/a", "#N/A", "<NA>"]
MEANING = (
    dict.fromkeys(NAN, (math.nan, VALUE))
    | {f"{sign}{word}": (float(f"{sign}inf"), VALUE) for word in INFINITE for sign in ("", "-")}
    | dict.fromkeys(MISSING, (math.nan, NULL))
    | {"": (math.nan, EMPTY)}
)
# What C, Python and JavaScript print; the console's reader knows no other.
PRINTED = ["nan", "NaN", "-nan", "nan(ind)", "-nan(ind)", "inf", "-inf", "Infinity", "-Infinity"]

CELL = st.one_of(st.sampled_from(list(MEANING)), st.floats(-1e6, 1e6).map(lambda value: f"{value:.4f}"))
FREELY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(cells: Sequence[str], start: int = 1) -> list[str]:
    return [f'{{"step": {step}, "loss": {cell}, "lr": 0.5}}' for step, cell in enumerate(cells, start)]


def as_csv(cells: Sequence[str]) -> tuple[str, str]:
    return "m.csv", "step,loss,lr\n" + "".join(f"{i},{cell},0.5\n" for i, cell in enumerate(cells, 1))


def as_lines(cells: Sequence[str]) -> tuple[str, str]:
    return "m.jsonl", "\n".join(rows(cells))


def as_lines_with_a_note(cells: Sequence[str]) -> tuple[str, str]:
    first, *others = rows(cells)
    return "m.jsonl", "\n".join([first.replace("}", ', "note": "a, b"}'), *others])


def as_lines_behind_a_prefix(cells: Sequence[str]) -> tuple[str, str]:
    return "m.jsonl", "\n".join(f"INFO | {row}" for row in rows(cells))


def as_one_line(cells: Sequence[str]) -> tuple[str, str]:
    return "m.jsonl", " ".join(rows(cells))


def as_array(cells: Sequence[str]) -> tuple[str, str]:
    return "m.json", f"[{', '.join(rows(cells))}]"


def as_objects(cells: Sequence[str]) -> tuple[str, str]:
    return "m.json", "".join(row.replace(", ", ",\n ").replace("{", "{\n ") + "\n" for row in rows(cells))


def as_history(cells: Sequence[str]) -> tuple[str, str]:
    return "m.json", f'{{"name": "a", "training_history": [{", ".join(rows(cells))}]}}'


def as_columns(cells: Sequence[str]) -> tuple[str, str]:
    loss = ", ".join(cell or '""' for cell in cells)
    steps = list(range(1, len(cells) + 1))
    return "m.json", f'{{"step": {steps}, "loss": [{loss}], "lr": {[0.5] * len(cells)}}}'


FORMATS = [
    as_csv, as_lines, as_lines_with_a_note, as_lines_behind_a_prefix, as_one_line, as_array, as_objects, as_history,
    as_columns,
]  # fmt: skip


@pytest.mark.parametrize("written", FORMATS)
@FREELY
@given(cells=st.lists(CELL, min_size=3, max_size=30))
def test_the_same_points_from_every_format(
    written: Callable[[Sequence[str]], tuple[str, str]], tmp_path: Path, cells: list[str]
) -> None:
    cells = ["2.5", *cells, "2.25"]
    name, text = written(cells)
    path = tmp_path / name
    path.write_text(text)
    found = read(table if name.endswith("csv") else jsonlines, path).series
    assert_means(found["loss"].step, found["loss"].value, found["loss"].state, cells)
    assert found["lr"].step.tolist() == list(range(1, len(cells) + 1))


@FREELY
@given(cells=st.lists(st.sampled_from([*PRINTED, "2.5", "0.125"]), min_size=3, max_size=30))
def test_the_same_points_from_a_console(tmp_path: Path, cells: list[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"step {i} loss {cell} lr 0.5\n" for i, cell in enumerate(["2.5", *cells], 1)))
    loss = read(console, path).series["loss"]
    assert_means(loss.step, loss.value, loss.state, ["2.5", *cells])


@FREELY
@given(cells=st.lists(CELL, min_size=1, max_size=30))
def test_each_way_to_read_a_block_of_lines_reads_the_same(cells: list[str]) -> None:
    text = "\n".join(rows(cells)).encode()
    parsed = fast.parse(text, 1)
    for block in (uniform.parse(text, 1), None if parsed is None else parsed.block):
        if block is not None:
            loss = block.columns["loss"]
            assert_means(np.arange(1, len(cells) + 1), loss.number, loss.state, cells)


def assert_means(step: np.ndarray, value: np.ndarray, state: np.ndarray, cells: Sequence[str]) -> None:
    meant = [MEANING.get(cell) or (float(cell), VALUE) for cell in cells]
    kept = [i for i, (_, kind) in enumerate(meant) if kind == VALUE or len(step) == len(cells)]
    assert step.tolist() == [i + 1 for i in kept]
    np.testing.assert_array_equal(value, [meant[i][0] for i in kept])
    assert state.tolist() == [meant[i][1] for i in kept]
