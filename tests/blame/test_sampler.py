from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import polars as pl
import pytest
from factories import make_signals

from trainforensics.blame.manifest import Manifest
from trainforensics.blame.sampler import Sampler, batches, described, randperm, reconstruct
from trainforensics.signals import Signals


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
    epochs = list(islice(Sampler(103, 4, 5, 7, shuffle=True, drop_last=drop_last).epochs(), 4))
    for rank in range(4):
        theirs = data.DistributedSampler(range(103), 4, rank, shuffle=True, seed=7, drop_last=drop_last)
        for epoch in (0, 3):
            theirs.set_epoch(epoch)
            assert epochs[epoch][rank].tolist() == list(theirs)


CONFIG = {
    "data": {"sampler": "torch.utils.data.DistributedSampler", "seed": 0, "dataset_size": 64,
             "shards": [{"name": "a", "samples": 32}, {"name": "b", "samples": 32}]},
    "world_size": 2, "per_device_train_batch_size": 4,
}  # fmt: skip


def rebuilt(signals: Signals) -> Manifest:
    found = reconstruct(signals)
    assert isinstance(found, Manifest), found
    return found


def test_batches_are_rebuilt_with_their_shards() -> None:
    manifest = rebuilt(make_signals({"train_loss": np.ones(20)}, step=np.arange(20), config=CONFIG))
    rows = manifest.frame.collect()
    assert set(rows["at"].to_list()) == set(range(20))
    documents = rows.explode("doc").filter(pl.col("epoch") == 0)
    assert sorted(int(d) for d in documents["doc"]) == list(range(64))
    assert all((int(d) < 32) == (s == "a") for d, s in zip(documents["doc"], documents["shard"], strict=True))
    assert manifest.basis == "reconstructed"
    assert (
        manifest.alignment.note
        == "batches are reconstructed from DistributedSampler as configured (seed 0, 64 samples, 2 ranks, 4 a batch)"
    )


def test_a_row_holds_a_rank_s_batch_of_a_step() -> None:
    sampler = Sampler(10, 2, 3, 0, shuffle=False, drop_last=False)
    rows = batches(sampler, 4).select("step", "rank", "epoch", "doc").rows()
    assert rows == [
        (0, 0, 0, ["0", "2", "4"]), (0, 1, 0, ["1", "3", "5"]), (1, 0, 0, ["6", "8"]), (1, 1, 0, ["7", "9"]),
        (2, 0, 1, ["0", "2", "4"]), (2, 1, 1, ["1", "3", "5"]), (3, 0, 1, ["6", "8"]), (3, 1, 1, ["7", "9"]),
    ]  # fmt: skip


def test_no_sampler_described_means_no_manifest() -> None:
    config = {"world_size": 2, "batch_size": 4, "dataset_size": 64, "seed": 0}
    assert reconstruct(make_signals({"train_loss": np.ones(20)}, config=config)) is None


def test_a_shuffle_without_world_size_is_not_guessed() -> None:
    config = {"sampler": "DistributedSampler", "batch_size": 4, "dataset_size": 64}
    assert Sampler.of(config) is None
    assert "lacks world_size" in str(described(config))


def test_epochs_that_the_log_contradicts_are_refused() -> None:
    config = {**CONFIG, "data": {**CONFIG["data"], "dataset_size": 640}}  # 80 steps an epoch
    step = np.arange(1, 201)
    loss = np.ones(200)
    assert "8 steps an epoch" in str(
        reconstruct(make_signals({"train_loss": loss, "epoch": step / 120}, config=CONFIG))
    )
    assert isinstance(reconstruct(make_signals({"train_loss": loss, "epoch": step / 80}, config=config)), Manifest)


def test_left_over_micro_batches_end_what_is_known() -> None:
    config = {**CONFIG, "gradient_accumulation_steps": 3}  # 8 batches an epoch
    manifest = rebuilt(make_signals({"train_loss": np.ones(9)}, step=np.arange(9), config=config))
    assert manifest.last <= 2
    assert "first epoch" in manifest.alignment.note


# --- samplers with one generator for all epochs, and Hugging Face's ---------------------------------------------------

RANDOM: dict[str, Any] = {"sampler": "RandomSampler", "dataset_size": 37, "batch_size": 4}


def orders(config: dict[str, Any], epochs: int = 3) -> list[list[int]]:
    sampler = described(config)
    assert isinstance(sampler, Sampler), sampler
    return [order[0].tolist() for order in islice(sampler.epochs(), epochs)]


