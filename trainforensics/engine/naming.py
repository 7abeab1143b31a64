"""Remarks on runs that are named alike: which is which, and whose result gives way to another's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from trainforensics.discovery import Candidate
from trainforensics.report.text import one_line


def named_alike(candidates: Sequence[Candidate]) -> Iterator[str]:
    """A line on each run whose name clashed with another's, and on that other: where its logs lie."""
    places = {candidate.name: _place(candidate) for candidate in candidates}
    told: dict[str, None] = {}
    for name, place in places.items():
        numbered = re.fullmatch(r"(.+)-\d+", name)
        if numbered and numbered[1] in places and place.name != name.rpartition("/")[2]:
            told |= {numbered[1]: None, name: None}
    for name in told:
        yield f"{one_line(name)} is {one_line(str(places[name]))}"


def _place(candidate: Candidate) -> Path:
    """The file that was given by name, or the folder of a run."""
    first = candidate.sources[0].path if candidate.sources else candidate.folder
    own = candidate.name.rpartition("/")[2]
    return first if re.fullmatch(rf"{re.escape(first.name)}(-\d+)?", own) else candidate.folder


def replaced(before: Mapping[str, Path], now: Iterable[tuple[str, Path]]) -> Iterator[str]:
    """A line on each run that took the place of another one of its name, by the folders of their logs."""
    for name, logs in now:
        old = before.get(name)
        if old is not None and old != logs and old.exists():
            yield f"{one_line(name)}: its earlier result was of logs in {one_line(str(old))}, and is replaced"
