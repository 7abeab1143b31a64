"""One data set's index map: which documents its n-th sample is made of, and which samples a document went into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.blame.megatron.files import MapFiles
from trainforensics.importers.indexmap import open_array
from trainforensics.signals.curve import Ints

_CHUNK = 1 << 22  # numbers looked at in one go
Whole = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class IndexMap:
    """The n-th sample drawn is sample s = shuffle[n]; it is made of documents document[first[s]] ... [first[s + 1]].

    `document` shape (documents x epochs,), `first` (samples + 1,), `shuffle` (samples,); mapped into memory.
    """

    document: Whole
    first: Whole
    shuffle: Whole

    def __len__(self) -> int:
        return len(self.shuffle)

    def documents(self, n: Ints) -> tuple[Ints, Ints]:
        """How many documents each n-th sample is made of, shape of `n`, and their numbers, one after another."""
        sample = self.shuffle[n].astype(np.int64)
        first = self.first[sample].astype(np.int64)
        count = self.first[sample + 1] - first + 1
        ends = np.cumsum(count)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)
        return count, self.document[at].astype(np.int64)

    def samples_of(self, documents: Ints, upto: int) -> tuple[Ints, Ints]:
        """Pairs (n, document): the first `upto` samples that hold any of the documents."""
        at = np.concatenate([*_where(self.document, documents), np.zeros(0, np.int64)])
        low = np.searchsorted(self.first[1:], at, side="left")
        high = np.searchsorted(self.first[:-1], at, side="right")
        spread = np.maximum(high - low, 0)
        sample = np.arange(spread.sum()) + np.repeat(low - (np.cumsum(spread) - spread), spread)
        document = np.repeat(self.document[at].astype(np.int64), spread)
        wanted = np.zeros(len(self), bool)
        wanted[sample] = True
        n = np.concatenate([start + np.flatnonzero(wanted[part]) for start, part in _chunks(self.shuffle[:upto])])
        drawn = self.shuffle[n].astype(np.int64)
        order = np.argsort(drawn)
        place = np.searchsorted(drawn, sample, sorter=order)
        fed = np.append(drawn[order], -1)[place] == sample
        return n[order[place[fed]]], document[fed]

    def distinct(self) -> int:
        """How many different documents there are."""
        seen = np.zeros(max((int(part.max()) for _, part in _chunks(self.document)), default=-1) + 1, bool)
        for _, part in _chunks(self.document):
            seen[part] = True
        return int(np.count_nonzero(seen))


def open_map(files: MapFiles, sizes: NDArray[np.int32] | None = None, length: int | None = None) -> IndexMap | str:
    """The map, or what about its files does not fit.

    `sizes`, shape (n,): tokens of its documents; `length`: of a sequence; both where they are known.
    """
    try:
        document, sample, shuffle = (open_array(path) for path in (files.document, files.sample, files.shuffle))
    except (OSError, EOFError, ValueError) as error:
        return f"the index map {files.name} cannot be read: {error}"
    wrong = _contradiction(document, sample, shuffle) or (
        _unlike_sizes(document, sample, sizes, length) if sizes is not None else ""
    )
    if wrong:
        return f"the index map {files.name} does not fit together: {wrong}"
    return IndexMap(document, sample[:, 0], shuffle)


def _contradiction(document: Whole, sample: Whole, shuffle: Whole) -> str:
    """What the three arrays say against one another, empty if nothing."""
    if document.ndim != 1 or shuffle.ndim != 1 or sample.ndim != 2 or sample.shape[1:] != (2,):
        return f"shapes are {document.shape}, {sample.shape} and {shuffle.shape}"
    n = len(shuffle)
    if not n or not len(document) or len(sample) != n + 1:
        return f"{n} samples are shuffled, the sample index has {len(sample) - 1}"
    if sample[0, 0] != 0 or sample[0, 1] != 0 or _falls(sample[:, 0]) or sample[-1, 0] >= len(document):
        return f"the sample index does not walk through the {len(document)} documents in order"
    total = sum(int(part.sum(dtype=np.int64)) for _, part in _chunks(shuffle))
    if total != n * (n - 1) // 2 or any(int(part.max()) >= n or int(part.min()) < 0 for _, part in _chunks(shuffle)):
        return f"the shuffle index is no order of 0 ... {n - 1}"
    if any(int(part.min()) < 0 for _, part in _chunks(document)):
        return "the document index holds negative numbers"
    return ""


def _unlike_sizes(document: Whole, sample: Whole, sizes: NDArray[np.int32], length: int | None) -> str:
    """What the documents' sizes say against the map: its last sample begins where all tokens before it are spent."""
    highest = max(int(part.max()) for _, part in _chunks(document))
    if highest >= len(sizes):
        return f"it draws document {highest}, the .idx file has {len(sizes)}"
    last, offset = int(sample[-1, 0]), int(sample[-1, 1])
    spent = sum(int(sizes[part].sum(dtype=np.int64)) for _, part in _chunks(document[:last])) + offset
    each, rest = divmod(spent, len(sample) - 1)
    if rest or (length is not None and each != length):
        wanted = f"of {length}" if length is not None else "of equal length"
        return f"{len(sample) - 1} samples {wanted} take no {spent} tokens of the .idx file"
    return ""


def _chunks(array: Whole) -> list[tuple[int, Whole]]:
    """Slices with where they start, so that a mapped file is never in memory as a whole."""
    return [(start, array[start : start + _CHUNK]) for start in range(0, max(len(array), 1), _CHUNK)]


def _where(array: Whole, values: Ints) -> list[Ints]:
    return [start + np.flatnonzero(np.isin(part, values)) for start, part in _chunks(array)]


def _falls(array: Whole) -> bool:
    """Whether any number is smaller than the one before it."""
    parts = (array[start : start + _CHUNK + 1] for start in range(0, len(array), _CHUNK))
    return any(bool(np.any(part[1:] < part[:-1])) for part in parts)
