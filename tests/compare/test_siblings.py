from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories import make_curve, make_signals

from trainforensics.compare.siblings import Departure, Neighbours, candidates, departures
from trainforensics.model import Axis, Cost, Incident, RunResult, Scope, SeriesSummary, SourceSummary
from trainforensics.signals import Signals
from trainforensics.signals.curve import Floats

N = 400
FALL = 2 + 2 * np.exp(-np.arange(N) / 120)


def noise(seed: int, width: float = 0.02) -> Floats:
    return np.random.default_rng(seed).normal(0, width, N)


def run(name: str, loss: Floats, val: Floats | None = None, **more: Any) -> Signals:
    config = more.pop("config", {})
    curves = [make_curve(loss, "train_loss", name="loss")]
    if val is not None:
        curves.append(make_curve(val, "val_loss", name="eval_loss", step=np.arange(40, N + 1, 40)))
    curves += [make_curve(values, role, name=role) for role, values in more.items()]
    signals: Signals = replace(make_signals(curves, config=config), run=name)
    return signals


def found(*runs: Signals, told: Mapping[str, list[Incident]] | None = None) -> list[Departure]:
    pairs = Neighbours(tuple((a.run, b.run) for i, a in enumerate(runs) for b in runs[i + 1 :]), few=True)
    by_name = {r.run: r for r in runs}
    return list(departures(pairs, by_name, {r.run: (told or {}).get(r.run, []) for r in runs}))


def kinds(departed: list[Departure]) -> list[tuple[str, str]]:
    return [(d.run, d.incident.kind) for d in departed]


# --- a multiple --------------------------------------------------------------------------------------------------


def test_a_loss_four_times_its_siblings_with_equal_evaluation_is_a_scale() -> None:
    one = run("x/one", FALL + noise(1), FALL[39::40], config={"gradient_accumulation_steps": 1})
    four = run("x/four", 4 * (FALL + noise(2)), FALL[39::40] + 0.01, config={"gradient_accumulation_steps": 4})
    for order in ((one, four), (four, one)):
        (departed,) = found(*order)
        incident = departed.incident
        assert departed.run == "x/four"
        assert (incident.kind, incident.id, incident.onset_step) == ("scale-mismatch", "RES102-sibling-1", 1)
        assert incident.scope == Scope(sibling="x/one")
        assert "gradient_accumulation_steps is 4 here, 1 there" in incident.summary
        assert departed.finding.runs == ("x/four", "x/one")


def test_a_multiple_that_evaluation_shares_is_another_loss() -> None:
    assert not found(run("a", FALL + noise(1), FALL[39::40]), run("b", 4 * (FALL + noise(2)), 4 * FALL[39::40]))


def test_without_evaluation_something_else_must_say_that_the_model_is_the_same() -> None:
    one, four = FALL + noise(1), 4 * (FALL + noise(2))
    assert not found(run("a", one), run("b", four))
    assert kinds(found(run("a", one), run("b", 4 * one))) == [("b", "scale-mismatch")]
    norms = 1 + 0.1 * noise(3), 4 + 0.4 * noise(4)
    assert kinds(found(run("a", one, grad_norm=norms[0]), run("b", four, grad_norm=norms[1]))) == [
        ("b", "scale-mismatch")
    ]


def test_neither_a_broken_factor_nor_one_that_drifts_nor_constants_are_a_scale() -> None:
    one = FALL + noise(1)
    assert not found(run("a", one), run("b", 2.5 * one))
    assert not found(run("a", one), run("b", one * np.linspace(1.8, 2.2, N)))
    assert not found(run("a", 1 + noise(1)), run("b", 2 + 2 * noise(1)))
    slower = 2 * (2 + 2 * np.exp(-np.arange(N) / 40)) + noise(2)  # twice the loss but for the descent
    assert not found(run("a", 2 + 2 * np.exp(-np.arange(N) / 15) + noise(1)), run("b", slower))


def test_a_scale_that_the_run_itself_tells_is_not_told_again() -> None:
    one = FALL + noise(1)
    assert not found(run("a", one), run("b", 4 * one), told={"b": [incident("scale-mismatch")]})


# --- twins -------------------------------------------------------------------------------------------------------


def growing(start: int, height: float) -> Floats:
    return np.where(np.arange(N) < start, 0.0, height * (np.arange(N) - start) / (N - start))


