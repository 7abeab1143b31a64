"""Writes docs/kinds/ from the detectors' docstrings: `python docs/generate.py`, or `--check` to only compare."""

from __future__ import annotations

import sys
from pathlib import Path

from trainforensics.kinds import KINDS
from trainforensics.report import manual

FOLDER = Path(__file__).parent / "kinds"


def pages() -> dict[str, str]:
    """File name -> content of every page."""
    return {"README.md": manual.overview()} | {f"{name}.md": manual.page(kind) for name, kind in KINDS.items()}


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of pages that are missing, left over, or not what they would be if written now."""
    wanted = pages()
    found = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def write(folder: Path = FOLDER) -> None:
    """Write every page and remove those left over."""
    wanted = pages()
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    for name, content in wanted.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        old = stale()
        sys.exit(f"out of date, run `make docs`: {', '.join(old)}" if old else 0)
    write()
