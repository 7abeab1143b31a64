from __future__ import annotations

from dataclasses import replace

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.resume import import_integrity
from trainforensics.model import Finding, Fired, ReadWarning
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in import_integrity.META.params}
LOSS = make_curve(np.linspace(3, 2, 100))


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = import_integrity.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def warned(*warnings: ReadWarning) -> Signals:
    return replace(make_signals([LOSS]), warnings=warnings)


def test_damage_is_an_alarm_with_the_place_where_it_begins() -> None:
    gap = ReadWarning("corrupt", "byte 36790", "checksum does not match; between steps 3490 and 3500")
    later = ReadWarning("corrupt", "byte 99999", "checksum does not match; between steps 6010 and 6020")
    refused = ReadWarning("dropped-by-logger", "steps 200 to 248", "49 rows were refused")
    found = [*findings(warned(gap, later)), *findings(warned(refused))]
    assert [(f.severity, f.onset_step, f.end_step) for f in found] == [("medium", 3500, 6020), ("medium", 200, 248)]


def test_a_torn_line_is_a_remark_and_a_second_reader_is_nothing() -> None:
    torn = ReadWarning("torn-line", "line 241", "the last line is cut off; it was left out")
    claimed = ReadWarning("also-claimed", "metrics.jsonl", "console would read it too")
    assert [f.severity for f in findings(warned(torn, claimed))] == ["low"]
    assert not findings(warned(claimed))


def test_steps_below_zero() -> None:
    ill = make_curve(np.ones(100), step=np.arange(-500, 500, 10))
    placeholder = make_curve(np.ones(100), step=np.arange(-1, 99))
    assert [(f.onset_step, f.severity) for f in findings(make_signals([ill]))] == [(-500, "medium")]
    assert not findings(make_signals([placeholder]))


def test_steps_with_two_values_clash_unless_they_agree() -> None:
    step = np.repeat(np.arange(50), 2)
    agree = make_curve(np.repeat(np.linspace(3, 2, 50), 2), step=step)
    clash = make_curve(np.tile([3.0, 2.0], 50), step=step)
    assert not findings(make_signals([agree]))
    assert [f.severity for f in findings(make_signals([clash]))] == ["low"]
