from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trainforensics.cli import options
from trainforensics.cli.options import Color
from trainforensics.errors import UsageError


def test_progress_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with options.progress_bar(show=True) as progress:
        assert progress is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with options.progress_bar(show=False) as progress:
        assert progress is None
    with options.progress_bar(show=True) as progress:
        assert progress is not None
        progress("reading runs/a", 1, 3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "reading runs/a" in captured.err


@pytest.mark.parametrize(
    ("color", "variable", "expected"),
    [
        (Color.AUTO, "", None),
        (Color.AUTO, "1", True),
        (Color.ALWAYS, "1", False),
        (Color.NEVER, "", True),
    ],
)
def test_colour(monkeypatch: pytest.MonkeyPatch, color: Color, variable: str, expected: bool | None) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    assert options.no_color(color) is expected


def test_files_to_write() -> None:
    assert options.formats_to_write(["json=a=b.json"], ["json"]) == [("json", Path("a=b.json"))]
    for wrong in ("json", "json=", "pdf=x"):
        with pytest.raises(UsageError, match="needs FMT=PATH with FMT one of json"):
            options.formats_to_write([wrong], ["json"])
