from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.model import Series
from trainforensics.signals.blanks import with_blanks, without_unmade
from trainforensics.store.reader import StoredBlanks, StoredPoints, StoredSeries

ROWS = np.arange(200)


def _series(number: int, name: str, role: str | None) -> StoredSeries:
    return StoredSeries(Series(number, name, "log.jsonl", role), 0, 0, 200, 0, 0, 199)


LOSS, NORM, RATE, HELD_OUT = (
    _series(i, name, role)
    for i, (name, role) in enumerate(
        [("loss", "train_loss"), ("grad_norm", "grad_norm"), ("lr", "learning_rate"), ("eval/loss", "val_loss")]
    )
)


def _points(rows: np.ndarray) -> StoredPoints:
    n = len(rows)
    return StoredPoints(rows.copy(), np.full(n, 2.0), np.full(n, np.nan), np.zeros(n, np.int32), rows.copy())


def _blank(rows: np.ndarray, null: bool = True) -> StoredBlanks:
    n = len(rows)
    nothing = np.full(n, np.nan)
    return StoredBlanks(rows.copy(), nothing, nothing, np.zeros(n, np.int32), rows.copy(), np.full(n, null))


def _lost(blank: np.ndarray, *, null: bool = True, held_out: np.ndarray | None = None, rate: bool = True) -> list[int]:
    points = {0: _points(np.setdiff1d(ROWS, blank))}
    stored = [LOSS]
    if rate:
        stored, points[2] = [*stored, RATE], _points(ROWS)
    if held_out is not None:
        stored, points[3] = [*stored, HELD_OUT], _points(held_out)
    filled, warnings = with_blanks(stored, points, {0: _blank(blank, null)})
    curve = filled[0]
    assert (np.diff(curve.seq) > 0).all()
    lost = curve.step[np.isnan(curve.value)].tolist()
    assert len(warnings) == bool(lost)
    return lost


def test_a_loss_without_a_number_in_a_few_rows_was_not_finite() -> None:
    assert _lost(np.array([50, 77, 131])) == [50, 77, 131]


def test_an_empty_cell_counts_where_the_row_holds_something() -> None:
    assert _lost(np.array([50, 77]), null=False) == [50, 77]
    assert _lost(np.array([50, 77]), null=False, rate=False) == []


def test_rows_of_an_evaluation_hold_no_training_loss() -> None:
    rows = np.array([49, 77, 150])
    assert _lost(rows, held_out=rows) == []


def test_an_evaluation_beside_the_training_loss_changes_nothing() -> None:
    assert _lost(np.array([50]), held_out=np.arange(0, 200, 10)) == [50]


def test_to_the_end_of_the_log() -> None:
    assert _lost(np.arange(120, 200)) == list(range(120, 200))


def test_a_last_row_is_a_summary() -> None:
    assert _lost(np.array([199])) == []


def test_a_loss_logged_now_and_then_is_not_lost_in_between() -> None:
    assert _lost(np.setdiff1d(ROWS, ROWS[::4])) == []


def test_rows_before_the_first_number_say_nothing() -> None:
    assert _lost(np.arange(5)) == []


def test_rows_at_equal_distances_are_of_another_sort_unless_they_hold_what_rows_of_training_do() -> None:
    assert _lost(ROWS[19::20], rate=False) == []
    assert _lost(np.array([20, 45, 70, 95])) == [20, 45, 70, 95]


@given(st.sets(st.integers(15, 190), max_size=9))
def test_a_norm_beside_a_finite_loss(rows: set[int]) -> None:
    blank = np.array(sorted(rows), dtype=np.int64)
    points = {0: _points(ROWS), 1: _points(np.setdiff1d(ROWS, blank)), 2: _points(ROWS)}
    filled, _ = with_blanks([LOSS, NORM, RATE], points, {1: _blank(blank)})
    assert set(filled[1].step[np.isnan(filled[1].value)].tolist()) == rows
    assert filled[0] is points[0]


@pytest.mark.parametrize(("columns", "left"), [(4, 3), (2, 20)])
def test_rows_of_zeros_alone_are_evaluations_that_were_not_made(columns: int, left: int) -> None:
    stored = [_series(i, f"val/{i}", "val_loss" if i else "val_metric") for i in range(columns)]
    made = np.isin(np.arange(20), (6, 13, 19))
    points = {i: replace(_points(ROWS[:20]), value=made * (1.0 + i)) for i in range(columns)}
    kept, told = without_unmade(stored, points)
    assert {len(p.value) for p in kept.values()} == {left}
    assert len(told) == (left == 3)


def test_a_metric_of_zero_beside_a_loss_is_an_evaluation() -> None:
    stored = [_series(0, "val/loss", "val_loss"), *(_series(i, f"val/{i}", "val_metric") for i in (1, 2, 3))]
    points = {i: replace(_points(ROWS[:20]), value=np.full(20, float(i == 0))) for i in range(4)}
    assert {len(p.value) for p in without_unmade(stored, points)[0].values()} == {20}
