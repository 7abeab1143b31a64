"""The labelled runs, and trainforensics' own verdicts on them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detect.scorer import Alarm, Labelled, labelled
from trainforensics.config import Settings
from trainforensics.engine import STORE, analyze
from trainforensics.kinds import is_alarm
from trainforensics.model import Incident, RunResult
from trainforensics.signals import Signals
from trainforensics.signals.load import load
from trainforensics.store.reader import StoredRun, runs_of

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True, slots=True)
class Case:
    """A labelled run: its logs, what trainforensics read from them, and what it said."""

    label: Labelled
    folder: Path
    signals: tuple[Signals, ...]
    alarms: tuple[Alarm, ...]

    @property
    def read(self) -> bool:
        """Whether a point was read."""
        return any(len(curve) for view in self.signals for curve in view.every_curve())

    @property
    def points(self) -> int:
        """Logged points of the training loss, or of the longest series."""
        return sum(map(_points, self.signals))


def cases(out: Path, corpus: Path = FIXTURES) -> list[Case]:
    """Analyse the runs of a corpus (`runs/` and `truth.jsonl`), results under `out`."""
    settings = Settings(out=out, plots=False, jobs=1)
    results = analyze([corpus / "runs"], settings).runs
    stored = {name: StoredRun(folder) for name, folder in runs_of(out / STORE).items()}
    labels = [labelled(json.loads(line)) for line in (corpus / "truth.jsonl").read_text("utf-8").splitlines()]
    return [_case(label, corpus / "runs" / label.run, results, stored, settings) for label in labels]


def _case(
    label: Labelled, folder: Path, results: Sequence[RunResult], stored: dict[str, StoredRun], settings: Settings
) -> Case:
    own = [result for result in results if label.run in re.split("[/#]", result.run)]
    signals = tuple(load(stored[result.run], settings) for result in own)
    return Case(label, folder, signals, tuple(alarm for result in own for alarm in alarms_of(result.incidents)))


def _points(signals: Signals) -> int:
    curve = signals.curve("train_loss") or max(signals.every_curve(), key=len, default=None)
    return 0 if curve is None else len(curve)


def alarms_of(incidents: Sequence[Incident]) -> list[Alarm]:
    """Incidents of severity medium and above; those that a root alarm explains are followers."""
    by_id = {incident.id: incident for incident in incidents}
    return [
        Alarm(
            (incident.kind,),
            _steps(incident),
            confidence=incident.confidence,
            follower=_has_alarming_root(incident, by_id),
        )
        for incident in incidents
        if is_alarm(incident.severity)
    ]


def _steps(incident: Incident) -> tuple[int, ...]:
    onset = () if incident.onset_step is None else (incident.onset_step,)
    return tuple(sorted({*onset, *incident.occurrences}))


def _has_alarming_root(incident: Incident, by_id: dict[str, Incident]) -> bool:
    here, seen = incident, {incident.id}
    while here.caused_by in by_id and here.caused_by not in seen:
        here = by_id[here.caused_by]
        seen.add(here.id)
    return here is not incident and is_alarm(here.severity)
