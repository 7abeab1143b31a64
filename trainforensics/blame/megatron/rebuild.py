"""Index maps and blends drawn anew, as Megatron draws them with numpy's legacy random state.

Verified against a plain restatement of the algorithm in the tests; the steps are those of GPTDataset and BlendedDataset
of Megatron-Core and of their predecessors, which draw the same.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainforensics.blame.megatron.index import IndexMap
from trainforensics.signals.curve import Floats, Ints

MAX_DRAWN = 200_000_000  # samples and documents to shuffle at most, some 2 GB; beyond that the cached maps are needed
MAX_BLENDED = 30_000_000  # samples x data sets to blend one by one, under 10 s
_ALONE = 0.80  # the last epoch is shuffled apart if less than this share of it is needed
_SURPLUS = 0.005  # samples drawn from each data set of a blend beyond its share


def rebuild(
    sizes: NDArray[np.int32], documents: tuple[int, int], samples: Sequence[int], length: int, seed: int
) -> IndexMap | str:
    """The map over documents [start, stop) of a data set, or why it cannot be drawn for certain.

    `sizes`: tokens of each document, shape (n,); `samples` asked for: several where versions of Megatron differ, which
    must not matter then; `length` of a sequence in tokens.
    """
    start, stop = documents
    tokens = int(sizes[start:stop].sum(dtype=np.int64))
    if stop <= start or tokens <= length:
        return f"documents {start}-{stop} hold {tokens} tokens, not one sequence of {length}"
    plans = {_epochs(tokens, wanted, length) for wanted in samples}
    if len(plans) > 1:
        return "the number of epochs drawn depends on the version of Megatron"
    epochs, apart = plans.pop()
    count = (epochs * tokens - 1) // length
    if count + epochs * (stop - start) > MAX_DRAWN:
        return f"{count} samples of {epochs} epochs are more than are drawn anew; keep the cached index maps"
    random = np.random.RandomState(seed & 0xFFFFFFFF)
    document = _document_index(np.arange(start, stop, dtype=np.int32), epochs, apart, random)
    first = _first_documents(sizes, document, count, length)
    inner = ((epochs - 1) * tokens - 1) // length if apart else count
    return IndexMap(document, first, _shuffle_index(inner, count, random))


def train_range(split: str, documents: int) -> tuple[int, int] | str:
    """Documents [start, stop) of the training part of a split such as "969, 30, 1", or why versions differ on it."""
    parts = [float(part) for part in re.findall(r"[.0-9]+", split)]
    if not parts or sum(parts) <= 0:
        return f"the split {split!r} names no shares"
    shares = [*(part / sum(parts) for part in parts[:3]), 0.0, 0.0][:3]
    rounded = [round(share * float(documents)) for share in shares]
    stop = {round(shares[0] * float(documents)), rounded[0] - (sum(rounded) - documents)}
    if len(stop) > 1:
        return f"which documents the split {split!r} trains on depends on the version of Megatron"
    return 0, stop.pop()


def shares_of(weights: Sequence[float]) -> Floats:
    """Weights that add up to 1, rounded as Megatron does (it divides twice)."""
    once = np.array(weights, dtype=np.float64)
    once = once / np.sum(once)
    return np.asarray(once / np.sum(once))


def asked_of(samples: int, share: float) -> tuple[int, ...]:
    """How many samples a blend of `samples` asks of a data set, in each way versions of Megatron round it."""
    exact = samples * share
    return math.ceil(exact * (1 + _SURPLUS)), math.ceil(math.ceil(exact) * (1 + _SURPLUS))


def blend(shares: Floats, samples: int) -> tuple[NDArray[np.int16], Ints]:
    """Data set of each of the first samples, and the how-manieth of that data set it is; shapes (samples,).

    Each is taken from the data set that lags furthest behind its share. Raises ValueError beyond `MAX_BLENDED`.
    """
    if samples * len(shares) > MAX_BLENDED:
        raise ValueError(f"a blend of {samples} samples from {len(shares)} data sets")
    wanted, numbers = shares.tolist(), range(len(shares))
    drawn = [0] * len(wanted)
    chosen = array("h", bytes(2 * samples))
    for n in range(samples):  # one by one: each choice depends on all before it
        at = float(max(n, 1))
        most, lag = 0, wanted[0] * at - drawn[0]
        for i in numbers:
            behind = wanted[i] * at - drawn[i]
            if behind > lag:
                most, lag = i, behind
        chosen[n] = most
        drawn[most] += 1
    dataset = np.array(chosen, dtype=np.int16)
    place = np.empty(samples, np.int64)
    for i in numbers:
        own = dataset == i
        place[own] = np.arange(np.count_nonzero(own))
    return dataset, place


def _epochs(tokens: int, samples: int, length: int) -> tuple[int, bool]:
    """Epochs needed for the samples asked for, and whether the last one is shuffled apart."""
    epochs = max(1, -(-(samples * length + 1) // tokens))
    if epochs == 1:
        return 1, False
    before = ((epochs - 1) * tokens - 1) // length
    return epochs, samples - before < int(_ALONE * ((tokens - 1) // length))


def _document_index(documents: Ints, epochs: int, apart: bool, random: np.random.RandomState) -> NDArray[np.int32]:
    if apart:
        most = _document_index(documents, epochs - 1, False, random)
        return np.concatenate([most, _document_index(documents, 1, False, random)])
    order: NDArray[np.int32] = np.tile(documents, epochs)
    random.shuffle(order)
    return order


def _first_documents(sizes: NDArray[np.int32], document: NDArray[np.int32], samples: int, length: int) -> Ints:
    """The place in the document index of the first token of each sample and of the end, shape (samples + 1,).

    Sequences of length + 1 tokens share their last one with the next, so sample s begins at token s x length of all.
    """
    ends = np.cumsum(sizes[document], dtype=np.int64)
    first = np.searchsorted(ends, np.arange(samples + 1, dtype=np.int64) * length, side="right")
    first[0] = 0
    return first


def _shuffle_index(inner: int, samples: int, random: np.random.RandomState) -> NDArray[np.uint32]:
    """The order of samples: the first `inner` among themselves, then the rest."""
    order = np.arange(samples, dtype=np.uint32)
    random.shuffle(order[:inner])
    if inner < samples:
        random.shuffle(order[inner:])
    return order
