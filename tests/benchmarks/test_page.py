from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.page import PAGE, table, write_section


def test_a_section_is_replaced_and_the_rest_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- x: begin -->\nold\n<!-- x: end -->\n\nb\n")
    for text in ("new\n", "newer"):
        write_section("x", text, page)
    assert page.read_text() == "# A\n\n<!-- x: begin -->\n\nnewer\n\n<!-- x: end -->\n\nb\n"
    with pytest.raises(ValueError, match="no section 'y'"):
        write_section("y", "", page)


def test_the_page_has_every_section() -> None:
    for name in ("detect", "simulated", "import"):
        assert f"<!-- {name}: begin -->" in PAGE.read_text("utf-8")


def test_a_table() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --: |\n| 1 | 2 |\n"
