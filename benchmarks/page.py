"""Keeps docs/benchmarks.md: each benchmark owns one section between markers, the rest is written by hand.

`python -m benchmarks.page NAME FILE` puts a file's text into the section NAME.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the section `name` of a page. Raises ValueError where the page has no such section."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = page.read_text("utf-8")
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page.name} has no section {name!r}")
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", "utf-8")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; every column but the first is aligned right."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    write_section(sys.argv[1], Path(sys.argv[2]).read_text("utf-8"))
