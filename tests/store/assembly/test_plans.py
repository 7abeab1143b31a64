"""Which sources of a folder are one run."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from logs import Row, imported, rows, segments, write_csv, write_jsonl, write_scalars, write_wandb_run

from trainforensics.config import Settings
from trainforensics.model import Segment
from trainforensics.signals.load import judge_series, load


def test_one_file_is_one_run(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(0, 100, 5)))
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]
    assert stored["run"].segments == (Segment(0, 0, 95),)


def test_a_restart_in_its_own_file_continues_the_run(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "log_1.jsonl", rows(range(0, 100), start=1.7e9))
    write_jsonl(run / "log_2.jsonl", rows(range(80, 200), start=1.7e9 + 500, seed=1))
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]
    assert segments(stored["run"]) == [(0, 0, 99), (1, 80, 199)]
    assert "continues" in stored["run"].grouping


def test_wall_times_outrank_names(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "a.jsonl", rows(range(80, 200), start=1.7e9 + 500))
    write_jsonl(run / "b.jsonl", rows(range(0, 100), start=1.7e9, seed=1))
    stored = imported(tmp_path / "store", run)
    assert segments(stored["run"]) == [(0, 0, 99), (1, 80, 199)]


def test_a_backup_of_the_beginning_without_wall_times(run: Path, tmp_path: Path) -> None:
    write_csv(run / "metrics.csv", rows(range(1000, 2000, 10)))
    write_csv(run / "metrics_20250101.csv", rows(range(0, 1000, 10), seed=1))
    stored = imported(tmp_path / "store", run)
    assert segments(stored["run"]) == [(0, 0, 990), (1, 1000, 1990)]


def test_runs_that_each_begin_at_the_start_are_runs_of_their_own(run: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        write_jsonl(run / f"seed{seed}.jsonl", rows(range(100), seed=seed, start=1.7e9 * seed))
    stored = imported(tmp_path / "store", run)
    assert sorted(stored) == ["run#seed1.jsonl", "run#seed2.jsonl"]
    assert "neither continues nor repeats" in stored["run#seed1.jsonl"].grouping


def test_a_false_start_belongs_to_the_run_that_followed(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "a.jsonl", rows(range(5), start=1.7e9))
    write_jsonl(run / "b.jsonl", rows(range(200), start=1.7e9 + 50, seed=1))
    assert list(imported(tmp_path / "store", run)) == ["run"]


def test_the_same_run_logged_twice(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(100)))
    write_csv(run / "table.csv", rows(range(100)))
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]
    assert "logs the same steps" in stored["run"].grouping


def test_ranks_of_one_run(run: Path, tmp_path: Path) -> None:
    for rank in range(3):
        write_jsonl(run / f"rank_{rank}.jsonl", rows(range(50), seed=rank))
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]
    assert sorted(s.series.rank for s in stored["run"].series if s.series.name == "loss") == [0, 1, 2]


@pytest.mark.parametrize("lead", ["[rank{}]: ", ""])
def test_ranks_of_torchrun_and_their_restart(run: Path, tmp_path: Path, lead: str) -> None:
    """A rank's second attempt continues its first."""
    rng = np.random.default_rng(0)
    for attempt, steps in ((0, range(0, 100, 2)), (1, range(60, 200, 2))):
        for local in range(2):
            file = run / "none_k3" / f"attempt_{attempt}" / str(local) / "stdout.log"
            file.parent.mkdir(parents=True)
            lines = (f"{lead.format(local)}step {step} | loss {3 + rng.normal():.4f} | lr 3.0e-04\n" for step in steps)
            file.write_text("".join(lines), encoding="utf-8")
            (file.parent / "stderr.log").write_text("UserWarning: nothing of note\n", encoding="utf-8")
    (stored,) = imported(tmp_path / "store", run).values()
    assert {s.series.rank for s in stored.series if s.series.name == "loss"} == {0, 1}
    assert segments(stored) == [(0, 0, 98), (1, 60, 198)]


def test_training_and_validation_files(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "train.jsonl", rows(range(100)))
    write_jsonl(run / "val.jsonl", rows(range(0, 100, 10), seed=1))
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]
    assert {s.series.name for s in stored["run"].series} == {"loss", "val/loss"}


