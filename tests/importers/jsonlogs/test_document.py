"""Documents whose series state the steps of their values."""

from __future__ import annotations

from typing import Any

import pytest

from trainforensics.importers.jsonlogs.document import rows_of

VALUES = [3.0, 2.0, 1.0]


@pytest.mark.parametrize(("start", "interval"), [(0, 5), (0.0, 5.0), ("0", "5"), ("0.0", "5.0")])
def test_steps_are_counted_from_the_stated_first_by_the_stated_interval(start: Any, interval: Any) -> None:
    series = {"start_step": start, "step_interval": interval, "values": VALUES}
    found = rows_of({"lm loss": series, "step": {**series, "values": [0.1, 0.2, 0.3]}})
    assert found is not None
    assert [(row["step"], row["lm loss"]) for row in found.rows] == [(0, 3.0), (5, 2.0), (10, 1.0)]


def test_what_stands_beside_such_series_is_kept() -> None:
    series = {"start_step": 0, "step_interval": 5, "values": VALUES}
    found = rows_of({"lm loss": series, "iteration_timing_avg": 0.33, "lr": {"peak": 0.1}})
    assert found is not None
    assert found.beside == {"iteration_timing_avg": 0.33, "lr": {"peak": 0.1}}


@pytest.mark.parametrize("start", [10**30, 1e30, float("nan"), float("inf"), -5, True, None, "a"])
def test_what_counts_no_steps_is_none(start: Any) -> None:
    assert rows_of({"lm loss": {"start_step": start, "step_interval": 5, "values": VALUES}}) is None


@pytest.mark.parametrize("step", ["\u00b2", "1" * 5000, "-1", ""])
def test_values_keyed_by_what_is_no_step_are_left_alone(step: str) -> None:
    assert rows_of({"lm loss": {"values": {step: 3.0, "2": 2.0, "3": 1.0}}}) is None
    assert rows_of({"lm loss": {"values": {}}}) is None
