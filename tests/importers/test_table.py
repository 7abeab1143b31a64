from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import read, sniff

from trainforensics.importers import manifest, table
from trainforensics.importers.base import EMPTY, NULL, STRING, VALUE
from trainforensics.importers.jsonlogs import jsonlines
from trainforensics.model import Axis


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def rows(n: int) -> str:
    return "".join(f"{i},{3 - i / 8},0.5\n" for i in range(1, n + 1))


def test_plain_csv(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.csv", "step,loss,lr\n" + rows(40))
    found = read(table, path)
    assert sniff(table, path) > 0.8 and sniff(manifest, path) == sniff(jsonlines, path) == 0.0
    assert found.series["loss"].step.tolist() == list(range(1, 41))
    assert found.series["loss"].value[7] == 2.0
    assert found.warnings == []


@pytest.mark.parametrize("delimiter", ["\t", ";", "|"])
def test_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = write(tmp_path / "x.txt", ("step,loss,lr\n" + rows(40)).replace(",", delimiter))
    assert sniff(table, path) > 0.8
    assert read(table, path).series["loss"].value.tolist() == [3 - i / 8 for i in range(1, 41)]


def test_cells_set_apart_by_blanks(tmp_path: Path) -> None:
    text = "  step    loss     lr\n" + "".join(f"{i:6d}  {3 - i / 8:.4f}  1e-3\r\n" for i in range(1, 30))
    path = write(tmp_path / "log.txt", text)
    assert sniff(table, path) > 0.8
    assert read(table, path).series["loss"].step.tolist() == list(range(1, 30))
    prose = write(tmp_path / "notes.txt", "each step lowers the loss\nas it should\n")
    assert sniff(table, prose) == 0.0


def test_utf_16_as_windows_redirection_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(("step,loss\r\n" + "".join(f"{i},2.5\r\n" for i in range(50))).encode("utf-16"))
    assert sniff(table, path) > 0.8
    assert read(table, path).series["loss"].step.tolist() == list(range(50))


def test_numbers_as_programs_print_them(tmp_path: Path) -> None:
    text = 'step,tps,memory,mfu,overflow,loss\n1,"1,360",47.31GiB,38.2%,True,"tensor(2.5, device=\'cuda:0\')"\n'
    found = read(table, write(tmp_path / "x.csv", text + '2,"12,001.5",160.60 GiB,40%,False,tensor(nan)\n')).series
    assert found["tps"].value.tolist() == [1360.0, 12001.5]
    assert found["memory"].value.tolist() == [47.31, 160.6]
    assert found["overflow"].value.tolist() == [1.0, 0.0]
    assert found["loss"].value[0] == 2.5 and np.isnan(found["loss"].value[1])


def test_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step;loss\n1;2,5\n2;1,25\n")
    assert read(table, path).series["loss"].value.tolist() == [2.5, 1.25]


@pytest.mark.parametrize(
    "text",
    [
        "step;loss;tokens\n900;2,5;512\n1.000;1,25;1.024\n1.100;1.234,125;2.048\n",
        'step;loss;tokens\n"900";"2,5";"512"\n"1.000";"1,25";"1.024"\n"1.100";"1.234,125";"2.048"\n',
        'step,loss,tokens\n900,"2,5",512\n1000,"1,25",1024\n1100,"1 234,125","2048"\n',
        "step\tloss\ttokens\n900\t2,5\t512\n1000\t1,25\t1024\n1100\t1.234,125\t2048\n",
    ],
)
def test_decimal_commas_with_quotes_and_thousands(text: str, tmp_path: Path) -> None:
    found = read(table, write(tmp_path / "x.csv", text)).series
    assert sniff(table, tmp_path / "x.csv") > 0.5
    assert found["loss"].value.tolist() == [2.5, 1.25, 1234.125]
    assert found["loss"].step.tolist() == [900, 1000, 1100]
    assert found["tokens"].value.tolist() == [512, 1024, 2048]


@pytest.mark.parametrize(
    "text",
    [
        'step,loss,tokens\n1,2.5,"1,360"\n2,1.125,"2,720"\n',
        "step;loss;tokens\n1;2.5;1,360\n2;1.125;2,720\n",
    ],
)
def test_commas_of_thousands_beside_decimal_points(text: str, tmp_path: Path) -> None:
    found = read(table, write(tmp_path / "x.csv", text)).series
    assert found["loss"].value.tolist() == [2.5, 1.125]
    assert found["tokens"].value.tolist() == [1360, 2720]


def test_lightning_sparse_rows(tmp_path: Path) -> None:
    text = "epoch,step,train_loss,val_loss\n"
    for epoch in range(30):
        text += "".join(f"{epoch},{epoch * 100 + i},{3 - i / 200},\n" for i in range(9, 100, 10))
        text += f"{epoch},{epoch * 100 + 99},,2.5\n"
    found = read(table, write(tmp_path / "metrics.csv", text))
    assert len(found.series["train_loss"].numbers) == 300
    assert found.series["val_loss"].number_steps == [e * 100 + 99 for e in range(30)]
    assert len(found.series["val_loss"].step) == 30  # a rarely logged column: its empty cells say nothing
    assert np.count_nonzero(found.series["train_loss"].state == EMPTY) == 30


def test_empty_cells_nan_and_words(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss\n1,1.5\n2,NaN\n3,\n4,inf\n5,oops\n6,2.0\n")
    found = read(table, path)
    assert found.series["loss"].state.tolist() == [VALUE, VALUE, EMPTY, VALUE, VALUE]
    assert found.series["loss"].number_steps == [1, 2, 4, 6]
    assert [(w.kind, w.where) for w in found.warnings] == [("wrong-type", "line 6")]


def test_quoted_cells_and_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["step", "loss", "note"])
        writer.writerows([i, 1.5, 'a "b",\nc' if i == 5 else ""] for i in range(1, 11))
    assert read(table, path).series["loss"].step.tolist() == list(range(1, 11))


def test_ragged_rows_keep_what_they_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss\n1,3.0\n2,2.5,0.9\n3,2.0,0.8\n4\n5,1.0\n")
    found = read(table, path)
    assert found.series["loss"].step.tolist() == [1, 2, 3, 5]
    assert found.series["column_3"].value.tolist() == [0.9, 0.8]
    assert [(w.kind, w.where) for w in found.warnings] == [("ragged-row", "line 3")]


def test_a_header_in_the_middle_begins_a_new_life(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss\n1,3.0\n2,2.5\nstep,loss,lr\n2,2.6,0.1\n3,2.4,0.1\n")
    found = read(table, path)
    assert found.series["loss"].step.tolist() == [1, 2, 2, 3]
    assert found.series["loss"].segment.tolist() == [0, 0, 1, 1]
    assert found.series["lr"].value.tolist() == [0.1, 0.1]


WIDE = "step,loss,val_loss"


def _saved(*saves: tuple[str, range]) -> str:
    """What a logger appends at each save: a header and all rows that it holds, validated at every fifth step."""
    lines = []
    for header, steps in saves:
        held_out = [f",{4 / s}" if not s % 5 else "," for s in steps]
        rows = [f"{s},{3 / s}{held if header == WIDE else ''}" for s, held in zip(steps, held_out, strict=True)]
        lines += [header, *rows]
    return "\n".join(lines) + "\n"


def test_rows_written_again_below_other_headers_count_once(tmp_path: Path) -> None:
    again = [("step,loss" if last < 10 else WIDE, range(6, last + 1)) for last in range(6, 13)]
    found = read(table, write(tmp_path / "x.csv", _saved((WIDE, range(1, 6)), *again)))
    assert found.series["loss"].number_steps == list(range(1, 13))
    assert found.series["loss"].value.tolist() == [3 / s for s in range(1, 13)]
    assert found.series["val_loss"].number_steps == [5, 10]
    assert {int(life) for life in found.series["loss"].segment} == {0, 1}
    (warning,) = found.warnings
    assert (warning.kind, warning.where) == ("written-again", "line 7")
    assert "21 rows of steps 6 to 11" in warning.message
    assert "7 times, 2 of them with other columns" in warning.message


def test_a_replay_is_not_written_again_though_some_of_its_numbers_are_equal(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss\n1,3.0\n2,2.5\n3,2.4\nstep,loss\n2,2.6\n3,2.4\n4,2.3\n")
    found = read(table, path)
    assert found.series["loss"].step.tolist() == [1, 2, 3, 2, 3, 4]
    assert found.series["loss"].segment.tolist() == [0, 0, 0, 1, 1, 1]
    assert not found.warnings


def test_columns_renamed_in_the_middle_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "step,loss\n1,3.0\n2,2.5\nstep,accuracy\n3,0.5\n4,0.75\n")
    found = read(table, path)
    assert found.series["loss"].number_steps == [1, 2]
    assert found.series["accuracy"].number_steps == [3, 4]
    assert [(w.kind, w.where) for w in found.warnings] == [("written-again", "line 4")]
    assert "behind step 2" in found.warnings[0].message


def test_chart_export_of_several_runs(tmp_path: Path) -> None:
    header = ["Step"]
    for run in ("gpt - a", "gpt - b"):
        header += [f"{run} - train/loss", f"{run} - train/loss__MIN", f"{run} - train/loss__MAX"]
    path = tmp_path / "wandb_export.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(header)
        for i in range(20):
            writer.writerow([i, *[2.0] * 3, *(["", "", ""] if i > 9 else [3.0] * 3)])
    found = read(table, path)
    assert sniff(table, path) > 0.8
    assert set(found.by_origin) == {("gpt - a", "train/loss", None), ("gpt - b", "train/loss", None)}
    assert found.by_origin["gpt - b", "train/loss", None].number_steps == list(range(10))


def test_chart_export_of_a_group_keeps_its_band(tmp_path: Path) -> None:
    text = '"Step","g - loss","g - loss__MIN","g - loss__MAX"\n' + "".join(f"{i},2.0,1.5,2.5\n" for i in range(9))
    found = read(table, write(tmp_path / "x.csv", text))
    assert {name for _, name, _ in found.by_origin} == {"loss", "loss__MIN", "loss__MAX"}


def test_the_table_of_runs_is_refused_with_its_reason(tmp_path: Path) -> None:
    text = '"Name","State","Notes","User","Tags","Created","Runtime","Sweep","loss"\n'
    path = write(tmp_path / "runs.csv", text + '"a","finished","","me","","x","9","","2.1"\n')
    found = read(table, path)
    assert sniff(table, path) > 0.5
    assert found.series == {} and [w.kind for w in found.warnings] == ["runs-table"]


def test_the_user_may_name_the_step_column(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "position,step,loss\n10,1,2.5\n20,2,2.4\n")
    assert read(table, path, options={"position": "step"}).series["loss"].step.tolist() == [10, 20]


def test_history_exports(tmp_path: Path) -> None:
    path = write(
        tmp_path / "history.csv", ",_step,_timestamp,train/loss\n0,10,1745322543.5,2.5\n1,20,1745322553.5,2.4\n"
    )
    loss = read(table, path).series["train/loss"]
    assert loss.step.tolist() == [10, 20]
    assert loss.wall is not None and loss.wall[1] - loss.wall[0] == 10_000_000
    assert set(read(table, path).series) == {"train/loss"}


def test_a_sampled_history_is_said_to_be_sampled(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for count, sampled in ((500, True), (499, False)):
        picked = np.sort(rng.choice(20_000, count, replace=False))
        text = "_step,_timestamp,train/loss\n" + "".join(f"{s},{1745322543 + s},2.5\n" for s in picked)
        found = read(table, write(tmp_path / "history.csv", text))
        assert ("sampled" in [w.kind for w in found.warnings]) == sampled
    even = "_step,_timestamp,loss\n" + "".join(f"{10 * i},{1745322543 + i},2.5\n" for i in range(500))
    assert read(table, write(tmp_path / "history.csv", even)).warnings == []


def test_long_form(tmp_path: Path) -> None:
    text = "step,metric,value\n" + "".join(f"{i},loss,2.5\n{i},lr,0.1\n" for i in range(8))
    path = write(tmp_path / "x.csv", text)
    found = read(table, path)
    assert sniff(table, path) > 0.8
    assert found.series["loss"].step.tolist() == list(range(8)) and set(found.series) == {"loss", "lr"}


def test_keras_and_progress_csv(tmp_path: Path) -> None:
    keras = write(
        tmp_path / "log.csv", "epoch,accuracy,loss,val_accuracy,val_loss\n0,0.7,0.74,0.1,2.4\n1,0.8,0.6,0.2,2.2\n"
    )
    found = read(table, keras)
    assert found.axis is not None and found.axis.unit == "epoch"
    assert found.series["val_loss"].step.tolist() == [0, 1]
    text = "time/iterations,rollout/ep_rew_mean,time/total_timesteps\n1,10.0,2048\n2,12.0,4096\n"
    progress = write(tmp_path / "progress.csv", text)
    assert read(table, progress).series["rollout/ep_rew_mean"].value.tolist() == [10.0, 12.0]


@pytest.mark.parametrize(
    ("updates", "seen", "by_updates"),
    [
        ("misc/nupdates", "misc/total_timesteps", True),
        ("iteration", "total_timesteps", True),
        ("time/iterations", "time/total_timesteps", False),  # of a logger that counts by them
        ("training_iteration", "timesteps_total", False),
        ("n_updates", "total_timesteps", False),  # of the optimiser, several a row
    ],
)
def test_updates_count_before_the_steps_of_the_environment(
    updates: str, seen: str, by_updates: bool, tmp_path: Path
) -> None:
    rows = [f"{10 * i},{i / 8},{2048 * i}" for i in range(1, 6)]
    for order in (1, -1):
        columns = [",".join(row.split(",")[::order]) for row in (f"{updates},ep_rew_mean,{seen}", *rows)]
        found = read(table, write(tmp_path / "progress.csv", "\n".join(columns) + "\n"))
        assert found.axis is not None and found.axis.name == (updates if by_updates else seen)


def test_parquet_with_strings_and_nulls(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "_step": [1, 2, 3, 4],
            "loss": ["2.5", "NaN", None, ""],
            "lr": [0.1, None, float("nan"), 0.2],
            "n": [{"a": 1}] * 4,
        }
    )
    path = tmp_path / "export.parquet"
    frame.write_parquet(path)
    found = read(table, path)
    assert sniff(table, path) > 0.8
    assert found.series["loss"].state.tolist() == [VALUE, STRING, NULL, EMPTY]
    assert found.series["lr"].state.tolist() == [VALUE, NULL, VALUE, VALUE]
    assert found.series["n/a"].value.tolist() == [1.0] * 4


def test_a_damaged_parquet_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "export.parquet"
    pl.DataFrame({"step": range(1000), "loss": [1.5] * 1000}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    found = read(table, path)
    assert [w.kind for w in found.warnings] == ["damaged-file"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n",
        "name,age\nx,1\ny,2\n",
        "one line of prose, with a comma\n",
        "1,2,3\n4,5,6\n",
        '{"step": 1, "loss": 2}\n',
    ],
)
def test_other_files_are_not_claimed(tmp_path: Path, text: str) -> None:
    assert sniff(table, write(tmp_path / "x.csv", text)) == 0.0


value = st.one_of(st.floats(allow_nan=False), st.integers(-(10**6), 10**6), st.none())


@settings(max_examples=60, deadline=None)
@given(data=st.lists(st.tuples(value, value), min_size=1, max_size=40))
def test_round_trip_against_the_standard_writer(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[Any, Any]]
) -> None:
    path = tmp_path_factory.mktemp("t") / "x.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["step", "loss", "lr"])
        writer.writerows([i, *pair] for i, pair in enumerate(data))
    found = read(table, path)
    for at, name in enumerate(("loss", "lr")):
        expected = [float(pair[at]) for pair in data if pair[at] is not None]
        got = found.series[name].numbers.tolist() if name in found.series else []
        assert got == expected


def test_carriage_returns_alone_end_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,loss\r" + b"\r".join(b"%d,%d.5" % (i, i) for i in range(200)))
    found = read(table, path)
    assert found.series["loss"].number_steps == list(range(200))
    assert found.warnings == []


def test_lines_that_repeat_their_words_are_no_table(tmp_path: Path) -> None:
    path = write(tmp_path / "train.log", "".join(f"step {i}: loss {4 - i / 100:.2f} lr 1e-4\n" for i in range(60)))
    assert sniff(table, path) == 0.0


def rows_of(n: int) -> list[str]:
    return [f"{i},{i / 8},0.5" for i in range(1, n + 1)]


@pytest.mark.parametrize("odd", ['{},"2.5,0.5', '"{},2.5,0.5', '{},2.5,"0.5'])
@pytest.mark.parametrize("at", [1, 50, 198])
def test_a_stray_quote_costs_its_row_alone(tmp_path: Path, odd: str, at: int) -> None:
    lines = rows_of(200)
    lines[at - 1] = odd.format(at)
    found = read(table, write(tmp_path / "x.csv", "\n".join(["step,loss,lr", *lines, ""])))
    assert found.series["loss"].number_steps == [i for i in range(1, 201) if i != at]
    np.testing.assert_array_equal(found.series["loss"].value, found.series["loss"].step / 8)
    assert [(w.kind, w.where) for w in found.warnings] == [("bad-line", f"line {at + 1}")]


def test_stray_quotes_and_sound_ones_in_one_table(tmp_path: Path) -> None:
    lines = [f"{line}," for line in rows_of(200)]
    lines[9] += '"a ""b"",\n7 c\n"'
    lines[19] += '5" wide'
    lines[29], lines[30] = '30,"2.5,0.5,', '31,"2.5,0.5,'
    lines[39] += '"d\n"'
    found = read(table, write(tmp_path / "x.csv", "\n".join(["step,loss,lr,note", *lines])))
    assert found.series["loss"].number_steps == [i for i in range(1, 201) if i not in (30, 31)]
    assert [(w.kind, w.message[:6]) for w in found.warnings] == [("bad-line", "2 rows")]


def test_zero_bytes_are_a_damaged_place(tmp_path: Path) -> None:
    lines = rows_of(200)
    lines[99] += "\x00" * 4096
    found = read(table, write(tmp_path / "x.csv", "\n".join(["step,loss,lr", *lines, ""])))
    assert found.series["loss"].number_steps == list(range(1, 201))
    assert [w.kind for w in found.warnings] == ["corrupt"]
    assert "4096 bytes" in found.warnings[0].message


@pytest.mark.parametrize("columns", [8_000, 40_000])
def test_a_header_of_thousands_of_columns(tmp_path: Path, columns: int) -> None:
    names = ["step", "loss", *(f"layer{i}/grad_norm" for i in range(columns))]
    rows = [",".join([str(i), "2.5", *["0.5"] * columns]) for i in range(1, 5)]
    path = write(tmp_path / "x.csv", "\n".join([",".join(names), *rows]))
    assert sniff(table, path) > 0.5
    found = read(table, path)
    assert found.series["loss"].number_steps == [1, 2, 3, 4]
    assert len(found.series) == columns + 1


def test_rows_of_another_table_are_left_out(tmp_path: Path) -> None:
    text = "vf_loss,Entropy,Timesteps,TrueAverageReturn\r\n"
    counts = (327, 34317, 45526, 43427, 36454, 31014, 28974, 30181)
    for i, count in enumerate(counts):
        text += f"{i / 8},4.25,{count},{i}.5\r\n" + ("MinGate,MaxGate\r\n" if not i else "") + "[0.2 0.7],[0.1 0.6]\r\n"
    path = tmp_path / "progress.csv"
    path.write_bytes(text.encode())
    assert sniff(table, path) > 0.3
    found = read(table, path)
    assert found.series["TrueAverageReturn"].numbers.tolist() == [i + 0.5 for i in range(8)]
    assert found.axis is not None
    assert found.axis.name == "row"  # the timesteps of each batch are no count
    assert "foreign-row" in {warning.kind for warning in found.warnings}


def test_a_header_without_a_name_for_a_column_that_is_always_empty(tmp_path: Path) -> None:
    lines = "".join(f"{i}\t{1 / i}\t\t_\t{2 / i}\n" for i in range(1, 9))
    found = read(table, write(tmp_path / "loss.tsv", "EPOCH\tTRAIN_LOSS\tTRAIN_ACC\tDEV_LOSS\n" + lines))
    assert found.series["DEV_LOSS"].value.tolist() == [2 / i for i in range(1, 9)]
    assert found.series["TRAIN_LOSS"].value.tolist() == [1 / i for i in range(1, 9)]


def test_a_table_of_losses_alone_is_read(tmp_path: Path) -> None:
    text = "d_adv_loss, f_slf_loss, f_cyc_loss\n" + "".join(f"0.5, {2 - i / 16}, {5 - i / 8}\n" for i in range(10))
    path = write(tmp_path / "loss.csv", text)
    assert sniff(table, path) > 0.3
    found = read(table, path)
    assert found.series["f_cyc_loss"].numbers.tolist() == [5 - i / 8 for i in range(10)]
    assert found.axis == Axis("row", "row")
