"""One run from its store to its result: signals, detectors, incidents, blame, causes, remedies, verdict."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from polars.exceptions import PanicException

from trainforensics import blame, causes, incidents, registry, remedies
from trainforensics.config import Settings
from trainforensics.detectors.base import Meta
from trainforensics.model import (
    Clear,
    DetectorError,
    Ended,
    Event,
    Finding,
    Fired,
    Incident,
    NotApplicable,
    NotJudged,
    Outcome,
    ReadWarning,
    RunResult,
    SourceSummary,
    Verdict,
)
from trainforensics.signals import Signals
from trainforensics.signals.load import judge_series
from trainforensics.signals.rows import rows_after_loss
from trainforensics.signals.task import planned_steps
from trainforensics.store.reader import StoredRun

_JUDGEABLE = ("train_loss", "val_loss", "val_metric", "reward")
_FEWEST_POINTS = 3  # fewer numbers have no trend and no noise to be judged against
_CRASHED = frozenset({"crash", "crashed", "traceback", "oom", "node-lost", "preemption", "nccl-timeout"})
_FINISHED = frozenset({"finish", "finished", "end"})


@dataclass(slots=True)
class _Findings:
    """What the detectors answered."""

    findings: list[Finding]
    not_judged: list[NotJudged]
    errored: list[DetectorError]


def judge(run: StoredRun, settings: Settings) -> tuple[RunResult, Signals]:
    """The result of one run, and the signals it was judged on (for figures)."""
    judged = judge_series(run, settings)
    signals = judged.signals
    answers = detect_all(signals, settings)
    found, failed = _explain(answers.findings, signals, run)
    ended = ended_of(found, signals)
    result = RunResult(
        run=run.name,
        verdict=verdict_of(found, signals),
        axis=run.axis,
        ended=ended,
        sources=_with_warnings(run.sources, judged.warnings),
        config=dict(run.config),
        options=options_of(settings),
        series=judged.series,
        segments=run.segments,
        checkpoints=signals.checkpoints,
        incidents=found,
        not_judged=tuple(answers.not_judged),
        errored=(*answers.errored, *failed),
        grouping=run.grouping,
        failure=failure_of(signals) if ended == "crashed" else None,
    )
    return result, signals


def unjudged(run: StoredRun, settings: Settings, error: DetectorError) -> RunResult:
    """The result of a run that could not even be looked at."""
    options = options_of(settings)
    return RunResult(
        run.name, "undecided", run.axis, "unknown", run.sources, dict(run.config), options, errored=(error,)
    )


def detect_all(signals: Signals, settings: Settings) -> _Findings:
    """Phase 1, then phase 2 with the outcomes of phase 1. A detector that raises fails alone."""
    answers = _Findings([], [], [])
    unjudged = _unjudged_rows(signals)
    outcomes: dict[str, Outcome] = {}
    for detector in _in_phases(settings):
        meta: Meta = detector.META
        seen = signals if meta.phase == 1 else replace(signals, outcomes=dict(outcomes))
        with _errors_go_to(answers.errored, meta.kind.name):
            outcome = _detect(detector, seen, settings)
            if unjudged is not None and isinstance(outcome, Clear) and "train_loss" in meta.needs:
                outcome = unjudged
            outcomes[meta.kind.name] = outcome
            match outcome:
                case Fired(findings):
                    answers.findings += findings
                case NotApplicable(reason, log_next_time):
                    answers.not_judged.append(NotJudged(meta.kind.name, reason, log_next_time))
                case Clear():
                    pass
    return answers


class _errors_go_to:  # noqa: N801  (reads as a statement)
    """Turns an exception of the block into a DetectorError; numpy's warnings are silent inside."""

    def __init__(self, errored: list[DetectorError], name: str) -> None:
        self._errored, self._name = errored, name
        self._quiet = np.errstate(all="ignore")

    def __enter__(self) -> None:
        self._quiet.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        self._quiet.__exit__(kind, error, trace)
        if not isinstance(error, (Exception, PanicException)) or os.environ.get("TRAINFORENSICS_DEBUG"):
            return False
        self._errored.append(DetectorError(self._name, f"{type(error).__name__}: {error}"))
        return True


def _in_phases(settings: Settings) -> list[ModuleType]:
    metas: Iterator[tuple[Meta, ModuleType]] = ((module.META, module) for module in registry.detectors().modules)
    wanted = [(m, d) for m, d in metas if m.scope == "run" and settings.wants(m.kind.name, m.kind.family)]
    return [detector for _, detector in sorted(wanted, key=lambda pair: pair[0].phase)]


