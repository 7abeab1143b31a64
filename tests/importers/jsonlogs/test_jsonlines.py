from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import read, sniff

from trainforensics.importers.base import EMPTY, NULL, STRING, VALUE
from trainforensics.importers.jsonlogs import jsonlines
from trainforensics.roles import resolve


def write(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def steps(n: int, **more: Any) -> list[dict[str, Any]]:
    return [{"step": i, "loss": 3.0 - i / 100, **more} for i in range(1, n + 1)]


def test_plain_rows_become_series_on_the_declared_step(log: Path) -> None:
    write(log, *steps(50, lr=1e-3))
    found = read(jsonlines, log)
    assert sniff(jsonlines, log) > 0.8
    assert found.axis is not None and (found.axis.name, found.axis.unit) == ("step", "step")
    assert set(found.series) == {"loss", "lr"}
    assert found.series["loss"].number_steps == list(range(1, 51))
    np.testing.assert_array_equal(found.series["loss"].value, [3.0 - i / 100 for i in range(1, 51)])
    assert found.warnings == []


def test_five_kinds_of_absence_stay_five(log: Path) -> None:
    write(
        log,
        '{"step": 1, "loss": 1.5}',
        '{"step": 2, "loss": NaN}',
        '{"step": 3, "loss": "NaN"}',
        '{"step": 4, "loss": null}',
        '{"step": 5, "loss": ""}',
        '{"step": 6}',
        '{"step": 7, "loss": -Infinity}',
    )
    loss = read(jsonlines, log).series["loss"]
    assert loss.step.tolist() == [1, 2, 3, 4, 5, 7]
    assert loss.state.tolist() == [VALUE, VALUE, STRING, NULL, EMPTY, VALUE]
    assert [math.isnan(v) for v in loss.value] == [False, True, True, True, True, False]
    assert loss.value[-1] == -math.inf


@pytest.mark.parametrize("literal", ["NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "Inf", "null"])
def test_literals_survive_in_any_spelling_and_place(log: Path, literal: str) -> None:
    rows = [f'{{"step": {i}, "loss": {literal if i % 7 == 3 else i / 8}, "lr":{literal}}}' for i in range(1, 200)]
    write(log, *rows)
    found = read(jsonlines, log).series
    expected = math.nan if literal == "null" else float(literal)
    at = [i for i in range(1, 200) if i % 7 == 3]
    odd = found["loss"].value[np.isin(found["loss"].step, at)]
    np.testing.assert_array_equal(odd, np.full(len(at), expected))
    usual = ~np.isin(found["loss"].step, at)
    np.testing.assert_array_equal(found["loss"].value[usual], found["loss"].step[usual] / 8)
    assert len(found["loss"].number_steps) == (199 - len(at) if literal == "null" else 199)


def test_numbers_as_strings_bom_crlf_and_a_torn_last_line(log: Path) -> None:
    lines = [f'{{"step": {i}, "loss": "{i / 4}"}}' for i in range(1, 20)]
    lines[3] = '{"step": "4", "loss": "2.09715e+06"}'
    log.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b'\r\n{"step": 20, "loss": "1.4')
    found = read(jsonlines, log)
    assert found.series["loss"].number_steps == list(range(1, 20))
    assert found.series["loss"].value[3] == 2097150.0
    assert [(w.kind, w.where) for w in found.warnings] == [("torn-line", "line 20")]


def test_a_bad_line_costs_itself_alone(log: Path) -> None:
    rows = [json.dumps(row) for row in steps(500)]
    rows[250] = rows[250][:9] + "\x01\x01" + rows[250][12:]
    rows[300] = ""
    write(log, *rows)
    found = read(jsonlines, log)
    assert found.series["loss"].number_steps == [i for i in range(1, 501) if i not in (251, 301)]
    assert [(w.kind, w.where) for w in found.warnings] == [("bad-line", "line 251")]


def test_text_in_a_numeric_column_is_counted_with_its_line(log: Path) -> None:
    rows = steps(20)
    rows[4]["loss"] = rows[9]["loss"] = "diverged"
    write(log, *rows)
    found = read(jsonlines, log)
    assert len(found.series["loss"].step) == 18
    assert [(w.kind, w.where) for w in found.warnings] == [("wrong-type", "line 5")]
    assert "2 cells of 'loss'" in found.warnings[0].message


def test_nested_objects_and_lists(log: Path) -> None:
    rows = [
        {"step": i, "train": {"loss": 2.0, "moe": {"load": [0.25, 0.75]}}, "lr": [1e-3], "tags": ["a"]}
        for i in range(5)
    ]
    found = read(jsonlines, write(log, *rows)).series
    assert set(found) == {"train/loss", "train/moe/load/0", "train/moe/load/1", "lr"}
    assert found["train/moe/load/1"].value.tolist() == [0.75] * 5


def test_glued_objects_on_one_line(log: Path) -> None:
    write(log, '{"step": 1, "loss": 3.0}{"step": 2, "loss": 2.0}', '{"step": 3, "loss": 1.0}')
    assert read(jsonlines, log).series["loss"].number_steps == [1, 2, 3]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed(tmp_path: Path, suffix: str) -> None:
    data = "".join(json.dumps(row) + "\n" for row in steps(300)).encode()
    packed = gzip.compress(data) if suffix == ".gz" else zstandard.ZstdCompressor().compress(data)
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(packed)
    assert sniff(jsonlines, path) > 0.8
    assert read(jsonlines, path).series["loss"].number_steps == list(range(1, 301))
    path.write_bytes(packed[: len(packed) // 2])
    cut = read(jsonlines, path)
    assert [w.kind for w in cut.warnings if w.kind == "damaged-archive"]


def test_configuration_lines_are_configuration_and_begin_a_new_life(log: Path) -> None:
    config = {"event": "config", "model": {"layers": 2}, "learning_rate": 0.1}
    write(log, config, *steps(3), config, *steps(3))
    found = read(jsonlines, log)
    assert found.config == {"model.layers": 2, "learning_rate": 0.1}
    assert found.series["loss"].segment.tolist() == [0, 0, 0, 1, 1, 1]
    assert "learning_rate" not in found.series


def test_mmdetection_iterations_restart_with_every_epoch(log: Path) -> None:
    rows: list[dict[str, Any]] = [{"env_info": "linux", "config": "model = dict()", "seed": 0}]
    for epoch in (1, 2, 3):
        rows += [
            {"mode": "train", "epoch": epoch, "iter": i, "lr": 0.02, "loss_cls": 0.2, "loss": 1.0, "time": 0.29}
            for i in range(50, 301, 50)
        ]
        rows.append(
            {"mode": "val", "epoch": epoch, "iter": 625, "lr": 0.02, "loss": 1.2, "bbox_mAP": 0.3 + epoch / 100}
        )
    found = read(jsonlines, write(log, *rows))
    assert found.series["loss"].step.tolist() == list(range(50, 901, 50))
    assert found.series["val/bbox_mAP"].step.tolist() == [300, 600, 900]
    assert found.series["val/loss"].step.tolist() == [300, 600, 900]
    assert found.series["time"].wall is None  # 0.29 s is a duration
    assert found.config["seed"] == 0


def test_records_of_a_type_with_the_split_in_its_name(log: Path) -> None:
    rows: list[dict[str, Any]] = []
    for epoch in (1, 2, 3):
        rows += [{"_type": "train_iter", "step": 4 * epoch - 3 + i, "loss": 2.0, "top1_err": 80.0} for i in range(4)]
        rows.append({"_type": "val_epoch", "step": 4 * epoch, "top1_err": 90.0})
    found = read(jsonlines, write(log, *rows))
    assert found.series["top1_err"].value.tolist() == 12 * [80.0]
    assert found.series["val/top1_err"].value.tolist() == 3 * [90.0]


def test_mmengine_validation_rows_count_epochs_in_step(log: Path) -> None:
    rows: list[dict[str, Any]] = []
    for epoch in (1, 2):
        rows += [
            {"lr": 0.01, "loss": 1.0, "epoch": epoch, "iter": i + (epoch - 1) * 200, "step": i + (epoch - 1) * 200}
            for i in range(50, 201, 50)
        ]
        rows.append({"coco/bbox_mAP": 0.2, "step": epoch})
    found = read(jsonlines, write(log, *rows))
    assert found.series["loss"].step.tolist() == [50, 100, 150, 200, 250, 300, 350, 400]
    assert found.series["coco/bbox_mAP"].step.tolist() == [200, 400]


def fairseq(log: Path) -> Path:
    lines = []
    for i in range(1, 7):
        stats = {"epoch": 1, "update": i / 100, "loss": f"{4 - i / 10}", "num_updates": str(50 * i), "gnorm": "1.5"}
        lines.append(f"2025-10-30 05:3{i}:43 | INFO | train_inner | {json.dumps(stats)}")
        if i == 4:
            valid = {"epoch": 1, "valid_loss": "3.9", "valid_num_updates": "200"}
            lines.append(f"2025-10-30 05:34:50 | INFO | valid | {json.dumps(valid)}")
            lines.append("2025-10-30 05:34:55 | INFO | fairseq.checkpoint_utils | Saved checkpoint checkpoint1.pt")
            lines.append(
                "2025-10-30 05:34:57 | INFO | fairseq.trainer | NOTE: gradient overflow, setting loss scale to: 64.0"
            )
    return write(log, *lines)


def test_fairseq_prefixes_records_and_messages(log: Path) -> None:
    found = read(jsonlines, fairseq(log))
    assert sniff(jsonlines, log) >= 0.5
    assert found.axis is not None and found.axis.name == "num_updates"
    assert found.series["loss"].step.tolist() == [50, 100, 150, 200, 250, 300]
    assert found.series["valid_loss"].step.tolist() == [200]
    wall = found.series["loss"].wall
    assert wall is not None and (wall[1] - wall[0]) == 60_000_000
    assert [(e.kind, e.step, e.line) for e in found.events] == [("checkpoint", 200, 6), ("overflow", 200, 7)]


def test_ms_swift_and_llama_factory_steps(log: Path, tmp_path: Path) -> None:
    swift = [{"loss": 1.0, "global_step/max_steps": f"{5 * i}/1500", "percentage": "1%"} for i in range(1, 9)]
    assert read(jsonlines, write(log, *swift)).series["loss"].step.tolist() == [5 * i for i in range(1, 9)]
    factory = [
        {"current_steps": 10 * i, "total_steps": 900, "loss": 1.0, "lr": 1e-4, "percentage": i} for i in range(1, 9)
    ]
    factory.append({"current_steps": 80, "total_steps": 900, "eval_loss": 1.3, "percentage": 8})
    found = read(jsonlines, write(tmp_path / "trainer_log.jsonl", *factory))
    assert found.series["loss"].step.tolist() == [10 * i for i in range(1, 9)]
    assert found.series["eval_loss"].step.tolist() == [80]


def test_ranks_from_rows_and_from_the_file_name(log: Path, tmp_path: Path) -> None:
    rows = [{"step": i, "rank": r, "loss": 1.0 + r} for i in range(3) for r in range(2)]
    found = read(jsonlines, write(log, *rows)).by_origin
    assert found["", "loss", 1].value.tolist() == [2.0, 2.0, 2.0]
    assert set(found) == {("", "loss", 0), ("", "loss", 1)}
    named = read(jsonlines, write(tmp_path / "rank_3.jsonl", *steps(3))).by_origin
    assert set(named) == {("", "loss", 3)}


@pytest.mark.parametrize(
    ("first", "second", "gap"),
    [
        ("2024-12-02T17:25:25.425+00:00", "2024-12-02T18:25:26.425+01:00", 1_000_000),
        ("2024-12-02 17:25:25,500", "2024-12-02 17:25:26,000", 500_000),
        (1755516631.25, 1755516632.5, 1_250_000),
        (1755516631250, 1755516632500, 1_250_000),
        (1755516631250000000, 1755516632500000000, 1_250_000),
    ],
)
def test_wall_times(log: Path, first: Any, second: Any, gap: int) -> None:
    write(log, {"step": 1, "loss": 2.0, "time": first}, {"step": 2, "loss": 2.0, "time": second})
    found = read(jsonlines, log).series
    wall = found["loss"].wall
    assert wall is not None and wall[1] - wall[0] == gap
    assert "time" not in found


def test_rows_without_a_step_are_counted_by_the_most_frequent_metric(log: Path) -> None:
    rows: list[dict[str, Any]] = []
    for i in range(1, 9):
        rows.append({"loss": 1.0, "epoch": round(i / 8, 2)})
        if i % 4 == 0:
            rows.append({"eval_loss": 1.1, "epoch": round(i / 8, 2)})
    write(log, *rows)
    found = read(jsonlines, log)
    assert found.axis is not None and found.axis.unit == "row"
    assert found.series["loss"].step.tolist() == list(range(1, 9))
    assert found.series["eval_loss"].step.tolist() == [4, 8]
    (log.parent / "training_args.json").write_text('{"logging_steps": 10}')
    declared = read(jsonlines, log)
    assert declared.series["loss"].step.tolist() == [10 * i for i in range(1, 9)]
    assert declared.axis is not None and declared.axis.unit == "step"


def test_epochs_are_the_axis_where_nothing_else_counts(log: Path) -> None:
    write(log, *({"epoch": i, "loss": 1.0, "val_loss": 1.1} for i in range(5)))
    found = read(jsonlines, log)
    assert found.axis is not None and found.axis.unit == "epoch"
    assert found.series["val_loss"].step.tolist() == [0, 1, 2, 3, 4]


def test_step_resets_and_negative_steps_keep_their_order(log: Path) -> None:
    wanted = [1, 2, 3, 2, 3, 4, -5, -4]
    write(log, *({"step": s, "loss": 1.0 + i} for i, s in enumerate(wanted)))
    loss = read(jsonlines, log).series["loss"]
    assert loss.step.tolist() == wanted
    assert loss.seq.tolist() == list(range(8))


def test_w_and_b_counter_is_the_axis_only_where_it_counts_training_steps(log: Path, tmp_path: Path) -> None:
    own = [{"_step": i, "train/global_step": 10 * i, "train/loss": 1.0} for i in range(1, 9)]
    assert read(jsonlines, write(log, *own)).series["train/loss"].step.tolist() == [10 * i for i in range(1, 9)]
    same = [{"_step": 10 * i, "train/global_step": 10 * i, "train/loss": 1.0} for i in range(1, 9)]
    same.append({"_step": 81, "train/global_step": 80, "eval/loss": 1.2})
    found = read(jsonlines, write(tmp_path / "b.jsonl", *same)).series
    assert found["eval/loss"].step.tolist() == [81]


def test_a_restart_says_what_it_came_from(log: Path) -> None:
    rows = [*steps(6), {"event": "resume", "checkpoint": "step_5.ckpt"}, {"step": 6, "loss": 2.0}]
    (event,) = read(jsonlines, write(log, *rows)).events
    assert (event.kind, event.text) == ("restart", "resume: step_5.ckpt")


def test_events_in_records(log: Path) -> None:
    rows = steps(6, event="train_step")
    rows.insert(3, {"step": 3, "event": "checkpoint_saved", "path": "ckpt-3"})
    found = read(jsonlines, write(log, *rows))
    assert [(e.kind, e.step, e.line) for e in found.events] == [("checkpoint", 3, 4)]


def test_data_named_in_the_rows_of_a_log(log: Path) -> None:
    rows = [{"step": i, "loss": 1.0, "lr": 0.1, "shard": f"s{i}", "doc_ids": [i, i + 1]} for i in range(4)]
    found = read(jsonlines, write(log, *rows))
    assert set(found.series) == {"loss", "lr"}
    assert found.batches is not None
    assert found.batches.select("step", "shard", "doc").rows() == [(i, f"s{i}", [str(i), str(i + 1)]) for i in range(4)]


@pytest.mark.parametrize(
    "document",
    [
        [{"_step": i, "train/loss": 2.0} for i in range(4)],
        {"history": [{"_step": i, "train/loss": 2.0} for i in range(4)]},
        {"_step": {str(i): i for i in range(4)}, "train/loss": {str(i): 2.0 for i in range(4)}},
        {"train/loss": [2.0] * 4, "val_loss": [2.1] * 4},
    ],
)
def test_rows_in_one_document(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(document, indent=1))
    assert sniff(jsonlines, path) > 0.5
    assert read(jsonlines, path).series["train/loss"].step.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("stem", "axis"), [("epoch_", "epoch"), ("", "epoch"), ("step", "step")])
def test_rows_keyed_by_what_counts_them(stem: str, axis: str, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({f"{stem}{i}": {"train_loss": 3 - i / 8, "val_loss": 3.5} for i in range(5)}))
    found = read(jsonlines, path)
    assert sniff(jsonlines, path) > 0.8
    assert found.axis is not None and found.axis.name == axis
    assert found.series["train_loss"].number_steps == list(range(5))


@pytest.mark.parametrize("name", ["loss.json", "run-train-tag-loss.json"])
@pytest.mark.parametrize("wall", [(), (1.7e9,)])
def test_rows_of_step_and_value(name: str, wall: tuple[float, ...], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(json.dumps([[*wall, 10 * i, 3 - i / 8] for i in range(5)]))
    assert sniff(jsonlines, path) > 0.8
    assert read(jsonlines, path).series["loss"].number_steps == [0, 10, 20, 30, 40]


def test_tuples_of_what_no_name_says_are_no_log(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([[10 * i, 3 - i / 8] for i in range(5)]))
    assert sniff(jsonlines, path) == 0.0


def test_a_first_row_below_a_key_is_no_configuration(log: Path) -> None:
    write(log, *({"event": "train", "data": {"step": 10 * i, "loss": 2.5}} for i in range(4)))
    assert read(jsonlines, log).series["data/loss"].number_steps == [0, 10, 20, 30]


def test_columns_on_one_line_and_what_stands_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"optimizer": "adam", "loss": [2.0, 1.5, 1.25], "accuracy": [0.1, 0.2, 0.3]}))
    assert sniff(jsonlines, path) > 0.5
    found = read(jsonlines, path)
    assert found.axis is not None and found.axis.unit == "epoch"
    assert found.series["loss"].value.tolist() == [2.0, 1.5, 1.25]
    assert found.series["accuracy"].step.tolist() == [0, 1, 2]
    assert found.config == {"optimizer": "adam"}


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_rows_under_any_key(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "results.json"
    rows = [{"step": i, "loss": math.nan if i > 5 else 2.0} for i in range(1, 9)]
    others = [{"step": i, "loss": 2.5} for i in (4, 8)]
    document = {"metrics": {"train_runtime": 9.5}, "fit": {"training_history": rows, "val_history": others}}
    path.write_text(json.dumps({**document, "tokens": [{"id": 3, "special": True}]}, indent=indent))
    assert sniff(jsonlines, path) > 0.5
    found = read(jsonlines, path)
    assert found.series["loss"].step.tolist() == list(range(1, 9))
    assert np.isnan(found.series["loss"].value).sum() == 3
    assert found.series["val/loss"].step.tolist() == [4, 8]
    assert found.config["metrics.train_runtime"] == 9.5


def test_lists_that_are_no_log_are_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"added_tokens": [{"id": i, "score": i / 2} for i in range(9)], "version": "1.0"}))
    assert sniff(jsonlines, path) == 0.0


