from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curves import burst
from factories import make_curve, make_signals

from trainforensics.model import Axis
from trainforensics.signals.habit import begins_a_window
from trainforensics.signals.losses import loss_events
from trainforensics.signals.measure import Excursion


def mixture(seed: int, n: int, levels: list[float], shares: list[float]) -> np.ndarray:
    """Each step's batch is of one of several sources, which have levels of their own."""
    rng = np.random.default_rng(seed)
    level = 2.6 + 7.4 * (1 + np.arange(n) / 15) ** -0.6
    return np.asarray(level * rng.choice(levels, n, p=shares) + rng.normal(0, 0.06, n))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "shares", [[0.55, 0.2, 0.12, 0.1, 0.03], [0.3, 0.3, 0.2, 0.1, 0.1], [0.85, 0.05, 0.05, 0.04, 0.01]]
)
def test_batches_of_several_sources_make_no_bursts(seed: int, shares: list[float]) -> None:
    loss = mixture(seed, 3500, [1.0, 0.55, 1.12, 0.8, 0.62], shares)
    assert [e for e in loss_events(make_signals({"train_loss": loss})) if e.excursion.z >= 4] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_burst_above_all_sources_is_one(seed: int) -> None:
    loss = burst(mixture(seed, 3500, [1.0, 0.55, 1.12], [0.6, 0.25, 0.15]), 2000, 6.0, decay=10)
    highest = max(loss_events(make_signals({"train_loss": loss})), key=lambda e: e.excursion.height)
    assert highest.peak_step == 2001


@pytest.mark.parametrize("height", [0.0, 0.6])
def test_points_that_are_as_high_by_themselves_may_meet(height: float) -> None:
    """Three high points in a row among many single ones; far higher, they are a burst."""
    rng = np.random.default_rng(3)
    loss = 2 + 2 * np.exp(-np.arange(4000) / 300) + rng.normal(0, 0.03, 4000)
    loss += 0.2 * (rng.random(4000) < 0.05)
    loss[2000:2004] += 0.2 + height
    events = [e for e in loss_events(make_signals({"train_loss": loss})) if e.excursion.z >= 4]
    assert len(events) == (1 if height else 0)


@pytest.mark.parametrize("smoothed", [True, False])
def test_the_first_point_of_an_epoch_is_smoothed_over_one_batch(smoothed: bool) -> None:
    rng = np.random.default_rng(1)
    step = np.concatenate([epoch * 2500 + np.arange(0, 2500, 100) for epoch in range(8)])
    loss = 2 + 4 * np.exp(-step / 4000) + 0.025 * rng.normal(size=len(step))
    first = step % 2500 == 0
    loss[first] += 0.09 * np.where(smoothed | (step[first] == 12500), [1.0, 1.5, -0.8, 1.2, -1.6, 3.2, -0.5, 0.4], 0.0)
    curve = make_curve(loss, "train_loss", step=step)
    signals = make_signals([replace(curve, series=replace(curve.series, name="loss (current)"))])
    found = loss_events(replace(signals, axis=Axis("epoch x 2500 + iteration", "step")))
    assert [e.onset_step for e in found] == ([] if smoothed else [12500])


@pytest.mark.parametrize("rows", [3, 5])
def test_the_first_row_of_an_untold_epoch_is_one_batch_the_others_means(rows: int) -> None:
    rng = np.random.default_rng(5)
    n = 40 * rows
    loss = 0.013 + 0.01 * np.exp(-np.arange(n) / 20) + 0.0003 * rng.normal(size=n)
    loss[::rows] += np.clip(0.003 * rng.normal(size=40), -0.006, 0.006)
    loss[20 * rows] += 0.006
    assert [e for e in loss_events(make_signals({"train_loss": loss})) if e.excursion.z >= 6] == []
    loss[20 * rows + 1] += 0.012  # no first row
    assert [e.onset_step for e in loss_events(make_signals({"train_loss": loss})) if e.excursion.z >= 6]


@pytest.mark.parametrize("height", [0.0, 8.0])
def test_the_last_batch_of_an_epoch_is_smaller_and_noisier(height: float) -> None:
    rng = np.random.default_rng(2)
    n, last = 1200, np.arange(1200) % 60 == 59
    size = np.where(last, 3.0, 48.0)
    loss = 1 + 3 * np.exp(-np.arange(n) / 200) + 0.2 * rng.normal(size=n) / np.sqrt(size)
    loss[659] += 0.45
    loss[779] += height
    found = [e for e in loss_events(make_signals({"train_loss": loss, "batch_size": size})) if e.excursion.z >= 6]
    assert [e.onset_step for e in found] == ([780] if height else [])
    alone = [e.onset_step for e in loss_events(make_signals({"train_loss": loss})) if e.excursion.z >= 6]
    assert 660 in alone or height


@pytest.mark.parametrize("usual", [True, False])
def test_the_last_row_may_be_the_first_of_an_epoch(usual: bool) -> None:
    rng = np.random.default_rng(0)
    loss = 2 + 0.01 * rng.normal(size=121)
    loss[::5] += 0.3 * rng.normal(size=25) * usual
    loss[-1] = 2.4
    curve = make_curve(loss)
    event = Excursion.plain(loss, 120, 120, before=2.0, after=2.4, recovery="ongoing", half=120, end=120, sigma=0.01)
    assert begins_a_window(make_signals([curve]), curve, event) is usual


def test_the_last_row_begins_the_third_epoch() -> None:
    """The one other first row is all that tells how far they stray; the last has no level behind it."""
    loss = 2 + 0.01 * np.random.default_rng(1).normal(size=81)
    loss[-1] = 2.4
    curve = make_curve(loss, step=np.arange(81))
    event = Excursion.plain(loss, 80, 80, before=2.0, after=2.4, recovery="ongoing", half=80, end=80, sigma=0.01)
    signals = replace(make_signals([curve]), axis=Axis("epoch x 40 + iteration", "step"))
    assert begins_a_window(signals, curve, event) is False
