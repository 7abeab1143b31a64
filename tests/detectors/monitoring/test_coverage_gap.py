from __future__ import annotations

from dataclasses import replace

import numpy as np
from factories import make_curve, make_signals

from trainforensics.detectors.monitoring import coverage_gap
from trainforensics.model import Checkpoint, Finding, Fired, NotApplicable, ReadWarning
from trainforensics.signals import Signals

PARAMS = {p.name: p.default for p in coverage_gap.META.params}
LOSS = 2 + np.exp(-np.arange(200) / 50)
BURST = Fired((Finding("instant-burst", "loss", "train_loss", 7, 0.9, "a burst"),))


def findings(signals: Signals) -> tuple[Finding, ...]:
    outcome = coverage_gap.detect(signals, PARAMS)
    return outcome.findings if isinstance(outcome, Fired) else ()


def test_a_summary_alone_leaves_the_run_undecided() -> None:
    found = findings(make_signals({"train_loss": [2.0], "learning_rate": [1e-4]}))
    assert [f.severity for f in found] == ["medium"]
    assert "summary" in found[0].summary


def test_a_start_that_was_given_up_at_once_is_a_remark() -> None:
    stub = replace(make_signals({"train_loss": [2.0, 1.9]}), run="runs/a/train_log.csv#1")
    assert [f.severity for f in findings(stub)] == ["low"]


def test_no_known_loss_says_how_to_name_it() -> None:
    found = findings(make_signals([make_curve(LOSS, None, name="my_number")]))
    assert [f.severity for f in found] == ["medium"]
    assert "--map" in found[0].summary


def test_a_column_of_texts_is_not_to_be_named_but_to_be_logged_as_numbers() -> None:
    text = ReadWarning("wrong-type", "line 1", "600 cells of 'loss' are text, first 'loss=2.1'; they are no points")
    (found,) = findings(replace(make_signals({"grad_norm": LOSS}), warnings=(text,)))
    assert "600 cells of 'loss' are text" in found.summary
    assert "--map" not in found.summary


def test_a_sampled_or_sparse_log_is_remarked() -> None:
    sampled = replace(make_signals({"train_loss": LOSS}), sampled="500 rows of 20,000")
    sparse = make_signals({"train_loss": LOSS[:10]})
    assert [f.severity for s in (sampled, sparse) for f in findings(s)] == ["low", "low"]


def test_what_stays_open_about_an_event_is_one_remark() -> None:
    outcomes = {"instant-burst": BURST, "scale-decay": NotApplicable("no loss scale", "log the loss scale")}
    found = findings(replace(make_signals({"train_loss": LOSS}), outcomes=outcomes))
    assert [f.severity for f in found] == ["low"]
    assert {row.signal for row in found[0].evidence} >= {"grad_norm", "learning_rate", "checkpoints"}


def test_a_quiet_run_and_a_fully_logged_event_are_silent() -> None:
    full = make_signals(
        {"train_loss": LOSS, "grad_norm": LOSS, "learning_rate": LOSS}, checkpoints=[Checkpoint(100, "log")]
    )
    assert not findings(make_signals({"train_loss": LOSS}))
    assert not findings(replace(full, outcomes={"instant-burst": BURST}))
