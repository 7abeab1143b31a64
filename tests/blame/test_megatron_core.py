"""Reconstructed batches against Megatron-Core itself: its writer of .idx files, its cache, the tokens it hands out.

A document's tokens are its own number, so that a sample says which documents it is made of.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from factories import make_signals

from trainforensics.blame.manifest import Manifest
from trainforensics.blame.megatron import index_maps
from trainforensics.importers.indexmap import SETTING

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # its warnings are not ours
BATCH = 8


class Tokenizer(SimpleNamespace):
    """As much of one as a data set asks for."""

    unique_identifiers = {"class": "none"}  # noqa: RUF012  (as the original has it)
    eod, pad, vocab_size = 0, -1, 1000


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every accelerator that is not there
        gpt = pytest.importorskip("megatron.core.datasets.gpt_dataset")
        indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset")
        builder = pytest.importorskip("megatron.core.datasets.blended_megatron_dataset_builder")
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: 0)
    return SimpleNamespace(torch=torch, gpt=gpt, indexed=indexed, builder=builder)


def write(core: SimpleNamespace, prefix: Path, documents: int, seed: int) -> str:
    builder = core.indexed.IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for number, size in enumerate(np.random.default_rng(seed).integers(1, 70, documents).tolist()):
        builder.add_document(np.full(size, number, np.int32), [size])
    builder.finalize(f"{prefix}.idx")
    return str(prefix)


def build(core: SimpleNamespace, blend: Any, cache: Path, config: dict[str, Any]) -> Any:
    described = core.gpt.GPTDatasetConfig(
        random_seed=config["seed"], sequence_length=config["seq_length"], split=config["split"], blend=blend,
        path_to_cache=str(cache), tokenizer=Tokenizer(), reset_position_ids=False, reset_attention_mask=False,
        eod_mask_loss=False, create_attention_mask=False,
    )  # fmt: skip
    sizes = [config["train_samples"], 0, 0]
    return core.builder.BlendedMegatronDatasetBuilder(core.gpt.GPTDataset, sizes, lambda: True, described).build()[0]


def handed_out(data: Any, n: int) -> set[str]:
    sample = data[n]
    return {str(token) for token in [*sample["tokens"].tolist(), int(sample["labels"][-1])]}


def reconstructed(files: list[Path], config: dict[str, Any]) -> list[set[str]]:
    steps = config["train_samples"] // BATCH
    places = {f"{path.name}.{SETTING}": str(path) for path in files}
    manifest = index_maps(make_signals({"train_loss": np.ones(steps)}, config={**places, **config}))
    assert isinstance(manifest, Manifest), manifest
    rows = manifest.frame.collect()
    fed: list[set[str]] = [set() for _ in range(steps)]
    for step, documents in rows.select("at", "doc").rows():
        fed[step - 1] |= set(documents)
    return fed


@pytest.mark.parametrize(
    ("samples", "length", "split"), [(320, 32, "100,0,0"), (800, 32, "90,5,5"), (904, 16, "98,2,0")]
)
def test_one_data_set(core: SimpleNamespace, tmp_path: Path, samples: int, length: int, split: str) -> None:
    prefix, cache = write(core, tmp_path / "pile", 400, 0), tmp_path / "cache"
    config = {"seq_length": length, "seed": 7, "train_samples": samples, "global_batch_size": BATCH, "split": split}
    data = build(core, ([prefix], None), cache, config)
    fed = [set().union(*(handed_out(data, n) for n in range(at, at + BATCH))) for at in range(0, samples, BATCH)]
    sizes = tmp_path / "pile.idx"
    for files in ([*cache.iterdir()], [*cache.iterdir(), sizes], [sizes]):
        assert reconstructed(files, config) == fed


@pytest.mark.parametrize("weights", [(0.7, 0.3), None])
def test_a_blend(core: SimpleNamespace, tmp_path: Path, weights: tuple[float, float] | None) -> None:
    prefixes, cache = (
        [write(core, tmp_path / name, 300, i) for i, name in enumerate(("pile", "code"))],
        tmp_path / "cache",
    )
    config = {"seq_length": 16, "seed": 3, "train_samples": 640, "global_batch_size": BATCH, "split": "100,0,0"}
    data = build(core, (prefixes, weights), cache, config)

    def handed(n: int) -> set[str]:
        number = int(data.dataset_index[n])
        documents = handed_out(data.datasets[number], int(data.dataset_sample_index[n]))
        return {f"{('pile', 'code')[number]}:{document}" for document in documents}

    fed = [set().union(*(handed(n) for n in range(at, at + BATCH))) for at in range(0, 640, BATCH)]
    assert reconstructed([*cache.iterdir()], config) == fed
    if weights is not None:
        named = {**config, "data_path": [weights[0], prefixes[0], weights[1], prefixes[1]]}
        maps = [path for path in cache.iterdir() if "Blended" not in path.name]
        assert reconstructed(maps, named) == fed
        assert reconstructed([tmp_path / "pile.idx", tmp_path / "code.idx"], named) == fed
