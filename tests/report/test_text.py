from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from results import make_incident

from trainforensics.model import Cost, Incident, Scope
from trainforensics.report import text

GFM = MarkdownIt("js-default", {"html": True, "linkify": False})  # tables on, raw HTML as GitHub would pass it on


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1200, "1200"),
        (41_200, "41 200"),
        (-1_234_567, "-1 234 567"),
        (0.0, "0"),
        (1.23456, "1.235"),
        (6.92, "6.92"),
        (61.0, "61"),
        (123_456.7, "123 500"),
        (0.000123462, "0.0001235"),
        (0.000012345, "1.234e-5"),
        (3e-11, "3e-11"),
        (1e300, "1e300"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (None, "-"),
    ],
)
def test_numbers_have_four_digits_and_groups_of_three(value: float | None, shown: str) -> None:
    assert text.number(value) == shown


@given(st.floats(-1e307, 1e307))
def test_a_number_reads_back_within_half_a_unit_of_its_fourth_digit(value: float) -> None:
    assert float(text.number(value).replace(" ", "")) == pytest.approx(value, rel=5.01e-4, abs=5e-324)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.5, "0.5 s"), (12, "12 s"), (75, "1 min 15 s"), (3600, "1 h"), (11_400, "3 h 10 min"), (90_000, "1 d 1 h")],
)
def test_durations_are_told_in_two_units(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(("value", "shown"), [(2_600_000_000, "2.6 B"), (410_300_000, "410 M"), (12_400, "12 400")])
def test_large_counts_are_short(value: int, shown: str) -> None:
    assert text.quantity(value) == shown


@pytest.mark.parametrize(
    ("incident", "shown"),
    [
        (make_incident(onset=None), "whole run"),
        (make_incident(onset=50), "50"),
        (make_incident(onset=50, end_step=70), "50 - 70"),
        (make_incident(onset=50, end_step=70, recovery="diverging"), "50 to the end"),
        (make_incident(onset=9, occurrences=(9, 20, 30, 40, 50)), "9, 20, 30, 40 and 1 more"),
    ],
)
def test_when_says_how_far_an_incident_reached(incident: Incident, shown: str) -> None:
    assert text.when(incident) == shown


def test_cost_says_what_the_log_allows() -> None:
    assert text.cost(make_incident(), "step") == "-"
    assert text.cost(make_incident(cost=Cost(1, None, 61.0)), "epoch") == "1 epoch, 1 min 1 s"


def test_the_cost_of_one_burst_among_several_is_not_told_as_that_of_all() -> None:
    burst = make_incident(onset=178, occurrences=(178, 263), end_step=183, cost=Cost(5))
    assert text.cost(burst, "step") == "5 steps at 178 alone"
    assert text.cost(make_incident(onset=178, occurrences=(178, 263), cost=Cost(500)), "step") == "500 steps"


@given(st.text())
def test_plain_undoes_what_escape_does(given_text: str) -> None:
    line = text.one_line(given_text).replace("`", "")
    assert text.plain(text.escape(line)) == line
    assert text.plain(text.code(line or "x")) == (line or "x")


def test_labels_and_places_are_words() -> None:
    assert text.label("nan-onset") == "NaN onset"
    assert text.label("val-jump") == "validation jump"
    assert text.where(Scope(rank=0, layer="h.3")) == "rank 0, layer h.3"
    assert text.where(Scope(layer="layer_4", expert=3)) == "layer_4, expert 3"
    assert text.where(Scope()) == ""


hostile = st.text(alphabet=st.sampled_from(list("ab01 `*_[](){}<>|#+-.!&~$\\\"'\n\r\t\x1b\u2028=:/@")), max_size=40)


def rendered_text(html: str) -> str:
    tokens = GFM.parse(html)
    inline = [child for token in tokens for child in (token.children or [])]
    return "".join(child.content for child in inline if child.type != "html_inline")


@given(hostile)
def test_escaped_text_is_one_paragraph_of_plain_text_or_code(given_text: str) -> None:
    tokens = GFM.parse("x " + text.escape(given_text))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    parts = tokens[1].children or []
    assert {part.type for part in parts} <= {"text", "text_special", "code_inline", "html_inline"}
    assert {part.content for part in parts if part.type == "html_inline"} <= {"<code>", "</code>"}


@given(hostile)
def test_escaping_keeps_every_visible_character(given_text: str) -> None:
    def visible(shown: str) -> str:
        return "".join(shown.replace("`", "").split())

    assert visible(rendered_text("x" + text.escape(given_text))) == visible("x" + text.one_line(given_text))


@given(hostile)
def test_any_text_stays_inside_its_table_cell(given_text: str) -> None:
    table = f"| a | b |\n|---|---|\n| {text.escape(given_text)} | {text.code(given_text)} |\n| c | d |\n"
    tokens = GFM.parse(table)
    assert sum(token.type == "td_open" for token in tokens) == 4
    assert tokens[-1].type == "table_close"


@given(hostile.filter(lambda t: text.one_line(t) != "" and "|" not in t))
def test_a_code_span_is_one_code_span(given_text: str) -> None:
    (inline,) = [token for token in GFM.parse("x " + text.code(given_text)) if token.children]
    assert [child.type for child in inline.children or []] == ["text", "code_inline"]


def test_colour_codes_and_lone_surrogates_are_taken_out() -> None:
    assert text.one_line("\x1b[31mred\x1b[0m\nline") == "red line"
    assert text.one_line("a\udcffb") == "a\\udcffb"
