"""Which index maps are those of the run's training data. What does not fit is refused with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainforensics.blame.alignment import Alignment
from trainforensics.blame.consumed import Consumed, consumed_samples
from trainforensics.blame.described import setting
from trainforensics.blame.manifest import Manifest
from trainforensics.blame.megatron.feed import Feed
from trainforensics.blame.megatron.files import BlendFiles, Found, MapFiles, Said, group
from trainforensics.blame.megatron.index import IndexMap, open_map
from trainforensics.blame.megatron.rebuild import asked_of, blend, rebuild, shares_of, train_range
from trainforensics.blame.megatron.settings import DEALER, Described, files_of, lost_files, ranks_of
from trainforensics.importers.indexmap import open_array, open_sizes
from trainforensics.signals import Signals

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The maps of the run's data sets, how they are blended (None: there is one), and what that is known from."""

    names: tuple[str, ...]
    maps: tuple[IndexMap, ...]
    blend: tuple[NDArray[np.integer], NDArray[np.integer]] | None
    source: str

    def __len__(self) -> int:
        return len(self.maps[0]) if self.blend is None else len(self.blend[0])


class _DoesNotFitError(Exception):
    """Why there is no map to go by."""


def find(signals: Signals) -> Manifest | str | None:
    """The batches that the index maps give, None where nothing speaks of any, else why there are none."""
    described = Described.of(signals.config)
    found = group(files_of(signals.config, described.prefixes))
    lost = lost_files(signals.config)
    if not (found.maps or found.blends or found.sizes or found.partial or lost):
        return None
    consumed = consumed_samples(signals)
    try:
        _refuse_other_orders(signals)
        if isinstance(consumed, str):
            raise _DoesNotFitError(consumed)
        drawn = _drawn(found, described, consumed, lost)
        if consumed.total > len(drawn):
            raise _DoesNotFitError(f"the run consumed {consumed.total} samples, {drawn.source} holds {len(drawn)}")
    except _DoesNotFitError as reason:
        return f"batches were not reconstructed from index maps: {reason}"
    return _manifest(drawn, consumed, signals)


def _refuse_other_orders(signals: Signals) -> None:
    dealer = str(setting(signals.config, DEALER) or "single")
    if dealer != "single":
        raise _DoesNotFitError(f"dataloader_type {dealer} draws in an order of its own, which is not rebuilt")


def _manifest(drawn: Drawn, consumed: Consumed, signals: Signals) -> Manifest:
    dataset, place = drawn.blend if drawn.blend is not None else (None, None)
    feed = Feed(consumed, drawn.names, drawn.maps, dataset, place, ranks_of(signals.config))
    note = f"batches are reconstructed from {drawn.source} and {consumed.source}"
    alignment = Alignment(slack=consumed.slack, note="; ".join(filter(None, (note, consumed.note))))
    frame = feed.frame().with_columns(alignment.at)
    first, last = int(consumed.step[0]), int(consumed.step[-1])
    return Manifest(frame, frozenset({*feed.schema, "at"}), first, last, alignment, "reconstructed", feed)


# --- as cached ---------------------------------------------------------------------------------------------------


def _drawn(found: Found, described: Described, consumed: Consumed, lost: Sequence[str]) -> Drawn:
    sizes = {path.with_suffix("").name: path for path in found.sizes}
    blends = [b for b in found.blends if _trains(b.split) or not b.datasets]
    maps = [m for m in found.maps if _trains(m.said.split)]
    if len(blends) > 1:
        blends = [b for b in blends if _same_data(b, described)]
    if len(blends) == 1 and len(described.prefixes) != 1:
        return _blended(blends[0], maps, described, consumed, sizes)
    if len(blends) > 1:
        raise _DoesNotFitError(f"{len(blends)} blends of training data lie there; keep the run's own alone")
    if maps:
        return _unblended(maps, described, consumed, sizes)
    if found.sizes and not lost:
        return _anew(described, consumed, sizes)
    missing = [f"{path} is gone" for path in lost[:3]] + list(found.partial[:3])
    missing += [f"{m.name} has no description, which tells its split" for m in found.maps[:3] if not m.said.split]
    raise _DoesNotFitError("; ".join(missing) or "none of the index maps is of the training split")


