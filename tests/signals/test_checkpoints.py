from __future__ import annotations

import numpy as np
import pytest

from trainforensics.model import Checkpoint, Event
from trainforensics.signals.checkpoints import known

LOGGED = np.arange(0, 1000, 5)
FULL = "OSError: [Errno 28] No space left on device: 'checkpoints/ckpt_000600.pt'"


def steps(*events: Event, beside: tuple[int, ...] = (), logged: np.ndarray = LOGGED) -> list[int]:
    return [c.step for c in known([Checkpoint(step, "folder") for step in beside], events, logged)]


def saving(step: int) -> Event:
    return Event("checkpoint-saved", step, text=f"saving checkpoint to checkpoints/ckpt_{step:06}.pt")


def test_files_and_messages_count() -> None:
    assert steps(saving(300), Event("checkpoint", 700), Event("text", 800), beside=(100, 300)) == [100, 300, 700]


def test_one_that_could_not_be_saved_is_none() -> None:
    failed = Event("checkpoint-failed", 600, text=FULL)
    assert steps(saving(450), saving(600), failed) == [450]
    assert steps(saving(450), saving(600), failed, saving(600)) == [450, 600]
    assert steps(saving(450), failed, beside=(600,)) == [450]


def test_a_number_that_counts_something_else_is_no_step() -> None:
    assert steps(Event("checkpoint-saved", 900, text="saved checkpoint 3")) == [900]
    assert steps(Event("checkpoint-saved", 905, text="wrote checkpoint-900")) == [900]


@pytest.mark.parametrize(
    "event",
    [
        Event("restart", 800, text="resume: step_800.ckpt"),
        Event("checkpoint-loaded", 800, text="loading checkpoint from: checkpoint_800-model_part-0.pt"),
        Event("checkpoint-loaded", 800, text="Loaded checkpoint x/checkpoint_last.pt (epoch 1 @ 800 updates)"),
    ],
)
def test_what_a_run_was_resumed_from_is_one_where_no_save_is_known(event: Event) -> None:
    assert steps(event) == [800]
    assert steps(event, saving(500)) == [500]


def test_what_a_resumed_log_begins_with_is_one() -> None:
    loaded = Event("checkpoint-loaded", 4999, text="loading checkpoint_4998.pt")
    assert steps(loaded, logged=5000 + LOGGED) == [4998]


def test_what_another_run_left_is_none() -> None:
    first = Event("checkpoint-loaded", -1, text="loading checkpoint from base/checkpoint-700")
    assert steps(first) == []
    assert steps(Event("restart", 4999, text="resumed from step_10.ckpt"), logged=5000 + LOGGED) == []
