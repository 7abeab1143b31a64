from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.cluster import hardware_fault
from trainforensics.model import Clear, Event, Finding, Fired, NotApplicable, Outcome
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in hardware_fault.META.params}
N = 300


def judge(signals: Signals) -> Outcome:
    return hardware_fault.detect(signals, PARAMS)


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


def told(*texts: str, kind: str = "error", step: int | None = 50) -> Signals:
    return make_signals({"train_loss": np.full(N, 2.0)}, events=[Event(kind, step=step, text=t) for t in texts])


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "dcgm: NVLink fatal error on GPU 3",
        "HW slowdown: thermal throttling active on GPU 2",
        "First rerun: unexpected result is not reproducible within the tolerance (nan != 5.07)!",
    ],
)
def test_messages(text: str) -> None:
    assert one(judge(told(text))).onset_step == 50


def test_rank_and_step_are_read_from_the_message() -> None:
    found = one(judge(told("Rank 13, node node1, device 5, iteration #742: Possible transient error!", step=740)))
    assert (found.scope.rank, found.onset_step) == (13, 742)


def test_messages_of_one_fault_are_one_finding() -> None:
    found = one(judge(told("Xid 48: DBE", "uncorrectable ECC error encountered")))
    assert found.occurrences == (50,)


@pytest.mark.parametrize(
    "text",
    ["ECC errors: 0", "no Xid errors found", "error: could not open file", "step 742 loss 5.07", "xid_wait = true"],
)
def test_other_messages_are_quiet(text: str) -> None:
    assert isinstance(judge(told(text)), Clear)


def test_a_rising_counter() -> None:
    count = np.zeros(N)
    count[120:] = 2
    found = one(judge(make_signals([make_curve(count, "ecc_errors", name="ecc_uncorrected", rank=3)])))
    assert (found.onset_step, found.scope.rank, found.severity) == (121, 3, None)


def test_corrected_errors_are_low() -> None:
    count = np.cumsum(np.arange(N) % 90 == 89)
    assert one(judge(make_signals([make_curve(count, "ecc_errors", name="ecc_corrected")]))).severity == "low"


def test_a_counter_that_stands_still_is_quiet() -> None:
    assert isinstance(judge(make_signals({"ecc_errors": np.full(N, 7.0)})), Clear)


def clocked(hot: float) -> Signals:
    clock = 1400 + 5 * np.random.default_rng(0).standard_normal(N)
    heat = np.full(N, 60.0)
    clock[150:] -= 500
    heat[150:] = hot
    return make_signals([make_curve(clock, "gpu_clock", rank=1), make_curve(heat, "gpu_temperature", rank=1)])


def test_throttling() -> None:
    found = one(judge(clocked(hot=90)))
    assert (found.scope.rank, found.role) == (1, "gpu_clock")
    assert abs((found.onset_step or 0) - 151) <= 2


def test_an_idle_clock_is_quiet() -> None:
    assert isinstance(judge(clocked(hot=45)), Clear)


def test_nothing_to_look_at() -> None:
    assert isinstance(judge(make_signals({"train_loss": np.full(N, 2.0)})), NotApplicable)
