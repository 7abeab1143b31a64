from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.numerics import skipped_steps
from trainforensics.model import Clear, Finding, Fired, NotApplicable
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in skipped_steps.META.params}
RNG = np.random.default_rng(3)


def one(signals: Signals) -> Finding:
    outcome = skipped_steps.detect(signals, PARAMS)
    assert isinstance(outcome, Fired)
    return outcome.findings[0]


def test_a_burst_against_the_own_rate() -> None:
    flags = (RNG.random(3000) < 1 / 500).astype(float)
    flags[2000:2012] = 1
    found = one(make_signals({"overflow": flags}))
    assert (found.onset_step, found.end_step) == (2001, 2012)


def test_a_running_total() -> None:
    flags = np.zeros(1000)
    flags[500:508] = 1
    found = one(make_signals({"skipped_steps": np.cumsum(flags)}))
    assert (found.onset_step, found.end_step) == (501, 508)


def test_a_constant_rate_is_quiet() -> None:
    for seed in range(20):
        flags = (np.random.default_rng(seed).random(2000) < 0.03).astype(float)
        assert isinstance(skipped_steps.detect(make_signals({"overflow": flags}), PARAMS), Clear)


def test_the_search_at_the_start_is_quiet() -> None:
    flags = np.zeros(1000)
    flags[:32] = 1
    assert isinstance(skipped_steps.detect(make_signals({"overflow": flags}), PARAMS), Clear)


def test_skips_of_a_decaying_scale_are_told_there() -> None:
    flags, scale = np.zeros(1000), np.full(1000, 65536.0)
    flags[500:510] = 1
    scale[500:] = 65536.0 / 2.0 ** np.minimum(np.arange(500) + 1, 10)
    assert isinstance(skipped_steps.detect(make_signals({"overflow": flags, "loss_scale": scale}), PARAMS), Clear)


def test_short_and_absent() -> None:
    assert isinstance(skipped_steps.detect(make_signals({"overflow": np.ones(3)}), PARAMS), Clear)
    assert isinstance(skipped_steps.detect(make_signals([make_curve([1.0])]), PARAMS), NotApplicable)