def _trains(split: str) -> bool:
    return split == "train" or split.startswith("train_")


def _same_data(files: BlendFiles, described: Described) -> bool:
    named = [Path(prefix).name for prefix in described.prefixes]
    return not named or named == [said.name for said in files.datasets]


def _unblended(maps: list[MapFiles], described: Described, consumed: Consumed, sizes: Mapping[str, Path]) -> Drawn:
    """One map that stands alone, or several that the configured weights blend."""
    if described.weights is not None and len(described.prefixes) > 1:
        names = _unique([Path(prefix).name for prefix in described.prefixes], described.prefixes)
        chosen = [_of_prefix(maps, prefix, described) for prefix in described.prefixes]
        opened = tuple(_opened(files, described, sizes) for files in chosen)
        pair = _blend_anew(described, consumed, opened)
        return Drawn(names, opened, pair, f"the index maps of {len(names)} data sets and their weights")
    if len(described.prefixes) > 1:
        raise _DoesNotFitError("the data sets have no weights: keep the blend's dataset_index.npy beside their maps")
    alone = described.weights is None  # a blend of one data set asks it for a few samples more
    files = _of_prefix(maps, described.prefixes[0] if described.prefixes else "", described, exact=alone)
    opened_one = _opened(files, described, sizes)
    name = files.said.name or files.name
    return Drawn((name,), (opened_one,), None, f"the index map {files.name} ({name}, {len(opened_one)} samples)")


def _of_prefix(maps: list[MapFiles], prefix: str, described: Described, exact: bool = False) -> MapFiles:
    """The one map of a data set that is not contradicted by the configuration; `exact`: its samples count as well."""
    name = Path(prefix).name
    own = [m for m in maps if not prefix or not m.said.name or m.said.name == name]
    reasons = {m.name: _contradicted(m.said, described, exact) for m in own}
    fitting = [m for m in own if not reasons[m.name]]
    what = f"data set {name}" if prefix else "training data"
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise _DoesNotFitError(f"{len(fitting)} index maps fit the {what}; keep the run's own alone")
    told = "; ".join(f"{stem} {why}" for stem, why in list(reasons.items())[:3])
    raise _DoesNotFitError(f"no index map fits the {what}" + (f": {told}" if told else ""))


def _contradicted(said: Said, described: Described, exact: bool) -> str:
    """What the configuration says against a map, empty if nothing."""
    pairs = [("sequence length", said.length, described.length), ("seed", said.seed, described.seed)]
    pairs += [("samples", said.samples, described.samples)] if exact else []
    wrong = [f"{what} {a}, not {b}" for what, a, b in pairs if a is not None and b is not None and a != b]
    return "is for " + " and ".join(wrong) if wrong else ""


def _opened(files: MapFiles, described: Described, sizes: Mapping[str, Path]) -> IndexMap:
    tokens = _tokens(sizes[files.said.name]) if files.said.name in sizes else None
    opened = open_map(files, tokens, files.said.length or described.length)
    if isinstance(opened, str):
        raise _DoesNotFitError(opened)
    return opened


def _tokens(path: Path) -> NDArray[np.int32]:
    try:
        return open_sizes(path)
    except (OSError, ValueError) as error:
        raise _DoesNotFitError(f"{path.name} cannot be read: {error}") from None


def _blended(
    files: BlendFiles, maps: list[MapFiles], described: Described, consumed: Consumed, sizes: Mapping[str, Path]
) -> Drawn:
    if not files.datasets:
        raise _DoesNotFitError(f"the blend {files.name} has no description, which names its data sets in order")
    if described.prefixes and not _same_data(files, described):
        raise _DoesNotFitError(f"the blend {files.name} draws from other data sets than the configuration names")
    chosen = []
    for said in files.datasets:
        own = [m for m in maps if m.said == said]
        if len(own) != 1:
            raise _DoesNotFitError(f"the blend {files.name} draws from {said.name}, of which {len(own)} maps lie there")
        why = _contradicted(said, described, exact=False)
        if why:
            raise _DoesNotFitError(f"the index map {own[0].name} {why}")
        chosen.append(own[0])
    names = _unique([said.name for said in files.datasets], [said.prefix for said in files.datasets])
    opened = tuple(_opened(m, described, sizes) for m in chosen)
    try:
        pair = open_array(files.dataset), open_array(files.dataset_sample)
    except (OSError, EOFError, ValueError) as error:
        raise _DoesNotFitError(f"the blend {files.name} cannot be read: {error}") from None
    _check_blend(files.name, *pair, opened, consumed.total)
    return Drawn(names, opened, pair, f"the blend {files.name} of {len(names)} data sets")


