from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.detectors.resume import checkpoint_failure
from trainforensics.model import Checkpoint, Clear, Event, Finding, Fired, NotApplicable, Outcome

PARAMS = {p.name: p.default for p in checkpoint_failure.META.params}
LOSS = np.full(1000, 2.0)


def judge(events: Iterable[Event] = (), checkpoints: Iterable[Checkpoint] = ()) -> Outcome:
    signals = make_signals({"train_loss": LOSS}, events=tuple(events), checkpoints=tuple(checkpoints))
    return checkpoint_failure.detect(signals, PARAMS)


def saved(steps: Iterable[int]) -> list[Event]:
    return [Event("checkpoint-saved", step=s, text=f"saved checkpoint to ckpt_{s:06d}.pt") for s in steps]


def one(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Fired)
    (found,) = outcome.findings
    return found


@pytest.mark.parametrize(
    "event",
    [
        Event("checkpoint-failed", step=600, text="failed to save checkpoint"),
        Event("traceback", step=599, text="OSError: [Errno 28] No space left on device: 'checkpoints/ckpt_000600.pt'"),
        Event("warning", step=600, text="WARNING: checkpoint not saved, continuing"),
        Event("error", step=600, text="RuntimeError: unable to load model state: file is truncated"),
    ],
)
def test_messages_of_failure(event: Event) -> None:
    found = one(judge([*saved([150, 300, 450]), event]))
    assert found.onset_step == 600
    assert "step 450" in found.summary


def test_an_attempt_that_failed_is_not_the_last_good_one() -> None:
    failed = Event("checkpoint-failed", text="OSError: [Errno 5] Input/output error: 'ckpt_000600.pt'")
    found = one(judge([*saved([300, 450, 600]), failed]))
    assert "step 450" in found.summary


def test_failures_recur() -> None:
    events = [Event("checkpoint-failed", step=s, text=f"saving checkpoint {s} failed") for s in (600, 750)]
    assert one(judge(events)).occurrences == (600, 750)


def test_none_saved_for_long() -> None:
    found = one(judge(saved(range(50, 601, 50))))
    assert (found.onset_step, found.severity) == (650, "medium")


def test_a_hole_between_checkpoints() -> None:
    found = one(judge(saved([*range(50, 401, 50), *range(700, 1001, 50)])))
    assert (found.onset_step, found.end_step) == (450, 700)


@pytest.mark.parametrize(
    "steps", [range(50, 1001, 50), [10, 40, 55, 300, 320, 350, 900], [100, 200], range(100, 801, 100)]
)
def test_ordinary_distances_are_quiet(steps: Iterable[int]) -> None:
    assert isinstance(judge(saved(steps)), Clear)


def test_other_errors_are_quiet() -> None:
    events = [Event("error", step=5, text="ValueError: bad value"), Event("restart", text="loading checkpoint step 5")]
    assert isinstance(judge([*saved(range(50, 1001, 50)), *events]), Clear)


def test_files_beside_the_log_are_not_judged() -> None:
    assert isinstance(judge(checkpoints=[Checkpoint(s, "checkpoint-500") for s in (50, 100, 500)]), NotApplicable)


def test_a_name_that_counts_epochs_is_no_step() -> None:
    steps = range(100, 1001, 100)
    events = [Event("checkpoint-saved", step=s, text=f"saved checkpoint checkpoint{s // 100}.pt") for s in steps]
    assert isinstance(judge(events), Clear)
    assert one(judge(events[:5])).onset_step == 600


@pytest.mark.parametrize(("end", "quiet"), [(1.9, True), (np.nan, True), (1.2, False)])
def test_no_save_is_due_where_no_evaluation_is_better(end: float, quiet: bool) -> None:
    value = np.r_[np.linspace(3, 1.5, 10), np.full(10, end)]
    evaluations = make_curve(value, "val_loss", step=np.arange(50, 1001, 50), series_id=1)
    signals = make_signals([make_curve(LOSS), evaluations], events=tuple(saved(range(50, 501, 50))))
    assert isinstance(checkpoint_failure.detect(signals, PARAMS), Clear) is quiet


def test_a_score_that_does_not_tell_when_to_save_excuses_no_gap() -> None:
    noisy = 0.5 + 0.01 * np.random.default_rng(0).standard_normal(20)
    evaluations = make_curve(noisy, "val_metric", name="accuracy", step=np.arange(50, 1001, 50), series_id=1)
    signals = make_signals([make_curve(LOSS), evaluations], events=tuple(saved(range(50, 501, 50))))
    assert isinstance(checkpoint_failure.detect(signals, PARAMS), Fired)


def test_a_save_or_two_without_a_better_evaluation_still_tell_when_to_save() -> None:
    value = np.r_[np.linspace(3, 1.5, 12), np.full(10, 2.5)]
    value[[5, 8]] += 0.3
    evaluations = make_curve(value, "val_loss", step=np.arange(50, 1101, 50), series_id=1)
    signals = make_signals([make_curve(LOSS), evaluations], events=tuple(saved(range(50, 601, 50))))
    assert isinstance(checkpoint_failure.detect(signals, PARAMS), Clear)


def test_saves_that_are_told_by_epoch_lie_where_their_files_say() -> None:
    text = "Saving model and optimizer state at iteration {} to ./logs/ljs/G_{}.pth"
    events = tuple(Event("checkpoint-saved", 1 + i, text=text.format(1 + i, 100 * i)) for i in range(11))
    assert isinstance(judge(events), Clear)
