from __future__ import annotations

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.blame.consumed import Consumed, consumed_samples, consumed_tokens, ramped
from trainforensics.model import Axis
from trainforensics.signals import Signals


def logged(step: np.ndarray, count: np.ndarray, name: str = "consumed samples", **config: object) -> Signals:
    loss = make_curve(np.ones(len(step)), step=step)
    counter = make_curve(count, "tokens_seen", name=name, step=step, series_id=1)
    return make_signals([loss, counter], config=config)


def known(signals: Signals) -> Consumed:
    found = consumed_samples(signals)
    assert isinstance(found, Consumed)
    return found


def test_logged_after_each_step_from_one() -> None:
    consumed = known(logged(np.arange(1, 51), 8 * np.arange(1, 51)))
    assert (consumed.step[0], consumed.step[-1], consumed.slack) == (1, 50, 0)
    assert consumed.edge.tolist() == list(range(0, 401, 8))
    assert consumed.steps_of(np.array([0, 7, 8, 399])).tolist() == [1, 1, 2, 50]


def test_logged_after_each_step_from_zero() -> None:
    consumed = known(logged(np.arange(50), 8 * np.arange(1, 51)))
    assert consumed.span(-1, 0) == (0, 8)
    assert consumed.slack == 0


def test_logged_before_each_step() -> None:
    consumed = known(logged(np.arange(50), 8 * np.arange(50)))
    assert consumed.span(-1, 0) == (0, 8)
    assert consumed.span(48, 49) == (392, 400)


@pytest.mark.parametrize("first", [10, 9])
def test_logged_every_ten_steps(first: int) -> None:
    step = np.arange(first, 101, 10)
    consumed = known(logged(step, 8 * (step + (first == 9))))
    assert consumed.slack == 0
    assert consumed.edge[0] == 0
    assert consumed.span(first, first + 10) == (80, 160)


def test_a_log_that_begins_late_leaves_a_step_open() -> None:
    step = np.arange(5010, 5101, 10)
    consumed = known(logged(step, 8 * step))
    assert consumed.slack == 1
    assert consumed.span(5010, 5020) == (40080, 40160)
    assert "beginning" in consumed.note


def test_a_growing_batch_keeps_its_logged_points() -> None:
    edge = ramped((8, 8, 2000), 64, 1, 100)
    step = np.arange(10, 101, 10)
    consumed = known(logged(step, edge[step]))
    assert consumed.edge[step - int(consumed.step[0]) + 1].tolist() == edge[step].tolist()
    assert consumed.edge[0] == 0
    assert "interpolated" in consumed.note


def test_a_counter_that_falls_is_not_believed() -> None:
    found = consumed_samples(logged(np.arange(1, 6), np.array([8, 16, 4, 12, 20])))
    assert "fall at step 3" in str(found)


def test_a_constant_global_batch() -> None:
    signals = make_signals({"train_loss": np.ones(20)}, config={"global_batch_size": "16"})
    assert known(signals).span(19, 20) == (304, 320)
    parts = {"micro_batch_size": 2, "data_parallel_size": 4, "gradient_accumulation_steps": 2}
    assert known(make_signals({"train_loss": np.ones(20)}, config=parts)).span(19, 20) == (304, 320)


def test_ramp_up_by_hand() -> None:
    consumed, size = [0], 4
    for _ in range(30):  # 4, then 4 more every 20 samples up to 16 once 60 are consumed
        size = 16 if consumed[-1] > 60 else 4 + int(consumed[-1] / 20) * 4
        consumed.append(consumed[-1] + size)
    assert ramped((4, 4, 60), 16, 1, 30).tolist() == consumed
    config = {"global_batch_size": 16, "rampup_batch_size": ["4", "4", "60"]}
    assert known(make_signals({"train_loss": np.ones(30)}, config=config)).edge.tolist() == consumed


def test_batches_that_must_be_a_multiple_are_rounded_down() -> None:
    assert set(np.diff(ramped((8, 4, 60), 16, 8, 30)).tolist()) == {8, 16}


def test_a_logged_batch_that_changes_without_a_ramp_up_is_not_guessed() -> None:
    sizes = make_curve(np.repeat([8.0, 16.0], 10), "batch_size", name="global batch size", series_id=1)
    signals = make_signals([make_curve(np.ones(20)), sizes], config={"global_batch_size": 16})
    assert "batch size changes" in str(consumed_samples(signals))


def test_nothing_known_is_said() -> None:
    assert "not known" in str(consumed_samples(make_signals({"train_loss": np.ones(20)})))


def test_a_log_whose_axis_is_samples() -> None:
    signals = make_signals({"train_loss": np.ones(10)}, step=np.arange(64, 641, 64))
    signals = Signals(signals.run, Axis("consumed_samples", "sample"), signals.by_role)
    assert known(signals).span(64, 128) == (64, 128)


def test_tokens_are_logged_or_follow_from_the_sequence_length() -> None:
    step = np.arange(1, 11)
    tokens = consumed_tokens(logged(step, 4096 * step, "tokens_seen"))
    assert isinstance(tokens, Consumed)
    assert tokens.span(0, 1) == (0, 4096)
    derived = consumed_tokens(logged(step, 8 * step, seq_length=512))
    assert isinstance(derived, Consumed)
    assert derived.span(0, 1) == (0, 4096)
    assert "no sequence length" in str(consumed_tokens(logged(step, 8 * step)))
