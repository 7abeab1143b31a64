"""Index maps of Megatron's data sets: the cached document, sample and shuffle index, and the `.idx` files of sizes.

Only where they lie enters the store, as settings of the run; their numbers stay in the files, which blame maps into
memory when it is asked for a step.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import Config, Head, Record, Source
from trainforensics.model import ReadWarning

FORMAT = "indexmap"
SETTING = "index_map_file"  # last part of the keys under which the files stand in the configuration

_NPY_MAGIC = b"\x93NUMPY"
_IDX_MAGIC = b"MMIDIDX\x00\x00"
_IDX_HEADER = struct.Struct("<9sQBQQ")  # magic, version, code of the token type, sequences, documents + 1
_PART = re.compile(
    r".+_(?:doc|sample|shuffle)_idx\.npy"
    r"|.+-(?:document|sample|shuffle|dataset|dataset_sample)_index\.npy"
    r"|[0-9a-f]{32}_(?:sample_)?index\.npy"
)
_DESCRIPTIONS = (b"GPT Dataset\n", b"Blendable dataset\n")


def is_part(name: str) -> bool:
    """Whether a file is named like one of the arrays of an index map."""
    return _PART.fullmatch(name) is not None


def sniff(head: Head) -> float:
    """An array named like a part of an index map, an `.idx` file, or the description that lies beside a map."""
    name = head.path.name
    if head.data.startswith(_NPY_MAGIC) and is_part(name):
        return 0.95
    if head.data.startswith(_IDX_MAGIC) and not name.endswith((".gz", ".zst")):
        return 0.95
    if name.endswith("-description.txt"):
        return 0.9 if b'"class"' in head.data and b"Dataset" in head.data else 0.0
    return 0.9 if name.endswith(".dsc") and head.data.startswith(_DESCRIPTIONS) else 0.0


def read(source: Source) -> Iterator[Record]:
    """Where the file lies, if it is whole."""
    try:
        if source.path.suffix == ".npy":
            open_array(source.path)
        elif source.path.suffix not in (".txt", ".dsc"):
            open_sizes(source.path)
    except (OSError, EOFError, ValueError) as error:
        yield ReadWarning("damaged-file", source.label, f"no part of an index map can be read from it: {error}")
        return
    yield Config({f"{source.label}.{SETTING}": str(source.path.absolute())})


def open_array(path: Path) -> NDArray[Any]:
    """A `.npy` file of whole numbers, mapped into memory. Raises OSError, EOFError or ValueError."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError("it does not hold whole numbers")
    return array


def open_sizes(path: Path) -> NDArray[np.int32]:
    """Tokens of each sequence (document) of a `.idx` file, mapped into memory, shape (n,).

    Raises OSError or ValueError for another file, another version or a file that is cut short.
    """
    with path.open("rb") as stream:
        data = stream.read(_IDX_HEADER.size)
    if len(data) < _IDX_HEADER.size or not data.startswith(_IDX_MAGIC):
        raise ValueError("it has no MMIDIDX header")
    _, version, _, sequences, documents = _IDX_HEADER.unpack(data)
    needed = _IDX_HEADER.size + sequences * (4 + 8) + documents * 8
    if version != 1:
        raise ValueError(f"it has version {version}, only 1 is known")
    if path.stat().st_size < needed:
        raise ValueError(f"it is cut short: {path.stat().st_size} bytes of {needed}")
    if not sequences:
        return np.zeros(0, np.int32)
    return np.memmap(path, np.dtype("<i4"), "r", _IDX_HEADER.size, (sequences,))
