"""The manifest rebuilt from a sampler that the configuration describes: torch's own, or Hugging Face's seedable one.

torch.randperm on the CPU is a Fisher-Yates shuffle driven by a 32-bit Mersenne Twister, which numpy has too; the same
seed and length give the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, count, islice, repeat
from typing import Any, Literal

import numpy as np
import polars as pl

from trainforensics.blame.alignment import Alignment
from trainforensics.blame.described import accumulation_steps, setting, whole
from trainforensics.blame.grid import log_grid
from trainforensics.blame.manifest import Manifest
from trainforensics.signals import Signals
from trainforensics.signals.curve import Ints

MAX_SAMPLES = 20_000_000  # indices to rebuild at most; beyond that a logged manifest is the better way
WIDE_DRAWS = 2**32 // 20  # from this length on torch draws 64 bits for each swap
EPOCHS_AGREE = 0.02  # a logged epoch is rounded to two decimals, which near epoch 1 is as much

Kind = Literal["distributed", "sequential", "seedable", "random", "stateful-random"]
KINDS: Mapping[str, Kind] = {
    "distributedsampler": "distributed",
    "statefuldistributedsampler": "distributed",
    "sequentialsampler": "sequential",
    "seedablerandomsampler": "seedable",
    "randomsampler": "random",
    "statefulrandomsampler": "stateful-random",
}
NAMES: Mapping[Kind, str] = {
    "distributed": "DistributedSampler",
    "sequential": "SequentialSampler",
    "seedable": "accelerate's SeedableRandomSampler",
    "random": "RandomSampler",
    "stateful-random": "torchdata's RandomSampler",
}
SIZES = ("dataset_size", "dataset_length", "num_train_samples", "train_samples", "num_samples")
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "sampler": ("sampler", "sampler_type", "train_sampler"),
    "seed": ("sampler_seed", "data_seed", "seed"),
    "world_size": ("world_size", "num_replicas", "data_parallel_size"),
    "batch_size": ("per_device_train_batch_size", "micro_batch_size", "batch_size_per_rank", "batch_size"),
    "length": SIZES,
    "shuffle": ("shuffle",),
    "drop_last": ("drop_last", "dataloader_drop_last"),
    "shards": ("shard_sizes", "shards", "shard_list"),
    # of the generator that draws the order of a RandomSampler: its own, or one that the loader draws from as well
    "generator": ("generator_seed", "sampler_generator_seed"),
    "shared_generator": ("dataloader_generator_seed", "loader_generator_seed"),
}
# Settings under which batches are drawn or dealt in ways that are not rebuilt.
_OTHER_ORDERS = (
    "split_batches", "dispatch_batches", "group_by_length", "replacement", "auto_find_batch_size", "ignore_data_skip",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sampler:
    """What decides which sample feeds which rank at which step. `shards`: name and number of samples, in order.

    `shared`: the loader draws from the sampler's generator as well.
    """

    length: int
    world_size: int
    batch_size: int
    seed: int
    shuffle: bool
    drop_last: bool
    shards: tuple[tuple[str, int], ...] = ()
    kind: Kind = "distributed"
    shared: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Sampler | None:
        """The sampler a configuration describes, or None where it names none or leaves a needed number out."""
        found = described(config)
        return found if isinstance(found, Sampler) else None

    def epochs(self) -> Iterator[Ints]:
        """Sample indices of one epoch after another, shape (rank, sample); a rank's batches follow one another."""
        return (self._dealt(order) for order in self._orders())

    def _orders(self) -> Iterator[Ints]:
        if not self.shuffle:
            return repeat(np.arange(self.length))
        if self.kind in ("distributed", "seedable"):
            return (randperm(self.length, self.seed + epoch) for epoch in count())
        return self._streamed()

    def _streamed(self) -> Iterator[Ints]:
        """One generator for all epochs, which draws between them as well.

        torch's sampler draws a permutation at the end of an epoch of which it takes nothing; a loader that shares the
        generator draws its workers' seed when an epoch begins, torchdata's loader after the permutation.
        """
        random = np.random.RandomState(self.seed & 0xFFFFFFFF)
        torch = self.kind == "random"
        while True:
            if self.shared and torch:
                _words(random, 2)
            yield _permutation(self.length, random)
            if self.shared and not torch:
                _words(random, 2)
            if torch:
                _words(random, self.length - 1)

    def _dealt(self, order: Ints) -> Ints:
        if self.kind == "seedable" and self.world_size > 1:  # whole batches go round, the last round is filled up
            rounds = self.epoch_samples // self.batch_size
            dealt = np.resize(order, rounds * self.world_size * self.batch_size)
            return dealt.reshape(rounds, self.world_size, -1).transpose(1, 0, 2).reshape(self.world_size, -1)
        return np.resize(order, self.epoch_samples * self.world_size).reshape(-1, self.world_size).T

    @property
    def steps_per_epoch(self) -> int:
        """Batches a rank sees in an epoch."""
        each = self.epoch_samples
        return each // self.batch_size if self.drop_last else math.ceil(each / self.batch_size)

    @property
    def epoch_samples(self) -> int:
        """Samples a rank sees in an epoch."""
        if self.kind == "seedable" and self.world_size > 1:
            rounds = self.length / (self.world_size * self.batch_size)
            return (math.floor(rounds) if self.drop_last else math.ceil(rounds)) * self.batch_size
        if self.drop_last and self.length % self.world_size:
            return math.ceil((self.length - self.world_size) / self.world_size)
        return math.ceil(self.length / self.world_size)

    @property
    def text(self) -> str:
        """What it is, in a few words."""
        seed = f"seed {self.seed}, " if self.shuffle else ""
        ranks = "1 rank" if self.world_size == 1 else f"{self.world_size} ranks"
        return f"{NAMES[self.kind]} as configured ({seed}{self.length} samples, {ranks}, {self.batch_size} a batch)"


