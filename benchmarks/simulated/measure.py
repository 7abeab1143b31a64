"""Judges simulated runs and counts what was said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.detect.corpus import alarms_of
from benchmarks.detect.scorer import Alarm, Labelled, RunScore, score_run
from benchmarks.simulated.events import Event
from benchmarks.simulated.healthy import Nature, Run, make
from trainforensics import incidents
from trainforensics.config import Settings
from trainforensics.engine.judge import detect_all

SETTINGS = Settings()
SEEDS = {12: 24, 30: 24, 100: 24, 300: 24, 1_000: 24, 5_000: 12, 20_000: 6, 200_000: 2}
EVENT_LENGTHS = (600, 3_000)
EVENT_SEEDS = 6


@dataclass(frozen=True, slots=True)
class Healthy:
    """One healthy run and what it raised."""

    nature: str
    points: int
    seed: int
    alarms: tuple[Alarm, ...]
    summaries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Injected:
    """One run with an event, scored."""

    event: Event
    nature: str
    points: int
    height: float
    length: int
    cadence: int
    score: RunScore


def judged(run: Run) -> tuple[tuple[Alarm, ...], tuple[str, ...]]:
    """Alarms, and all summaries; a detector that fails is an error of the benchmark."""
    signals = run.signals()
    answers = detect_all(signals, SETTINGS)
    if answers.errored:
        raise RuntimeError(f"{answers.errored[0].detector}: {answers.errored[0].message}")
    found = incidents.build(answers.findings, signals)
    return tuple(alarms_of(found)), tuple(incident.summary for incident in found)


def healthy(natures: Sequence[Nature], seeds: dict[int, int]) -> Iterator[Healthy]:
    """Every nature at every length."""
    for nature in natures:
        for points, count in seeds.items():
            for seed in range(count):
                yield Healthy(nature.name, points, seed, *judged(make(nature, points, seed)))


def injected(events: Sequence[Event], natures: Sequence[Nature], seeds: int) -> Iterator[Injected]:
    """Every event at every height and length, in noise of some natures."""
    for event in events:
        for nature in natures:
            for points in EVENT_LENGTHS:
                for height in event.heights:
                    for length in event.lengths:
                        for seed in range(seeds):
                            yield one(event, nature, points, height, length, seed)


def one(event: Event, nature: Nature, points: int, height: float, length: int, seed: int) -> Injected:
    """One run with one event."""
    run = make(nature, points, 1000 + seed)
    rng = np.random.default_rng([seed, points, length, int(10 * height)])
    label: Labelled = event.inject(run, rng, height, length)
    alarms, _ = judged(run)
    cadence = int(run.step[1] - run.step[0])
    return Injected(event, nature.name, points, height, length, cadence, score_run(label, alarms))
