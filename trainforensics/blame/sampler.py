"""The manifest rebuilt from a sampler that the configuration describes: torch's DistributedSampler, or a plain one.

torch.randperm on the CPU is a Fisher-Yates shuffle driven by a 32-bit Mersenne Twister, which numpy has too; the same
seed and length give the same order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl

from trainforensics.blame.described import setting
from trainforensics.blame.manifest import accumulation_steps, log_grid
from trainforensics.signals import Signals
from trainforensics.signals.curve import Ints

MAX_SAMPLES = 20_000_000  # indices to rebuild at most; beyond that a logged manifest is the better way
WIDE_DRAWS = 2**32 // 20  # from this length on torch draws 64 bits for each swap

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "sampler": ("sampler", "sampler_type", "train_sampler"),
    "seed": ("sampler_seed", "data_seed", "seed"),
    "world_size": ("world_size", "num_replicas", "data_parallel_size"),
    "batch_size": ("per_device_train_batch_size", "micro_batch_size", "batch_size_per_rank", "batch_size"),
    "length": ("dataset_size", "dataset_length", "num_train_samples", "train_samples", "num_samples"),
    "shuffle": ("shuffle",),
    "drop_last": ("drop_last", "dataloader_drop_last"),
    "shards": ("shard_sizes", "shards", "shard_list"),
}


@dataclass(frozen=True, slots=True)
class Sampler:
    """What decides which sample feeds which rank at which step. `shards`: name and number of samples, in order."""

    length: int
    world_size: int
    batch_size: int
    seed: int
    shuffle: bool
    drop_last: bool
    shards: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Sampler | None:
        """The sampler a configuration describes, or None where it names none or leaves a needed number out."""
        said = {name: setting(config, keys) for name, keys in SYNONYMS.items()}
        kind = str(said["sampler"] or "").rsplit(".", 1)[-1].lower()
        if kind not in ("distributedsampler", "sequentialsampler"):
            return None
        shards = _shards(said["shards"])
        length = said["length"] or sum(size for _, size in shards)
        numbers = (length, said["batch_size"])
        if not all(isinstance(n, int | float) and n > 0 for n in numbers):
            return None
        shuffle = kind == "distributedsampler" and said["shuffle"] is not False
        if shuffle and said["world_size"] is None:
            return None
        return cls(
            int(length),
            int(said["world_size"] or 1),
            int(said["batch_size"]),
            int(said["seed"] or 0),
            shuffle,
            said["drop_last"] is True,
            shards,
        )

    def epoch(self, number: int) -> Ints:
        """Sample indices of one epoch, shape (rank, sample), as DistributedSampler deals them out."""
        order = randperm(self.length, self.seed + number) if self.shuffle else np.arange(self.length)
        if self.drop_last and self.length % self.world_size:
            each = math.ceil((self.length - self.world_size) / self.world_size)
            dealt = order[: each * self.world_size]
        else:
            each = math.ceil(self.length / self.world_size)
            dealt = np.resize(order, each * self.world_size)
        return dealt.reshape(each, self.world_size).T

    @property
    def steps_per_epoch(self) -> int:
        """Batches a rank sees in an epoch."""
        each = self.epoch_samples
        return each // self.batch_size if self.drop_last else math.ceil(each / self.batch_size)

    @property
    def epoch_samples(self) -> int:
        """Samples a rank sees in an epoch."""
        if self.drop_last and self.length % self.world_size:
            return math.ceil((self.length - self.world_size) / self.world_size)
        return math.ceil(self.length / self.world_size)


def reconstruct(signals: Signals) -> pl.LazyFrame | None:
    """A manifest (step counted from 0, rank, shard, doc = sample index) for the logged steps; None without a sampler.

    It is taken that every epoch calls `set_epoch`, as the sampler's documentation asks.
    """
    sampler, grid = Sampler.of(signals.config), log_grid(signals)
    if sampler is None or not len(grid) or sampler.steps_per_epoch < 1:
        return None
    micro = accumulation_steps(signals.config)
    steps = (int(grid[-1]) + (1 if grid[0] == 0 else 0)) * micro
    if steps < 1 or steps * sampler.world_size * sampler.batch_size > MAX_SAMPLES:
        return None
    epochs = math.ceil(steps / sampler.steps_per_epoch)
    frames = [_epoch_frame(sampler, number, steps) for number in range(epochs)]
    return pl.concat(frames).lazy()


def _epoch_frame(sampler: Sampler, number: int, steps: int) -> pl.DataFrame:
    first = number * sampler.steps_per_epoch
    dealt = sampler.epoch(number)
    rows: dict[str, list[Any]] = {"step": [], "rank": [], "epoch": [], "doc": []}
    for batch in range(min(sampler.steps_per_epoch, steps - first)):
        for rank in range(sampler.world_size):
            samples = dealt[rank, batch * sampler.batch_size : (batch + 1) * sampler.batch_size]
            for column, value in zip(rows, (first + batch, rank, number, samples.tolist()), strict=True):
                rows[column].append(value)
    frame = pl.DataFrame(rows).with_columns(pl.col("doc").cast(pl.List(pl.Int64)))
    if sampler.shards:
        frame = _with_shard(frame, sampler.shards)
    return frame.with_columns(pl.col("doc").cast(pl.List(pl.String)))


def _with_shard(frame: pl.DataFrame, shards: tuple[tuple[str, int], ...]) -> pl.DataFrame:
    """One row a shard and batch, from the shards' lengths in order."""
    names = np.array([name for name, _ in shards])
    ends = np.array(list(accumulate(size for _, size in shards)))
    long = frame.explode("doc")
    at = np.minimum(np.searchsorted(ends, long["doc"].to_numpy(), side="right"), len(names) - 1)
    long = long.with_columns(pl.Series("shard", names[at]))
    return long.group_by("step", "rank", "epoch", "shard", maintain_order=True).agg("doc")


def randperm(n: int, seed: int) -> Ints:
    """The permutation that torch.randperm(n) draws on the CPU from a generator seeded with `seed`."""
    if n >= WIDE_DRAWS:
        raise ValueError(f"permutations of {n} samples are not rebuilt")
    order = np.arange(n)
    if n < 2:
        return order
    draws = np.random.RandomState(seed & 0xFFFFFFFF).randint(0, 1 << 32, size=n - 1, dtype=np.uint32)
    swaps = (np.asarray(draws, dtype=np.int64) % np.arange(n, 1, -1) + np.arange(n - 1)).tolist()
    out = order.tolist()
    for i, j in enumerate(swaps):
        out[i], out[j] = out[j], out[i]
    return np.array(out, dtype=np.int64)


def _shards(said: Any) -> tuple[tuple[str, int], ...]:
    """Shard names and sizes from a mapping, a list of sizes, or a list of {name, samples} records."""
    if isinstance(said, Mapping):
        return tuple((str(name), int(size)) for name, size in said.items() if isinstance(size, int))
    found = []
    for number, item in enumerate(said if isinstance(said, list | tuple) else ()):
        if isinstance(item, int):
            found.append((str(number), item))
        elif isinstance(item, Mapping):
            name = next((item[k] for k in ("name", "path", "file", "id") if k in item), number)
            size = next((item[k] for k in ("samples", "num_samples", "size", "length", "n") if k in item), None)
            if isinstance(size, int):
                found.append((str(name), size))
    return tuple(found)