def described(config: Mapping[str, Any]) -> Sampler | str | None:
    """The sampler a configuration describes, or why it cannot be rebuilt; None where it names none.

    Hugging Face's trainer need not name its sampler: its accelerator's configuration says that it is the seedable one.
    """
    said = {name: setting(config, keys) for name, keys in SYNONYMS.items()}
    kind = KINDS.get(str(said["sampler"] or "").rsplit(".", 1)[-1].lower())
    if said["sampler"] is None and _true(setting(config, ("use_seedable_sampler",))):
        kind, said["length"] = "seedable", setting(config, SIZES[:3])
    if kind is None:
        return None
    shards = _shards(said["shards"])
    length, batch, world = (whole(said[name]) for name in ("length", "batch_size", "world_size"))
    length = length or sum(size for _, size in shards)
    shuffle = kind != "sequential" and (kind != "distributed" or said["shuffle"] is not False)
    shared = said["generator"] is None and said["shared_generator"] is not None
    seed = whole(said["shared_generator"] if shared else said["generator"]) if "random" in kind else whole(said["seed"])
    needed = {
        "dataset_size": length,
        "per_device_train_batch_size": batch,
        "world_size": world or kind != "distributed",
    }
    if kind == "seedable":
        needed |= {"world_size": world, "seed": seed is not None}
    elif "random" in kind:
        needed["generator_seed"] = seed is not None
    missing = [name for name, value in needed.items() if not value]
    other = [name for name in _OTHER_ORDERS if _true(setting(config, (name,)))] if kind != "distributed" else []
    strategy = setting(config, ("train_sampling_strategy",))
    other += [f"the strategy {strategy}"] if kind == "seedable" and strategy not in (None, "random") else []
    other += [f"world_size {world}"] if "random" in kind and (world or 1) > 1 else []
    if missing or other or not length or not batch:
        lacks = f"the configuration lacks {', '.join(missing)}" if missing else f"{other[0]} is not rebuilt"
        return f"batches were not reconstructed from {NAMES[kind]}: {lacks}"
    return Sampler(length, world or 1, batch, seed or 0, shuffle, _true(said["drop_last"]), shards, kind, shared)


