"""Index maps and .idx files in their real binary formats, drawn by a plain restatement of Megatron's algorithm."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Drawn:
    """What Megatron caches for one data set: document, sample and shuffle index."""

    document: np.ndarray
    sample: np.ndarray
    shuffle: np.ndarray

    def documents(self, n: int) -> list[int]:
        """The documents of the n-th sample drawn, one look-up after another."""
        s = int(self.shuffle[n])
        first, last = int(self.sample[s][0]), int(self.sample[s + 1][0])
        return [int(self.document[i]) for i in range(first, last + 1)]


def draw(sizes: Sequence[int], documents: Sequence[int], samples: int, length: int, seed: int) -> Drawn:
    """Step by step, with none of the short cuts that large maps need."""
    tokens = sum(sizes[d] for d in documents)
    epochs = 1
    while epochs * tokens < samples * length + 1:
        epochs += 1
    apart = False
    if epochs > 1:
        without_last = ((epochs - 1) * tokens - 1) // length
        apart = samples - without_last < int(0.80 * ((tokens - 1) // length))
    random = np.random.RandomState(seed)
    parts = [epochs - 1, 1] if apart else [epochs]
    orders = []
    for repeats in parts:
        order = np.array(list(documents) * repeats, dtype=np.int32)
        random.shuffle(order)
        orders.append(order)
    document = np.concatenate(orders)
    count = (epochs * tokens - 1) // length
    sample = np.array(_starts(sizes, document, count, length), dtype=np.int32)
    inner = without_last if apart else count
    pieces = []
    for low, high in ((0, inner), (inner, count)):
        piece = np.arange(low, high, dtype=np.uint32)
        if high > low:
            random.shuffle(piece)
        pieces.append(piece)
    return Drawn(document, sample, np.concatenate(pieces))


def _starts(sizes: Sequence[int], document: np.ndarray, count: int, length: int) -> list[tuple[int, int]]:
    """Where each sample begins: place in the document index, and tokens of that document already used."""
    at, used = 0, 0
    starts = [(at, used)]
    while len(starts) <= count:
        needed = length + 1  # the last token is the first of the next sample
        while needed:
            left = sizes[document[at]] - used
            if left >= needed:
                used, needed = used + needed - 1, 0
            else:
                at, used, needed = at + 1, 0, needed - left
        starts.append((at, used))
    return starts


def draw_blend(weights: Sequence[float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Each sample goes to the data set with the largest error against its share."""
    shares = np.array(weights) / np.sum(weights)
    shares = shares / np.sum(shares)
    taken = np.zeros(len(shares))
    dataset, place = [], []
    for n in range(size):
        errors = shares * max(float(n), 1.0) - taken
        most = int(np.argmax(errors))
        dataset.append(most)
        place.append(int(taken[most]))
        taken[most] += 1
    return np.array(dataset, dtype=np.int16), np.array(place, dtype=np.int64)


def write_sizes(path: Path, sizes: Sequence[int]) -> Path:
    """A .idx file: header, sizes (int32), byte offsets (int64), sequence numbers at which documents begin (int64)."""
    n = len(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]) * 2
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, n, n + 1)
    body = np.array(sizes, "<i4").tobytes() + offsets.astype("<i8").tobytes() + np.arange(n + 1, dtype="<i8").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + body)
    return path


def write_named(prefix: Path, drawn: Drawn, samples: int, length: int, seed: int, split: str = "train") -> str:
    """The first generation: everything stands in the file's name. Returns the common stem."""
    stem = f"{prefix.name}_{split}_indexmap_{samples}ns_{length}sl_{seed}s"
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for part, array in (("doc", drawn.document), ("sample", drawn.sample), ("shuffle", drawn.shuffle)):
        np.save(prefix.parent / f"{stem}_{part}_idx.npy", array, allow_pickle=True)
    return stem


def write_hashed(
    folder: Path, data: str, drawn: Drawn, samples: int, length: int, seed: int, split: str = "train"
) -> str:
    """The second: a hash, and a .dsc file of lines. Returns the description."""
    text = (
        f"GPT Dataset\n\nData prefix {data}\nDataset name {split}\nNumber of samples {samples}\n"
        f"Sequence length {length}\nRandom seed {seed}\nSplit 100,0,0\n"
    )
    stem = hashlib.md5(text.encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.dsc").write_text(text)
    for part, array in (("doc", drawn.document), ("sample", drawn.sample), ("shuffle", drawn.shuffle)):
        np.save(folder / f"{stem}_{part}_idx.npy", array, allow_pickle=True)
    return text


def write_core(
    folder: Path, data: str, drawn: Drawn, samples: int, length: int, seed: int, split: str = "train"
) -> dict[str, object]:
    """Megatron-Core: a hash, the class and the split, and a description in JSON. Returns the description."""
    said: dict[str, object] = {
        "class": "GPTDataset", "dataset_path": data, "num_samples": samples, "index_split": split,
        "random_seed": seed, "sequence_length": length, "split": "100,0,0", "split_matrix": [[0, 1.0], None, None],
    }  # fmt: skip
    text = json.dumps(said, indent=4)
    stem = f"{hashlib.md5(text.encode()).hexdigest()}-GPTDataset-{split}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}-description.txt").write_text(text)
    for part, array in (("document", drawn.document), ("sample", drawn.sample), ("shuffle", drawn.shuffle)):
        np.save(folder / f"{stem}-{part}_index.npy", array, allow_pickle=True)
    return said


def write_core_blend(folder: Path, datasets: Sequence[dict[str, object]], weights: Sequence[float], size: int) -> str:
    """A BlendedDataset's two arrays and description. Returns the stem."""
    said: dict[str, object] = {"class": "BlendedDataset", "datasets": list(datasets), "split": "train"}
    said |= {"weights": list(weights), "size": size}
    text = json.dumps(said, indent=4)
    stem = f"{hashlib.md5(text.encode()).hexdigest()}-BlendedDataset-train"
    (folder / f"{stem}-description.txt").write_text(text)
    dataset, place = draw_blend(weights, size)
    np.save(folder / f"{stem}-dataset_index.npy", dataset, allow_pickle=True)
    np.save(folder / f"{stem}-dataset_sample_index.npy", place, allow_pickle=True)
    return stem


def write_hashed_blend(folder: Path, datasets: Sequence[str], weights: Sequence[float], size: int) -> str:
    """A BlendableDataset's two arrays and its .dsc file, which repeats those of its data sets. Returns the stem."""
    text = "Blendable dataset\n\nDatasets:\n" + "".join(f"{said}\n\n" for said in datasets)
    text += f"Weights: {list(weights)}\nSize: {size}\n"
    stem = hashlib.md5(text.encode()).hexdigest()
    (folder / f"{stem}.dsc").write_text(text)
    dataset, place = draw_blend(weights, size)
    np.save(folder / f"{stem}_index.npy", dataset, allow_pickle=True)
    np.save(folder / f"{stem}_sample_index.npy", place, allow_pickle=True)
    return stem
