from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from factories import make_curve, make_signals

from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats
from trainforensics.signals.losses import loss_events
from trainforensics.signals.recurrences import shard_bursts, shard_codes

N, LENGTH, SHARDS = 480, 5, 24


def fed(seed: int, lift: float, noise: str = "normal") -> tuple[Floats, Floats]:
    """A loss, and the shard of each of its points: every shard once in each of four passes; one is `lift` higher."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(SHARDS) for _ in range(N // LENGTH // SHARDS)])
    code = np.repeat(order, LENGTH).astype(float)
    own = rng.standard_normal(N) if noise == "normal" else rng.standard_t(3, N)
    loss = 2.2 + 3 * np.exp(-np.arange(N) / 25) + 0.2 * own + lift * (code == 17)
    return np.asarray(loss), code


def signals(loss: Floats, code: Floats) -> Signals:
    return make_signals([make_curve(loss), make_curve(code, "shard", series_id=1)])


@pytest.mark.parametrize("seed", range(6))
def test_a_shard_that_lifts_the_loss_at_every_return(seed: int) -> None:
    loss, code = fed(seed, 0.9)
    view = signals(loss, code)
    found = shard_bursts(view, view.curves("train_loss")[0])
    assert len(found) >= 3
    assert {code[e.onset] for e in found} == {17.0}
    assert {e.onset_step - 1 for e in loss_events(view)} >= {e.onset for e in found}


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_noise_lifts_no_shard_every_time(noise: str) -> None:
    for seed in range(60):
        view = signals(*fed(seed, 0.0, noise))
        assert shard_bursts(view, view.curves("train_loss")[0]) == ()


def test_the_shard_of_a_step_is_known_where_one_alone_fed_it() -> None:
    loss = make_curve(np.ones(100))
    rows = {"step": np.repeat(np.arange(1, 101), 2), "shard": ["a", "a"] * 80 + ["a", "b"] * 20}
    codes = shard_codes(pl.LazyFrame(rows), loss)
    assert codes is not None
    assert codes.step.tolist() == list(range(1, 81))
    assert shard_codes(pl.LazyFrame({"step": rows["step"]}), loss) is None
