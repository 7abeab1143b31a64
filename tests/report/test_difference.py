from __future__ import annotations

import json
from dataclasses import replace

import pytest

from trainforensics.model import ConfigDifference, DataDifference, Parting, RunDifference, SeriesDifference
from trainforensics.report import difference, terminal

PARTING = Parting(12_400, (12_390, 12_400), None, 9.04, 12_400, 2.1, float("nan"))
SERIES = SeriesDifference(
    "train/loss",
    "loss",
    "train_loss",
    3,
    20_000,
    1,
    20_000,
    "parted",
    None,
    None,
    None,
    (PARTING,),
    "parts at step 12400",
)
SAME = replace(SERIES, name="a|b", other="a|b", rank=None, relation="identical", partings=(), text="equal")
FOUND = RunDifference(
    a="runs/a",
    b="runs/b_2",
    summary="train/loss parts at step 12400",
    finding="",
    series=(SAME, SERIES),
    only_a=("x",),
    only_b=(),
    config=(ConfigDifference("lr", 3e-4, None, "b", "learning"),),
    data=DataDifference(500, 80, 3, "shard s1", "shard s2", "note"),
)


def test_series_that_differ_come_first() -> None:
    rows = difference.series_rows(FOUND)
    assert rows[0] == ("train/loss (B: loss) rank 3", "20 000", "12 400", "9", "parts at step 12400")
    assert rows[1][2:] == ("-", "-", "equal")


def test_json_keeps_everything_and_stays_valid() -> None:
    document = json.loads(difference.as_json(FOUND), parse_constant=pytest.fail)
    assert next(iter(document.items())) == ("schema", "trainforensics/diff/1")
    assert document["series"][1]["partings"][0]["b"] == "NaN"
    assert document["config"] == [{"key": "lr", "a": 3e-4, "b": None, "missing": "b", "weight": "learning"}]


def test_markdown_shows_text_from_logs_as_it_is() -> None:
    text = difference.as_markdown(replace(FOUND, notes=("<b>bold</b> | *stars*",)))
    assert "&lt;b>bold" in text
    assert "\\*stars\\*" in text
    assert "| `lr` | 0.0003 | not set |" in text
    rows = [line for line in text.splitlines() if line.startswith("|") and "equal" in line]
    assert rows[0].count("|") == len(difference.SERIES_COLUMNS) + 1


def test_data_in_words() -> None:
    assert difference.data_text(FOUND.data).startswith("3 of 500 steps differ, the first at 80: shard s1 in A")
    assert difference.data_text(DataDifference(500)) == "the same data on all of 500 steps"
    assert difference.data_text(DataDifference(0, note="no manifest")) == "not compared: no manifest"


def test_long_lists_say_what_they_leave_out() -> None:
    many = replace(FOUND, series=(SERIES,) * 25)
    assert len(difference.series_rows(many)) == difference.SERIES_SHOWN
    assert list(difference.left_out(many)) == ["And 5 more series (--format json has all).", "Only in A: x."]


def test_the_terminal_shows_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_difference(replace(FOUND, finding="nondeterminism: twins differ"), no_color=True)
    shown = capsys.readouterr().out
    for part in ("runs/b_2", "train/loss parts", "Nondeterminism: twins", "not set", "Data: 3 of 500", "Only in A: x."):
        assert part in shown
