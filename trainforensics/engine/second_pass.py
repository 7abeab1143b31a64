"""After all runs are judged: neighbours held against each other, and what departs added to the run that departs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from trainforensics import blame, causes, remedies
from trainforensics.compare.siblings import Departure, candidates, departures
from trainforensics.config import Settings
from trainforensics.engine import output
from trainforensics.engine.judge import verdict_of
from trainforensics.kinds import KINDS
from trainforensics.model import CrossRunFinding, DetectorError, Incident, RunResult
from trainforensics.signals import Signals
from trainforensics.signals.load import judge_series
from trainforensics.store.reader import StoredRun

STAGE = "siblings"


def judge_siblings(
    results: Sequence[RunResult], stored: Mapping[str, StoredRun], settings: Settings
) -> tuple[list[RunResult], tuple[CrossRunFinding, ...]]:
    """The results with incidents of runs that depart from a sibling, in order, and the findings for the index.

    A changed result is written again. A failure is an error of the runs it concerns and leaves their results as they
    were.
    """
    by_run = {result.run: result for result in results}
    findings: list[CrossRunFinding] = []
    for neighbours in candidates(results, {name: run.logs for name, run in stored.items()}):
        names = neighbours.runs
        try:
            runs = {name: judge_series(stored[name], settings).signals for name in names}
            told = {name: by_run[name].incidents for name in runs}
            found = [d for d in departures(neighbours, runs, told) if _wanted(d, settings)]
            changed = {
                name: _with_incidents(by_run[name], runs[name], stored[name], found) for name in {d.run for d in found}
            }
            for name, result in changed.items():
                output.write_run(settings.out, result, runs[name], stored[name].logs, plots=settings.plots)
        except Exception as error:
            if os.environ.get("TRAINFORENSICS_DEBUG"):
                raise
            by_run |= _failed([by_run[name] for name in names], stored, error, settings)
            continue
        by_run |= changed
        findings += [departure.finding for departure in found]
    return list(by_run.values()), tuple(findings)


def _wanted(departure: Departure, settings: Settings) -> bool:
    kind = KINDS[departure.incident.kind]
    return settings.wants(kind.name, kind.family)


def _with_incidents(result: RunResult, signals: Signals, run: StoredRun, found: Iterable[Departure]) -> RunResult:
    """A run's result with the incidents that only its siblings show; its own stay as they are."""
    new: tuple[Incident, ...] = tuple(d.incident for d in found if d.run == result.run)
    blamed = blame.attach(new, signals, run.batches())
    explained = remedies.prescribe(causes.rank(blamed, signals), signals)
    together = sorted((*result.incidents, *explained), key=lambda i: (i.onset_step is None, i.onset_step or 0))
    return replace(result, incidents=tuple(together), verdict=verdict_of(together, signals))


def _failed(
    results: Iterable[RunResult], stored: Mapping[str, StoredRun], error: Exception, settings: Settings
) -> dict[str, RunResult]:
    problem = DetectorError(STAGE, f"{type(error).__name__}: {error}")
    failed = {result.run: replace(result, errored=(*result.errored, problem)) for result in results}
    for result in failed.values():
        output.write_run(settings.out, result, None, stored[result.run].logs, plots=settings.plots)
    return failed
