"""Headers of text tables: aligned columns, headers in comments, tables of nothing but numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reading import read, sniff

from trainforensics.discovery import discover
from trainforensics.importers import table
from trainforensics.importers.base import read_head
from trainforensics.model import Axis
from trainforensics.roles import resolve


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def numbers(n: int, start: int = 0) -> str:
    return "".join(f"{i},{3 - i / 8},0.5\n" for i in range(start, start + n))


def test_empty_cells_of_aligned_columns(tmp_path: Path) -> None:
    text = "epoch       iteration   main/loss   validation/main/loss  main/acc  \n"
    for i in range(1, 11):
        held_out = f"{i / 8:<20}" if i % 5 == 0 else " " * 20
        text += f"{1:<10}  {i * 100:<10}  {3 - i / 8:<10}  {held_out}  {i / 16:<8}  \n"
    found = read(table, write(tmp_path / "log", text))
    assert found.axis == Axis("iteration", "step")
    assert found.series["validation/main/loss"].number_steps == [500, 1000]
    assert found.series["main/acc"].numbers.tolist() == [i / 16 for i in range(1, 11)]


def test_columns_that_end_together(tmp_path: Path) -> None:
    text = "  step    val_loss   acc\n" + "".join(
        f"{i:6d}  {3 - i / 8 if i % 2 else '':>10}  {i / 8:>4}\n" for i in range(1, 9)
    )
    found = read(table, write(tmp_path / "log.txt", text))
    assert found.series["val_loss"].number_steps == [1, 3, 5, 7]
    assert found.series["acc"].number_steps == list(range(1, 9))


@pytest.mark.parametrize("between", [",", ", ", " ", "\t"])
def test_one_line_of_numbers_is_a_column(between: str, tmp_path: Path) -> None:
    values = [3 - i / 8 for i in range(12)]
    path = write(tmp_path / "losses.csv", between.join(map(str, values)))
    assert sniff(table, path) > 0.3
    found = read(table, path)
    assert found.series["loss"].number_steps == list(range(1, 13))
    assert found.series["loss"].numbers.tolist() == values


def test_one_line_of_few_numbers_or_without_a_telling_name_is_none(tmp_path: Path) -> None:
    assert sniff(table, write(tmp_path / "losses.csv", "0.5,0.25,0.125")) == 0.0
    assert sniff(table, write(tmp_path / "weights.csv", ",".join(["0.5"] * 40))) == 0.0


@pytest.mark.parametrize("name", ["loss.txt", "lossLog.txt", "train_losses.csv", "log.txt", "training_log.txt"])
def test_one_number_a_line_is_a_loss_where_the_file_says_so_or_is_a_log(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, "".join(f"{3 - i / 8:.18e}\n" for i in range(12)))
    found = read(table, path)
    (series,) = found.series
    assert resolve(series).role == "train_loss"
    assert found.series[series].number_steps == list(range(1, 13))
    assert found.warnings[0].kind == "no-header"


def test_few_numbers_a_line_are_read_where_the_file_names_them(tmp_path: Path) -> None:
    text = "nan\n" * 4
    assert np.isnan(read(table, write(tmp_path / "train_loss.txt", text)).series["train_loss"].numbers).all()
    assert sniff(table, write(tmp_path / "log.txt", text)) == 0.0


def test_numbers_of_a_log_that_do_not_fall_may_be_anything(tmp_path: Path) -> None:
    assert sniff(table, write(tmp_path / "log.txt", "".join(f"{i / 8}\n" for i in range(12)))) == 0.0
    assert sniff(table, write(tmp_path / "data.txt", "".join(f"{9 - i / 8}\n" for i in range(12)))) == 0.0


@pytest.mark.parametrize("text", ["[ 2.5 2.25\n 2.125 2.0\n 1.5 1.25 1.125 1.0 nan]\n",
                                  "[\n2.5,\n2.25,\n2.125,\n2.0,\n1.5,\n1.25,\n1.125,\n1.0,\nnan\n]\n"])  # fmt: skip
def test_a_list_over_several_lines_is_a_column(text: str, tmp_path: Path) -> None:
    found = read(table, write(tmp_path / "train_loss.txt", text)).series["train_loss"]
    assert found.number_steps == list(range(1, 10))
    assert found.numbers[:-1].tolist() == [2.5, 2.25, 2.125, 2.0, 1.5, 1.25, 1.125, 1.0]


def test_messages_of_a_logger_are_no_header(tmp_path: Path) -> None:
    path = write(tmp_path / "log.txt", "2024-08-13 02:15:28,490 - INFO - begin\n" * 9)
    assert sniff(table, path) == 0.0
    (skipped,) = discover([path]).skipped
    assert "text" in skipped.reason


def test_a_list_on_one_line_is_a_column(tmp_path: Path) -> None:
    values = [3 - i / 8 for i in range(12)]
    path = write(tmp_path / "loss_log.txt", f"{values}\n")
    assert sniff(table, path) > 0.3
    assert read(table, path).series["loss"].numbers.tolist() == values


def test_a_count_with_its_number_is_no_header(tmp_path: Path) -> None:
    text = "".join(f"Iter {i} (1.5 / 2.5):\nTrain results: \n    Loss : 0.5\n    F1 : 0.5\n\n" for i in range(9))
    assert sniff(table, write(tmp_path / "log.txt", text)) == 0.0


def test_one_column_below_its_name(tmp_path: Path) -> None:
    values = [3 - i / 8 for i in range(12)]
    text = "\n".join(map(str, values))
    path = write(tmp_path / "curve.csv", f"loss\n{text}\n")
    assert sniff(table, path) > 0.3
    found = read(table, path)
    assert (found.axis, found.series["loss"].numbers.tolist()) == (Axis("row", "row"), values)
    assert sniff(table, write(tmp_path / "other.csv", f"price\n{text}\n")) == 0.0


def test_names_of_two_words_over_aligned_columns(tmp_path: Path) -> None:
    text = ""
    for first in (3, 4):
        text += "      Iter       Train Loss   Remaining Time \n"
        text += "".join(f"{i:10d} {first - i / 8:16.4f} {2 - i / 100:15.2f}s\n" for i in range(1, 9))
    found = read(table, write(tmp_path / "fit.out", text))
    assert found.series["Train Loss"].number_steps == [*range(1, 9)] * 2
    assert found.series["Train Loss"].numbers.tolist() == [n - i / 8 for n in (3, 4) for i in range(1, 9)]


def test_a_header_in_a_comment(tmp_path: Path) -> None:
    rows = "".join(f"{i * 100:7d}    {3 - i / 8:.2e}    1.0e-03\n" for i in range(12))
    path = write(tmp_path / "lcurve.out", "# a note\n#  step      rmse_trn         lr\n" + rows)
    assert sniff(table, path) > 0.5
    found = read(table, path)
    assert found.series["rmse_trn"].number_steps == [i * 100 for i in range(12)]
    assert found.series["lr"].numbers.tolist() == [0.001] * 12


@pytest.mark.parametrize("name", ["loss.csv", "train_losses.csv", "val_loss_history.csv"])
def test_numbers_are_what_the_file_is_called(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, numbers(12))
    assert sniff(table, path) > 0.3
    found = read(table, path)
    called = {"loss.csv": "loss", "train_losses.csv": "train_loss", "val_loss_history.csv": "val_loss"}[name]
    assert found.series[called].number_steps == list(range(12))
    assert found.series["column_3"].numbers.tolist() == [0.5] * 12
    assert [(w.kind, f"step, {called}, column_3" in w.message) for w in found.warnings] == [("no-header", True)]


@pytest.mark.parametrize("name", ["critic_loss", "temperature", "time_step"])
def test_an_epoch_a_step_and_the_metric_that_the_file_is_called_after(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"{name}.csv", "".join(f"{i},{i * 250},{7.5 - i / 4}\n" for i in range(1, 13)))
    assert sniff(table, path) > 0.3
    found = read(table, path)
    assert found.axis == Axis("step", "step")
    assert found.series[name].number_steps == [i * 250 for i in range(1, 13)]
    assert found.series["epoch"].numbers.tolist() == list(range(1, 13))


def test_files_of_one_metric_each_are_one_run(tmp_path: Path) -> None:
    for name in ("critic_loss", "alpha", "environment"):
        write(tmp_path / f"{name}.csv", "".join(f"{i},{i * 250},{7.5 - i / 4}\n" for i in range(1, 13)))
    (run,) = discover([tmp_path]).candidates
    assert [source.format for source in run.sources] == ["table"] * 3


def test_tensors_without_a_header(tmp_path: Path) -> None:
    rows = "".join(f'"tensor({i}.5, grad_fn=<A>)","tensor(0.25, grad_fn=<B>)"\n' for i in range(12))
    found = read(table, write(tmp_path / "losses.csv", rows))
    assert found.axis == Axis("row", "row")
    assert found.series["loss"].numbers.tolist() == [i + 0.5 for i in range(12)]


def test_numbers_that_nothing_names_are_left_with_a_reason_and_read_once_they_are_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "results.csv", numbers(12))
    assert sniff(table, path) == 0
    skipped = discover([path]).skipped
    assert "step, column_2, column_3" in skipped[0].reason and "--map" in skipped[0].reason
    mapped = {"column_2": "train_loss"}
    assert discover([path], mapped).candidates[0].sources[0].format == "table"
    found = read(table, path, options=mapped)
    assert found.series["column_2"].number_steps == list(range(12))


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{i % 7},{i * 37 % 11},{i * 13 % 5},{i % 3}\n" for i in range(50)),  # data
        "3.5\n",
        "1 2 3\n4 5\n6 7 8 9\n" * 10,
        "step 1 of 3: unpack\nstep 2 of 3: build\nstep 3 of 3: done\n",
    ],
)
def test_what_is_no_table_of_metrics(text: str, tmp_path: Path) -> None:
    assert table.sniff(read_head(write(tmp_path / "values.txt", text))) == 0


def test_progress_in_columns_is_text(tmp_path: Path) -> None:
    bar = "\r      1/3      2.1G      1.5      640: {}%|██        | {}/8 [00:10<00:10,  5.00it/s]"
    text = "\n      Epoch    GPU_mem   box_loss       Size\n" + bar.format(50, 4) + bar.format(100, 8) + "\n"
    assert sniff(table, write(tmp_path / "train.log", text)) == 0


def test_line_ends_of_three_characters(tmp_path: Path) -> None:
    path = tmp_path / "training.csv"
    path.write_bytes(b"epoch,loss\r\r\n" + b"".join(b"%d,0.5\r\r\n" % i for i in range(10)))
    found = read(table, path)
    assert found.series["loss"].number_steps == list(range(10))
    assert not found.warnings


COMMENT = "# Where no reference is available, rmse_*_{val,trn} is nan\n"


@pytest.mark.parametrize("comments", [(0, 1), (1, 0)])
def test_a_remark_beside_the_header_is_no_header(comments: tuple[int, int], tmp_path: Path) -> None:
    lines = ("#  step      rmse_val    rmse_trn         lr\n", COMMENT)
    rows = "".join(f"{i * 100:7d}      nan    {3 - i / 8:.2e}    1.0e-03\n" for i in range(10))
    path = write(tmp_path / "lcurve.out", "".join(lines[i] for i in comments) + rows)
    assert sniff(table, path) > 0.8
    found = read(table, path)
    assert found.axis == Axis("step", "step")
    assert found.series["rmse_trn"].number_steps == [i * 100 for i in range(10)]
    assert found.series["rmse_val"].number_steps[-1] == 900


def test_columns_of_held_out_data_that_the_header_promises_alone(tmp_path: Path) -> None:
    text = "#  step      rmse_val    rmse_trn    rmse_f_val  rmse_f_trn         lr\n" + COMMENT
    text += "".join(f"{i * 100:7d}      {3 - i / 8:.2e}      {i / 8:.2e}    1.0e-03\n" for i in range(10))
    found = read(table, write(tmp_path / "lcurve.out", text))
    assert set(found.series) == {"rmse_trn", "rmse_f_trn", "lr"}
    assert found.series["rmse_trn"].numbers.tolist() == pytest.approx([3 - i / 8 for i in range(10)], rel=0.01)
    assert found.series["lr"].numbers.tolist() == [1e-3] * 10


def test_a_column_under_the_name_of_a_metric(tmp_path: Path) -> None:
    name = "mean class accuracy (train set)"
    path = write(tmp_path / "train.log", f"% {name}\t\n" + "".join(f" {10 * i / 16:.4e}\t\n" for i in range(12)))
    assert sniff(table, path) > 0.3
    found = read(table, path)
    assert found.series[name].numbers.tolist() == [10 * i / 16 for i in range(12)]
    assert not found.warnings


def test_a_column_of_numbers_under_other_words_is_none(tmp_path: Path) -> None:
    assert sniff(table, write(tmp_path / "a.txt", "room temperature\n" + "20.5\n" * 12)) == 0.0


def test_the_index_of_pandas_is_the_step(tmp_path: Path) -> None:
    rows = "".join(f"{i},{0.5 - i / 64},{i / 4 - 3}\n" for i in range(12))
    path = write(tmp_path / "loss.csv", f",G,D\n{rows}")
    assert sniff(table, path) > 0.5
    found = read(table, path)
    assert found.axis == Axis("step", "step")
    assert found.series["G"].number_steps == list(range(12))
    assert sniff(table, write(tmp_path / "houses.csv", f",rooms,price\n{rows}")) == 0.0


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_a_column_without_a_name_is_called_as_the_file_is(index: str, tmp_path: Path) -> None:
    path = write(tmp_path / "train_loss.csv", f"{index},0\n" + "".join(f"{i},{0.5 - i / 64}\n" for i in range(12)))
    assert read(table, path).series["train_loss"].number_steps == list(range(12))
    assert sniff(table, write(tmp_path / "weights.csv", path.read_text("utf-8"))) == 0.0


def test_beside_an_epoch_the_index_says_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", ",epoch,loss\n" + "".join(f"{i},{i + 5},{0.5 - i / 64}\n" for i in range(12)))
    found = read(table, path)
    assert found.series["loss"].number_steps == list(range(5, 17))


def test_a_count_and_a_loss_joined_by_an_underscore(tmp_path: Path) -> None:
    path = write(tmp_path / "train_loss.txt", "".join(f"{i}_{2 / i}\n" for i in range(1, 13)))
    found = read(table, path)
    assert found.series["train_loss"].number_steps == list(range(1, 13))
    assert found.series["train_loss"].numbers.tolist() == [2 / i for i in range(1, 13)]


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("run-train-tag-epoch_loss.csv", "train/epoch_loss"),
        ("run-2020-01-02_validation-tag-epoch_loss.csv", "validation/epoch_loss"),
        ("run-.-tag-Loss_total (1).csv", "Loss_total"),
        ("tag-loss.csv", "loss"),
        ("val_loss.csv", "val_loss"),
        ("a.csv", "Value"),
    ],
)
def test_a_series_downloaded_from_tensorboard_is_called_as_the_file_says(
    name: str, series: str, tmp_path: Path
) -> None:
    text = "Wall time,Step,Value\n" + "".join(f"{1.6e9 + i},{10 * i},{2.5 - i / 8}\n" for i in range(9))
    found = read(table, write(tmp_path / name, text))
    assert set(found.series) == {series}
    assert found.series[series].number_steps == [10 * i for i in range(9)]
    assert found.series[series].wall is not None


def test_a_cell_of_any_length_is_no_error(tmp_path: Path) -> None:
    (skipped,) = discover([write(tmp_path / "notes.txt", "name " + "x" * 300_000 + "\nnote, y\n")]).skipped
    assert "text" in skipped.reason
