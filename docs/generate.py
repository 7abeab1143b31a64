"""Writes docs/kinds/ and docs/roles.md from the code: `python docs/generate.py`, or `--check` to only compare."""

from __future__ import annotations

import sys
from pathlib import Path

from trainforensics.kinds import KINDS
from trainforensics.report import manual

FOLDER = Path(__file__).parent
OURS = ("kinds/*.md", "roles.md")


def pages() -> dict[str, str]:
    """File name, below docs/ -> content of every page."""
    kinds = {f"kinds/{name}.md": manual.page(kind) for name, kind in KINDS.items()}
    return {"kinds/README.md": manual.overview(), "roles.md": manual.roles_page()} | kinds


def written(folder: Path) -> dict[str, Path]:
    """The pages that are there now."""
    return {file.relative_to(folder).as_posix(): file for pattern in OURS for file in folder.glob(pattern)}


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of pages that are missing, left over, or not what they would be if written now."""
    wanted = pages()
    found = {name: file.read_text(encoding="utf-8") for name, file in written(folder).items()}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def write(folder: Path = FOLDER) -> None:
    """Write every page and remove those left over."""
    wanted = pages()
    (folder / "kinds").mkdir(exist_ok=True)
    for name, file in written(folder).items():
        if name not in wanted:
            file.unlink()
    for name, content in wanted.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        old = stale()
        sys.exit(f"out of date, run `make docs`: {', '.join(old)}" if old else 0)
    write()
