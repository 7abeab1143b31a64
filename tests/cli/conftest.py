from __future__ import annotations

import sys

import pytest
from shell import Run

from trainforensics.cli import app


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["trainforensics", *map(str, args)])
        with pytest.raises(SystemExit) as exited:
            app.main()
        captured = capsys.readouterr()
        return int(exited.value.code or 0), captured.out, captured.err

    return call