def test_twins_whose_gap_grows_to_the_end_are_nondeterminism_of_the_worse() -> None:
    shared = FALL + noise(1)
    good = run("x/bf16", shared + noise(2, 0.002), config={"seed": 1, "precision": "bf16"})
    bad = run("x/fp8", shared + noise(3, 0.002) + growing(150, 0.4), config={"seed": 1, "precision": "fp8"})
    for order in ((good, bad), (bad, good)):
        (departed,) = found(*order)
        assert (departed.run, departed.incident.kind) == ("x/fp8", "nondeterminism")
        assert departed.incident.scope == Scope(sibling="x/bf16")
        assert departed.incident.onset_step is not None
        assert 140 <= departed.incident.onset_step <= 180
        assert any("precision: fp8 here, bf16 there" in row.text for row in departed.incident.evidence)


def test_twins_equal_to_the_last_digit_that_part_at_once_drew_other_data() -> None:
    shared, other = FALL + noise(1), FALL + noise(2)
    parted = np.where(np.arange(N) < 192, shared, other)
    (departed,) = found(run("x/a", shared), run("x/b", parted))
    assert (departed.run, departed.incident.kind, departed.incident.onset_step) == ("x/b", "nondeterminism", 193)
    rounding = 1e-7 * np.exp(np.clip(np.arange(N) - 192, 0, 120) / 8)  # grows e-fold in 8 steps, up to the noise
    drifted = np.where(np.arange(N) < 192, shared, shared + rounding * noise(3))
    assert not found(run("x/a", shared), run("x/b", drifted))


def test_differences_that_stay_within_noise_are_nothing() -> None:
    shared = FALL + noise(1)
    drift = np.cumsum(noise(5, 0.0003))  # the twin's own rounding, far below the noise of the loss
    assert not found(run("a", shared), run("b", shared + drift))
    assert not found(run("a", shared), run("b", shared + noise(2, 0.05)))  # one rank against the mean of all


def test_other_seeds_and_gaps_that_were_there_from_the_start_are_nothing() -> None:
    assert not found(run("a", FALL + noise(1)), run("b", FALL + noise(2) + growing(150, 0.4)))
    assert not found(run("a", FALL + noise(1)), run("b", FALL + noise(1) + growing(0, 0.4)))


def test_a_gap_that_no_longer_grows_is_nothing() -> None:
    step = np.where(np.arange(N) < 150, 0.0, 0.3)
    assert not found(run("a", FALL + noise(1)), run("b", FALL + noise(1) + step))


def test_what_was_set_on_purpose_is_no_nondeterminism() -> None:
    good, bad = FALL + noise(1), FALL + noise(1) + growing(150, 0.4)
    seed = {"seed": 1}
    assert kinds(found(run("a", good, config=seed), run("b", bad, config=seed))) == [("b", "nondeterminism")]
    for other in ({"dropout": 0.1}, {"learning_rate": 1e-3}, {"_wandb.fork_from": "parent?_step=150"}):
        assert not found(run("a", good, config=seed), run("b", bad, config={**seed, **other}))
    rates = np.full(N, 1e-3), np.where(np.arange(N) < 150, 1e-3, 2e-3)
    assert not found(run("a", good, learning_rate=rates[0]), run("b", bad, learning_rate=rates[1]))


def test_without_configuration_only_a_lone_pair_is_taken_for_twins() -> None:
    good, bad = run("a", FALL + noise(1)), run("b", FALL + noise(1) + growing(150, 0.4))
    assert kinds(found(good, bad)) == [("b", "nondeterminism")]
    assert not found(good, bad, run("c", FALL + noise(1)))


def test_a_run_with_an_alarm_of_its_own_needs_no_twin() -> None:
    good, bad = run("a", FALL + noise(1)), run("b", FALL + noise(1) + growing(150, 0.4))
    assert not found(good, bad, told={"b": [incident("divergence")]})
    assert found(good, bad, told={"b": [incident("straggler")]})


def incident(kind: str) -> Incident:
    return Incident(
        kind, "", kind, "medium", 0.9, None, 9, None, (9,), None, None, None, None, Cost(), "loss", "train_loss",
        Scope(), "",
    )  # fmt: skip


# --- who is held against whom ------------------------------------------------------------------------------------


def result(name: str, series: tuple[str, ...] = ("loss", "lr"), points: int = 100) -> RunResult:
    summaries = tuple(SeriesSummary(s, "train_loss" if s == "loss" else None, "log", None, 9, 0, 1, 9) for s in series)
    sources = (SourceSummary("log", "jsonl", points),)
    return RunResult(name, "stable", Axis("step", "step"), "unknown", sources, series=summaries)


def chosen(*results: RunResult) -> list[Neighbours]:
    return candidates(results, {r.run: Path("/logs") / r.run for r in results})


