"""Paths given by name of which nothing is used: whoever relies on the results has to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trainforensics.discovery import Candidate
from trainforensics.importers.base import as_text
from trainforensics.model import Skipped


def marked(given: Sequence[Path], candidates: Iterable[Candidate], skipped: Sequence[Skipped]) -> tuple[Skipped, ...]:
    """What was skipped, every given file among it marked as unread, and one entry for every given folder without runs.

    A copy of what was read is no gap.
    """
    aside = {entry.path for entry in skipped if not entry.reason.startswith("repeats ")}
    files = aside & {as_text(str(path)) for path in given if path.is_file()}
    entries = [replace(entry, unread=entry.unread or entry.path in files) for entry in skipped]
    sources = (source.path for candidate in candidates for source in candidate.sources)
    used = [path.resolve() for path in sources if as_text(str(path)) not in aside]
    return (*entries, *_folders([path for path in given if path.is_dir()], used, entries))


def _folders(folders: Iterable[Path], used: Sequence[Path], skipped: Sequence[Skipped]) -> Iterator[Skipped]:
    """An entry for each folder in which no file is used, unless one below is marked already."""
    for folder in folders:
        here = folder.resolve()
        if any(file.is_relative_to(here) for file in used):
            continue
        below = [entry for entry in skipped if Path(entry.path).is_relative_to(folder)]
        if not any(entry.unread for entry in below):
            first = f": {below[0].path}: {below[0].reason}" if below and below[0].path != str(folder) else ""
            reason = below[0].reason if below and not first else f"no run in it{first}"
            yield Skipped(as_text(str(folder)), reason, unread=True)
