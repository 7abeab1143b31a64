from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from results import make_run

from trainforensics.model import RunResult, SeriesSummary
from trainforensics.report import mapping
from trainforensics.report.markdown import render_run


def series(name: str, role: str | None = None, n: int = 100) -> SeriesSummary:
    return SeriesSummary(name, role, "log.csv", None, n, 0, 0, n - 1)


def run(*logged: SeriesSummary, name: str = "a", verdict: Any = "undecided", **changes: Any) -> RunResult:
    result: RunResult = replace(make_run(run=name), series=logged, verdict=verdict, **changes)
    return result


@pytest.mark.parametrize("verdict", ["undecided", "stable", "unstable"])
def test_unknown_names_are_told_fullest_first_where_no_training_loss_is_known(verdict: str) -> None:
    result = run(series("eta", n=10), series("objektiv"), series("gnorm", "grad_norm"), verdict=verdict)
    assert mapping.unrecognised(result) == ("objektiv", "eta")


def test_a_run_with_its_training_loss_needs_no_hint_unless_it_is_undecided() -> None:
    logged = (series("loss", "train_loss"), series("extra"))
    assert mapping.unrecognised(run(*logged, verdict="stable")) == ()
    assert mapping.unrecognised(run(*logged)) == ("extra",)


def test_names_that_the_user_has_settled_and_empty_ones_are_left_out() -> None:
    result = run(series("extra"), series("empty", n=0), options={"map": {"extra": "none"}})
    assert mapping.unrecognised(result) == ()
    assert mapping.hints([result]) == []


def test_runs_with_the_same_names_share_a_line() -> None:
    odd = (series("objektiv"), series("eta"))
    lines = mapping.hints([run(*odd, name="a"), run(*odd, name="b"), run(series("x"), name="c")])
    assert [line.partition(";")[0] for line in lines] == [
        "a and 1 more: not recognised: objektiv, eta",
        "c: not recognised: x",
    ]
    assert all("--map NAME=train_loss" in line for line in lines)


def test_many_names_are_cut_short() -> None:
    names = [f"n{place}" for place in range(mapping.MAX_NAMES + 3)]
    assert " and 3 more; " in mapping.hint(names)
    report = render_run(run(*(series(name) for name in names)))
    assert "and 3 more; say what they mean with `--map NAME=ROLE`" in report


def test_the_report_says_it_before_its_first_section() -> None:
    report = render_run(run(series("objektiv")))
    assert "Not recognised: `objektiv`;" in report.partition("\n## ")[0]
    assert "Not recognised" not in render_run(run(series("loss", "train_loss"), verdict="stable"))