@pytest.mark.torch
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_random_sampler_with_a_seeded_generator(shared: bool, drop_last: bool) -> None:
    torch = pytest.importorskip("torch")
    data = list(range(37))
    generator = torch.Generator().manual_seed(5)
    if shared:
        how = {"shuffle": True, "generator": generator}
    else:
        how = {"sampler": torch.utils.data.RandomSampler(data, generator=generator)}
    loader = torch.utils.data.DataLoader(data, batch_size=4, drop_last=drop_last, **how)
    key = "dataloader_generator_seed" if shared else "generator_seed"
    for order in orders({**RANDOM, key: 5}):
        theirs = torch.cat(list(loader)).tolist()
        assert theirs == order[: len(theirs)]


@pytest.mark.torch
@pytest.mark.parametrize("shared", [False, True])
def test_torchdata_s_random_sampler(shared: bool) -> None:
    torch = pytest.importorskip("torch")
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    data = list(range(37))
    generator = torch.Generator().manual_seed(5)
    if shared:
        how = {"shuffle": True, "generator": generator}
    else:
        how = {"sampler": stateful.sampler.RandomSampler(data, generator=generator)}
    loader = stateful.StatefulDataLoader(data, batch_size=4, **how)
    key = "dataloader_generator_seed" if shared else "generator_seed"
    for order in orders({**RANDOM, "sampler": "StatefulRandomSampler", key: 5}):
        assert torch.cat(list(loader)).tolist() == order


def test_a_random_sampler_s_second_epoch_goes_on_where_the_first_left_the_generator() -> None:
    """Drawn by torch 2.13: RandomSampler(range(5), generator=manual_seed(0)), twice."""
    assert orders({**RANDOM, "dataset_size": 5, "generator_seed": 0}, 2) == [[4, 0, 1, 3, 2], [2, 4, 1, 3, 0]]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("length", "world_size", "drop_last"),
    [(37, 3, False), (37, 3, True), (48, 3, False), (5, 3, False), (37, 1, False)],
)
def test_hugging_face_s_seedable_sampler(length: int, world_size: int, drop_last: bool) -> None:
    loading = pytest.importorskip("accelerate.data_loader")
    data = pytest.importorskip("torch.utils.data")
    config = {
        "accelerator_config": {"use_seedable_sampler": True, "split_batches": False}, "seed": 3, "data_seed": 11,
        "per_device_train_batch_size": 4, "world_size": world_size, "dataset_size": length,
        "dataloader_drop_last": drop_last,
    }  # fmt: skip
    sampler = described(config)
    assert isinstance(sampler, Sampler)
    for epoch, ours in enumerate(islice(sampler.epochs(), 3)):
        for rank in range(world_size):
            seeded = loading.SeedableRandomSampler(range(length), data_seed=11)
            seeded.set_epoch(epoch)
            theirs = data.BatchSampler(seeded, 4, drop_last)
            theirs = loading.BatchSamplerShard(theirs, world_size, rank) if world_size > 1 else theirs
            dealt = ours[rank].tolist()
            batched = [dealt[i : i + 4] for i in range(0, len(dealt), 4)]
            assert batched == list(theirs)


def test_whole_batches_go_round_and_the_last_round_is_filled_up() -> None:
    sampler = Sampler(10, 2, 2, 0, shuffle=True, drop_last=False, kind="seedable")
    order = randperm(10, 0).tolist()
    ours = next(sampler.epochs()).tolist()
    assert ours == [order[0:2] + order[4:6] + order[8:10], order[2:4] + order[6:8] + order[0:2]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dataset_size": None}, "lacks dataset_size"),
        ({"seed": None}, "lacks seed"),
        ({"group_by_length": True}, "group_by_length is not rebuilt"),
        ({"train_sampling_strategy": "group_by_length"}, "the strategy group_by_length is not rebuilt"),
        ({"accelerator_config": {"use_seedable_sampler": True, "split_batches": True}}, "split_batches is not rebuilt"),
    ],
)
def test_what_hugging_face_s_order_needs(change: dict[str, Any], reason: str) -> None:
    config = {
        "accelerator_config": {"use_seedable_sampler": True}, "seed": 3, "data_seed": None,
        "per_device_train_batch_size": 4, "world_size": 2, "dataset_size": 100,
    }  # fmt: skip
    assert isinstance(described(config), Sampler)
    assert reason in str(described({k: v for k, v in {**config, **change}.items() if v is not None}))


def test_a_random_sampler_without_a_seeded_generator_is_not_guessed() -> None:
    assert "lacks generator_seed" in str(described({**RANDOM, "seed": 0}))
    assert "world_size 2 is not rebuilt" in str(described({**RANDOM, "generator_seed": 0, "world_size": 2}))
