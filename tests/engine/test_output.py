from __future__ import annotations

from pathlib import Path

import pytest
from logs import rows, write_jsonl

from trainforensics import engine
from trainforensics.config import Settings
from trainforensics.engine import output
from trainforensics.errors import UsageError


@pytest.fixture
def out(tmp_path: Path) -> Settings:
    return Settings(out=tmp_path / "out", plots=False)


def log(folder: Path, seed: int = 0) -> Path:
    return write_jsonl(folder / "metrics.jsonl", rows(range(0, 600, 5), seed=seed))


def test_a_folder_in_use_is_refused_until_it_is_free(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    engine.analyze([tmp_path / "a"], out)
    before = {path: path.read_bytes() for path in out.out.rglob("*") if path.is_file()}
    with output.claim(out.out):
        for start in (engine.analyze, engine.import_paths):
            with pytest.raises(UsageError, match="out: in use by another analysis"):
                start([tmp_path / "a"], out)
    assert {path: path.read_bytes() for path in out.out.rglob("*") if path.is_file()} == before
    engine.analyze([tmp_path / "a"], out)


def test_a_folder_is_in_use_until_the_results_are_written(
    tmp_path: Path, out: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path / "a")

    def write_index(*_: object) -> None:
        with pytest.raises(UsageError, match="in use"), output.claim(out.out):
            pass

    monkeypatch.setattr(output, "write_index", write_index)
    engine.analyze([tmp_path / "a"], out)


def test_what_a_killed_import_left_is_removed(tmp_path: Path, out: Settings) -> None:
    log(tmp_path / "a")
    engine.analyze([tmp_path / "a"], out)
    (out.out / "parquet" / ".staging-0123abcd" / "000000").mkdir(parents=True)
    engine.analyze([tmp_path / "a"], out)
    assert not list((out.out / "parquet").glob(".staging-*"))
