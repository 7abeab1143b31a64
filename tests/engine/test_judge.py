from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics import registry
from trainforensics.config import Settings
from trainforensics.detectors.base import Meta, Param
from trainforensics.engine.judge import detect_all, ended_of, verdict_of
from trainforensics.kinds import KINDS
from trainforensics.model import Clear, Cost, Event, Finding, Fired, Incident, NotApplicable, Outcome, Scope
from trainforensics.registry import Registered
from trainforensics.signals import Signals

Use = Callable[..., None]
LOSS = {"train_loss": np.linspace(3, 2, 50)}


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    def register(*detectors: SimpleNamespace) -> None:
        monkeypatch.setattr(registry, "detectors", lambda: Registered(detectors, ()))  # type: ignore[arg-type]

    return register


def detector(kind: str, detect: Callable[[Signals, Any], Outcome], **meta: Any) -> SimpleNamespace:
    return SimpleNamespace(META=Meta(KINDS[kind], **meta), detect=detect)


def incident(kind: str, **changes: Any) -> Incident:
    plain: dict[str, Any] = {
        "id": "1", "code": "X", "severity": KINDS[kind].severity, "confidence": 0.9, "caused_by": None, "onset_step": 1,
        "onset_interval": None, "occurrences": (), "segment": None, "peak_step": None, "end_step": None,
        "recovery": None, "cost": Cost(), "series": "loss", "role": "train_loss", "scope": Scope(), "summary": "",
    }  # fmt: skip
    return Incident(kind=kind, **plain | changes)


def test_a_detector_sees_what_it_declared_and_no_more(use: Use) -> None:
    seen: list[Signals] = []

    def look(signals: Signals, params: Any) -> Outcome:
        seen.append(signals)
        return Clear()

    use(detector("plateau", look, needs=("train_loss",), uses=("learning_rate",)))
    detect_all(make_signals({**LOSS, "learning_rate": np.ones(50), "grad_norm": np.ones(50)}), Settings())
    assert set(seen[0].by_role) == {"train_loss", "learning_rate"}


def test_what_is_needed_and_not_logged_is_not_judged(use: Use) -> None:
    use(detector("plateau", lambda *_: Clear(), needs=("train_loss", "learning_rate|batch_size")))
    (gap,) = detect_all(make_signals(LOSS), Settings()).not_judged
    assert (gap.kind, gap.reason) == ("plateau", "not logged: learning_rate or batch_size")


def test_a_detector_that_fails_fails_alone(use: Use) -> None:
    def fail(*_: Any) -> Outcome:
        raise ZeroDivisionError("by zero")

    finding = Finding("divergence", "loss", "train_loss", 3, 0.9, "up")
    use(detector("plateau", fail), detector("divergence", lambda *_: Fired((finding,))))
    answers = detect_all(make_signals(LOSS), Settings())
    assert [(e.detector, e.message) for e in answers.errored] == [("plateau", "ZeroDivisionError: by zero")]
    assert answers.findings == [finding]


def test_numpy_does_not_warn_out_of_a_detector(use: Use) -> None:
    def divide(*_: Any) -> Outcome:
        assert np.isinf(np.ones(2) / np.zeros(2)).all()
        return Clear()

    use(detector("plateau", divide))
    assert not detect_all(make_signals(LOSS), Settings()).errored


def test_phase_two_reads_the_outcomes_of_phase_one(use: Use) -> None:
    seen: list[Signals] = []

    def gap(signals: Signals, params: Any) -> Outcome:
        seen.append(signals)
        return Clear()

    none = NotApplicable("no")
    use(detector("coverage-gap", gap, phase=2), detector("plateau", lambda *_: none))
    detect_all(make_signals(LOSS), Settings())
    assert seen[0].outcomes == {"plateau": none}


def test_parameters_come_from_the_settings(use: Use) -> None:
    seen: list[Any] = []

    def look(signals: Signals, params: Any) -> Outcome:
        seen.append(params)
        return Clear()

    use(detector("plateau", look, params=(Param("z", 6, "noise"), Param("n", 3, "noise"))))
    detect_all(make_signals(LOSS), Settings(params={"plateau": {"z": 8.0}}))
    assert seen == [{"z": 8.0, "n": 3}]


def test_kinds_left_out_are_not_run(use: Use) -> None:
    use(detector("plateau", lambda *_: NotApplicable("ran")), detector("divergence", lambda *_: NotApplicable("ran")))
    assert [n.kind for n in detect_all(make_signals(LOSS), Settings(select=("divergence",))).not_judged] == [
        "divergence"
    ]


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([], "stable"),
        ([incident("clip-saturation")], "stable"),
        ([incident("plateau", caused_by="2")], "stable"),
        ([incident("coverage-gap", severity="medium")], "stable"),
        ([incident("plateau")], "unstable"),
        ([incident("divergence", recovery="unrecovered")], "unstable"),
        ([incident("divergence", recovery="diverging")], "failed"),
        ([incident("plateau"), incident("nan-onset", caused_by="1")], "failed"),
    ],
)
def test_verdict(found: list[Incident], verdict: str) -> None:
    assert verdict_of(found, make_signals(LOSS)) == verdict


def test_without_a_usable_metric_the_run_is_undecided() -> None:
    assert verdict_of([], make_signals({"learning_rate": np.ones(50)})) == "undecided"
    assert verdict_of([], make_signals({"train_loss": [1.0, np.nan, np.nan]})) == "undecided"
    assert verdict_of([incident("nan-onset")], make_signals({"train_loss": [np.nan] * 9})) == "failed"


@pytest.mark.parametrize(
    ("events", "settings", "ended"),
    [
        ([], {}, "unknown"),
        ([Event("exit", text="exit code 0")], {}, "finished"),
        ([Event("exit", text="exit code 10")], {}, "crashed"),
        ([Event("oom", step=50)], {}, "crashed"),
        ([Event("oom", step=20)], {}, "unknown"),
        ([], {"max_steps": 50}, "finished"),
        ([], {"max_steps": 500}, "unknown"),
    ],
)
def test_how_it_ended(events: list[Event], settings: dict[str, Any], ended: str) -> None:
    assert ended_of([], make_signals(LOSS, events=events, config=settings)) == ended


def test_a_log_that_stops_within_an_event_is_ongoing() -> None:
    assert ended_of([incident("gradual-rise", recovery="ongoing")], make_signals(LOSS)) == "ongoing"


def test_a_loss_that_ends_early_clears_nothing(use: Use) -> None:
    of_loss = detector("instant-burst", lambda *_: Clear(), needs=("train_loss",))
    of_norm = detector("gradient-explosion", lambda *_: Clear(), needs=("grad_norm",))
    use(of_loss, of_norm)
    norm = make_curve(np.ones(600), "grad_norm")
    ended = make_signals([make_curve(np.linspace(3, 2, 300)), norm])
    whole = make_signals([make_curve(np.linspace(3, 2, 600)), norm])
    (gap,) = detect_all(ended, Settings()).not_judged
    assert gap.kind == "instant-burst"
    assert gap.reason == "train_loss ends at step 300; steps up to 600 were not judged"
    assert detect_all(whole, Settings()).not_judged == []