def _unjudged_rows(signals: Signals) -> NotApplicable | None:
    """Why no clearance of the loss holds for the whole run: it ends before the rows of training do."""
    loss = signals.curve("train_loss")
    if loss is None:
        return None
    after = rows_after_loss(signals, loss)
    if not len(after):
        return None
    reason = f"{loss.name} ends at step {int(loss.step[-1])}; steps up to {int(after[-1])} were not judged"
    return NotApplicable(reason, f"log {loss.name} as a number to the end")


def _detect(detector: ModuleType, signals: Signals, settings: Settings) -> Outcome:
    meta: Meta = detector.META
    missing = [need for need in meta.needs if not any(signals.has(role) for role in need.split("|"))]
    if missing:
        wanted = " and ".join(need.replace("|", " or ") for need in missing)
        return NotApplicable(f"not logged: {wanted}", f"log {wanted}")
    params = {p.name: p.default for p in meta.params} | dict(settings.params.get(meta.kind.name, {}))
    roles = frozenset(role for need in (*meta.needs, *meta.uses) for role in need.split("|"))
    outcome: Outcome = detector.detect(signals.view(roles), params)
    return outcome


def _explain(
    findings: Sequence[Finding], signals: Signals, run: StoredRun
) -> tuple[tuple[Incident, ...], list[DetectorError]]:
    """Incidents with blame, causes and remedies; a stage that fails leaves the incidents as they were before it."""
    stages: tuple[tuple[str, Callable[[tuple[Incident, ...]], tuple[Incident, ...]]], ...] = (
        ("incidents", lambda _: incidents.build(findings, signals)),
        ("blame", lambda found: blame.attach(found, signals, run.batches())),
        ("causes", lambda found: causes.rank(found, signals)),
        ("remedies", lambda found: remedies.prescribe(found, signals)),
        ("suspects", blame.accuse),
        ("units", lambda found: incidents.in_units(found, run.axis.unit)),
    )
    found: tuple[Incident, ...] = ()
    failed: list[DetectorError] = []
    for name, stage in stages:
        with _errors_go_to(failed, name):
            found = stage(found)
    return found, failed


def verdict_of(found: Sequence[Incident], signals: Signals) -> Verdict:
    """In this order: failed, undecided, unstable, stable."""
    if any(_fatal(incident) for incident in found):
        return "failed"
    if not any(np.count_nonzero(c.finite) >= _FEWEST_POINTS for role in _JUDGEABLE for c in signals.curves(role)):
        return "undecided"
    return "unstable" if any(i.is_root_alarm and i.kind != "coverage-gap" for i in found) else "stable"


def _fatal(incident: Incident) -> bool:
    """Non-finite, or running away, to the end of the log."""
    return incident.kind == "nan-onset" or (incident.kind == "divergence" and incident.recovery == "diverging")


def ended_of(found: Sequence[Incident], signals: Signals) -> Ended:
    """How the log says the run ended: an exit code, a crash after the last step, the last step it was to do."""
    late = _late(signals)
    exits = [event for event in late if event.kind == "exit"]
    if exits:
        return "finished" if re.search(r"\b0$", exits[-1].text) else "crashed"
    if any(event.kind in _CRASHED for event in late):
        return "crashed"
    if any(event.kind in _FINISHED for event in late) or _last_step(signals) in _last_planned(signals):
        return "finished"
    return "ongoing" if any(incident.recovery == "ongoing" for incident in found) else "unknown"


def failure_of(signals: Signals) -> Event | None:
    """The last error that the log of a crashed run states after its last step."""
    late = _late(signals)
    fatal = [event for event in late if event.kind in _CRASHED] or [e for e in late if e.kind == "error"]
    return next((event for event in reversed(fatal) if event.text), None)


def _last_step(signals: Signals) -> int:
    return max((int(curve.step[-1]) for curve in signals.every_curve() if len(curve)), default=0)


def _late(signals: Signals) -> list[Event]:
    """What the log says after its last step."""
    last = _last_step(signals)
    return [event for event in signals.events if event.step is None or event.step >= last]


def _last_planned(signals: Signals) -> set[int]:
    """The last step according to the run's configuration, counted from 1 or from 0."""
    return {n for planned in planned_steps(signals) for n in (planned, planned - 1)}


def options_of(settings: Settings) -> dict[str, Any]:
    """Effective settings as plain JSON values."""
    plain = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return {name: str(value) if isinstance(value, Path) else value for name, value in plain.items()}


def _with_warnings(sources: Sequence[SourceSummary], warnings: Sequence[ReadWarning]) -> tuple[SourceSummary, ...]:
    return tuple(
        replace(source, warnings=(*source.warnings, *(w for w in warnings if w.where == source.path)))
        for source in sources
    )
