"""Runs the stages over runs: discover, import, judge each run, compare runs, write results."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from trainforensics import __version__, blame, registry, roles
from trainforensics.config import Settings
from trainforensics.discovery import Candidate, discover, manifests_above
from trainforensics.engine import naming, output, unread
from trainforensics.engine.judge import judge, unjudged
from trainforensics.engine.output import STORE
from trainforensics.errors import CannotJudgeError, is_full
from trainforensics.model import CrossRunFinding, DetectorError, Index, RunResult, Skipped
from trainforensics.report import mapping
from trainforensics.report.text import one_line, plural
from trainforensics.store.reader import StoredRun, runs_of
from trainforensics.store.writer import Drafts, Part, import_candidates

__all__ = ["STORE", "ImportResult", "Progress", "Result", "analyze", "import_paths"]

_POINTS_PER_JOB = 2_000_000  # below this a further process costs more (start-up about 0.7 s) than it saves
_BYTES_PER_JOB = 64 << 20
_RUNS_PER_JOB, _DRAWN_RUNS_PER_JOB = 40, 8  # judging a small run takes about 0.05 s, drawing it 0.3 s
_NOTED = 5  # files that are named one by one
_WITHOUT_METRICS = frozenset({"config", "indexmap", "manifest"})  # formats that only serve a run
_READABLE = """text with lines such as `step 10 loss 2.31` or `step=10, loss=2.31`; JSON lines such as
  {"step": 10, "loss": 2.31}; a CSV with the header step,loss; other names are explained with --map NAME=train_loss"""
_URGENCY = {"failed": 0, "unstable": 1, "undecided": 2, "stable": 3}

Progress = Callable[[str, int, int], None]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Result:
    """What one analysis found: the index, the result of each run analysed now, and remarks for the user.

    `everything`: the results of all runs in the index, those kept from an earlier analysis included. `unread`: what
    may hold a run and could not be looked at, and paths given by name that hold none.
    """

    index: Index
    runs: tuple[RunResult, ...]
    everything: tuple[RunResult, ...]
    out: Path
    notes: tuple[str, ...] = ()
    unread: tuple[Skipped, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether no run could be judged."""
        return all(run.verdict == "undecided" for run in self.runs)

    @property
    def asked(self) -> tuple[Index, tuple[RunResult, ...]]:
        """The index and the results of the runs analysed now alone, in the order of the whole index."""
        names = {run.run for run in self.runs}
        entries = tuple(entry for entry in self.index.runs if entry.run in names)
        cross = tuple(finding for finding in self.index.cross_run if names & set(finding.runs))
        return (
            replace(self.index, runs=entries, cross_run=cross),
            tuple(run for run in self.everything if run.run in names),
        )


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What one import did: names of the runs in the store, files left aside, remarks for the user."""

    runs: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    store: Path
    notes: tuple[str, ...] = ()


def analyze(paths: Iterable[Path], settings: Settings, progress: Progress | None = None) -> Result:
    """Find the runs below `paths`, judge them, and write store, results and reports under `settings.out`.

    Raises UsageError for a path that does not exist or an output folder that is not ours, CannotJudgeError where
    nothing can be imported.
    """
    given = [Path(path) for path in paths]
    with ExitStack() as held:
        imported = _import(given, settings, progress, held)
        return _analyze(given, imported, settings, progress)


def _analyze(given: Sequence[Path], imported: ImportResult, settings: Settings, progress: Progress | None) -> Result:
    folders = runs_of(imported.store)
    results = list(_judge_all([folders[name] for name in imported.runs], settings, progress))
    results, cross = _cross_run(results, {name: StoredRun(folders[name]) for name in imported.runs}, settings)
    earlier = output.earlier(settings.out, given, set(imported.runs))
    output.drop(settings.out, earlier.gone)
    cross = (*cross, *earlier.cross_run)
    everything = sorted([*results, *earlier.kept], key=lambda result: (_URGENCY[result.verdict], -result.alarms))
    tool = {"name": "trainforensics", "version": __version__}
    index = Index(tool, tuple(map(output.entry, everything)), cross, STORE, imported.skipped)
    output.write_index(settings.out, index, everything)
    older = [f"{plural(len(earlier.kept), 'older run')} kept in {settings.out}"] if earlier.kept else []
    gaps = tuple(entry for entry in imported.skipped if entry.unread)
    names = {name for folder in imported.runs for name in _names_of(StoredRun(folders[folder]))}
    notes = (
        *imported.notes,
        *(f"{entry.path}: not read: {one_line(entry.reason)}" for entry in gaps[:_NOTED]),
        *([f"and {len(gaps) - _NOTED} more not read"] if len(gaps) > _NOTED else []),
        *mapping.unmatched(settings.map, names),
        *_failures(results),
        *earlier.notes,
        *older,
        *mapping.hints(results),
    )
    return Result(index, tuple(results), tuple(everything), settings.out, notes, gaps)


def _names_of(run: StoredRun) -> Iterator[str]:
    """What --map can name in a run: its series, its step axis, the columns of its manifest."""
    yield run.axis.name
    yield from (stored.series.name for stored in run.series)
    batches = run.batches()
    if batches is not None:
        yield from batches.collect_schema().names()


def _failures(results: Iterable[RunResult]) -> Iterator[str]:
    """A remark on each run of whose analysis a part failed."""
    for result in results:
        if result.errored:
            failed = plural(len(result.errored), "part")
            first = one_line(f"{result.errored[0].detector}: {result.errored[0].message}")
            yield f"{one_line(result.run)}: {failed} of the analysis failed, first {first}"


def import_paths(paths: Sequence[Path], settings: Settings, progress: Progress | None = None) -> ImportResult:
    """Import every run below `paths` into the store under `settings.out`. Raises as `analyze` does."""
    with ExitStack() as held:
        return _import(paths, settings, progress, held)


def _import(paths: Sequence[Path], settings: Settings, progress: Progress | None, held: ExitStack) -> ImportResult:
    """As `import_paths`; the output folder stays claimed until `held` is closed."""
    for role in settings.map.values():
        roles.check_role(role)
    output.check(settings.out)  # before the logs are read, which may take long
    known = output.known_folders(settings.out)
    serving = [file for path in paths for file in manifests_above(path, known)]
    found = discover((*paths, *serving), settings.map, known)
    broken = (*registry.importers().broken, *registry.detectors().broken)
    notes = tuple(f"plug-in {plugin.name} is left out: {plugin.message}" for plugin in broken)
    if not any(candidate.sources for candidate in found.candidates):
        raise CannotJudgeError("\n".join((*notes, _nothing(paths, found.skipped))))
    held.enter_context(output.claim(settings.out))
    notes += output.renew_store(settings.out)
    before = output.known_logs(settings.out)
    store = settings.out / STORE
    jobs = _jobs(settings, len(found.candidates), sum(_size(c) for c in found.candidates) // _BYTES_PER_JOB)

    def read(function: Callable[[Part], Drafts], parts: Sequence[Part]) -> Iterable[Drafts]:
        return _run_all(function, parts, [f"reading {part[0].name}" for part in parts], jobs, progress)

    imported = import_candidates(found.candidates, store, settings.map, read)
    skipped = (*found.skipped, *imported.skipped)
    if not imported.runs:
        raise CannotJudgeError("\n".join((*notes, _nothing(paths, skipped))))
    folders = runs_of(store)
    now = ((name, StoredRun(folders[name]).logs) for name in imported.runs)
    notes += (*naming.named_alike(found.candidates), *naming.replaced(before, now))
    return ImportResult(imported.runs, unread.marked(paths, found.candidates, skipped), store, notes)


def _size(candidate: Candidate) -> int:
    return sum(source.path.stat().st_size for source in candidate.sources if source.path.exists())


def _nothing(paths: Sequence[Path], skipped: Sequence[Skipped]) -> str:
    formats = sorted({module.FORMAT for module in registry.importers().modules} - _WITHOUT_METRICS)
    looked = ", ".join(str(path) for path in paths)
    shown = [f"  {entry.path}: {entry.reason}" for entry in skipped[:_NOTED]]
    more = [f"  and {len(skipped) - _NOTED} more"] if len(skipped) > _NOTED else []
    return "\n".join(
        (
            f"no metrics found in {looked}",
            *(["looked at:", *shown, *more] if shown else ["there is no file at all"]),
            f"looked for: {', '.join(formats)}",
            f"always readable: {_READABLE}",
        )
    )


def _judge_all(folders: Sequence[Path], settings: Settings, progress: Progress | None) -> Iterable[RunResult]:
    """Judge and write every run."""
    points = sum(source.points for folder in folders for source in StoredRun(folder).sources)
    runs = len(folders) // (_DRAWN_RUNS_PER_JOB if settings.plots else _RUNS_PER_JOB)
    jobs = _jobs(settings, len(folders), max(points // _POINTS_PER_JOB, runs))
    calls = [(folder, settings) for folder in folders]
    return _run_all(_judge_and_write, calls, [f"judging {folder.name}" for folder in folders], jobs, progress)


def _jobs(settings: Settings, most: int, worth: int) -> int:
    """Processes to use for `most` tasks: as many as asked for, else as are worth their start."""
    return max(1, min(settings.jobs or min(worth, os.cpu_count() or 1), most))


def _run_all(
    function: Callable[[T], R], tasks: Sequence[T], names: Sequence[str], jobs: int, progress: Progress | None
) -> Iterator[R]:
    """Call `function` with each task, in order; here, or in a pool of `jobs` processes."""
    if jobs == 1:
        for number, task in enumerate(tasks):
            _tell(progress, names, number)
            yield function(task)
        return
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415  (a small run needs none of it)
    from multiprocessing import get_context  # noqa: PLC0415

    os.environ["POLARS_MAX_THREADS"] = "1"  # for the workers; polars deadlocks under fork, hence spawn
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_parent) as pool:
        pending = [pool.submit(function, task) for task in tasks]
        try:
            for number, future in enumerate(pending):
                _tell(progress, names, number)
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tell(progress: Progress | None, names: Sequence[str], number: int) -> None:
    if progress is not None:
        progress(names[number], number, len(names))


def _judge_and_write(task: tuple[Path, Settings]) -> RunResult:
    """One run; what fails here is said in its result and leaves the other runs alone."""
    folder, settings = task
    run = StoredRun(folder)
    signals = None
    try:
        result, signals = judge(run, settings)
    except Exception as error:
        result = unjudged(run, settings, _failure("signals", error))
    try:
        output.write_run(settings.out, result, signals, run.logs, plots=settings.plots)
    except Exception as error:
        if is_full(error):
            raise
        result = replace(result, errored=(*result.errored, _failure("report", error)))
        with suppress(OSError):  # the error above says it
            output.write_result(settings.out, result)
    return result


def _failure(stage: str, error: Exception) -> DetectorError:
    if os.environ.get("TRAINFORENSICS_DEBUG"):
        raise error
    return DetectorError(stage, f"{type(error).__name__}: {error}")


def _cross_run(
    results: list[RunResult], stored: Mapping[str, StoredRun], settings: Settings
) -> tuple[list[RunResult], tuple[CrossRunFinding, ...]]:
    """What only several runs together show."""
    if len(results) < 2:
        return results, ()
    from trainforensics.engine.second_pass import judge_siblings  # noqa: PLC0415  (a single run needs none of it)

    shared = blame.cross_run(results, {name: run.batches() for name, run in stored.items()})
    judged, departed = judge_siblings(results, stored, settings)
    return judged, (*shared, *departed)
