"""Which files make up an index map, and what their names and descriptions say of it.

Three generations of names: `<prefix>_train_indexmap_<samples>ns_<length>sl_<seed>s_doc_idx.npy` beside the data;
`<hash>_doc_idx.npy` with `<hash>.dsc`; `<hash>-GPTDataset-train-document_index.npy` with `-description.txt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainforensics.blame.described import whole

_PARTS = (
    re.compile(r"(?P<stem>.+)-(?P<part>dataset_sample|dataset|document|sample|shuffle)_index\.npy"),
    re.compile(r"(?P<stem>.+)_(?P<part>doc|sample|shuffle)_idx\.npy"),
    re.compile(r"(?P<stem>[0-9a-f]{32})_(?P<part>sample_index|index)\.npy"),
)
_CANONICAL = {"doc": "document", "index": "dataset", "sample_index": "dataset_sample"}
_MAP, _BLEND = ("document", "sample", "shuffle"), ("dataset", "dataset_sample")
_NAMED = re.compile(
    r"(?P<prefix>.+?)_(?P<split>(?:train|valid|validation|test)(?:_\d+)?|[^_]+)_indexmap"
    r"_(?P<samples>\d+|None)ns_(?P<length>\d+)sl_(?P<seed>\d+)s(?:_.*)?"
)
_LARGEST = 4 << 20  # bytes of a description; one of a blend repeats those of its data sets


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of a data set's map; None and empty where nothing is."""

    prefix: str = ""
    split: str = ""
    samples: int | None = None
    length: int | None = None
    seed: int | None = None

    @property
    def name(self) -> str:
        """The prefix without its folder."""
        return self.prefix.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class MapFiles:
    """The three arrays of one data set."""

    name: str
    document: Path
    sample: Path
    shuffle: Path
    said: Said


@dataclass(frozen=True, slots=True)
class BlendFiles:
    """The two arrays that draw from several data sets; `datasets` in the order of their numbers, empty if not said."""

    name: str
    dataset: Path
    dataset_sample: Path
    split: str
    datasets: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that lies there. `partial`: maps of which arrays are missing, with which."""

    maps: tuple[MapFiles, ...]
    blends: tuple[BlendFiles, ...]
    sizes: tuple[Path, ...]
    partial: tuple[str, ...]


def group(paths: Iterable[Path]) -> Found:
    """Sort files by the map they belong to. Reads descriptions, no array."""
    sets: dict[tuple[Path, str], dict[str, Path]] = {}
    sizes = []
    for path in sorted(set(paths)):
        match = next((m for pattern in _PARTS if (m := pattern.fullmatch(path.name))), None)
        if match is not None:
            part = match["part"]
            sets.setdefault((path.parent, match["stem"]), {})[_CANONICAL.get(part, part)] = path
        elif path.suffix == ".idx":
            sizes.append(path)
    maps, blends, partial = [], [], []
    for (folder, stem), parts in sets.items():
        wanted = _BLEND if parts.keys() & set(_BLEND) else _MAP
        missing = [part for part in wanted if part not in parts]
        if missing:
            partial.append(f"{stem} lacks its {' and '.join(missing)} index")
        elif wanted is _MAP:
            maps.append(MapFiles(stem, parts["document"], parts["sample"], parts["shuffle"], _said(folder, stem)))
        else:
            blends.append(_blend(folder, stem, parts))
    return Found(tuple(maps), tuple(blends), tuple(sizes), tuple(partial))


def _said(folder: Path, stem: str) -> Said:
    named = _NAMED.fullmatch(stem)
    if named is not None:
        prefix = str(folder / named["prefix"])
        return Said(prefix, named["split"], whole(named["samples"]), int(named["length"]), int(named["seed"]))
    text = _text(folder / f"{stem}.dsc")
    if text:
        return _of_lines(text)
    return _of_identifiers(_json(folder / f"{stem}-description.txt")) or Said(split=_split_of(stem))


def _blend(folder: Path, stem: str, parts: Mapping[str, Path]) -> BlendFiles:
    text = _text(folder / f"{stem}.dsc")
    if text:
        datasets = [_of_lines(part) for part in text.split("GPT Dataset\n")[1:]]
    else:
        listed = _json(folder / f"{stem}-description.txt").get("datasets")
        entries = listed if isinstance(listed, list) else []
        datasets = [_of_identifiers(entry) or Said() for entry in entries if isinstance(entry, Mapping)]
    split = datasets[0].split if datasets else _split_of(stem)
    return BlendFiles(stem, parts["dataset"], parts["dataset_sample"], split, tuple(datasets))


def _split_of(stem: str) -> str:
    """The split that `<hash>-GPTDataset-train` ends with."""
    return stem.rsplit("-", 1)[-1] if stem.count("-") >= 2 else ""


def _of_lines(text: str) -> Said:
    """A `.dsc` description: one property a line, its name first."""

    def value(name: str) -> str:
        match = re.search(rf"^{name} (.*)$", text, re.MULTILINE)
        return match[1].strip() if match else ""

    numbers = [whole(value(name)) for name in ("Number of samples", "Sequence length", "Random seed")]
    return Said(value("Data prefix"), value("Dataset name"), *numbers)


def _of_identifiers(said: Mapping[str, Any]) -> Said | None:
    """A description as JSON."""
    if not said:
        return None
    numbers = [whole(said.get(name)) for name in ("num_samples", "sequence_length", "random_seed")]
    return Said(str(said.get("dataset_path") or ""), str(said.get("index_split") or ""), *numbers)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(_text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, Mapping) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace") if path.stat().st_size <= _LARGEST else ""
    except OSError:
        return ""
