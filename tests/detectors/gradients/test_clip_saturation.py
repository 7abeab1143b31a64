from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import clip_saturation
from trainforensics.model import Clear, Fired

PARAMS = {p.name: p.default for p in clip_saturation.META.params}
RNG = np.random.default_rng(6)
LOSS = 4 * np.exp(-np.arange(500) / 200) + 2


def test_norms_above_the_configured_threshold() -> None:
    norm = 2.7 + 0.3 * RNG.standard_normal(500)
    signals = make_signals({"train_loss": LOSS, "grad_norm": norm}, config={"optim": {"max_grad_norm": 1.0}})
    assert isinstance(clip_saturation.detect(signals, PARAMS), Fired)


def test_a_summary_shows_that_there_were_two_levels() -> None:
    norm = np.where(np.arange(500) < 200, 1.2, 90.0) * (1 + 0.01 * np.random.default_rng(1).standard_normal(500))
    outcome = clip_saturation.detect(make_signals({"grad_norm": norm}, config={"max_grad_norm": 1.0}), PARAMS)
    assert isinstance(outcome, Fired)
    assert "four of five within 1.19-90.8" in outcome.findings[0].summary


def test_a_norm_logged_after_clipping() -> None:
    assert isinstance(clip_saturation.detect(make_signals({"grad_norm": np.ones(500)}), PARAMS), Fired)


def test_a_logged_share_in_per_cent() -> None:
    assert isinstance(clip_saturation.detect(make_signals({"clip_ratio": np.full(500, 100.0)}), PARAMS), Fired)


def test_clipping_now_and_then_is_quiet() -> None:
    norm = 0.8 + 0.3 * RNG.standard_normal(500)
    signals = make_signals({"grad_norm": norm}, config={"max_grad_norm": "1.0", "gradient_clip_val": None})
    assert isinstance(clip_saturation.detect(signals, PARAMS), Clear)


def test_the_policy_ratio_of_reinforcement_learning_is_quiet() -> None:
    signals = make_signals({"clip_ratio": np.ones(500), "reward": np.ones(500)})
    assert isinstance(clip_saturation.detect(signals, PARAMS), Clear)


def test_short_logs_are_quiet() -> None:
    assert isinstance(clip_saturation.detect(make_signals([make_curve(np.ones(10), "grad_norm")]), PARAMS), Clear)


def test_norms_a_thousand_thresholds_high_are_an_alarm() -> None:
    for times, severity in ((40.0, "low"), (3000.0, "medium")):
        norm = times * (1 + 0.1 * RNG.standard_normal(500))
        outcome = clip_saturation.detect(make_signals({"grad_norm": norm}, config={"max_grad_norm": 1.0}), PARAMS)
        assert isinstance(outcome, Fired)
        assert (outcome.findings[0].severity or "low") == severity
