"""What the configuration says of a Megatron run's training data, and the files that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainforensics.blame.consumed import RANK_BATCH, REPLICAS, SEQUENCE, global_batch
from trainforensics.blame.described import flat, leaf, setting, whole
from trainforensics.blame.megatron.feed import Ranks
from trainforensics.importers.indexmap import SETTING, is_part

TRAIN_PATH = ("train_data_path", "train_data_prefix")
DATA_PATH = ("data_path", "data_prefix")
CACHE = ("data_cache_path", "path_to_cache", "index_mapping_dir")
SEED = ("data_seed", "random_seed", "seed")
SPLIT = ("split", "splits_string", "data_split")
DEALER = ("dataloader_type",)
EXTRA_TOKEN = ("add_extra_token_to_sequence",)
PARALLEL = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "tensor_parallel",
    "pipeline_parallel", "model_parallel_size",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Described:
    """The training data as configured. `prefixes` with `weights`, None where they are not weighted."""

    prefixes: tuple[str, ...]
    weights: tuple[float, ...] | None
    own_split: bool  # the prefixes are for training alone, so that no split applies
    split: str
    samples: int | None
    length: int | None
    seed: int | None
    extra_token: bool = True  # sequences share their last token with the next

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Described:
        """What the configuration says; empty and None for the rest."""
        own = setting(config, TRAIN_PATH)
        weights, prefixes = _weighted(own or setting(config, DATA_PATH))
        steps, batch = whole(setting(config, ("train_iters",))), global_batch(config)
        samples = whole(setting(config, ("train_samples",))) or (steps * batch if steps and batch else None)
        length, seed = whole(setting(config, SEQUENCE)), whole(setting(config, SEED))
        extra = str(setting(config, EXTRA_TOKEN)).lower() != "false"
        return cls(prefixes, weights, bool(own), str(setting(config, SPLIT) or ""), samples, length, seed, extra)

    def lacks(self) -> list[str]:
        """What must be known to draw the maps anew and is not."""
        needed = {
            "the sequence length": self.length is not None,
            "the seed": self.seed is not None,
            "train_samples (or train_iters and the global batch size)": self.samples is not None,
            "the split": self.own_split or self.split,
            "sequences that share a token": self.extra_token,
        }
        return [name for name, known in needed.items() if not known]


def ranks_of(config: Mapping[str, Any]) -> Ranks | None:
    """How samples are dealt to ranks; None where not said, or where a rank of the data is no rank of the run."""
    micro, count = whole(setting(config, RANK_BATCH)), whole(setting(config, REPLICAS))
    world = whole(setting(config, ("world_size",)))
    if count is None and world and all(whole(setting(config, (key,))) in (None, 1) for key in PARALLEL):
        count = world
    alone = world == count or (world is None and all(whole(setting(config, (key,))) in (None, 1) for key in PARALLEL))
    return Ranks(micro, count) if micro and count and alone else None


def files_of(config: Mapping[str, Any], prefixes: tuple[str, ...]) -> Iterator[Path]:
    """Parts of index maps that lie in the run's folder or where the configuration says; those that are there."""
    named = [Path(value) for key, value in flat(config) if leaf(key) == SETTING and isinstance(value, str)]
    yield from (path for path in named if path.is_file())
    cache = setting(config, CACHE)
    if isinstance(cache, str) and cache:
        yield from _parts_in(Path(cache))
    for prefix in map(Path, prefixes):
        sizes = prefix.with_name(f"{prefix.name}.idx")
        yield from (sizes,) if sizes.is_file() else ()
        yield from (path for path in _parts_in(prefix.parent) if path.name.startswith(f"{prefix.name}_"))
        for folder in (prefix.parent / "index-cache", prefix / "cache" / "GPTDataset_indices"):
            yield from _parts_in(folder)


def lost_files(config: Mapping[str, Any]) -> list[str]:
    """Files that lay in the run's folder when it was imported and are there no more."""
    named = (value for key, value in flat(config) if leaf(key) == SETTING and isinstance(value, str))
    return [path for path in named if not Path(path).is_file()]


def _parts_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if is_part(path.name)]
    except OSError:
        return []


def _weighted(said: Any) -> tuple[tuple[float, ...] | None, tuple[str, ...]]:
    """Weights and prefixes of a `--data-path`: "0.3 a 0.7 b", or the same as a list; a list of prefixes has none."""
    parts = said.replace(",", " ").replace("[", " ").replace("]", " ").split() if isinstance(said, str) else said
    if not isinstance(parts, list | tuple):
        return None, ()
    words = [str(part).strip().strip("'\"") for part in parts]
    weights = [_number(word) for word in words[::2]]
    if words and len(words) % 2 == 0 and all(weight is not None for weight in weights):
        return tuple(weight for weight in weights if weight is not None), tuple(words[1::2])
    return None, tuple(words)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
