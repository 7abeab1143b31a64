from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from numpy.typing import NDArray

from trainforensics.detectors.loss import oscillation
from trainforensics.model import Finding, Fired

PARAMS = {p.name: p.default for p in oscillation.META.params}
N = 60
AT = np.arange(N)
BASE = 0.4 + 1.5 * np.exp(-AT / 12)


def findings(training: NDArray[np.float64], validation: NDArray[np.float64]) -> tuple[Finding, ...]:
    step = AT + 1
    curves = [make_curve(training, "train_loss", step=step)]
    outcome = oscillation.detect(
        make_signals([*curves, make_curve(validation, "val_loss", step=step, series_id=1)]), PARAMS
    )
    return outcome.findings if isinstance(outcome, Fired) else ()


def smooth(seed: int = 0) -> NDArray[np.float64]:
    return BASE * np.exp(0.02 * np.random.default_rng(seed).standard_normal(N))


def test_validation_that_swings_back_to_its_start() -> None:
    swinging = np.where(AT % 3 == 2, 2.0, BASE) * smooth(1) / BASE
    (found,) = findings(smooth(), swinging)
    assert (found.role, found.recovery) == ("val_loss", "unrecovered")
    assert not findings(swinging, swinging)  # training swings as well


@pytest.mark.parametrize(
    "validation",
    [
        smooth(1) * np.where(AT % 3 == 2, 2.2, 1.0),  # a noisy set whose worst evaluations get better
        smooth(1) + np.maximum(0, AT - 20) / 15,  # over-fitting
    ],
)
def test_other_courses_are_none(validation: NDArray[np.float64]) -> None:
    assert not findings(smooth(), validation)


def test_a_few_evaluations_that_turn_by_a_factor_of_three() -> None:
    step = np.arange(1, 11)
    training = make_curve(2 * np.exp(-0.1 * step), "train_loss", step=step)
    swinging = np.array([1.6, 1.2, 1.3, 0.4, 1.5, 0.3, 1.4, 0.5, 1.8, 0.4])
    found = [
        isinstance(oscillation.detect(make_signals([training, curve]), PARAMS), Fired)
        for curve in (
            make_curve(swinging, "val_loss", step=step, series_id=1),
            make_curve(np.sqrt(swinging), "val_loss", step=step, series_id=1),  # by less
        )
    ]
    assert found == [True, False]