def _check_blend(
    name: str, dataset: NDArray[np.integer], place: NDArray[np.integer], maps: tuple[IndexMap, ...], upto: int
) -> None:
    """Every sample up to `upto` must be the next one of a data set that has it."""
    if dataset.ndim != 1 or dataset.shape != place.shape:
        raise _DoesNotFitError(f"the blend {name} does not fit together: shapes {dataset.shape} and {place.shape}")
    taken = np.zeros(len(maps), np.int64)
    for start in range(0, min(upto, len(dataset)), _CHUNK):
        chosen = np.asarray(dataset[start : min(start + _CHUNK, upto)], dtype=np.int64)
        drawn = np.asarray(place[start : min(start + _CHUNK, upto)], dtype=np.int64)
        if chosen.min() < 0 or chosen.max() >= len(maps):
            raise _DoesNotFitError(f"the blend {name} names data sets beyond its {len(maps)}")
        for number in range(len(maps)):
            own = drawn[chosen == number]
            if not np.array_equal(own, taken[number] + np.arange(len(own))):
                raise _DoesNotFitError(f"the blend {name} does not take the samples of its data sets one by one")
            taken[number] += len(own)
    short = [number for number, index in enumerate(maps) if taken[number] > len(index)]
    if short:
        raise _DoesNotFitError(f"the blend {name} takes {taken[short[0]]} samples of a map of {len(maps[short[0]])}")


def _blend_anew(
    described: Described, consumed: Consumed, maps: tuple[IndexMap, ...]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    try:
        pair = blend(shares_of(described.weights or ()), consumed.total)
    except ValueError as error:
        raise _DoesNotFitError(f"{error} takes too long to draw anew; keep its dataset_index.npy") from None
    _check_blend("of the configured weights", *pair, maps, consumed.total)
    return pair


def _unique(names: Sequence[str], full: Sequence[str]) -> tuple[str, ...]:
    return tuple(names) if len(set(names)) == len(names) else tuple(full)


# --- drawn anew --------------------------------------------------------------------------------------------------


def _anew(described: Described, consumed: Consumed, sizes: Mapping[str, Path]) -> Drawn:
    """Maps drawn from the sizes in .idx files, as the configuration describes them."""
    length, seed, asked = described.length, described.seed, described.samples
    missing = described.lacks()
    if missing or length is None or seed is None or asked is None:
        raise _DoesNotFitError(f"to draw them anew from {_some(sizes)} the configuration lacks {', '.join(missing)}")
    prefixes = described.prefixes or (tuple(sizes) if len(sizes) == 1 else ())
    if not prefixes or (len(prefixes) > 1 and described.weights is None):
        raise _DoesNotFitError("to draw them anew the configuration must name the data sets, with their weights")
    shares = shares_of(described.weights) if described.weights is not None else np.ones(1)
    maps = []
    for prefix, share in zip(prefixes, shares.tolist(), strict=True):
        path = sizes.get(Path(prefix).name)
        if path is None:
            raise _DoesNotFitError(f"neither an index map nor {Path(prefix).name}.idx lies there")
        tokens = _tokens(path)
        documents = (0, len(tokens)) if described.own_split else train_range(described.split, len(tokens))
        samples = (asked,) if described.weights is None else asked_of(asked, share)
        made = documents if isinstance(documents, str) else rebuild(tokens, documents, samples, length, seed)
        if isinstance(made, str):
            raise _DoesNotFitError(f"{path.name}: {made}")
        maps.append(made)
    names = _unique([Path(prefix).name for prefix in prefixes], prefixes)
    pair = _blend_anew(described, consumed, tuple(maps)) if described.weights is not None else None
    how = f"maps drawn anew from {_some(sizes)}, seed {seed}, sequence length {length} and {asked} samples"
    return Drawn(names, tuple(maps), pair, how)


def _some(sizes: Mapping[str, Path]) -> str:
    names = [path.name for path in sizes.values()]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