def test_objects_over_several_lines_one_of_them_damaged(tmp_path: Path) -> None:
    objects = [json.dumps({"step": i, "loss": 2.0, "inner": {"a": i}}, indent=2) for i in range(30)]
    objects[11] = objects[11].replace("loss", "lo\nss")
    path = tmp_path / "metrics.json"
    path.write_text("\n".join(objects))
    assert sniff(jsonlines, path) > 0.5
    found = read(jsonlines, path)
    assert found.series["loss"].step.tolist() == [i for i in range(30) if i != 11]
    assert [w.kind for w in found.warnings] == ["bad-line"]
    path.write_text("[\n" + ",\n".join(objects)[:-40])
    cut = read(jsonlines, path)
    assert cut.series["loss"].step.tolist() == [i for i in range(29) if i != 11]
    assert "2 lines" in cut.warnings[0].message


def test_objects_that_the_end_of_a_chunk_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainforensics.importers.jsonlogs.document._CHUNK", 101)
    path = tmp_path / "history.json"
    path.write_text(json.dumps([{"step": i, "loss": 2.0, "note": "x" * (i % 60)} for i in range(200)], indent=1)[:-3])
    found = read(jsonlines, path)
    assert found.series["loss"].step.tolist() == list(range(199))


@pytest.mark.parametrize(
    "content",
    [
        '{"text": "hello", "label": "a"}\n' * 5,
        "step 1 loss 2\n",
        "",
        "{",
        '{"a": }\n',
        "[1, 2, 3]",
        '{"learning_rate": 0.1}',
    ],
)
def test_other_json_is_not_claimed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    confidence = sniff(jsonlines, path)
    assert confidence == 0.0 or (content.startswith('{"learning') and resolve("learning_rate").role == "learning_rate")