def reconstruct(signals: Signals) -> Manifest | str | None:
    """The batches (rank, shard, doc = sample index) of the logged steps, or why not; None where none is described.

    It is taken that every epoch calls `set_epoch`, as the sampler's documentation asks.
    """
    sampler, grid = described(signals.config), log_grid(signals)
    if not isinstance(sampler, Sampler):
        return sampler
    micro = accumulation_steps(signals.config)
    steps = (int(grid[-1]) + (1 if grid[0] == 0 else 0)) * micro if len(grid) else 0
    reason = _refusal(signals, sampler, steps, micro)
    if reason:
        return f"batches were not reconstructed from {NAMES[sampler.kind]}: {reason}"
    note = f"batches are reconstructed from {sampler.text}"
    if micro > 1 and sampler.steps_per_epoch % micro and steps > sampler.steps_per_epoch:
        # training loops differ on whether the batches left over begin the next step or make one of their own
        steps = sampler.steps_per_epoch // micro * micro
        note += f"; {micro} batches a step do not divide an epoch, so that only the first epoch's are known"
    alignment = Alignment(micro, 0 if grid[0] == 0 else 1, note=note)
    frame = batches(sampler, steps).lazy()
    first, last = alignment.offset, (steps - 1) // micro + alignment.offset
    columns = frozenset({*frame.collect_schema().names(), "at"})
    return Manifest(frame.with_columns(alignment.at), columns, first, last, alignment, "reconstructed")


def _refusal(signals: Signals, sampler: Sampler, steps: int, micro: int) -> str:
    """Why the batches cannot be those of the run, empty if nothing speaks against it."""
    if steps < 1 or sampler.steps_per_epoch < 1:
        return "the log, or an epoch, has no step"
    fed = steps * sampler.world_size * sampler.batch_size
    if fed > MAX_SAMPLES or sampler.length >= WIDE_DRAWS:
        return f"{fed} samples of {sampler.length} are more than are rebuilt"
    epoch = signals.curve("epoch")
    if epoch is None or not epoch.finite.any():
        return ""
    done = epoch.only_finite()
    last = float(done.value[-1])
    if last < 1 or not np.any(done.value % 1):  # whole numbers: which step ends an epoch is not said
        return ""
    logged, expected = int(done.step[-1]) / last, sampler.steps_per_epoch / micro
    if abs(logged / expected - 1) <= EPOCHS_AGREE + 1 / expected:
        return ""
    return f"it gives {expected:.6g} steps an epoch, the log has {logged:.6g}"


def batches(sampler: Sampler, steps: int) -> pl.DataFrame:
    """A row for each of the first `steps` steps and rank (and shard): step from 0, rank, epoch, shard, doc."""
    epochs = islice(sampler.epochs(), math.ceil(steps / sampler.steps_per_epoch))
    return pl.concat([_epoch_frame(sampler, dealt, number, steps) for number, dealt in enumerate(epochs)])


def _epoch_frame(sampler: Sampler, dealt: Ints, number: int, steps: int) -> pl.DataFrame:
    import pyarrow as pa  # noqa: PLC0415  (heavy)

    first = number * sampler.steps_per_epoch
    last = min(sampler.steps_per_epoch, steps - first)
    ranks, size = sampler.world_size, sampler.batch_size
    dealt = dealt[:, : last * size]
    full = dealt.shape[1] // size
    whole_batches = dealt[:, : full * size].reshape(ranks, full, size).transpose(1, 0, 2).ravel()
    samples = np.concatenate([whole_batches, dealt[:, full * size :].ravel()])
    sizes = np.repeat(np.minimum(size, dealt.shape[1] - np.arange(last) * size), ranks)
    listed = pa.LargeListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes))), pa.array(samples))
    rows = {
        "step": np.repeat(np.arange(first, first + last), ranks),
        "rank": np.tile(np.arange(ranks), last),
        "epoch": np.full(last * ranks, number),
        "doc": pl.Series(listed),
    }
    frame = pl.DataFrame(rows)
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
    return _permutation(n, np.random.RandomState(seed & 0xFFFFFFFF))


def _permutation(n: int, random: np.random.RandomState) -> Ints:
    if n >= WIDE_DRAWS:
        raise ValueError(f"permutations of {n} samples are not rebuilt")
    swaps = (_words(random, n - 1) % np.arange(n, 1, -1) + np.arange(max(n - 1, 0))).tolist()
    out = list(range(n))
    for i, j in enumerate(swaps):
        out[i], out[j] = out[j], out[i]
    return np.array(out, dtype=np.int64)


def _words(random: np.random.RandomState, count: int) -> Ints:
    """The generator's next 32-bit words."""
    return np.asarray(random.randint(0, 1 << 32, size=max(count, 0), dtype=np.uint32), dtype=np.int64)


def _true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


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
