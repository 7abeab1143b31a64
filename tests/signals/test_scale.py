from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.model import Event
from trainforensics.signals.scale import at_growth, loss_scale, low_precision, skipped_by_scaler, skips_per_row


def test_reductions_and_search() -> None:
    scale = np.r_[2.0 ** np.arange(20, 10, -1), np.full(90, 2048.0), np.full(50, 1024.0)]
    found = loss_scale(make_signals({"loss_scale": scale}))
    assert found is not None
    assert found.search_until == 10
    assert found.reduced[-1] == 101
    assert found.decay is None


def test_skips_are_found_at_the_cadence_of_the_scale() -> None:
    step = np.arange(0, 1000, 10)
    scale = np.where(step < 500, 2048.0, 1024.0)
    signals = make_signals([make_curve(scale, "loss_scale", step=step)])
    assert skipped_by_scaler(signals, np.array([100, 495, 505, 900])).tolist() == [False, True, True, False]


def test_fairseq_messages_give_the_new_scale() -> None:
    texts = [(600, 1024.0), (700, 1024.0), (710, 512.0)]
    events = [
        Event("overflow", step=s, text=f"gradient overflow detected, setting loss scale to: {v}") for s, v in texts
    ]
    found = loss_scale(make_signals({"train_loss": np.ones(800)}, events=events))
    assert found is not None
    assert found.reduced.tolist() == [600, 700, 710]
    assert found.decay is None


@pytest.mark.parametrize(("until", "decays"), [(2.0**-3, False), (2.0**-12, True)])
def test_a_search_that_ends_far_below_one_has_found_nothing(until: float, decays: bool) -> None:
    scales = 2.0 ** -np.arange(1, 1 - np.log2(until))
    events = [Event("overflow", step=3, text=f"overflow detected, setting loss scale to: {v}") for v in scales]
    found = loss_scale(make_signals({"train_loss": np.ones(5)}, events=events))
    assert found is not None
    assert (found.decay is not None) is decays


@pytest.mark.parametrize(
    ("config", "low"),
    [
        ({"fp16": True}, True),
        ({"fp16": {"enabled": True}}, True),
        ({"fp16": "dict(loss_scale='dynamic')"}, True),
        ({"args": {"fp16": "False"}}, False),
        ({"trainer.precision": "16-mixed"}, True),
        ({"precision": 16}, True),
        ({"precision": "bf16-mixed"}, False),
        ({"torch_dtype": "bfloat16"}, False),
        ({"torch_dtype": "torch.float16"}, True),
        ({"half_precision_backend": "auto"}, False),
        ({"name": "fp16-run"}, False),
    ],
)
def test_what_the_configuration_says_of_precision(config: dict[str, Any], low: bool) -> None:
    assert low_precision(make_signals({"train_loss": np.ones(5)}, config=config)) is low


def test_nothing_logged() -> None:
    assert loss_scale(make_signals({"train_loss": np.ones(5)})) is None


def test_a_scale_of_another_sort_is_none() -> None:
    assert loss_scale(make_signals({"loss_scale": np.linspace(10, 1, 300)})) is None


def test_skips_from_flags_counts_and_totals() -> None:
    assert skips_per_row(np.array([0.0, 1.0, 0.0, 2.0])).tolist() == [0, 1, 0, 2]
    assert skips_per_row(np.array([0.0, 1.0, 1.0, 3.0])).tolist() == [0, 1, 0, 2]


def test_a_decay_to_the_floor_begins_before_the_floor() -> None:
    """Halvings every ten steps or so, then an overflow at every step."""
    steps = [1, 2, 9, 17, 26, 31, 44, 58, 63, 77, 91, 96, 113, 121, 134, 147]
    fell = [(step, 2.0 ** (16 - i), 2.0 ** (15 - i)) for i, step in enumerate(steps)]
    floor = [(step, 1.0, 1.0) for step in range(156, 240)]
    events = [
        Event("overflow", step=step, text=f"Attempted loss scale: {before}, reducing to {after}")
        for step, before, after in fell + floor
    ]
    found = loss_scale(make_signals({"train_loss": np.ones(240)}, events=events))
    assert found is not None
    assert found.decay is not None
    assert found.decay.steps[0] <= 31
    assert found.decay.overflows_at_floor == len(floor)


def test_a_total_that_stands_skips_nothing() -> None:
    assert not skips_per_row(np.full(50, 2.0)).any()
    assert skips_per_row(np.r_[np.full(20, 2.0), np.full(20, 5.0)]).sum() == 3
    assert skips_per_row(np.array([0.0, 1, 0, 1])).sum() == 2


@pytest.mark.parametrize(
    ("first", "cadence", "found"),
    [
        ([2050, 6100, 10150], 50, True),
        ([2050, 5300, 10150], 50, False),
        ([2050, 6100], 50, False),  # one distance in twenty agrees by chance
        ([2001, 4002], 1, True),
        ([2050], 50, False),
    ],
)
def test_distances_of_whole_growth_intervals(first: list[int], cadence: int, found: bool) -> None:
    assert at_growth(np.array(first), cadence) is found


def test_halvings_beyond_the_range_of_doubles_are_counted() -> None:
    scale = loss_scale(make_signals({"loss_scale": np.repeat([2.0**900, 2.0**-900, 2.0**-901, 2.0**-902], 500)}))
    assert scale is not None
    assert scale.decay is not None
    assert np.isfinite(scale.decay.halvings)


def test_a_search_whose_messages_are_dated_by_the_rows_between() -> None:
    at, scale, events = [10] * 5 + [21, 31, 41, 41, 51, 61, 61, 81], 2.0**32, []
    for step in at:
        events.append(
            Event("overflow", step=step, text=f"Attempted loss scale: {scale:.0f}, reducing to {scale / 2:.0f}")
        )
        scale /= 2
    loss = make_curve(np.ones(100), step=10 * np.arange(1, 101))
    found = loss_scale(make_signals([loss], events=events))
    assert found is not None
    assert found.decay is None
    late = [replace(event, step=(event.step or 0) + 500) for event in events]
    decayed = loss_scale(make_signals([loss], events=late))
    assert decayed is not None
    assert decayed.decay is not None
