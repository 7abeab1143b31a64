"""The folder under --out: whose it is, what is written where, what stays from an earlier analysis."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from trainforensics import blame
from trainforensics.discovery import MARKER
from trainforensics.errors import UsageError
from trainforensics.model import SCHEMA, CrossRunFinding, Index, IndexEntry, RunResult
from trainforensics.report import json as report_json
from trainforensics.report import markdown, narrative
from trainforensics.signals import Signals
from trainforensics.store.manifest import drop_runs, read_manifest
from trainforensics.store.reader import StoredRun
from trainforensics.store.schema import STORE_SCHEMA
from trainforensics.store.writer import remove_abandoned

STORE = "parquet"
RESULT, REPORT, SKIP, PLOTS = "result.json", "report.md", "skip.json", "plots"
_MARK = f"{SCHEMA}\n{STORE_SCHEMA}\n"
_RESERVED = frozenset({STORE, RESULT, REPORT, SKIP, PLOTS})


def check(out: Path) -> None:
    """Raise UsageError where the output folder holds something that is not ours. Nothing is written."""
    try:
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out}: is a file; give a folder with --out")
        if out.is_dir() and not (out / MARKER).is_file() and any(out.iterdir()):
            raise UsageError(f"{out}: not empty and not ours (no {MARKER} in it); give another folder with --out")
        schema = _schemas(out)[0]
        if schema not in ("", SCHEMA):
            text = f"{out}: holds results of another version (schema {schema[:80]!r}, this one writes {SCHEMA!r})"
            raise UsageError(f"{text}; give another folder with --out")
    except OSError as error:
        raise _unusable(out, error) from None


def _schemas(out: Path) -> tuple[str, str]:
    """The versions of results and store that the marker names, empty where it does not."""
    text = (out / MARKER).read_text("utf-8", "replace") if (out / MARKER).is_file() else ""
    results, store, *_ = [*(line.strip() for line in text.strip().splitlines()), "", ""]
    return results, store


@contextmanager
def claim(out: Path) -> Iterator[None]:
    """Make the output folder ours, and this process the only one to write to it while the block runs.

    Raises UsageError where it holds something that is not ours, is in use or cannot be written.
    """
    check(out)
    with ExitStack() as held:
        try:
            out.mkdir(parents=True, exist_ok=True)
            marker = held.enter_context((out / MARKER).open("a+", encoding="utf-8"))
            locked = _lock(marker)
            if not os.fstat(marker.fileno()).st_size:
                marker.write(_MARK)
                marker.flush()
        except BlockingIOError:
            text = f"{out}: in use by another analysis; wait for it, or give another folder with --out"
            raise UsageError(text) from None
        except OSError as error:
            raise _unusable(out, error) from None
        if locked:
            remove_abandoned(out / STORE)
        yield


def renew_store(out: Path) -> tuple[str, ...]:
    """Remove the store of another version from a claimed folder: it is made anew from the logs. Gives remarks on it."""
    if _schemas(out)[1] == STORE_SCHEMA:
        return ()
    had_store = (out / STORE).is_dir()
    try:
        if had_store:
            shutil.rmtree(out / STORE)
        (out / MARKER).write_text(_MARK, encoding="utf-8")  # the same file, whose lock is held
    except OSError as error:
        raise _unusable(out, error) from None
    text = f"{out / STORE}: normalised logs of another version were removed; analyse the logs again to have them back"
    return (text,) if had_store else ()


def _lock(file: TextIO) -> bool:
    """Whether the file is locked now; not every network file system can. Raises BlockingIOError if another holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _unusable(out: Path, error: OSError) -> UsageError:
    return UsageError(f"{out}: cannot be written ({error.strerror}); give another folder with --out")


def run_folder(run: str) -> str:
    """Where a run's result lies under --out; a part of its name that could be a file of ours gets a tilde.

    Any part may be: a run may lie below another, whose files are there as well.
    """
    return "/".join(f"{part}~" if _collides(part) else part for part in run.split("/"))


def _collides(part: str) -> bool:
    """Whether a name is one of ours, is like one with tildes already, or is hidden, as the marker is."""
    return part.rstrip("~").casefold() in _RESERVED or part.startswith(".")


def entry(result: RunResult) -> IndexEntry:
    """The run in the index."""
    return IndexEntry(result.run, result.verdict, result.alarms, f"{run_folder(result.run)}/{RESULT}")


def write_run(out: Path, result: RunResult, signals: Signals | None, logs: Path, *, plots: bool) -> None:
    """A run's result.json, report.md, skip.json and figures. `logs`: the folder of its sources.

    Figures already drawn are shown where there are no `signals` to draw them from, and stay where none are wanted now
    but an earlier analysis found the same in the same files.
    """
    folder = out / run_folder(result.run)
    folder.mkdir(parents=True, exist_ok=True)
    if signals is not None and (plots or not _found_before(folder, result, logs)):
        shutil.rmtree(folder / PLOTS, ignore_errors=True)
    figures = _figures(folder, result, signals if plots else None)
    write_result(out, result)
    _replace(folder / SKIP, json.dumps(blame.skip(result.run, result.incidents), indent=2, default=str).encode())
    _replace(folder / REPORT, markdown.render_run(result, figures).encode("utf-8", "backslashreplace"))


def write_result(out: Path, result: RunResult) -> None:
    """A run's result.json alone."""
    folder = out / run_folder(result.run)
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / RESULT, report_json.dump_run(result))


