from __future__ import annotations

import numpy as np
import pytest

from benchmarks.detect.scorer import score_run
from benchmarks.simulated.__main__ import report
from benchmarks.simulated.events import EVENTS, Event
from benchmarks.simulated.healthy import NATURES, Nature, make
from benchmarks.simulated.measure import healthy, injected, judged

BY_NAME = {event.name: event for event in EVENTS}


@pytest.mark.parametrize("nature", NATURES, ids=lambda nature: nature.name)
def test_a_healthy_run_is_finite_and_the_same_again(nature: Nature) -> None:
    for n in (12, 300):
        run, again = make(nature, n, 3), make(nature, n, 3)
        assert len(run.step) == n
        for role, values in run.values.items():
            assert np.isfinite(values).all(), role
            assert np.array_equal(values, again.values[role]), role


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_an_event_changes_what_its_label_says(event: Event) -> None:
    run, untouched = make(NATURES[0], 600, 1), make(NATURES[0], 600, 1)
    label = event.inject(run, np.random.default_rng(0), event.heights[-1], event.lengths[0])
    assert len(label.truths) == event.recurs
    onset = min(label.truths[0].onsets)
    changed = [
        run.step[(run.every * (np.arange(len(values)) + 1) - 1) if role.startswith("val_") else np.arange(len(values))][
            ~np.isclose(values, untouched.values[role], equal_nan=True)
        ]
        for role, values in run.values.items()
    ]
    first = min((int(steps[0]) for steps in changed if len(steps)), default=None)
    if event.name == "scale decay":  # its own healthy past
        assert first is not None
    else:
        assert first is not None
        assert abs(first - onset) <= label.truths[0].tolerance


def test_a_high_burst_is_named_and_noise_is_silent() -> None:
    (quiet,) = healthy(NATURES[:1], {300: 1})
    assert not quiet.alarms
    run = make(NATURES[0], 600, 1)
    label = BY_NAME["burst"].inject(run, np.random.default_rng(0), 100, 1)
    assert score_run(label, judged(run)[0]).hits == {"instant-burst": 1}


def test_the_whole_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.simulated.measure.EVENT_LENGTHS", (300,))
    event = BY_NAME["NaN to the end"]
    text = report(list(healthy(NATURES[:2], {12: 2, 100: 1})), list(injected([event], NATURES[:1], 2)))
    assert "6 healthy runs" in text
    assert "| normal | 0/2 | 0/1 | 0/3 |" in text
    assert "| NaN to the end | normal | 0 | 1: 1.00 | 0 / 0 | none in 2 |" in text
