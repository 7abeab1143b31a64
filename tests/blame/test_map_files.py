from __future__ import annotations

from pathlib import Path

import pytest

from trainforensics.blame.megatron.files import Said, group

PARTS = ("doc", "sample", "shuffle")


@pytest.mark.parametrize(
    ("stem", "prefix", "split"),
    [
        ("pile_text_document_train_indexmap_1000ns_2048sl_1234s", "pile_text_document", "train"),
        ("my_train_data_train_indexmap_1000ns_2048sl_1234s", "my_train_data", "train"),
        ("pile_train_0_indexmap_1000ns_2048sl_1234s_packed_pi", "pile", "train_0"),
        ("pile_valid_indexmap_1000ns_2048sl_1234s", "pile", "valid"),
        ("pile_holdout_indexmap_1000ns_2048sl_1234s", "pile", "holdout"),
    ],
)
def test_names_say_what_a_map_was_drawn_from(tmp_path: Path, stem: str, prefix: str, split: str) -> None:
    (found,) = group(tmp_path / f"{stem}_{part}_idx.npy" for part in PARTS).maps
    assert found.said == Said(str(tmp_path / prefix), split, 1000, 2048, 1234)
    assert found.said.name == prefix


def test_files_of_one_stem_in_two_folders_are_two_maps(tmp_path: Path) -> None:
    stem = "pile_train_indexmap_10ns_8sl_1s"
    paths = [tmp_path / folder / f"{stem}_{part}_idx.npy" for folder in ("a", "b") for part in PARTS]
    assert len(group(paths).maps) == 2
    found = group(paths[:-1])
    assert len(found.maps) == 1
    assert found.partial == (f"{stem} lacks its shuffle index",)


def test_a_damaged_description_says_nothing(tmp_path: Path) -> None:
    stem = f"{'0' * 32}-GPTDataset-train"
    (tmp_path / f"{stem}-description.txt").write_text('{"dataset_path": ')
    (found,) = group(tmp_path / f"{stem}-{part}_index.npy" for part in ("document", "sample", "shuffle")).maps
    assert found.said == Said(split="train")
