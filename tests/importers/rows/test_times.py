from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.importers.base import NO_TIME
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