def _found_before(folder: Path, result: RunResult, logs: Path) -> bool:
    """Whether the result already in the folder says the same, whatever its options, of files not written to since."""
    try:
        saved = (folder / RESULT).read_bytes()
        written = (folder / RESULT).stat().st_mtime
        before, now = json.loads(saved), json.loads(report_json.dump_run(result))
        touched = any((logs / source["path"]).stat().st_mtime >= written for source in now["sources"])
    except (OSError, ValueError):
        return False
    return not touched and isinstance(before, dict) and {**before, "options": {}} == {**now, "options": {}}


def _figures(folder: Path, result: RunResult, signals: Signals | None) -> dict[str, str]:
    if signals is None:
        return narrative.figures_beside(result, folder)
    from trainforensics.report import plots  # noqa: PLC0415  (matplotlib takes a second)

    return plots.draw(result, signals, folder)


def write_index(out: Path, index: Index, results: Sequence[RunResult]) -> None:
    """The top-level result.json and report.md."""
    _replace(out / RESULT, report_json.dump_index(index))
    _replace(out / REPORT, markdown.render_index(index, results).encode("utf-8", "backslashreplace"))


def _replace(file: Path, data: bytes) -> None:
    """Write to a temporary name and rename, so that a reader never sees half a file."""
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_bytes(data)
    temporary.replace(file)


# --- what an earlier analysis left -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Earlier:
    """Runs of an earlier analysis: results that stay, runs to drop because their logs are gone, remarks on both.

    `cross_run`: what was found between runs that all stay.
    """

    kept: tuple[RunResult, ...]
    cross_run: tuple[CrossRunFinding, ...]
    gone: tuple[str, ...]
    notes: tuple[str, ...]


def earlier(out: Path, paths: Sequence[Path], fresh: set[str]) -> Earlier:
    """What becomes of runs of an earlier analysis into the same folder that are not among the `fresh` ones.

    Below the paths analysed now, a run that was not found again is gone. A run that was only imported stays in the
    store. What cannot be read is left as it is.
    """
    known, index = read_manifest(out / STORE), _index(out)
    indexed = tuple(entry.run for entry in index.runs) if index else ()
    analysed = [path.absolute() for path in paths]
    renamed = {_logs(out / STORE / known[name]): name for name in fresh if name in known}
    kept, gone, notes = [], [], []
    for name in dict.fromkeys([*known, *indexed]):
        if name in fresh:
            continue
        logs = _logs(out / STORE / known[name]) if name in known else None
        file = out / run_folder(name) / RESULT
        if logs is not None and (not logs.exists() or any(map(logs.is_relative_to, analysed))):
            gone.append(name)
            reason = f"is {renamed[logs]} now" if logs in renamed else "its logs are gone or part of another run now"
            notes.append(f"{name}: {reason}; dropped from the results")
        elif file.is_file():
            try:
                kept.append(report_json.load_run(file.read_bytes(), str(file)))
            except (UsageError, OSError):
                notes.append(f"{name}: {file} cannot be read and is left out of the index; analyse its logs again")
        elif name not in known:
            notes.append(f"{name}: {file} is gone; left out of the index")
    stay = {result.run for result in kept}
    between = tuple(finding for finding in index.cross_run if stay.issuperset(finding.runs)) if index else ()
    return Earlier(tuple(kept), between, tuple(gone), tuple(notes))


def known_logs(out: Path) -> dict[str, Path]:
    """Runs of an earlier analysis, and the folder of the logs of each."""
    stored = ((name, _logs(out / STORE / folder)) for name, folder in read_manifest(out / STORE).items())
    return {name: logs for name, logs in stored if logs is not None}


def known_folders(out: Path) -> dict[Path, str]:
    """Folders that an earlier analysis was given, and what they are called in its results.

    A run that is given again by a folder further down keeps its name, and so its place.
    """
    stored = known_logs(out).items()
    return dict(found for name, logs in stored if (found := _named_from(name, logs)) is not None)


def _named_from(run: str, logs: Path) -> tuple[Path, str] | None:
    """The folder from whose name on a run is named, None for a file; the run's own where its name has a suffix."""
    parts = logs.parts
    for depth in range(min(len(parts) - 1, len(run.split("/"))), 0, -1):
        match = re.match(rf"{re.escape('/'.join(parts[-depth:]))}(-\d+)?(?=[/#]|$)", run)
        if match is not None:
            return (logs, match[0]) if match[1] else (Path(*parts[: len(parts) - depth + 1]), parts[-depth])
    return None


def _logs(folder: Path) -> Path | None:
    """Where the logs of a stored run lie, if the store can still tell."""
    try:
        return StoredRun(folder).logs
    except UsageError:
        return None


def _index(out: Path) -> Index | None:
    """The index, None where it cannot be read."""
    try:
        return report_json.load_index((out / RESULT).read_bytes())
    except (UsageError, OSError):
        return None


def drop(out: Path, names: Sequence[str]) -> None:
    """Remove runs from store and results, and the folders that are empty then."""
    drop_runs(out / STORE, names)
    for name in names:
        folder = out / run_folder(name)
        for file in (RESULT, REPORT, SKIP):
            (folder / file).unlink(missing_ok=True)
        shutil.rmtree(folder / PLOTS, ignore_errors=True)
        while folder != out and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
