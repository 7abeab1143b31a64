from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.importers.base import HEAD_BYTES, read_head
from trainforensics.importers.lines import LineBlocks, text_head


@given(data=st.lists(st.text(alphabet="ab é", max_size=12), max_size=30), size=st.integers(1, 40), last=st.booleans())
def test_blocks_are_whole_lines_with_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, data: list[str], size: int, last: bool
) -> None:
    text = "\n".join(data) + ("\n" if last else "")
    path = tmp_path_factory.mktemp("l") / "x"
    path.write_text(text, "utf-8")
    blocks = list(LineBlocks(path, size))
    assert b"".join(block for block, _ in blocks).decode() == text
    assert all(block.endswith(b"\n") for block, _ in blocks[:-1])
    line = 1
    for block, first in blocks:
        assert first == line
        line += block.count(b"\n")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(level=1).compress])
def test_a_cut_archive_gives_what_could_be_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x.packed"
    text = "".join(f"{i * 7919 % 1_000_003}\n" for i in range(200_000)).encode()
    packed = pack(text)
    path.write_bytes(packed)
    assert b"".join(block for block, _ in LineBlocks(path)) == text
    path.write_bytes(packed[: len(packed) // 2])
    blocks = LineBlocks(path)
    kept = b"".join(block for block, _ in blocks)
    assert text.startswith(kept) and len(kept) > 0.3 * len(text)
    assert [w.kind for w in blocks.warnings] == ["damaged-archive"]
    assert text.startswith(read_head(path).data) and len(read_head(path).data) == HEAD_BYTES


@pytest.mark.parametrize("damage", ["junk", "checksum", "cut"])
def test_junk_behind_a_whole_archive_is_told_from_damage_in_it(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.gz"
    text = "".join(f"{i}\n" for i in range(50_000)).encode()
    packed = gzip.compress(text)
    broken = {"junk": packed + b"junk" * 50, "checksum": packed[:-8] + b"\0" * 8, "cut": packed[:-100]}
    path.write_bytes(broken[damage])
    blocks = LineBlocks(path)
    kept = b"".join(block for block, _ in blocks)
    assert text.startswith(kept)
    assert [w.kind for w in blocks.warnings] == ["archive-tail" if damage == "junk" else "damaged-archive"]
    assert damage != "junk" or kept == text


JUNK = [b"\n", b"\0" * 3, b"junk" * 50, b"\0" * 300_000, b'{"step": 1}\n' * 20_000]


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("junk", JUNK, ids=len)
def test_zstd_with_junk_behind_it_is_read_whole(tmp_path: Path, junk: bytes, frames: int) -> None:
    path = tmp_path / "x.zst"
    text = "".join(f"{i * 7919 % 1_000_003}\n" for i in range(50_000)).encode()
    packed = zstandard.ZstdCompressor(level=1).compress(text) * frames
    path.write_bytes(packed + junk)
    blocks = LineBlocks(path)
    assert b"".join(block for block, _ in blocks) == text * frames
    (warning,) = blocks.warnings
    assert (warning.kind, warning.where) == ("archive-tail", f"byte {len(text) * frames}")
    assert f"byte {len(packed)} of the file" in warning.message


def test_zstd_frames_to_be_skipped_are_no_junk(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    packed = zstandard.ZstdCompressor().compress(b"1\n2\n")
    path.write_bytes(packed + b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip" + packed)
    blocks = LineBlocks(path)
    assert b"".join(block for block, _ in blocks) == b"1\n2\n1\n2\n"
    assert blocks.warnings == []


@pytest.mark.parametrize("kept", [1, 3, 4, 9])
def test_a_further_zstd_frame_that_is_cut_off_is_damage(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "x.zst"
    packed = zstandard.ZstdCompressor().compress(b"1\n2\n")
    path.write_bytes(packed + packed[:kept])
    blocks = LineBlocks(path)
    assert b"".join(block for block, _ in blocks) == b"1\n2\n"
    assert [w.kind for w in blocks.warnings] == ["damaged-archive"]


TEXT = "".join(f"step {i} loss {i / 7:.4f}\n" for i in range(300)).encode()


@pytest.mark.parametrize("at", [0, 9, 1000, len(TEXT)])
@pytest.mark.parametrize("size", [1, 2, 4096])
def test_zero_bytes_in_a_text_are_line_ends_and_told(tmp_path: Path, at: int, size: int) -> None:
    damaged = TEXT[:at] + bytes(size) + TEXT[at:]
    assert text_head(damaged) == TEXT[:at] + b"\n" + TEXT[at:]
    path = tmp_path / "train.log"
    path.write_bytes(damaged)
    blocks = LineBlocks(path)
    assert b"".join(block for block, _ in blocks) == TEXT[:at] + b"\n" + TEXT[at:]
    assert [(w.kind, w.where) for w in blocks.warnings] == [("corrupt", f"byte {at}")]
    assert f"{size} bytes" in blocks.warnings[0].message


@pytest.mark.parametrize(
    "data",
    [
        np.random.default_rng(0).normal(size=4000).astype(np.float32).tobytes(),
        np.arange(9000, dtype=np.int32).tobytes(),
        pickle.dumps({"loss": list(range(500)), "step": [i / 3 for i in range(500)]}),
        TEXT.decode().encode("utf-16-le"),
        b"\x7fELF\x00\x00\x00",
    ],
)
def test_what_is_no_text_keeps_its_zero_bytes(data: bytes) -> None:
    assert b"\x00" in text_head(data)
