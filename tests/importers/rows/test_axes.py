from __future__ import annotations

from typing import Any

import pytest

from trainforensics.importers.rows.axes import choose, is_step_name, logging_interval
from trainforensics.importers.rows.block import block_of_rows


def chosen(rows: list[dict[str, Any]]) -> tuple[str, list[int]]:
    block = block_of_rows(rows, range(1, len(rows) + 1))
    axis = choose(block, None, None)
    return axis.axis.name, axis.steps(block, None).tolist()


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        (("step", "iter", "epoch"), "step"),
        (("global_step", "step"), "global_step"),
        (("_step", "iteration"), "iteration"),
        (("_step", "trainer/global_step"), "trainer/global_step"),
        (("epoch", "num_updates"), "num_updates"),
        (("update", "num_updates"), "num_updates"),
        (("consumed_samples", "step"), "step"),
        (("custom/step", "loss"), "custom/step"),
        (("batch", "time/token"), "batch"),
    ],
)
def test_the_most_trusted_counter_wins(names: tuple[str, ...], winner: str) -> None:
    rows = [{name: (i + 1) * (k + 2) for k, name in enumerate(names)} for i in range(10)]
    assert chosen(rows)[0] == winner


def test_frames_count_where_they_rise() -> None:
    assert chosen([{"episode_reward": 0.5, "frame": 640 * i} for i in range(5)]) == (
        "frame",
        [0, 640, 1280, 1920, 2560],
    )
    assert chosen([{"loss": 0.5, "frames": size} for size in (5, 3, 8, 2, 9)])[0] == "row"


def test_fractions_and_constants_are_no_steps() -> None:
    rows = [{"update": i / 100, "steps": 900, "iter": 5 * i} for i in range(1, 10)]
    assert chosen(rows)[0] == "iter"


def test_samples_only_where_nothing_else_counts() -> None:
    assert chosen([{"consumed_samples": 64 * i, "loss": 1.0} for i in range(5)])[1] == [0, 64, 128, 192, 256]


def test_thousands_of_images_count_where_nothing_whole_does() -> None:
    rows = [{"Loss/mean": 1.0, "Progress/tick/mean": i, "Progress/kimg/mean": 50.1 * i} for i in range(5)]
    assert chosen(rows) == ("kimg", [0, 50, 100, 150, 200])


@pytest.mark.parametrize("first", [0, 1])
def test_iterations_that_restart_with_every_epoch_go_on(first: int) -> None:
    rows = [{"epoch": e + first, "batch": b + first, "loss": 1.0} for e in range(3) for b in range(4)]
    assert chosen(rows)[1] == [i + first for i in range(12)]


def test_rows_without_a_step_stay_where_the_log_was() -> None:
    assert chosen([{"step": 1}, {"step": 2}, {"eval_loss": 2.0}, {"step": 3}])[1] == [1, 2, 2, 3]


def test_steps_beyond_what_integers_hold_are_no_steps() -> None:
    assert chosen([{"step": 1}, {"step": 1e300}, {"step": float("nan")}, {"step": 2}])[1] == [1, 1, 1, 2]


def test_names_and_intervals() -> None:
    assert is_step_name("train/global_step") and is_step_name("Iteration") and not is_step_name("val/steps_per_second")
    assert logging_interval({"trainer": {"log_every_n_steps": 50}}) == 50
    assert logging_interval({"args.logging_steps": 5}) == 5
    assert logging_interval({"logging_steps": 0.1}) is None


def test_a_step_that_is_a_pair_of_epoch_and_iteration() -> None:
    rows = [{"step/0": float(e), "step/1": float(i), "loss": 3.0} for e in range(2) for i in range(0, 30, 10)]
    assert chosen(rows) == ("step/0 x 30 + step/1", [0, 10, 20, 30, 40, 50])


def test_episodes_count_where_nothing_else_does() -> None:
    rows = [{"episode": float(i), "reward": 1.0, "timestep": 100.0 * i} for i in range(1, 5)]
    assert chosen(rows) == ("timestep", [100, 200, 300, 400])
    assert chosen([{"episode": row["episode"], "reward": 1.0} for row in rows]) == ("episode", [1, 2, 3, 4])
    ended = [{"time/episodes": row["episode"], "reward": 1.0} for row in rows]
    assert chosen(ended)[0] == "time/episodes"
    assert chosen([*ended, {"reward": 2.0}])[0] == "row"


def test_rounds_and_generations_count_where_each_row_is_one() -> None:
    rows = [{"generation": float(i), "fitness_mean": i / 8, "fitness_std": 0.5} for i in range(1, 9)]
    assert chosen(rows) == ("generation", list(range(1, 9)))
    assert chosen([{"round": float(i // 4), "accuracy": i / 8} for i in range(12)])[0] == "row"
    assert chosen([{"epoch": float(i), "round": float(i // 2), "loss": i / 8} for i in range(8)])[0] == "epoch"


def _resumed(epochs: int, again: int) -> list[dict[str, Any]]:
    before = [{"epoch": 1 + n // 3, "global_step": 30 * (n + 1), "loss": 1.0} for n in range(3 * epochs)]
    return before + [{"epoch": epochs + 1, "global_step": again + 30 * n, "loss": 1.0} for n in range(1, 4)]


def test_a_count_that_was_not_restored_is_counted_on() -> None:
    rows = _resumed(5, 0)
    block = block_of_rows(rows, range(1, len(rows) + 1))
    axis = choose(block, None, None)
    assert axis.steps(block, None).tolist() == list(range(30, 541, 30))
    assert [(lost.row, lost.before, lost.begins) for lost in axis.lost] == [(15, 450, 30)]
    later = block_of_rows([{"epoch": 6, "global_step": 120, "loss": 1.0}], [19])
    assert axis.steps(later, None).tolist() == [570]
    assert not axis.lost


@pytest.mark.parametrize(
    "rows",
    [
        _resumed(5, 450),
        _resumed(2, 0),  # not yet shown to go on from one epoch to the next
        [*_resumed(5, 450), *_resumed(5, 450)],  # another run
        [*_resumed(5, 450), {"epoch": 7, "global_step": 0}, *({"epoch": 7, "global_step": 570 + n} for n in range(3))],
    ],
)
def test_a_count_that_goes_on_is_not_lost(rows: list[dict[str, Any]]) -> None:
    assert chosen(rows)[1] == [row["global_step"] for row in rows]


def test_runs_one_after_another_are_epochs_all_the_same() -> None:
    rows = [{"epoch": i % 20, "loss": 1.0 / (1 + i)} for i in range(80)]
    assert chosen(rows) == ("epoch", [*range(20)] * 4)
    several = [{"epoch": i // 20, "loss": 1.0 / (1 + i)} for i in range(80)]
    assert chosen(several)[0] == "row"