def test_neighbours_that_log_the_same_series_are_compared() -> None:
    assert chosen(result("x/a"), result("x/b"), result("y/a")) == [Neighbours((("x/a", "x/b"),), few=True)]
    assert not chosen(result("x/a"), result("x/b", ("loss", "other", "third")))
    assert not chosen(result("x/a", ("lr",)), result("x/b", ("lr",)))


def test_of_large_folders_only_what_noise_proves_counts_and_long_logs_are_left_out() -> None:
    (near,) = chosen(*(result(f"x/{i}") for i in range(12)))
    assert (len(near.pairs), len(near.runs), near.few) == (66, 12, True)
    (near,) = chosen(*(result(f"x/{i}") for i in range(13)))
    assert (len(near.pairs), near.few) == (78, False)
    assert not chosen(*(result(f"x/{i}") for i in range(65)))
    assert not chosen(result("x/a", points=3_000_000), result("x/b", points=3_000_000))


def test_in_a_large_folder_a_multiple_is_a_search_over_settings() -> None:
    one = FALL + noise(1)
    runs = {r.run: r for r in (run("a", one), run("b", 4 * one))}
    for few, expected in ((True, 1), (False, 0)):
        assert len(list(departures(Neighbours((("a", "b"),), few), runs, {"a": (), "b": ()}))) == expected


def test_runs_of_one_seed_that_were_never_equal_are_nondeterminism_of_the_second() -> None:
    settings = {"seed": 7, "lr": 1e-3, "model": "m", "data": "d", "batch_size": 8}
    one, other = run("a", FALL + noise(1), config=settings), run("b", FALL + noise(2), config=settings)
    assert kinds(found(one, other)) == [("b", "nondeterminism")]
    assert not found(one, run("b", FALL + noise(2), config={**settings, "seed": 8}))
    assert not found(one, run("b", FALL + noise(1) + 1e-6 * noise(3), config=settings))
    few = {"seed": 7}  # hardly says what the runs were made of
    assert not found(run("a", FALL + noise(1), config=few), run("b", FALL + noise(2), config=few))


def test_runs_that_begin_alike_and_come_to_differ_by_their_whole_noise_are_nondeterminism() -> None:
    shared, other = FALL + noise(1), FALL + noise(2)
    weight = np.minimum(np.arange(N) / 200, 1) ** 2
    for grows, expected in ((1.0, [("b", "nondeterminism")]), (0.5, [("b", "nondeterminism")]), (0.05, [])):
        drifted = shared + grows * weight * (other - shared)
        pair = [run(name, loss, grad_norm=loss / 2) for name, loss in (("a", shared), ("b", drifted))]
        assert kinds(found(*pair)) == expected


@pytest.mark.parametrize("repeats", [True, False])
def test_runs_that_are_to_repeat_one_another_to_the_last_digit(repeats: bool) -> None:
    shared, rounding = FALL + noise(1), 1e-5 * np.random.default_rng(5).standard_normal(N)
    rounding *= np.where(np.arange(N) < 57, 0, np.exp(np.clip((np.arange(N) - 57) / 40, 0, 5)))
    settings = {"seed": 42, "debug": {"deterministic": repeats}}
    pair = [run(n, x, config=settings, grad_norm=x / 2) for n, x in (("a", shared), ("b", shared + rounding))]
    assert kinds(found(*pair)) == ([("b", "nondeterminism")] if repeats else [])


def test_another_loss_is_no_twin() -> None:
    settings = {"seed": 7, "lr": 1e-3, "model": "m", "data": "d", "batch_size": 8}
    pair = [run(n, k * FALL + noise(i), config=settings) for i, (n, k) in enumerate((("a", 1.0), ("b", 1.5)))]
    assert "nondeterminism" not in dict(kinds(found(*pair))).values()


def test_folds_are_no_twins() -> None:
    settings = {"seed": 7, "lr": 1e-3, "model": "m", "data": "d", "batch_size": 8}
    one, other = FALL + noise(1), FALL + noise(2)
    for names, expected in ((("fold-0", "fold-1"), []), (("fold-0/a", "fold-0/b"), [("fold-0/b", "nondeterminism")])):
        assert kinds(found(*(run(n, x, config=settings) for n, x in zip(names, (one, other), strict=True)))) == expected


def test_runs_of_one_seed_that_are_equal_in_their_first_loss_alone() -> None:
    settings = {"seed": 7, "lr": 1e-3, "model": "m", "data": "d", "batch_size": 8}
    first, second = FALL + noise(1), FALL + noise(2)
    first[0] = second[0] = np.log(2)
    (departed,) = found(run("a", first, config=settings), run("b", second, config=settings))
    assert (departed.incident.kind, departed.incident.onset_step) == ("nondeterminism", 2)
