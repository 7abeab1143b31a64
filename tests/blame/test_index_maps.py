"""Batches out of index maps, held against a look-up that goes sample by sample through the plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from factories import make_curve, make_signals
from incidents_factory import make_incident
from indexmaps import (
    Drawn,
    draw,
    draw_blend,
    write_core,
    write_core_blend,
    write_hashed,
    write_hashed_blend,
    write_named,
    write_sizes,
)

from trainforensics.blame import at_step, attach
from trainforensics.blame.attach import find_manifest
from trainforensics.blame.consumed import ramped
from trainforensics.blame.manifest import Manifest
from trainforensics.blame.megatron import index_maps
from trainforensics.importers.indexmap import SETTING
from trainforensics.model import Axis
from trainforensics.signals import Signals

LENGTH, SEED, BATCH, STEPS = 16, 7, 4, 60
SAMPLES = BATCH * STEPS
SIZES = np.random.default_rng(1).integers(1, 60, 90).tolist()
MAP = draw(SIZES, range(90), SAMPLES, LENGTH, SEED)
CONFIG = {"seq_length": LENGTH, "seed": SEED, "train_samples": SAMPLES, "global_batch_size": BATCH}


def run(folder: Path, config: dict[str, Any] | None = None, counted: np.ndarray | None = None) -> Signals:
    """A run whose folder was imported: its parts of index maps stand in its configuration."""
    files = {f"{path.name}.{SETTING}": str(path) for path in folder.rglob("*") if path.is_file()}
    step = np.arange(1, STEPS + 1)
    loss = 2 + 0.05 * np.random.default_rng(3).standard_normal(STEPS)
    curves = [make_curve(loss, step=step)]
    if counted is not None:
        curves.append(make_curve(counted, "tokens_seen", name="consumed samples", step=step, series_id=1))
    return make_signals(curves, config={**files, **(CONFIG if config is None else config)})


def opened(signals: Signals) -> Manifest:
    manifest = find_manifest(signals, None)
    assert isinstance(manifest, Manifest), manifest
    return manifest


def fed(drawn: Drawn, samples: range) -> set[str]:
    return {str(document) for n in samples for document in drawn.documents(n)}


def refused(signals: Signals) -> str:
    found = index_maps(signals)
    assert isinstance(found, str), found
    blame = at_step(signals, None, 30)
    assert (blame.basis, blame.suspects, blame.batches) == (None, (), ())
    assert found in blame.note
    return found


Writer = Callable[[Path], object]
GENERATIONS: dict[str, Writer] = {
    "named": lambda folder: write_named(folder / "pile", MAP, SAMPLES, LENGTH, SEED),
    "hashed": lambda folder: write_hashed(folder / "cache", "/data/pile", MAP, SAMPLES, LENGTH, SEED),
    "core": lambda folder: write_core(folder / "cache", "/data/pile", MAP, SAMPLES, LENGTH, SEED),
}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_step_is_fed_what_the_cached_map_says(tmp_path: Path, generation: str) -> None:
    GENERATIONS[generation](tmp_path)
    manifest = opened(run(tmp_path))
    for step in (1, 2, 31, STEPS):
        rows = manifest.rows(step - 1, step)
        assert set(rows["doc"][0]) == fed(MAP, range((step - 1) * BATCH, step * BATCH))
        assert rows.select("step", "consumed_samples").rows() == [(step, (step - 1) * BATCH)]
    assert manifest.basis == "reconstructed"
    assert "reconstructed from the index map" in manifest.alignment.note
    assert "(pile, " in manifest.alignment.note
    assert "a global batch of 4" in manifest.alignment.note


def test_maps_drawn_anew_from_sizes_are_the_cached_ones(tmp_path: Path) -> None:
    write_sizes(tmp_path / "pile.idx", SIZES)
    manifest = opened(run(tmp_path, {**CONFIG, "split": "100,0,0"}))
    for step in range(1, STEPS + 1):
        assert set(manifest.rows(step - 1, step)["doc"][0]) == fed(MAP, range((step - 1) * BATCH, step * BATCH))
    assert "drawn anew from pile.idx, seed 7, sequence length 16 and 240 samples" in manifest.alignment.note


def test_consumed_samples_place_a_ramped_up_batch(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    edge = ramped((2, 1, 60), 4, 1, STEPS)
    logged = opened(run(tmp_path, counted=edge[1:]))
    configured = opened(run(tmp_path, {**CONFIG, "rampup_batch_size": [2, 1, 60]}))
    for manifest in (logged, configured):
        for step in (1, 20, 40):
            rows = manifest.rows(step - 1, step)
            assert set(rows["doc"][0]) == fed(MAP, range(edge[step - 1], edge[step]))
    assert "the logged consumed samples" in logged.alignment.note
    assert "ramp-up" in configured.alignment.note


def test_ranks_are_dealt_their_micro_batches_in_turn(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    parallel = {"micro_batch_size": 1, "data_parallel_size": 2}
    manifest = opened(run(tmp_path, {**CONFIG, **parallel}))
    for rank in (0, 1):
        (documents,) = manifest.rows(9, 10, rank)["doc"]
        assert set(documents) == {str(d) for n in (36 + rank, 38 + rank) for d in MAP.documents(n)}
    split = {"micro_batch_size": 1, "data_parallel_size": 2, "tensor_model_parallel_size": 4}
    assert "rank" not in opened(run(tmp_path, {**CONFIG, **split})).columns


def test_a_log_that_counts_samples_alone(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    signals = run(tmp_path)
    loss = make_curve(np.ones(STEPS), step=np.arange(BATCH, SAMPLES + 1, BATCH))
    manifest = opened(replace(signals, axis=Axis("consumed_samples", "sample"), by_role={"train_loss": (loss,)}))
    assert set(manifest.rows(36, 40)["doc"][0]) == fed(MAP, range(36, 40))


# --- blends -----------------------------------------------------------------------------------------------------------

WEIGHTS = (0.7, 0.3)
OTHER_SIZES = np.random.default_rng(2).integers(1, 60, 60).tolist()
ASKED = (169, 73)  # ceil(240 x 0.7 x 1.005), ceil(240 x 0.3 x 1.005)
MAPS = (draw(SIZES, range(90), ASKED[0], LENGTH, SEED), draw(OTHER_SIZES, range(60), ASKED[1], LENGTH, SEED))


def blended(step: int) -> dict[str, set[str]]:
    dataset, place = draw_blend(WEIGHTS, SAMPLES)
    found: dict[str, set[str]] = {}
    for n in range((step - 1) * BATCH, step * BATCH):
        name = ("pile", "code")[dataset[n]]
        found.setdefault(name, set()).update(f"{name}:{d}" for d in MAPS[dataset[n]].documents(int(place[n])))
    return found


def core_blend(folder: Path) -> None:
    pairs = zip(("/data/pile", "/data/code"), MAPS, ASKED, strict=True)
    said = [write_core(folder, name, drawn, asked, LENGTH, SEED) for name, drawn, asked in pairs]
    write_core_blend(folder, said, WEIGHTS, SAMPLES)


def hashed_blend(folder: Path) -> None:
    pairs = zip(("/data/pile", "/data/code"), MAPS, ASKED, strict=True)
    said = [write_hashed(folder, name, drawn, asked, LENGTH, SEED) for name, drawn, asked in pairs]
    write_hashed_blend(folder, said, WEIGHTS, SAMPLES)


def weighted(folder: Path) -> None:
    for name, drawn, asked in zip(("/data/pile", "/data/code"), MAPS, ASKED, strict=True):
        write_core(folder, name, drawn, asked, LENGTH, SEED)


def sizes_alone(folder: Path) -> None:
    write_sizes(folder / "pile.idx", SIZES)
    write_sizes(folder / "code.idx", OTHER_SIZES)


@pytest.mark.parametrize(
    ("write", "config"),
    [
        (core_blend, {}),
        (hashed_blend, {}),
        (core_blend, {"data_path": "0.7 /data/pile 0.3 /data/code"}),
        (weighted, {"data_path": ["0.7", "/data/pile", "0.3", "/data/code"]}),
        (sizes_alone, {"data_path": [0.7, "/data/pile", 0.3, "/data/code"], "split": "1,0,0"}),
    ],
)
def test_blends_are_fed_from_each_data_set(tmp_path: Path, write: Writer, config: dict[str, Any]) -> None:
    write(tmp_path)
    manifest = opened(run(tmp_path, {**CONFIG, **config}))
    for step in range(1, STEPS + 1):
        rows = manifest.rows(step - 1, step)
        assert {shard: set(docs) for shard, docs in rows.select("shard", "doc").rows()} == blended(step)


# --- what the rest of blame asks of a manifest -----------------------------------------------------------------------


@pytest.mark.parametrize("write", [GENERATIONS["core"], core_blend])
def test_where_documents_went_is_known_without_making_every_row(tmp_path: Path, write: Writer) -> None:
    write(tmp_path)
    manifest = opened(run(tmp_path))
    assert manifest.documents is not None
    table = manifest.keyed("doc").group_by("doc").agg(pl.col("at").unique().sort()).collect()
    names = table["doc"].to_list()
    found = manifest.documents.steps_of(names)
    assert {name: steps.tolist() for name, steps in found.items()} == dict(table.rows())
    absent = manifest.documents.steps_of(["12345", "elsewhere:3", "x"])
    assert all(not len(steps) for steps in absent.values())
    assert manifest.documents.appearances == pytest.approx(manifest.keyed("doc").collect().height, rel=0.1)


def test_a_filter_on_other_columns_and_a_limit_hold(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    manifest = opened(run(tmp_path))
    everything = manifest.frame.collect()
    name = everything["doc"][7][0]
    mixed = pl.col("doc").list.contains(name) & (pl.col("at") > 3)
    assert manifest.frame.filter(mixed).collect().equals(everything.filter(mixed))
    assert manifest.frame.head(5).collect().equals(everything.head(5))
    assert manifest.frame.select(pl.len()).collect().item() == STEPS
    assert manifest.frame.select("at").collect()["at"].to_list() == list(range(1, STEPS + 1))


def test_a_document_that_recurs_is_named_and_the_basis_said(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    signals = run(tmp_path)
    manifest = opened(signals)
    assert manifest.documents is not None
    long = str(int(np.argmax(SIZES)))
    events = tuple(manifest.documents.steps_of([long])[long].tolist())
    assert 2 <= len(events) < STEPS / 2
    (found,) = attach((make_incident(onset=events[0], occurrences=events),), signals, None)
    assert found.blame is not None
    assert found.blame.basis == "reconstructed"
    assert "reconstructed from the index map" in found.blame.note
    first = next(suspect for suspect in found.blame.suspects if suspect.type == "doc")
    assert first.id == long
    assert first.confidence > 0.5


def test_a_step_asked_for(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    blame = at_step(run(tmp_path), None, 30)
    assert blame.basis == "reconstructed"
    assert {doc for row in blame.batches for doc in row["doc"]} == fed(MAP, range(116, 120))
    assert "reconstructed from" in blame.note


# --- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seq_length": 32}, "sequence length 16, not 32"),
        ({"seed": 8}, "seed 7, not 8"),
        ({"train_samples": 999}, "samples 240, not 999"),
        ({"global_batch_size": 50}, "consumed 3000 samples"),
        ({"global_batch_size": None}, "not known"),
        ({"dataloader_type": "cyclic"}, "cyclic"),
        ({"data_path": "/data/code"}, "no index map fits the data set code"),
    ],
)
def test_a_configuration_that_contradicts_the_map(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    GENERATIONS["core"](tmp_path)
    config = {key: value for key, value in {**CONFIG, **change}.items() if value is not None}
    assert reason in refused(run(tmp_path, config))


def test_two_maps_of_which_either_may_be_the_run_s(tmp_path: Path) -> None:
    GENERATIONS["core"](tmp_path)
    GENERATIONS["hashed"](tmp_path)
    assert "2 index maps fit" in refused(run(tmp_path))


def test_maps_of_other_splits_are_no_training_data(tmp_path: Path) -> None:
    write_core(tmp_path, "/data/pile", MAP, SAMPLES, LENGTH, SEED, split="valid")
    assert "training split" in refused(run(tmp_path))


def test_a_map_with_a_part_missing_is_named(tmp_path: Path) -> None:
    stem = write_named(tmp_path / "pile", MAP, SAMPLES, LENGTH, SEED)
    (tmp_path / f"{stem}_shuffle_idx.npy").unlink()
    assert f"{stem} lacks its shuffle index" in refused(run(tmp_path))


def test_files_that_are_gone_since_the_import_are_named(tmp_path: Path) -> None:
    stem = write_named(tmp_path / "pile", MAP, SAMPLES, LENGTH, SEED)
    signals = run(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    assert f"{stem}_doc_idx.npy is gone" in refused(signals)


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    stem = write_named(tmp_path / "pile", MAP, SAMPLES, LENGTH, SEED)
    for part, array in (("shuffle", MAP.shuffle), ("sample", MAP.sample[:-1])):
        file = tmp_path / f"{stem}_{part}_idx.npy"
        whole, changed = file.read_bytes(), array.copy()
        changed.flat[5] += 1_000_000
        np.save(file, changed)
        assert "does not fit together" in refused(run(tmp_path))
        file.write_bytes(whole)


def test_sizes_that_contradict_a_map_are_noticed(tmp_path: Path) -> None:
    write_named(tmp_path / "pile", MAP, SAMPLES, LENGTH, SEED)
    write_sizes(tmp_path / "pile.idx", SIZES)
    assert isinstance(index_maps(run(tmp_path)), Manifest)
    write_sizes(tmp_path / "pile.idx", [size + 1 for size in SIZES])
    assert "tokens of the .idx file" in refused(run(tmp_path))
    write_sizes(tmp_path / "pile.idx", SIZES[:50])
    assert "the .idx file has 50" in refused(run(tmp_path))


def test_sizes_without_what_else_is_needed(tmp_path: Path) -> None:
    write_sizes(tmp_path / "pile.idx", SIZES)
    assert "lacks the split" in refused(run(tmp_path))
    lacking = {"global_batch_size": BATCH, "split": "1,0,0", "seed": 1}
    assert "lacks the sequence length, train_samples" in refused(run(tmp_path, lacking))
    write_sizes(tmp_path / "code.idx", SIZES)
    assert "must name the data sets" in refused(run(tmp_path, {**CONFIG, "split": "1,0,0"}))


def test_a_blend_without_its_maps_or_description(tmp_path: Path) -> None:
    core_blend(tmp_path)
    described = next(tmp_path.glob("*BlendedDataset*description.txt"))
    text = described.read_text()
    described.unlink()
    assert "has no description" in refused(run(tmp_path))
    described.write_text(text)
    for part in tmp_path.glob("*GPTDataset*"):
        if "/data/code" in (tmp_path / f"{part.name.rsplit('-', 1)[0]}-description.txt").read_text():
            part.rename(part.with_suffix(".moved")) if part.suffix == ".npy" else None
    assert "draws from code, of which 0 maps" in refused(run(tmp_path))


def test_a_run_without_any_index_map_has_none() -> None:
    signals = make_signals({"train_loss": np.ones(20)}, config={**CONFIG, "data_path": "/nowhere/pile"})
    assert index_maps(signals) is None
