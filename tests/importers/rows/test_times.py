from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.importers.base import NO_TIME, NULL
from trainforensics.importers.rows import times
from trainforensics.importers.rows.cells import columns_of_frame
from trainforensics.importers.rows.times import parse_time

MOMENTS = st.datetimes(datetime(1995, 1, 1), datetime(2060, 1, 1))
ZONES = st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MOMENTS, ZONES)
def test_iso_times_with_a_zone(moment: datetime, zone: timezone) -> None:
    there = moment.replace(tzinfo=UTC).astimezone(zone)
    expected = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert parse_time(there.isoformat()) == expected


@given(MOMENTS)
def test_naive_times_count_as_utc(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert parse_time(moment.isoformat(" ")) == parse_time(moment.isoformat() + "Z") == expected


@pytest.mark.parametrize("text", ["", "0:00:22", "train", "12.5", "0001-01-01", "2024-13-01"])
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) == NO_TIME


def test_python_logging_and_slashes() -> None:
    assert parse_time("2025-10-30 05:32:43,250") == parse_time("2025/10/30 05:32:43.250")


@pytest.mark.parametrize(
    ("text", "naive"),
    [
        ("2025-10-30 05:32:43,123", True),
        ("2025-10-30", True),
        ("2025/10/30 05:32:43", True),
        ("2025-10-30T05:32:43Z", False),
        ("2025-10-30 05:32:43+01:00", False),
        ("1755516631.25", False),
        ("yesterday", False),
    ],
)
def test_times_that_state_no_zone(text: str, naive: bool) -> None:
    assert times.is_naive(text) is naive


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Zurich"])
def test_columns_typed_as_times_know_whether_they_have_a_zone(zone: str | None) -> None:
    column = pl.Series("time", [datetime(2025, 10, 30, 5)]).cast(pl.Datetime("ns")).dt.replace_time_zone(zone)
    columns = dict(columns_of_frame(column.to_frame(), NULL))
    assert times.names_no_zone(columns, "time") is (zone is None)
    assert times.names_no_zone(columns, None) is False


def test_times_of_syslog_tell_durations_though_no_year() -> None:
    before, after = parse_time("Feb  9 23:59:50"), parse_time("Feb 10 00:00:10")
    assert after - before == 20_000_000
    assert parse_time("Feb 31 00:00:00") == parse_time("Foo 10 00:00:00") == NO_TIME


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("04/11 23:59:50", "04/12 00:00:10"),
        ("0411 23:59:50.5", "0412 00:00:10.5"),
        ("04/11/2024 23:59:50", "04/12/2024 00:00:10"),
        ("30/04/2024 23:59:50", "01/05/2024 00:00:10"),
    ],
)
def test_times_of_other_loggers_without_a_year_or_behind_the_day(before: str, after: str) -> None:
    if before.startswith("30"):  # only the first tells the order
        assert parse_time(before) == parse_time("2024-04-30 23:59:50")
    else:
        assert parse_time(after) - parse_time(before) == 20_000_000
    assert parse_time("13/32 00:00:00") == NO_TIME
