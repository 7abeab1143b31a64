"""Whether two runs were fed the same data at the same steps, by their manifests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from trainforensics.blame.attach import find_manifest
from trainforensics.blame.manifest import Manifest
from trainforensics.model import DataDifference
from trainforensics.signals import Signals
from trainforensics.signals.curve import Ints

CONTENT = ("shard", "doc")
NAMES_SHOWN = 3
DIGEST_BITS = 44  # so that the digests of 2^20 rows of one step add up without overflow
FOLLOWED = 16  # steps on which a shift of the data order is confirmed


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """A manifest as one digest a step, whatever the order and the rank of its batches; shape (n,) each."""

    manifest: Manifest
    step: Ints
    digest: Ints


def compare_data(
    a: Signals, b: Signals, batches_a: pl.LazyFrame | None, batches_b: pl.LazyFrame | None
) -> DataDifference:
    """The first step at which the data differ, and what each run was fed there."""
    manifests = [find_manifest(a, batches_a), find_manifest(b, batches_b)]
    missing = [f"{name}: {found}" for name, found in zip("AB", manifests, strict=True) if isinstance(found, str)]
    first, second = manifests
    if not isinstance(first, Manifest) or not isinstance(second, Manifest):
        return DataDifference(0, note="; ".join(missing))
    keys = _common_keys(first, second)
    if not keys:
        return DataDifference(0, note="the manifests name neither shard nor document nor batch in common")
    return _compare(_feed(first, keys), _feed(second, keys), keys)


def _common_keys(a: Manifest, b: Manifest) -> tuple[str, ...]:
    """The columns that tell the data: shards and documents, batch numbers only where there is neither."""
    for names in (CONTENT, ("batch_id",)):
        keys = tuple(name for name in names if name in a.columns and name in b.columns)
        if keys:
            return keys
    return ()


def _feed(manifest: Manifest, keys: tuple[str, ...]) -> Feed:
    parts = [pl.col(key).list.sort().list.join("\n") if key == "doc" else pl.col(key) for key in keys]
    digest = pl.struct(parts).hash() // (1 << (64 - DIGEST_BITS))
    table = manifest.frame.select("at", digest.alias("digest")).group_by("at").agg(pl.col("digest").sum()).sort("at")
    found = table.collect(engine="streaming")
    return Feed(manifest, found["at"].to_numpy(), found["digest"].cast(pl.Int64).to_numpy())


def _compare(a: Feed, b: Feed, keys: tuple[str, ...]) -> DataDifference:
    steps, left, right = np.intersect1d(a.step, b.step, return_indices=True)
    if not len(steps):
        return DataDifference(0, note="the manifests have no step in common")
    unequal = np.flatnonzero(a.digest[left] != b.digest[right])
    rebuilt = [n for n, feed in (("A", a), ("B", b)) if feed.manifest.basis == "reconstructed"]
    notes = [f"{' and '.join(rebuilt)} rebuilt from the sampler's configuration"] if rebuilt else []
    if not len(unequal):
        return DataDifference(len(steps), note="; ".join(notes))
    step = int(steps[unequal[0]])
    shift = _shift(a, b, step)
    if shift:
        notes.append(f"from there on B is fed A's data {abs(shift)} steps {'later' if shift > 0 else 'earlier'}")
    elif len(unequal) == len(steps) and "shard" in keys:
        notes += _overlap_of_shards(a, b)
    here, there = (_fed(feed.manifest, step, keys) for feed in (a, b))
    key = next((key for key in keys if here[key] != there[key]), keys[-1])
    return DataDifference(
        len(steps),
        step,
        len(unequal),
        f"{key} {_listed(here[key], there[key])}",
        f"{key} {_listed(there[key], here[key])}",
        "; ".join(notes),
    )


def _shift(a: Feed, b: Feed, step: int) -> int:
    """Steps by which B is fed later what A is fed from `step` on; 0 where it is not."""
    at = int(np.searchsorted(a.step, step))
    wanted = a.digest[at : at + FOLLOWED]
    near = np.flatnonzero(b.digest == wanted[0])
    for start in near[np.argsort(np.abs(b.step[near] - step))]:
        if len(wanted) > 1 and np.array_equal(b.digest[start : start + len(wanted)], wanted):
            return int(b.step[start]) - step
    return 0


def _overlap_of_shards(a: Feed, b: Feed) -> list[str]:
    names = [set(feed.manifest.keyed("shard").select(pl.col("shard").unique()).collect()["shard"]) for feed in (a, b)]
    common = len(names[0] & names[1])
    if not common:
        return ["no shard in common: different data sets"]
    return [f"{common} of {len(names[0] | names[1])} shards in common, in another order"]


def _fed(manifest: Manifest, step: int, keys: tuple[str, ...]) -> dict[str, list[str]]:
    """What each column says of the batches of one step, sorted."""
    rows = manifest.rows(step - 1, step)
    fed: dict[str, list[str]] = {}
    for key in keys:
        column = rows[key].explode() if key == "doc" else rows[key]
        fed[key] = sorted(str(value) for value in column.drop_nulls())
    return fed


def _listed(names: list[str], others: list[str]) -> str:
    """Those that the other run was not fed; all of them where it was fed the same, otherwise combined."""
    alone = [name for name in dict.fromkeys(names) if name not in others]
    shown = alone or list(dict.fromkeys(names))
    rest = len(shown) - NAMES_SHOWN
    return ", ".join(shown[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "") if shown else "none"