def test_files_of_different_metrics_complement_each_other(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(100)))
    write_jsonl(run / "system.jsonl", [{"step": i, "gpu_util": 90.0 + i % 3} for i in range(100)])
    assert list(imported(tmp_path / "store", run)) == ["run"]


def test_event_files_of_restarts_and_their_lives(run: Path, tmp_path: Path) -> None:
    write_scalars(run / "events.out.tfevents.1.host", range(0, 100))
    write_scalars(run / "events.out.tfevents.2.host", range(60, 200), offset=1000)
    stored = imported(tmp_path / "store", run)
    assert segments(stored["run"]) == [(0, 0, 99), (1, 60, 199)]


def test_ranks_that_only_their_rows_name(run: Path, tmp_path: Path) -> None:
    for rank, host in enumerate(("left", "right")):
        write_jsonl(run / f"{host}.jsonl", [row | {"rank": rank, "host": host} for row in rows(range(50), seed=rank)])
    stored = imported(tmp_path / "store", run)
    assert sorted(s.series.rank for s in stored["run"].series if s.series.name == "loss") == [0, 1]


def write_ranks(path: Path, ranks: Sequence[int], steps: Sequence[int], start: datetime) -> None:
    rng = np.random.default_rng(ranks[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"[{start + timedelta(seconds=step)}] [Rank {rank}] step={step}, lr=[1e-4], loss={3 + rng.normal():.4f}\n"
        for step in steps
        for rank in ranks
    ]
    path.write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("nodes", [[[0], [1], [2]], [[0, 1], [2, 3]]])
def test_ranks_that_only_the_lines_of_each_node_name(nodes: list[list[int]], run: Path, tmp_path: Path) -> None:
    for number, ranks in enumerate(nodes):
        write_ranks(run / f"worker-{number}.log", ranks, range(1, 60), datetime(2024, 5, 1))
    (stored,) = imported(tmp_path / "store", run).values()
    assert sorted(s.series.rank for s in stored.series if s.series.name == "loss") == sorted(itertools.chain(*nodes))


def test_a_text_of_one_rank_alone_is_of_no_rank(run: Path, tmp_path: Path) -> None:
    write_ranks(run / "train.log", [0], range(1, 60), datetime(2024, 5, 1))
    (stored,) = imported(tmp_path / "store", run).values()
    assert {s.series.rank for s in stored.series} == {None}


def test_ranks_of_trainings_on_other_days_are_not_of_one_run(run: Path, tmp_path: Path) -> None:
    for rank in range(2):
        write_ranks(run / f"job-{rank}.log", [rank], range(1, 60), datetime(2024, 5, 1 + rank))
    assert len(imported(tmp_path / "store", run)) == 2


def test_a_manifest_serves_every_run_below(run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl(run / name / "metrics.jsonl", rows(range(50)))
    write_jsonl(run / "manifest.jsonl", [{"step": i, "shard": f"s{i % 4}", "doc_ids": [i]} for i in range(50)])
    stored = imported(tmp_path / "store", run)
    for name in ("run/a", "run/b"):
        batches = stored[name].batches()
        assert batches is not None
        assert batches.collect()["shard"].to_list()[:3] == ["s0", "s1", "s2"]


def test_checkpoints_beside_serve_the_runs_below(run: Path, tmp_path: Path) -> None:
    write_scalars(run / "tb" / "events.out.tfevents.1.host", range(100))
    (run / "checkpoint-50").mkdir()
    stored = imported(tmp_path / "store", run)
    assert [c.step for c in stored["run/tb"].checkpoints] == [50]


def test_reading_writes_nothing_beside_the_logs(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(50)))
    before = sorted(run.rglob("*"))
    imported(tmp_path / "store", run)
    assert sorted(run.rglob("*")) == before
    assert not list((tmp_path / "store").glob(".*")), "nothing temporary is left in the store"
    shutil.rmtree(run)


def test_wandb_files_of_one_run_id_are_one_run_and_others_runs_of_their_own(run: Path, tmp_path: Path) -> None:
    wandb = run / "wandb"
    write_wandb_run(wandb / "offline-run-20250101_000000-aaa111", "aaa111", rows(range(0, 100)))
    write_wandb_run(wandb / "offline-run-20250102_000000-aaa111", "aaa111", rows(range(80, 200), seed=1), 90_000)
    write_wandb_run(wandb / "offline-run-20250103_000000-bbb222", "bbb222", rows(range(0, 100), seed=2), 180_000)
    (wandb / "latest-run").symlink_to(wandb / "offline-run-20250103_000000-bbb222")
    stored = imported(tmp_path / "store", run)
    assert len(stored) == 2
    first, second = stored.values()
    assert segments(first) == [(0, 0, 99), (1, 80, 199)]
    assert segments(second) == [(0, 0, 99)]
    assert [first.config["name"], second.config["name"]] == ["aaa111", "bbb222"]


def test_a_huggingface_folder_with_checkpoints_and_event_files(run: Path, tmp_path: Path) -> None:
    def state(last: int) -> str:
        history = [{"loss": 2 + 1 / (i + 1), "step": i, "learning_rate": 0.1} for i in range(10, last + 1, 10)]
        return json.dumps({"log_history": history, "global_step": last, "max_steps": 300})

    for folder, last in ((run, 300), (run / "checkpoint-100", 100), (run / "checkpoint-200", 200)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trainer_state.json").write_text(state(last))
    write_scalars(run / "runs" / "Jan01_10-00-00_host" / "events.out.tfevents.1.host", range(10, 301, 10))
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]
    assert [c.step for c in stored["run"].checkpoints] == [100, 200]
    signals = load(stored["run"], Settings())
    (loss,) = signals.curves("train_loss")
    assert len(loss) == 30
    assert len(stored["run"].segments) == 1


def test_configuration_in_a_folder_of_its_own(run: Path, tmp_path: Path) -> None:
    write_jsonl(run / "metrics.jsonl", rows(range(50)))
    (run / ".hydra").mkdir()
    (run / ".hydra" / "config.yaml").write_text("optimizer:\n  lr: 0.1\n")
    stored = imported(tmp_path / "store", run)["run"]
    assert "0.1" in str(stored.config)


def test_sub_folders_of_a_writer_are_part_of_the_names_once(run: Path, tmp_path: Path) -> None:
    write_scalars(run / "events.out.tfevents.1.host", range(50), "lr")
    write_scalars(run / "Loss_val" / "events.out.tfevents.1.host", range(50), "Loss")
    write_jsonl(run / "eval" / "metrics.jsonl", rows(range(0, 50, 10)))
    stored = imported(tmp_path / "store", run)["run"]
    assert {s.series.name for s in stored.series} == {"lr", "Loss_val/Loss", "eval/loss"}


@pytest.mark.parametrize("zone", ["", "Z"])
def test_times_without_a_zone_do_not_tell_which_log_came_first(run: Path, tmp_path: Path, zone: str) -> None:
    """The second log begins an hour after the first ended; by a clock of another zone it would be the earlier one."""
    first, second = datetime(2025, 3, 1, 12), datetime(2025, 3, 1, 5)
    for name, begin, steps, suffix in (("log_1", first, range(100), "Z"), ("log_2", second, range(80, 200), zone)):
        times = ((begin + timedelta(seconds=i)).isoformat() + suffix for i in range(len(steps)))
        lines = [{**row, "time": time} for row, time in zip(rows(steps, seed=len(name)), times, strict=True)]
        write_jsonl(run / f"{name}.jsonl", lines)
    stored = imported(tmp_path / "store", run)
    assert len(stored) == (1 if not zone else 2)
    if not zone:
        assert segments(stored["run"]) == [(0, 0, 99), (1, 80, 199)]


def fall(last: float, seed: int, name: str = "loss", steps: range = range(10, 1001, 10)) -> list[Row]:
    noise = np.random.default_rng(seed)
    return [{"step": s, name: last + 2 * float(np.exp(-s / 300)) + float(noise.normal(0, 0.02))} for s in steps]


def test_unrelated_runs_are_apart_whatever_their_losses_are_called(run: Path, tmp_path: Path) -> None:
    write_csv(run / "bert.csv", fall(1.0, 1))
    write_jsonl(run / "resnet.jsonl", fall(0.4, 2, "train_loss"))
    (run / "vit_log.txt").write_text("".join(f"Iter {r['step']} TrainLoss={r['loss']:.3f}\n" for r in fall(0.7, 3)))
    stored = imported(tmp_path / "store", run)
    assert sorted(stored) == ["run#bert.csv", "run#resnet.jsonl", "run#vit_log.txt"]


def test_so_are_those_whose_names_say_nothing_but_whose_values_differ(run: Path, tmp_path: Path) -> None:
    write_csv(run / "metrics.csv", fall(1.0, 1))
    (run / "train.log").write_text("".join(f"step {r['step']} loss {r['loss']:.3f}\n" for r in fall(0.4, 2)))
    assert sorted(imported(tmp_path / "store", run)) == ["run#metrics.csv", "run#train.log"]


def test_a_run_that_is_lost_is_not_hidden_by_its_neighbour(run: Path, tmp_path: Path) -> None:
    write_csv(run / "a.csv", fall(1.0, 1))
    lost = [{**row, "train_loss": float("nan") if row["step"] > 600 else row["train_loss"]} for row in
            fall(1.1, 2, "train_loss")]  # fmt: skip
    write_csv(run / "b.csv", lost)
    stored = imported(tmp_path / "store", run)
    assert judge_series(stored["run#b.csv"], Settings()).series[0].n_nonfinite == 40
    assert sorted(stored) == ["run#a.csv", "run#b.csv"]


def test_console_text_that_averages_what_a_table_holds_raw_is_of_its_run(run: Path, tmp_path: Path) -> None:
    raw = fall(1.0, 1, "train_loss", range(1, 1001))
    write_csv(run / "metrics.csv", raw)
    means = np.array([row["train_loss"] for row in raw]).reshape(-1, 10).mean(axis=1)
    (run / "slurm-123.out").write_text("".join(f"step {10 * i + 10} loss {v:.3f}\n" for i, v in enumerate(means)))
    write_csv(run / "val.csv", fall(1.2, 3, "val_loss", range(100, 1001, 100)))
    write_csv(run / "lr.csv", [{"step": s, "lr": 1e-3} for s in range(10, 1001, 10)])
    stored = imported(tmp_path / "store", run)
    assert list(stored) == ["run"]


def test_validation_joins_the_file_of_its_name(run: Path, tmp_path: Path) -> None:
    for seed, name in enumerate(("large", "small")):
        write_csv(run / f"{name}.csv", fall(1.0 + seed, seed))
        write_csv(run / f"{name}_val.csv", fall(1.5 + seed, 10 + seed, "val_loss", range(100, 1001, 100)))
    stored = imported(tmp_path / "store", run)
    assert {name: {s.path for s in r.sources} for name, r in stored.items()} == {
        f"run#{name}.csv": {f"{name}.csv", f"{name}_val.csv"} for name in ("large", "small")
    }


@pytest.mark.parametrize(("pause", "lives"), [(1.0, 1), (1.5, 1), (60.0, 2)])
def test_a_log_cut_into_files_is_one_life_unless_time_was_lost(
    run: Path, tmp_path: Path, pause: float, lives: int
) -> None:
    write_jsonl(run / "log_1.jsonl", rows(range(0, 100), start=1.7e9))
    write_jsonl(run / "log_2.jsonl", rows(range(100, 150), start=1.7e9 + 99 + pause, seed=1))
    write_jsonl(run / "log_3.jsonl", rows(range(150, 200), start=1.7e9 + 148 + 2 * pause, seed=2))
    stored = imported(tmp_path / "store", run)["run"]
    whole = [(0, 0, 199)] if lives == 1 else [(0, 0, 99), (1, 100, 149), (2, 150, 199)]
    assert segments(stored) == whole
    points = stored.points()
    assert sorted({int(i) for series in points.values() for i in series.segment}) == [index for index, *_ in whole]
