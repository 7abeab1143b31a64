"""Reasons in words: what they claim follows from the log and agrees with the rest of the report."""

from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals
from incidents_factory import make_incident

from trainforensics.causes import rank
from trainforensics.causes.case import Case
from trainforensics.causes.evaluation import training
from trainforensics.causes.evidence import gradient, recovery, rooted, scale, start
from trainforensics.model import Evidence, Incident, Precursor
from trainforensics.signals import Signals

N, ONSET = 400, 300
STEP = np.arange(N)


def noise(level: float = 1.0, seed: int = 0) -> np.ndarray:
    return level * (1 + 0.03 * np.random.default_rng(seed).standard_normal(N))


def burst(values: np.ndarray, factor: float, points: int = 1) -> np.ndarray:
    values = values.copy()
    values[ONSET : ONSET + points] *= factor
    return values


def case(incident: Incident, signals: Signals) -> Case:
    return Case(incident, signals, (incident,))


def back(points: int, cadence: int = 1) -> Case:
    onset = ONSET * cadence
    signals = make_signals({"train_loss": burst(noise(2.0), 3, points)}, step=STEP * cadence)
    incident = make_incident("instant-burst", onset, end_step=onset + points * cadence, recovery="recovered")
    return case(incident, signals)


def said(reasons: list) -> str:
    return "; ".join(reason.text for reason in reasons)


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
    assert found.validated is not None
    assert found.validated[0] == "harmed"
    assert said(recovery(found, fast=1.0)) == "the loss was back within 2 steps"


def test_a_scale_that_fell_is_told_as_the_incident_tells_it() -> None:
    value = np.where(STEP < 5, 131072.0, np.where(STEP < ONSET, 65536.0, 1.0))
    row = Evidence("loss_scale", ONSET, 1.0, 65536.0, "lowest scale, against the one before")
    signals = make_signals({"train_loss": noise(2.0), "loss_scale": value}, step=STEP)
    found = case(make_incident("scale-decay", ONSET, role="loss_scale", evidence=(row,)), signals)
    assert said(scale(found, 1.0)) == "the loss scale fell from 65536 to 1 without growing"


def test_a_quoted_summary_ends_within_the_sentence() -> None:
    root = make_incident("scale-decay", ONSET - 1, summary="The scale falls.")
    incident = make_incident("nan-onset", ONSET)
    found = Case(incident, make_signals({"train_loss": noise(2.0)}, step=STEP), (root, incident))
    assert said(rooted(found, 1.0, "scale-decay")) == "scale-decay at 299: The scale falls"


def test_too_few_points_of_training_are_not_called_none() -> None:
    signals = make_signals({"train_loss": noise(2.0)[:50], "val_loss": noise(2.0)[:50]}, step=np.arange(1, 51))
    found = training(case(make_incident("val-jump", 6, role="val_loss"), signals))
    assert found.text.startswith("only 5 points of train_loss precede it")


def test_what_came_back_is_the_series_of_the_incident() -> None:
    signals = make_signals({"train_loss": noise(2.0), "grad_norm": burst(noise(), 30)}, step=STEP)
    incident = make_incident("gradient-explosion", ONSET, end_step=ONSET + 1, recovery="recovered", role="grad_norm")
    assert said(recovery(case(incident, signals), fast=1.0)) == "the gradient norm was back within one step"


JUMP = make_signals({"train_loss": burst(noise(2.0), 3), "grad_norm": burst(noise(), 6)}, step=STEP)


def test_levels_are_those_of_the_evidence() -> None:
    row = Evidence("grad_norm", ONSET, 7.5, 1.25, "6 times the level before")
    found = case(make_incident("instant-burst", ONSET, evidence=(row,)), JUMP)
    assert said(gradient(found, same=1.0)).endswith("from 1.25 to 7.5, quiet before")


def test_what_a_precursor_names_was_not_quiet_before() -> None:
    sign = Precursor("grad_norm", ONSET - 40, 40, "grad_norm left its level")
    found = case(make_incident("instant-burst", ONSET, precursors=(sign,)), JUMP)
    assert "quiet" not in said(gradient(found, same=1.0))


def test_a_lead_is_told_as_its_precursor_tells_it() -> None:
    sign = Precursor("grad_norm", ONSET + 2, 6, "moved 6 steps before the reward")
    signals = make_signals({"reward": noise(), "grad_norm": noise()}, step=STEP)
    found = case(make_incident("rl-collapse", ONSET, precursors=(sign,), role="kl"), signals)
    assert said(gradient(found, led=1.0)) == "the gradient norm left its noise at 302, 6 steps before the reward"


def experiments(kind: str, **roles: np.ndarray) -> dict[str, str]:
    signals = make_signals({"train_loss": noise(2.0), **roles}, step=STEP)
    (ranked,) = rank((make_incident(kind, ONSET),), signals)
    return {cause.cause: cause.test for cause in ranked.causes}


def test_the_experiment_fits_the_kind() -> None:
    slow, restarted = experiments("throughput-drop"), experiments("resume-discontinuity")
    assert "sample ids" in restarted["dataloader"]
    assert "kept in memory" in slow["dataloader"]
    assert "seconds a step spends" in slow["unknown"]
    assert "replay" in experiments("gradual-rise")["learning-rate"]
    assert "three times and at a third" in experiments("plateau")["learning-rate"]
    halved = np.where(STEP < ONSET, 65536.0, 65536.0 / 2.0 ** np.minimum(STEP - ONSET, 16))
    assert experiments("scale-decay", loss_scale=halved)["loss-scaling"].startswith("hold the loss scale")


def test_the_first_point_is_called_that() -> None:
    found = case(make_incident("nan-onset", 0), make_signals({"train_loss": noise(2.0)}, step=STEP))
    assert said(start(found, early=1.0)) == "it begins with the first logged point"
