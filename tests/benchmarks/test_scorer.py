from __future__ import annotations

import pytest

from benchmarks.detect.scorer import Alarm, Labelled, Truth, figures, labelled, score_run, wilson

BURST = Truth("instant-burst", (100,), 2, named_by=frozenset({"gradient-explosion"}))


def run(*truths: Truth, **more: object) -> Labelled:
    return Labelled("a", truths=truths, **more)  # type: ignore[arg-type]


def alarm(kind: str, *steps: float, **more: object) -> Alarm:
    return Alarm((kind,), steps, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (alarm("instant-burst", 102), (1, 0, 0)),
        (alarm("instant-burst", 103), (0, 1, 1)),
        (alarm("gradient-explosion", 100), (1, 0, 0)),
        (alarm("plateau", 100), (0, 1, 1)),
        (alarm("instant-burst", 100, 400), (1, 0, 1)),
        (alarm("instant-burst"), (1, 0, 0)),
        (Alarm(("plateau", "instant-burst"), (100,)), (1, 0, 0)),
        (alarm("instant-burst", 90, 120, span=(90, 120)), (1, 0, 0)),
    ],
)
def test_what_and_where(said: Alarm, counts: tuple[int, int, int]) -> None:
    found = figures([score_run(run(BURST), [said])])
    assert (found.hits, found.misses, found.false) == counts


def test_a_stretch_covers_what_is_in_it_and_a_point_does_not() -> None:
    rise = Truth("gradual-rise", (100,), 5, end=200)
    later = [alarm("gradual-rise", 100), alarm("gradual-rise", 150)]
    assert not score_run(run(rise), later).false
    assert score_run(run(BURST), [alarm("instant-burst", 100), alarm("instant-burst", 150)]).false.total() == 1


def test_a_chain_counts_once_whichever_member_is_named() -> None:
    chain = (Truth("scale-decay", (50,), 5, chain="x", primary=False), Truth("nan-onset", (90,), 0, chain="x"))
    assert score_run(run(*chain), [alarm("scale-decay", 50)]).hits == {"scale-decay": 1}
    assert score_run(run(*chain), []).misses == {"nan-onset": 1}


def test_followers_and_excused_kinds_are_never_false() -> None:
    label = run(excused=frozenset({"plateau"}), healthy=True)
    score = score_run(label, [alarm("plateau", 5), alarm("divergence", 5, follower=True)])
    assert score.silent
    assert not score_run(label, [alarm("divergence", 5)]).silent
    assert not score_run(label, [], read=False).silent


def test_a_long_list_of_steps_is_one_alarm_but_not_for_free() -> None:
    score = score_run(run(), [alarm("instant-burst", *range(30))])
    assert (score.false["instant-burst"], score.false_steps["instant-burst"]) == (4, 30)


def test_figures_over_runs() -> None:
    scores = [score_run(run(BURST), [alarm("instant-burst", 101)]), score_run(run(BURST), [alarm("plateau", 3)])]
    found = figures(scores)
    assert (found.precision, found.recall, found.f1) == (0.5, 0.5, 0.5)
    assert found.f1_interval[0] == 0.0
    assert found.f1_interval[1] == 1.0
    assert found.errors == (1,)
    assert figures(scores, ["plateau"]).f1 == 0.0
    assert figures([]).f1 is None


def test_confidence_is_kept_with_its_outcome() -> None:
    score = score_run(run(BURST), [alarm("instant-burst", 100, confidence=0.9), alarm("plateau", 5, confidence=0.6)])
    assert score.rated == [(0.9, True), (0.6, False)]


def test_a_truth_line() -> None:
    row = {"run": "a", "incidents": [{"kind": "nan-onset", "onset": 5, "onset_any_of": [5, 9], "onset_tol": 1}]}
    (truth,) = labelled(row).truths
    assert truth.near(8)
    assert not truth.near(7)


def test_wilson_stays_within_bounds() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(9, 10)
    assert 0.5 < low < 0.9 < high < 1
