"""`.wandb` files against W&B's own messages and its own writer, and the text files beside them."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logwriters import history_record, points_of, write_wandb
from wandb.proto import wandb_internal_pb2 as pb

from trainforensics.importers import wandb
from trainforensics.importers.base import (
    NULL,
    STRING,
    Batches,
    Config,
    Identity,
    Inner,
    Points,
    Record,
    Source,
    read_head,
)
from trainforensics.importers.wandb import files
from trainforensics.importers.wandb.messages import message_class
from trainforensics.model import Axis, Event, ReadWarning

NAME = "run-abc.wandb"


def read(path: Path) -> list[Record]:
    return list(wandb.read(Source(path, path.name)))


def written(folder: Path, *records: Any) -> list[Record]:
    path = folder / NAME
    for number, record in enumerate(records, 1):
        record.num = number
    write_wandb(path, records)
    return read(path)


def only(records: list[Record], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def rows(*values: dict[str, Any], nested: bool = True) -> list[Any]:
    return [history_record(row, nested=nested) for row in values]


def define_metric(name: str, step_metric: str) -> Any:
    record = pb.Record()
    if "*" in name:
        record.metric.glob_name = name
    else:
        record.metric.name = name
    record.metric.step_metric = step_metric
    return record


def test_own_messages_have_the_field_numbers_of_wandb() -> None:
    record = message_class("Record").DESCRIPTOR
    theirs = {field.name: field for field in pb.Record.DESCRIPTOR.fields}
    pairs = [(record, pb.Record.DESCRIPTOR)]
    seen = set()
    while pairs:
        ours, other = pairs.pop()
        seen.add(ours.name)
        theirs = {field.name: field for field in other.fields}
        for field in ours.fields:
            match = theirs[field.name]
            assert field.number == match.number
            assert field.is_repeated == match.is_repeated
            if field.message_type and match.message_type:
                pairs.append((field.message_type, match.message_type))
    assert {"Record", "History", "Run", "BranchPoint", "Stats", "Output", "Metric", "Exit", "Items"} <= seen
    item = {field.name: field.number for field in pb.HistoryItem.DESCRIPTOR.fields}
    assert (item["key"], item["nested_key"], item["value_json"]) == (1, 2, 16)


json_numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(), st.booleans())
names = st.text(st.characters(codec="utf-8"), max_size=200).map(lambda name: "m" + name)  # none counts steps


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(names, json_numbers, max_size=6), min_size=1, max_size=12), st.booleans(), st.randoms())
def test_every_number_is_read_as_wandbs_messages_hold_it(
    tmp_path_factory: pytest.TempPathFactory, logged: list[dict[str, Any]], nested: bool, order: random.Random
) -> None:
    path = tmp_path_factory.mktemp("run") / NAME
    shuffled = [order.sample(list(row.items()), len(row)) for row in logged]
    records = rows(*({"_step": step, **dict(row)} for step, row in enumerate(shuffled)), nested=nested)
    write_wandb(path, records)
    found = points_of(read(path))
    expected: dict[str, list[tuple[int, float]]] = {}
    for step, row in enumerate(logged):
        for name, value in row.items():
            expected.setdefault(name, []).append((step, float(value)))
    assert sorted(map(repr, found.items())) == sorted(map(repr, expected.items()))


def test_rows_without_a_number_keep_apart_null_text_and_nan(tmp_path: Path) -> None:
    values = [1.5, None, math.nan, "NaN", "-Infinity", "text", math.inf, True]
    records = written(tmp_path, *rows(*({"_step": i, "loss": value} for i, value in enumerate(values))))
    (points,) = only(records, Points)
    assert points.step.tolist() == [0, 1, 2, 3, 4, 6, 7]
    assert repr(points.value.tolist()) == "[1.5, nan, nan, nan, -inf, inf, 1.0]"
    assert points.state.tolist() == [0, NULL, 0, STRING, STRING, 0, 0]


def test_mappings_become_dotted_names_in_either_encoding(tmp_path: Path) -> None:
    old = history_record({"_step": 0, "opt": {"lr": 0.1, "group": {"wd": 0.5}}}, nested=False)
    new = history_record({"_step": 1, "opt.lr": 0.2, "opt.group.wd": 0.25})
    found = points_of(written(tmp_path, old, new))
    assert found == {"opt.lr": [(0, 0.1), (1, 0.2)], "opt.group.wd": [(0, 0.5), (1, 0.25)]}


def test_a_key_that_contains_the_key_of_the_value_field(tmp_path: Path) -> None:
    name = b"a\xc2\x82\x01b".decode()
    assert points_of(written(tmp_path, *rows({"_step": 0, name: 1.0}, {"_step": 1, name: 2.0}))) == {
        name: [(0, 1.0), (1, 2.0)]
    }


def test_histograms_become_quantiles_in_every_encoding(tmp_path: Path) -> None:
    counts, bins = [1, 2, 1], [0.0, 1.0, 2.0, 3.0]
    whole = {"_type": "histogram", "values": counts, "bins": bins}
    packed = {"_type": "histogram", "values": counts, "packedBins": {"min": 0.0, "size": 1.0, "count": 3}}
    records = rows({"_step": 0, "h": whole}, {"_step": 1, "h": packed}, nested=False)
    split = {"_step": 2, "h._type": "histogram", "h.values": counts, "h.bins": bins}
    found = points_of(written(tmp_path, *records, *rows(split)))
    assert found["h/median"] == [(step, 1.5) for step in range(3)]
    assert found["h/max"] == [(step, 3.0) for step in range(3)]
    assert not any("packedBins" in name for name in found)


def test_media_and_tables_are_no_metrics(tmp_path: Path) -> None:
    row = {"_step": 0, "image": {"_type": "image-file", "width": 3}, "list": [1, 2], "loss": 1.0}
    assert points_of(written(tmp_path, *rows(row, nested=False))) == {"loss": [(0, 1.0)]}


def test_wall_time_comes_from_the_rows(tmp_path: Path) -> None:
    logged = rows({"_step": 0, "_timestamp": 1.7e9, "loss": 1.0}, {"_step": 1, "_timestamp": 1.7e9 + 0.25, "loss": 2.0})
    (points,) = only(written(tmp_path, *logged), Points)
    assert points.wall_time.tolist() == [1_700_000_000_000_000, 1_700_000_000_250_000]


# --- the step axis -------------------------------------------------------------------------------------------------


def axis_of(records: list[Record]) -> Axis:
    (axis,) = only(records, Axis)
    return axis


def test_declared_step_metric_wins(tmp_path: Path) -> None:
    logged = rows(*({"_step": i, "global_step": 2 * i, "tokens": 512 * i, "loss": 1.0} for i in range(5)))
    records = written(tmp_path, define_metric("*", "tokens"), *logged)
    assert axis_of(records) == Axis("tokens", "sample")
    assert [step for step, _ in points_of(records)["loss"]] == [0, 512, 1024, 1536, 2048]


@pytest.mark.parametrize("name", ["train/global_step", "trainer/global_step", "global_step", "iter"])
def test_well_known_counters_come_before_the_call_counter(tmp_path: Path, name: str) -> None:
    records = written(tmp_path, *rows(*({"_step": i, name: 10 * i, "loss": 1.0} for i in range(5))))
    assert axis_of(records) == Axis(name, "step")
    assert [step for step, _ in points_of(records)["loss"]] == [0, 10, 20, 30, 40]


def test_rows_without_the_axis_stay_at_the_last_known_step(tmp_path: Path) -> None:
    logged = [
        {"_step": 0, "global_step": 100, "loss": 3.0},
        {"_step": 1, "global_step": 200, "loss": 2.0},
        {"_step": 2, "val": 1.0},
        {"_step": 3, "global_step": 300, "loss": 1.0},
    ]
    assert points_of(written(tmp_path, *rows(*logged)))["val"] == [(200, 1.0)]


@pytest.mark.parametrize(
    "counter",
    [
        [0, 1, 2, 0, 1, 2, 0, 1],  # begins anew every epoch
        [0.5 * i for i in range(8)],
        [7] * 8,
    ],
)
def test_columns_that_do_not_count_are_no_axis(tmp_path: Path, counter: list[float]) -> None:
    records = written(tmp_path, *rows(*({"_step": i, "step": c, "loss": 1.0} for i, c in enumerate(counter))))
    assert axis_of(records) == Axis("_step", "step")


def test_a_declared_epoch_that_many_rows_share_is_no_axis(tmp_path: Path) -> None:
    logged = rows(*({"_step": i, "epoch": i // 10, "loss": 1.0} for i in range(50)))
    assert axis_of(written(tmp_path, define_metric("*", "epoch"), *logged)) == Axis("_step", "step")


def test_step_of_the_record_serves_where_the_row_has_none(tmp_path: Path) -> None:
    record = history_record({"loss": 1.0})
    record.history.step.num = 40
    assert points_of(written(tmp_path, record)) == {"loss": [(40, 1.0)]}


# --- what surrounds the metrics ------------------------------------------------------------------------------------


def run_record(**about: Any) -> Any:
    record = pb.Record()
    record.run.run_id = "abc"
    record.run.start_time.seconds = 1_700_000_000
    for name, value in about.items():
        setattr(record.run, name, value)
    return record


def test_run_config_and_summary(tmp_path: Path) -> None:
    run = run_record(project="lm", display_name="llama")
    run.run.config.update.add(key="lr", value_json="0.1")
    run.run.config.update.add(nested_key=["model", "width"], value_json="64")
    run.run.config.update.add(key="_wandb", value_json="{}")
    later = pb.Record()
    later.config.update.add(key="batch", value_json="8")
    summary = pb.Record()
    summary.summary.update.add(key="loss", value_json="1.0")
    summary.summary.update.add(key="best/accuracy", value_json="0.9")
    records = written(tmp_path, run, later, *rows({"_step": 0, "loss": 1.0}), summary)
    assert only(records, Identity) == [Identity("abc")]
    values = {name: value for config in only(records, Config) for name, value in config.values.items()}
    assert values == {
        "lr": 0.1,
        "model": {"width": 64},
        "batch": 8,
        "wandb": {"run_id": "abc", "project": "lm", "display_name": "llama"},
        "summary": {"best/accuracy": 0.9},
    }


@pytest.mark.parametrize(
    ("about", "kind", "step", "text"),
    [
        ({}, "start", 0, "run started"),
        ({"resumed": True, "starting_step": 120}, "restart", 120, "run resumed"),
    ],
)
def test_beginning_of_a_run(tmp_path: Path, about: dict[str, Any], kind: str, step: int, text: str) -> None:
    (event,) = only(written(tmp_path, run_record(**about)), Event)
    assert (event.kind, event.step, event.text, event.wall_time) == (kind, step, text, 1.7e9)


@pytest.mark.parametrize(("origin", "kind"), [("parent", "fork"), ("abc", "restart")])
def test_forked_and_rewound_runs(tmp_path: Path, origin: str, kind: str) -> None:
    record = run_record()
    record.run.branch_point.run = origin
    record.run.branch_point.value = 600
    record.run.branch_point.metric = "_step"
    (event,) = only(written(tmp_path, record), Event)
    assert (event.kind, event.step) == (kind, 600)
    assert "_step 600" in event.text


def test_system_metrics_stand_at_the_step_reached(tmp_path: Path) -> None:
    stats = pb.Record()
    stats.stats.timestamp.seconds = 1_700_000_009
    stats.stats.item.add(key="gpu.0.memory", value_json="71.5")
    logged = rows({"_step": 0, "loss": 1.0}, {"_step": 1, "loss": 1.0})
    points = {p.name: p for p in only(written(tmp_path, logged[0], logged[1], stats), Points)}["system/gpu.0.memory"]
    assert (points.step.tolist(), points.value.tolist()) == ([1], [71.5])
    assert points.wall_time.tolist() == [1_700_000_009_000_000]


def output(line: str, stream: int = 1) -> Any:
    record = pb.Record()
    record.output_raw.line = line
    record.output_raw.output_type = stream
    return record


def test_rows_that_wandb_refused_are_reported(tmp_path: Path) -> None:
    line = "wandb: WARNING Tried to log to step {} that is less than the current step 249. Steps must be ...\n"
    old = "wandb: WARNING Step must only increase in log calls.  Step 210 < 249; dropping {'loss': 1.0}.\n"
    records = written(tmp_path, *(output(line.format(step), 0) for step in range(200, 210)), output(old, 0))
    (warning,) = only(records, ReadWarning)
    assert (warning.kind, warning.where) == ("dropped-by-logger", "steps 200 to 210")
    assert "11 rows" in warning.message
    assert "step 249" in warning.message


@pytest.mark.parametrize("code", [0, 1])
def test_exit_code(tmp_path: Path, code: int) -> None:
    record = pb.Record()
    record.exit.exit_code = code
    (event,) = only(written(tmp_path, *rows({"_step": 8, "loss": 1.0}), record), Event)
    assert (event.kind, event.step, event.text) == ("exit", 8, f"exit code {code}")


def test_a_crashed_run_ends_with_one_warning_or_none(tmp_path: Path) -> None:
    path = tmp_path / NAME
    spans = write_wandb(path, rows(*({"_step": i, "loss": 1.0} for i in range(9))))
    whole = path.read_bytes()
    path.write_bytes(whole[: spans[8][0][0] + 7])
    assert [(w.kind, w.where) for w in only(read(path), ReadWarning)] == [("truncated", f"byte {spans[8][0][0]}")]
    path.write_bytes(whole[: spans[8][0][0]] + bytes(20000))
    assert not only(read(path), ReadWarning)
    assert len(points_of(read(path))["loss"]) == 8


def test_many_rows_cross_blocks_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=3000).tolist()
    found = points_of(written(tmp_path, *rows(*({"_step": i, "loss": v} for i, v in enumerate(values)))))
    assert found["loss"] == list(enumerate(values))


def test_sniffing(tmp_path: Path) -> None:
    path = tmp_path / "renamed.bin"
    write_wandb(path, [])
    assert wandb.sniff(read_head(path)) == 1.0
    path.write_bytes(b"{}")
    assert wandb.sniff(read_head(path)) == 0.0


# --- beside the log ------------------------------------------------------------------------------------------------


def test_summary_alone_gives_last_values_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "wandb-summary.json"
    path.write_text('{"_step": 40, "_runtime": 9, "loss": NaN, "grad": "Infinity", "val": {"loss": 1.5}, "note": "x"}')
    assert files.sniff(read_head(path)) > 0.9
    records = list(files.read(Source(path, path.name)))
    assert repr(points_of(records)) == repr(
        {"loss": [(40, math.nan)], "grad": [(40, math.inf)], "val.loss": [(40, 1.5)]}
    )
    assert [warning.kind for warning in only(records, ReadWarning)] == ["summary-only"]


def test_summary_beside_its_history_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "wandb-summary.json"
    path.write_text('{"_step": 40, "loss": 1.0}')
    write_wandb(tmp_path / NAME, [])
    assert list(files.read(Source(path, path.name))) == []


def test_config_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("wandb_version: 1\n\n_wandb:\n  value: {}\nlr:\n  desc: null\n  value: 0.1\nplain: 3\n")
    assert files.sniff(read_head(path)) > 0.9
    assert list(files.read(Source(path, path.name))) == [Config({"lr": 0.1, "plain": 3})]
    path.write_text("wandb_version: 1\nlr: [0.1\n")
    assert [warning.kind for warning in files.read(Source(path, path.name))] == ["undecodable"]


# --- the real writer -----------------------------------------------------------------------------------------------

_SCRIPT = """
import json, sys, wandb
run = wandb.init(mode="offline", project="p", dir=sys.argv[1], config={"lr": 0.1, "model": {"width": 64}},
                 settings=wandb.Settings(silent=True, x_disable_stats=True))
