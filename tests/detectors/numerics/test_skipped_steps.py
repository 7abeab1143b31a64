from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.numerics import skipped_steps
from trainforensics.model import Clear, Event, Finding, Fired, NotApplicable
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


@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
def test_a_share_that_no_scaler_skips(share: float) -> None:
    flags = (np.random.default_rng(1).random(2000) < share).astype(float)
    found = one(make_signals({"skipped_steps": flags}))
    assert (found.end_step or 0) > 1900
    assert found.recovery in {"ongoing", "recovered"}
    counts = flags.reshape(-1, 20).sum(axis=1)
    assert one(make_signals({"skipped_steps": counts}, step=np.arange(20, 2001, 20))).kind == "skipped-steps"


def test_what_is_counted_faster_than_steps_are_no_updates() -> None:
    samples = np.random.default_rng(1).integers(0, 8, 1000)
    assert isinstance(skipped_steps.detect(make_signals({"skipped_steps": samples}), PARAMS), Clear)


def test_messages_of_skipped_updates() -> None:
    loss = make_curve(np.full(60, 100.0), step=np.arange(100, 6001, 100))
    text = "WARNING: The grad norm is nan. Skipping updating the model."
    often = [Event("update-skipped", step=s, text=text) for s in range(5, 6000, 9)]
    assert one(make_signals([loss], events=often)).series == "messages of skipped updates"
    seldom = [Event("update-skipped", step=s, text=text) for s in range(5, 6000, 700)]
    assert isinstance(skipped_steps.detect(make_signals([loss], events=seldom), PARAMS), Clear)


def test_skips_of_a_falling_loss_scale_are_told_there() -> None:
    scale = np.full(800, 65536.0)
    skipped = np.zeros(800)
    for i, at in enumerate(range(400, 560, 10)):
        scale[at:] /= 2
        skipped[at] = 1
        skipped[60 + 40 * (i % 8)] = 1
    outcome = skipped_steps.detect(make_signals({"loss_scale": scale, "skipped_steps": skipped}), PARAMS)
    assert isinstance(outcome, Clear)


def test_skips_that_become_a_habit_begin_where_they_do() -> None:
    rng = np.random.default_rng(0)
    flags = (rng.random(2000) < np.where(np.arange(2000) < 900, 0.004, 0.35)).astype(float)
    found = one(make_signals({"skipped_steps": np.cumsum(flags)}))
    assert abs((found.onset_step or 0) - 901) <= 10
