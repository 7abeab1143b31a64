from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from indexmaps import draw, write_core, write_core_blend, write_hashed, write_named, write_sizes

from trainforensics.discovery import discover
from trainforensics.importers.base import Config, Source, read_head
from trainforensics.importers.indexmap import SETTING, open_sizes, read, sniff
from trainforensics.model import ReadWarning

SIZES = [30, 5, 17, 44, 8, 61]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drawn = draw(SIZES, range(6), 15, 10, 1)
    write_sizes(tmp_path / "pile.idx", SIZES)
    write_named(tmp_path / "pile", drawn, 15, 10, 1)
    write_hashed(tmp_path, "/data/pile", drawn, 15, 10, 1)
    write_core_blend(tmp_path, [write_core(tmp_path, "/data/pile", drawn, 15, 10, 1)], [1.0], 15)
    return tmp_path


def test_every_generation_s_files_are_recognised(folder: Path) -> None:
    files = sorted(folder.iterdir())
    assert len(files) == 1 + 3 + 4 + 4 + 3
    assert all(sniff(read_head(file)) >= 0.9 for file in files)
    (candidate,) = discover([folder]).candidates
    assert {source.format for source in candidate.sources} == {"indexmap"}
    assert len(candidate.sources) == len(files)


def test_only_the_place_of_a_file_enters_the_store(folder: Path) -> None:
    for file in folder.iterdir():
        assert list(read(Source(file, file.name))) == [Config({f"{file.name}.{SETTING}": str(file)})]


def test_sizes_are_read_from_the_binary_file(folder: Path) -> None:
    assert open_sizes(folder / "pile.idx").tolist() == SIZES
    write_sizes(folder / "empty.idx", [])
    assert open_sizes(folder / "empty.idx").tolist() == []


@pytest.mark.parametrize("name", ["pile.idx", "pile_train_indexmap_15ns_10sl_1s_shuffle_idx.npy"])
def test_a_file_cut_anywhere_is_refused_with_a_reason(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    for kept in range(1, len(data), 7):
        (folder / name).write_bytes(data[:kept])
        (record,) = read(Source(folder / name, name))
        assert isinstance(record, ReadWarning)
        assert record.where == name


@pytest.mark.parametrize("array", [np.ones(3), np.array([{"a": 1}], dtype=object)])
def test_arrays_of_anything_else_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    file = tmp_path / "x_doc_idx.npy"
    np.save(file, array, allow_pickle=True)
    (record,) = read(Source(file, file.name))
    assert isinstance(record, ReadWarning)


def test_other_arrays_and_texts_are_left_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "embeddings.npy", np.arange(3))
    (tmp_path / "job-description.txt").write_text("a text about a class of models\n")
    (tmp_path / "other.idx").write_bytes(b"TNTIDX\x00\x00" + bytes(64))
    assert all(sniff(read_head(file)) == 0.0 for file in tmp_path.iterdir())
