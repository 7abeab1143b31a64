from __future__ import annotations

import numpy as np
import pytest
from cases import ONSET, STEP, N, burst, case, noise, said
from factories import make_curve, make_signals
from incidents_factory import make_incident

from trainforensics.causes.case import Case
from trainforensics.causes.evidence.recovery import recovery
from trainforensics.causes.facts.evaluation import validated


def back(points: int, cadence: int = 1) -> Case:
    onset = ONSET * cadence
    signals = make_signals({"train_loss": burst(noise(2.0), 3, points)}, step=STEP * cadence)
    incident = make_incident("instant-burst", onset, end_step=onset + points * cadence, recovery="recovered")
    return case(incident, signals)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (back(2), "the loss was back within 2 steps, so the weights took no harm"),
        (back(20), "the loss took 20 steps to come back: the weights were harmed"),
        (back(10), "the loss took 10 steps to come back"),  # of 300: far less than it took to learn
    ],
)
def test_a_return_says_whether_the_weights_were_harmed(found: Case, text: str) -> None:
    assert said(recovery(found, fast=1.0, slow=1.0)) == text


def test_few_points_of_a_coarse_log_do_not_clear_the_weights() -> None:
    early = make_incident("instant-burst", 1700, end_step=2000, recovery="recovered")
    signals = make_signals({"train_loss": burst(noise(2.0), 3, 3)[ONSET - 17 :]}, step=100 * np.arange(117))
    assert said(recovery(case(early, signals), fast=1.0)) == "the loss was back within 300 steps"


def test_an_evaluation_has_the_last_word_on_the_weights() -> None:
    every = np.arange(0, N, 20)
    harmed = make_curve(np.where(every < ONSET, 2.0, 6.0), "val_loss", step=every)
    signals = make_signals({"train_loss": burst(noise(2.0), 3, 2), "val_loss": harmed}, step=STEP)
    found = case(make_incident("instant-burst", ONSET, end_step=ONSET + 2, recovery="recovered"), signals)
    told = validated(found)
    assert told is not None
    assert told.state == "harmed"
    assert said(recovery(found, fast=1.0)) == "the loss was back within 2 steps"


def test_what_came_back_is_the_series_of_the_incident() -> None:
    signals = make_signals({"train_loss": noise(2.0), "grad_norm": burst(noise(), 30)}, step=STEP)
    incident = make_incident("gradient-explosion", ONSET, end_step=ONSET + 1, recovery="recovered", role="grad_norm")
    assert said(recovery(case(incident, signals), fast=1.0)) == "the gradient norm was back within one step"
