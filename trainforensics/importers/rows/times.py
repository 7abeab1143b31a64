"""Wall times of rows: ISO texts, epoch seconds to nanoseconds, typed times. Durations are not wall times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import NO_TIME

if TYPE_CHECKING:
    from trainforensics.importers.rows.block import Cells

_NAMES = (
    "_timestamp", "timestamp", "wall_time", "walltime", "wall time", "datetime", "date_time", "date", "time", "ts",
    "created_at", "logged_at", "asctime", "t",
)  # fmt: skip
_DAY = re.compile(r"(\d\d)/?(\d\d)(?:/((?:\d\d)?\d\d))?")
_MAIL = re.compile(r"(\d\d?) (\w{3}) (\d{4}) (\S+)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Epoch times between 2005 and 2065, in seconds, milliseconds, microseconds and nanoseconds.
_EARLIEST, _LATEST = 1.1e9, 3.0e9
_SCALES = (1.0, 1e3, 1e6, 1e9)


def find_wall_column(columns: Mapping[str, Cells]) -> str | None:
    """The column that holds wall times, judged by name and values; None if there is none."""
    by_name = {name.lower().rsplit("/", 1)[-1]: name for name in reversed(tuple(columns))}
    for candidate in _NAMES:
        name = by_name.get(candidate)
        if name is not None and (_times(columns[name]) != NO_TIME).any():
            return name
    return None


def wall_times(columns: Mapping[str, Cells], name: str | None) -> NDArray[np.int64] | None:
    """Microseconds since the epoch in UTC, NO_TIME where a row has none; a time without zone counts as UTC."""
    return _times(columns[name]) if name is not None and name in columns else None


def names_no_zone(columns: Mapping[str, Cells], name: str | None) -> bool:
    """Whether the wall times of a column are times of a clock whose zone is not stated, judged by the first of them."""
    if name is None or name not in columns:
        return False
    cells = columns[name]
    if cells.time is not None or cells.text is None:
        return cells.naive
    return next((is_naive(text) for text in cells.text if text is not None and parse_time(text) != NO_TIME), False)


def is_naive(text: str) -> bool:
    """Whether a text is a time that states no zone."""
    found = _parsed(text)
    return found is not None and found.tzinfo is None


def parse_time(text: str) -> int:
    """Microseconds of an ISO-like time ("2025-10-30 05:32:43,123", "2024-12-02T17:25:25Z"), NO_TIME if it is none."""
    found = _parsed(text)
    if found is None or found.year < 1990:
        return int(NO_TIME)
    aware = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    return int((aware - _EPOCH).total_seconds() * 1_000_000 + 0.5)


def _parsed(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip().replace(",", ".", 1).replace("/", "-"))
    except ValueError:
        return _without_year(text)


def _without_year(text: str) -> datetime | None:
    """A time of syslog ("Feb 11 22:14:08"), glog ("0211 22:14:08.5") or Detectron2 ("02/11 22:14:08"), which leaves the
    year out: a leap year stands for it. It may follow the day ("02/11/2025 22:14:08", "02/11/25"), or the month, as in
    mails ("03 Nov 2018 16:39:48").
    """
    if (mail := _MAIL.fullmatch(text.strip())) is not None:
        day, name, year, clock = mail.groups()
        return _at(year, name, day, clock)
    month, _, rest = text.strip().partition(" ")
    if (found := _DAY.fullmatch(month)) is not None:
        first, second, year = found.groups("2000")
        year = f"20{year[-2:]}"
        for date in (f"{year}-{first}-{second}", f"{year}-{second}-{first}"):
            with suppress(ValueError):
                return datetime.fromisoformat(f"{date} {rest.replace(',', '.', 1)}")
        return None
    day, _, clock = rest.strip().partition(" ")
    return _at("2000", month, day, clock)


def _at(year: str, month: str, day: str, clock: str) -> datetime | None:
    if month not in _MONTHS:
        return None
    try:
        return datetime.fromisoformat(
            f"{year}-{_MONTHS.index(month) + 1:02d}-{int(day):02d} {clock.replace(',', '.', 1)}"
        )
    except ValueError:
        return None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _times(cells: Cells) -> NDArray[np.int64]:
    if cells.time is not None:
        return cells.time
    times = np.full(len(cells.number), NO_TIME)
    if cells.text is not None:
        for i, text in enumerate(cells.text):
            if text is not None:
                times[i] = parse_time(text)
    number = np.where(cells.given, cells.number, np.nan)
    for scale in _SCALES:
        with np.errstate(invalid="ignore"):
            mask = (number > _EARLIEST * scale) & (number < _LATEST * scale)
        if mask.any():
            times[mask] = np.round(number[mask] * (1e6 / scale)).astype(np.int64)
    return times
