"""What a PATH argument may be: logs, a result.json, or an --out folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainforensics.errors import UsageError

if TYPE_CHECKING:
    from trainforensics.config import Settings
    from trainforensics.engine import Progress
    from trainforensics.model import Index, RunResult, Skipped
    from trainforensics.store.reader import StoredRun

DIFF_FOLDER = ".diff"
_MANIFEST_LEVELS = (
    3  # folders above a run in which its batch manifest is looked for: runs/, the experiment, the project
)


def saved_results(path: Path) -> tuple[Index | None, tuple[RunResult, ...], Path]:
    """The index (None for the result of a single run), results and folder saved at `path`.

    Raises UsageError if `path` is not a saved result.
    """
    from trainforensics.report import json  # noqa: PLC0415

    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    return *json.load(path), path if path.is_dir() else path.parent


@dataclass(frozen=True, slots=True)
class Judged:
    """Results to hold against a policy, what could not be looked at, and remarks for the user."""

    results: tuple[RunResult, ...]
    unread: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()


def results_of(paths: Sequence[Path], settings: Settings, progress: Progress | None) -> Judged:
    """Results to judge: saved ones as they are, logs analysed now (without figures)."""
    from trainforensics.report import json  # noqa: PLC0415

    saved = [path for path in paths if json.is_saved_result(path)]
    logs = [path for path in paths if path not in saved]
    known = [saved_results(path) for path in saved]
    results = tuple(result for _, judged, _ in known for result in judged)
    unread = tuple(entry for index, _, _ in known if index is not None for entry in index.skipped if entry.unread)
    if not logs:
        return Judged(results, unread)
    from trainforensics import engine  # noqa: PLC0415  (heavy; a saved result needs none of it)

    found = engine.analyze(logs, settings, progress)
    return Judged((*results, *found.runs), (*unread, *found.unread), found.notes)


def stored_run(path: Path, settings: Settings, progress: Progress | None) -> StoredRun:
    """The one run at `path`, from its store; logs are imported first.

    Raises UsageError where there are several runs, or where a saved result has no store beside it.
    """
    from trainforensics import engine  # noqa: PLC0415
    from trainforensics.engine.output import STORE  # noqa: PLC0415
    from trainforensics.report import json  # noqa: PLC0415
    from trainforensics.store.reader import open_run  # noqa: PLC0415

    if json.is_saved_result(path):
        _, results, folder = saved_results(path)
        names, out = [result.run for result in results], _out_folder(folder)
    else:
        names, out = list(engine.import_paths([path], settings, progress).runs), settings.out
    if len(names) != 1:
        shown = ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
        raise UsageError(f"{path}: holds {len(names)} runs ({shown}); give the path of one of them")
    return open_run(out / STORE, names[0])


def run_with_batches(path: Path, settings: Settings, progress: Progress | None) -> StoredRun:
    """As `stored_run`; a run without a batch manifest has that of the nearest folder above."""
    from trainforensics import engine  # noqa: PLC0415
    from trainforensics.discovery import manifests_above  # noqa: PLC0415
    from trainforensics.report import json  # noqa: PLC0415
    from trainforensics.store.reader import StoredRun  # noqa: PLC0415

    run = stored_run(path, settings, progress)
    if json.is_saved_result(path) or run.batches() is not None:
        return run
    if above := manifests_above(path, levels=_MANIFEST_LEVELS):
        engine.import_paths([path, *above], settings, progress)
    return StoredRun(run.folder)


def analysis_of(path: Path, run: StoredRun, settings: Settings) -> RunResult | None:
    """What an analysis said of the run: the result at `path`, or of logs the one in the output folder; None without.

    A result that was made of other logs of the same name, or before these logs grew, does not count.
    """
    from trainforensics.engine.output import run_folder  # noqa: PLC0415
    from trainforensics.report import json  # noqa: PLC0415

    if json.is_saved_result(path):
        return saved_results(path)[1][0]
    beside = settings.out / run_folder(run.name)
    if not json.is_saved_result(beside):
        return None
    found = saved_results(beside)[1][0]
    same = found.segments == run.segments and _read_from(found) == _read_from(run)
    return found if same else None


def _read_from(run: RunResult | StoredRun) -> list[tuple[str, str, int]]:
    return [(source.path, source.format, source.points) for source in run.sources]


@contextmanager
def two_stored_runs(
    a: Path, b: Path, settings: Settings, progress: Progress | None
) -> Iterator[tuple[StoredRun, StoredRun]]:
    """The runs at two paths, as `stored_run` finds them, for as long as the block runs.

    Logs are imported below `.diff/` in the output folder, each in a store of its own: runs may be named alike, and the
    store of an analysis stays as it is.
    """
    from trainforensics.engine import output  # noqa: PLC0415
    from trainforensics.report import json  # noqa: PLC0415

    for path in (a, b):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
    with ExitStack() as held:
        if not all(json.is_saved_result(path) for path in (a, b)):
            held.enter_context(output.claim(settings.out))
            shutil.rmtree(settings.out / DIFF_FOLDER, ignore_errors=True)
        first, second = (
            stored_run(path, replace(settings, out=settings.out / DIFF_FOLDER / side), progress)
            for path, side in ((a, "a"), (b, "b"))
        )
        yield first, second


def _out_folder(folder: Path) -> Path:
    """The --out folder that a result lies in, by its marker."""
    from trainforensics.discovery import MARKER  # noqa: PLC0415

    for candidate in (folder, *folder.absolute().parents):
        if (candidate / MARKER).is_file():
            return candidate
    raise UsageError(f"{folder}: the store of this result is not there; give the logs instead")