run.define_metric("train/gs")
run.define_metric("train/*", step_metric="train/gs")
for i in range(20):
    run.log({"train/gs": i * 10, "train/loss": 1 / (i + 1), "nested": {"a": float("nan"), "b": i},
             "hist": wandb.Histogram([0.0, 1.0, 2.0, 3.0])})
    print(f"step {i * 10} loss {1 / (i + 1):.3f}")
print("saved checkpoint to last.pt")
run.summary["best"] = 4.5
run.finish(exit_code=3)
"""


@pytest.mark.slow
def test_a_run_of_the_real_sdk(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _SCRIPT, str(tmp_path)], check=True, capture_output=True, timeout=120)
    (path,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    records = read(path)
    found = points_of(records)
    assert axis_of(records) == Axis("train/gs", "step")
    assert found["train/loss"] == [(i * 10, 1 / (i + 1)) for i in range(20)]
    assert found["nested.b"] == [(i * 10, float(i)) for i in range(20)]
    assert [step for step, value in found["nested.a"] if math.isnan(value)] == [i * 10 for i in range(20)]
    assert {name for name in found if name.startswith("hist/")} >= {"hist/min", "hist/median", "hist/max"}
    values = {name: value for config in only(records, Config) for name, value in config.values.items()}
    assert (values["lr"], values["model"], values["summary"]) == (0.1, {"width": 64}, {"best": 4.5})
    events = {event.kind: event for event in only(records, Event)}
    assert events["exit"].text == "exit code 3"
    printed = [record.record for record in only(records, Inner)]
    assert points_of(printed) == {"loss": [(i * 10, round(1 / (i + 1), 3)) for i in range(20)]}
    assert [(event.kind, event.step) for event in only(printed, Event)] == [("checkpoint-saved", 190)]
    assert not only(records, ReadWarning)
    assert json.loads(json.dumps(values))


@pytest.mark.parametrize(
    ("title", "kind"), [("Checkpoint saved", "checkpoint"), ("CUDA out of memory", "oom"), ("Look at this", "alert")]
)
def test_an_alert_is_the_event_it_tells_of(tmp_path: Path, title: str, kind: str) -> None:
    record = pb.Record()
    record.alert.title, record.alert.text = title, "at last"
    (event,) = only(written(tmp_path, *rows({"_step": 8, "loss": 1.0}), record), Event)
    assert (event.kind, event.step, event.text) == (kind, 8, f"{title}: at last")


def test_rows_that_name_their_data_are_batches_too(tmp_path: Path) -> None:
    said = [{"loss": 2.5 + i, "data/shard": f"s-{i % 2}.bin", "doc_ids": [i, i + 10], "note": "x"} for i in range(3)]
    records = written(tmp_path, *rows(*({**row, "_step": i} for i, row in enumerate(said)), {"_step": 3, "loss": 1.0}))
    (found,) = only(records, Batches)
    assert found.table.to_pydict() == {
        "step": [0, 1, 2],
        "shard": ["s-0.bin", "s-1.bin", "s-0.bin"],
        "doc": [["0", "10"], ["1", "11"], ["2", "12"]],
        "loss": [2.5, 3.5, 4.5],
    }
    assert not only(written(tmp_path, *rows({"_step": 0, "loss": 1.0, "note": "x"})), Batches)