cell = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(2**53), 2**53),
    st.booleans(),
    st.sampled_from(["NaN", "1.5", "x", "", "-inf"]),
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.dictionaries(st.sampled_from(["loss", "lr", "note/x"]), cell), min_size=1, max_size=40))
def test_the_fast_parser_agrees_with_the_standard_library(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    full = [{"step": i, **row} for i, row in enumerate(rows)]
    fast = read(jsonlines, write(folder / "fast.jsonl", *full))
    # A line with another literal style makes the block unusual: it is then read line by line.
    slow = read(jsonlines, write(folder / "slow.jsonl", *full, '{"step": 10000, "end": None}'))
    assert set(fast.series) == {k for k in slow.series if k != "end"}
    for name, series in fast.series.items():
        other = slow.series[name]
        np.testing.assert_array_equal(series.step, other.step)
        np.testing.assert_array_equal(series.value, other.value)
        np.testing.assert_array_equal(series.state, other.state)


@pytest.mark.parametrize(
    ("foreign", "count"),
    [
        ([f"[{i}, 2.0]" for i in range(100)], 100),
        (["[" * 100_000], 1),
        (['"step": 301, "loss": 2.0}'], 1),
        (["\x01\x02\ufffd\ufffd\x7f"] * 7, 7),
    ],
)
def test_lines_without_an_object_are_counted_once_a_file(log: Path, foreign: list[str], count: int) -> None:
    rows: list[dict[str, Any] | str] = [*steps(200), *foreign, *steps(400)[200:]]
    found = read(jsonlines, write(log, *rows))
    assert len(found.series["loss"].numbers) == 400
    assert [(w.kind, w.where) for w in found.warnings] == [("bad-line", "line 201")]
    assert found.warnings[0].message.startswith(f"{count} lines hold no JSON object")


def test_the_text_of_a_console_log_and_messages_that_were_read_are_no_damage(log: Path) -> None:
    console = [part for row in steps(50) for part in ("forward pass", "backward pass", json.dumps(row))]
    assert read(jsonlines, write(log, *console)).warnings == []
    found = read(jsonlines, write(log, *steps(50), "Saving model checkpoint to out/checkpoint-50", *steps(60)[50:]))
    assert len(found.events) == 1
    assert found.warnings == []


def test_texts_in_a_loss_are_counted_even_where_they_are_most_or_all(log: Path) -> None:
    texts = [{"step": i, "loss": "diverged", "note": "fine"} for i in range(101, 301)]
    found = read(jsonlines, write(log, *steps(100), *texts))
    assert len(found.series["loss"].numbers) == 100
    assert [(w.kind, w.where, w.message[:24]) for w in found.warnings] == [
        ("wrong-type", "line 101", "200 cells of 'loss' are "),
    ]
    found = read(jsonlines, write(log, *({**row, "lr": 0.1} for row in texts)))
    assert set(found.series) == {"lr"}
    assert [(w.kind, w.where) for w in found.warnings] == [("wrong-type", "line 1")]


def test_carriage_returns_alone_end_lines(log: Path) -> None:
    log.write_bytes("\r".join(json.dumps(row) for row in steps(200)).encode())
    assert sniff(jsonlines, log) > 0.8
    found = read(jsonlines, log)
    assert found.series["loss"].number_steps == list(range(1, 201))
    assert found.warnings == []


@pytest.mark.parametrize("odd", ["NaN", "null", '"x"', "1e300"])
def test_a_row_with_a_step_that_is_no_number_is_said(log: Path, odd: str) -> None:
    rows: list[dict[str, Any] | str] = [*steps(100)]
    rows[39] = f'{{"step": {odd}, "loss": 2.5}}'
    rows[59] = '{"val_loss": 2.5}'  # a row without a step is nothing odd
    found = read(jsonlines, write(log, *rows))
    assert found.series["loss"].number_steps[38:41] == [39, 39, 41]
    assert [(w.kind, w.where, w.message[:6]) for w in found.warnings] == [("odd-step", "line 40", "1 rows")]


def test_steps_that_are_often_null_are_left_out_on_purpose(log: Path) -> None:
    rows = [row for i in range(1, 51) for row in ({"step": i, "loss": 2.0 + i}, {"step": None, "val_loss": 2.0})]
    assert read(jsonlines, write(log, *rows)).warnings == []


def test_why_rows_are_counted_is_said_where_a_step_column_is_there(log: Path) -> None:
    found = read(jsonlines, write(log, *({"step": f"s{i}", "loss": 2.0 + i} for i in range(50))))
    assert found.axis is not None and found.axis.unit == "row"
    assert [(w.kind, w.where) for w in found.warnings] == [("odd-step", "column step")]
    assert "step column 'step' has no usable numbers" in found.warnings[0].message


@pytest.mark.parametrize("first", [2**63, 2**70, -(2**65)])
def test_rows_are_counted_where_steps_are_beyond_what_a_step_can_be(log: Path, first: int) -> None:
    found = read(jsonlines, write(log, *({"step": first + 4096 * i, "loss": 2.0} for i in range(40))))
    assert found.axis is not None and found.axis.unit == "row"
    assert found.series["loss"].step.tolist() == list(range(1, 41))
    assert [w.kind for w in found.warnings] == ["odd-step"]


def test_the_step_is_the_number_of_the_checkpoint_that_was_measured(log: Path) -> None:
    names = [f"out/network-snapshot-{i:06d}.pkl" for i in range(0, 4000, 200)]
    rows = [{"results": {"fid50k_full": 9.5}, "metric": "fid50k_full", "snapshot_pkl": name} for name in names]
    found = read(jsonlines, write(log, *rows))
    assert found.axis is not None and (found.axis.name, found.axis.unit) == ("snapshot_pkl", "step")
    assert found.series["results/fid50k_full"].step.tolist() == list(range(0, 4000, 200))
    same = read(jsonlines, write(log, *({**row, "snapshot_pkl": "last-7.pkl"} for row in rows)))
    assert same.axis is not None and same.axis.unit == "row"


def test_many_blocks_read_as_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {40: '{"step": 40, "loss": "off"}', 90: "Epoch 2", 120: '{"step": 120, "loss": NaN, "val_loss": 2.5}'}
    lines = [odd.get(i, f'{{"step": {i}, "loss": {3 - i / 100}, "lr": 1e-3}}') for i in range(200)]
    text = '\n{"config": {"seed": 7}}\n' + "\n".join(lines) + '\n{"step": 200, "lo'
    log.write_text(text)
    whole = read(jsonlines, log)
    monkeypatch.setattr(jsonlines, "_BLOCK_BYTES", 1000)
    parts = read(jsonlines, log)
    assert parts.config == whole.config == {"config.seed": 7}
    assert [(w.kind, w.where) for w in whole.warnings] == [
        ("wrong-type", "line 43"),
        ("bad-line", "line 93"),
        ("torn-line", "line 203"),
    ]
    assert sorted(parts.warnings, key=str) == sorted(whole.warnings, key=str)
    for name, series in whole.series.items():
        assert parts.series[name].step.tolist() == series.step.tolist()
        assert parts.series[name].seq.tolist() == series.seq.tolist()
        np.testing.assert_array_equal(parts.series[name].value, series.value)


def test_a_torn_last_line_costs_itself_alone(log: Path) -> None:
    stretches = list(jsonlines._stretches([(b'{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n{"step": 3', 1)]))
    assert [(stretch.line, stretch.parsed is not None) for stretch in stretches] == [(1, True), (3, False)]


@pytest.mark.parametrize("column", ["dataset", "language", "task_name"])
def test_several_sets_evaluated_at_one_step_are_series_of_their_own(log: Path, column: str) -> None:
    rows: list[dict[str, Any]] = []
    for step in range(10, 110, 10):
        rows.append({"kind": "train", "step": step, "loss": 2.0})
        if step % 50 == 0:
            rows += [{"kind": "eval", "step": step, column: name, "loss": len(name)} for name in ("en", "web text")]
    write(log, *rows)
    found = read(jsonlines, log)
    assert set(found.series) == {"loss", "val/loss/en", "val/loss/web_text"}
    assert found.series["val/loss/web_text"].step.tolist() == [50, 100]
    assert (resolve("val/loss/web_text").role, resolve("val/loss/web_text").domain) == ("val_loss", "web_text")


def test_one_set_at_a_step_keeps_its_name(log: Path) -> None:
    rows = [row | {"kind": "eval", "dataset": "en" if row["step"] < 5 else "fr"} for row in steps(10)]
    write(log, *steps(10), *rows)
    assert set(read(jsonlines, log).series) == {"loss", "val/loss"}


def test_objects_within_an_array_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "pbt_global.txt"
    path.write_text("".join(f'[{125 * i}, 0, 3, {{"lr": 0.{i}25}}, {{"lr": 0.0625}}]\n' for i in range(1, 9)))
    assert sniff(jsonlines, path) == 0.0


def test_what_a_run_starts_with_is_its_configuration(log: Path) -> None:
    found = read(
        jsonlines, write(log, {"event": "start", "lr": 0.01, "steps": 200}, {"step": 1, "loss": 2.5, "lr": 0.001})
    )
    assert found.series["lr"].value.tolist() == [0.001]
    assert found.config["lr"] == 0.01


def test_a_count_of_steps_that_was_not_restored_is_counted_on_and_told(tmp_path: Path) -> None:
    counts = [(n // 10, 10 * n + 10) for n in range(100)] + [(10 + n // 10, 10 * n + 10) for n in range(20)]
    rows = [{"epoch": epoch, "step": step, "loss": 3 - at / 99} for at, (epoch, step) in enumerate(counts)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = read(jsonlines, path)
    assert found.series["loss"].number_steps == list(range(10, 1201, 10))
    (event,) = found.events
    assert (event.kind, event.step, event.line) == ("counter-restart", 1010, 101)
    assert "at 10 behind 1000, while the epochs go on to 10" in event.text
