from __future__ import annotations

import importlib.util
from pathlib import Path

GENERATOR = Path(__file__).parents[1] / "docs" / "generate.py"


def test_the_pages_of_the_kinds_are_what_the_detectors_say() -> None:
    spec = importlib.util.spec_from_file_location("generate", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.stale() == [], "run `make docs`"


def test_every_page_is_linked_from_the_first_one() -> None:
    docs = GENERATOR.parent
    first = (docs / "README.md").read_text()
    assert [page.name for page in docs.glob("*.md") if page.name != "README.md" and f"({page.name})" not in first] == []
