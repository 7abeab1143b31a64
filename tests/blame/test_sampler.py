from __future__ import annotations

import numpy as np
import pytest
from factories import make_signals

from trainforensics.blame.sampler import Sampler, randperm, reconstruct


def test_the_order_torch_draws_for_seed_zero() -> None:
    assert randperm(10, 0).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]  # torch.randperm(10), manual_seed(0)


@pytest.mark.torch
@pytest.mark.parametrize("n", [1, 2, 97, 5000, 40_000])
def test_every_permutation_is_torch_s(n: int) -> None:
    torch = pytest.importorskip("torch")
    for seed in (0, 1, 12345):
        drawn = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
        assert randperm(n, seed).tolist() == drawn


@pytest.mark.torch
@pytest.mark.parametrize("drop_last", [False, True])
def test_epochs_are_dealt_as_distributed_sampler_does(drop_last: bool) -> None:
    data = pytest.importorskip("torch.utils.data")
    sampler = Sampler(103, 4, 5, 7, shuffle=True, drop_last=drop_last)
    for rank in range(4):
        theirs = data.DistributedSampler(range(103), 4, rank, shuffle=True, seed=7, drop_last=drop_last)
        for epoch in (0, 3):
            theirs.set_epoch(epoch)
            assert sampler.epoch(epoch)[rank].tolist() == list(theirs)


CONFIG = {
    "data": {"sampler": "torch.utils.data.DistributedSampler", "seed": 0, "dataset_size": 64,
             "shards": [{"name": "a", "samples": 32}, {"name": "b", "samples": 32}]},
    "world_size": 2, "per_device_train_batch_size": 4,
}  # fmt: skip


def test_batches_are_rebuilt_with_their_shards() -> None:
    batches = reconstruct(make_signals({"train_loss": np.ones(20)}, step=np.arange(20), config=CONFIG))
    assert batches is not None
    rows = batches.collect()
    assert set(rows["step"].to_list()) == set(range(20))
    whole = rows.explode("doc").filter(rows.explode("doc")["epoch"] == 0)
    assert sorted(int(d) for d in whole["doc"]) == list(range(64))
    assert all((int(d) < 32) == (s == "a") for d, s in zip(whole["doc"], whole["shard"], strict=True))


def test_no_sampler_described_means_no_manifest() -> None:
    config = {"world_size": 2, "batch_size": 4, "dataset_size": 64, "seed": 0}
    assert reconstruct(make_signals({"train_loss": np.ones(20)}, config=config)) is None


def test_a_shuffle_without_world_size_is_not_guessed() -> None:
    assert Sampler.of({"sampler": "DistributedSampler", "batch_size": 4, "dataset_size": 64}) is None
