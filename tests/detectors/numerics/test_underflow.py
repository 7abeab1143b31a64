from __future__ import annotations

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.gradients import vanishing_gradient
from trainforensics.detectors.numerics import underflow
from trainforensics.model import Clear, Fired

PARAMS = {p.name: p.default for p in underflow.META.params}
RNG = np.random.default_rng(4)
LOSS = 2.4 + 0.02 * RNG.standard_normal(400)
NORM = 0.8 + 0.1 * RNG.random(400)


def test_a_norm_that_falls_to_zero_in_fp16() -> None:
    norm = NORM.copy()
    norm[300:] = 0.0
    signals = make_signals({"train_loss": LOSS, "grad_norm": norm}, config={"trainer": {"precision": "16-mixed"}})
    outcome = underflow.detect(signals, PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 301
    assert isinstance(vanishing_gradient.detect(signals, {}), Clear)


def test_a_share_of_zeros_that_jumps() -> None:
    zeros = np.where(np.arange(400) < 200, 0.02, 0.97)
    curves = [make_curve(LOSS, "train_loss"), make_curve(zeros, None, name="grad_zero_frac")]
    outcome = underflow.detect(make_signals(curves), PARAMS)
    assert isinstance(outcome, Fired)
    assert outcome.findings[0].onset_step == 201


def test_without_low_precision_it_is_a_vanishing_gradient() -> None:
    norm = NORM.copy()
    norm[300:] = 0.0
    signals = make_signals({"train_loss": LOSS, "grad_norm": norm}, config={"precision": "bf16"})
    assert isinstance(underflow.detect(signals, PARAMS), Clear)
    assert isinstance(vanishing_gradient.detect(signals, {}), Fired)


def test_a_converging_run_is_quiet() -> None:
    decay = np.exp(-np.arange(400) / 20)
    signals = make_signals({"train_loss": 3 * decay, "grad_norm": decay}, config={"fp16": True})
    assert isinstance(underflow.detect(signals, PARAMS), Clear)
