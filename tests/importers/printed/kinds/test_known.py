"""As many kinds of records as a log may hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import read

from trainforensics.importers import console


def test_what_is_beyond_the_kinds_of_records_that_are_learned_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainforensics.importers.printed.kinds.known._MOST", 3)
    lines = [f"step {step} {name} loss: 0.5" for step, name in enumerate("abcde")]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines))
    found = read(console, path)
    assert [warning.message for warning in found.warnings] == [
        "2 lines were not read: the log holds too many kinds of records before them"
    ]
