"""Event files against TensorBoard's own writers and readers."""

from __future__ import annotations

import gzip
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logwriters import points_of, scalar_event, tensor_event, version_event, write_events
from tensorboard.compat.proto.event_pb2 import Event as EventMessage
from tensorboard.compat.proto.event_pb2 import SessionLog

from trainforensics.importers import tensorboard
from trainforensics.importers.base import Config, Points, Record, Source, read_head
from trainforensics.importers.tensorboard.events import MAX_LAYOUTS
from trainforensics.importers.tensorboard.records import read_blocks
from trainforensics.model import Axis, Event, ReadWarning

NAME = "events.out.tfevents.1700000000.host.1.0"


def read(path: Path, label: str = NAME) -> list[Record]:
    return list(tensorboard.read(Source(path, label)))


def written(folder: Path, *events: EventMessage) -> list[Record]:
    path = folder / NAME
    write_events(path, [version_event(), *events])
    return read(path)


def only(records: list[Record], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def by_event_file_loader(path: Path) -> dict[str, list[tuple[int, float]]]:
    """TensorBoard's own reader, with its messages."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader  # noqa: PLC0415
    from tensorboard.util.tensor_util import make_ndarray  # noqa: PLC0415

    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for event in LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            number = value.simple_value if value.HasField("simple_value") else make_ndarray(value.tensor).item()
            found[value.tag].append((event.step, number))
    return dict(found)


def test_tensorboards_own_writer_and_accumulator_agree(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415
    from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415

    writer = EventFileWriter(str(tmp_path))
    for step in range(300):
        writer.add_event(scalar_event("train/loss", step, math.exp(-step / 50)))
        if step % 10 == 0:
            writer.add_event(scalar_event("val/loss", step, math.nan if step == 100 else 1 / (step + 1)))
    writer.close()
    accumulator = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0}).Reload()
    (path,) = tmp_path.iterdir()
    found = points_of(read(path, path.name))
    for tag in accumulator.Tags()["scalars"]:
        expected = [(one.step, one.value) for one in accumulator.Scalars(tag)]
        assert repr(found.pop(tag)) == repr(expected)
    assert not found


def test_tbparse_agrees(tmp_path: Path) -> None:
    from tbparse import SummaryReader  # noqa: PLC0415

    path = tmp_path / NAME
    write_events(path, [version_event(), *(scalar_event("loss", step, 1 / (step + 1)) for step in range(50))])
    table = SummaryReader(str(path)).scalars
    assert points_of(read(path))["loss"] == list(zip(table["step"], table["value"], strict=True))


numbers = st.floats(width=32)
steps = st.one_of(st.integers(0, 300), st.integers(-(2**63), 2**63 - 1))
tags = st.one_of(st.sampled_from(["loss", "lo\tss", "train/loss", "a" * 200]), st.text(max_size=12))
scalars = st.one_of(
    st.builds(scalar_event, tags, steps, numbers),
    st.builds(tensor_event, tags, steps, numbers),
    st.builds(tensor_event, tags, steps, st.floats(), st.just(True)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(scalars, max_size=40))
def test_any_mixture_of_scalars_reads_as_tensorboard_reads_it(
    tmp_path_factory: pytest.TempPathFactory, events: list[EventMessage]
) -> None:
    path = tmp_path_factory.mktemp("mixed") / NAME
    write_events(path, [version_event(), *events])
    found, expected = points_of(read(path)), by_event_file_loader(path)
    assert sorted(map(repr, found.items())) == sorted(map(repr, expected.items()))


def test_more_layouts_than_are_decoded_as_columns(tmp_path: Path) -> None:
    events = []
    for number in range(3 * MAX_LAYOUTS):
        event = scalar_event("loss", 1, number)
        event.summary.value[0].metadata.summary_description = f"{number:05}"
        events.append(event)
    found = points_of(written(tmp_path, *events))
    assert found == {"loss": [(1, float(number)) for number in range(3 * MAX_LAYOUTS)]}


def test_many_tags_and_several_values_an_event_keep_their_order(tmp_path: Path) -> None:
    events = []
    for step in range(20):
        event = EventMessage(wall_time=1.0, step=step)
        for number in range(30):
            event.summary.value.add(tag=f"layer_{number}/norm", simple_value=step + number / 64)
        events.append(event)
    found = points_of(written(tmp_path, *events))
    assert found == {f"layer_{n}/norm": [(s, s + n / 64) for s in range(20)] for n in range(30)}


def test_wall_time_and_record_number(tmp_path: Path) -> None:
    (points,) = only(written(tmp_path, scalar_event("loss", 3, 0.5), scalar_event("loss", 1, 0.25)), Points)
    assert points.wall_time.tolist() == [1_700_000_003_000_000, 1_700_000_001_000_000]
    assert points.seq.tolist() == [1, 2]
    assert points.step.tolist() == [3, 1]


def test_tags_over_samples_stand_at_the_step_they_belong_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    for step in range(1, 40):
        samples = 16 * step + max(step - 20, 0) * 16  # the batch grows at step 20
        for tag, value in (("lm loss", 3.0 / step), ("grad-norm", 1.0)):
            events += [scalar_event(tag, step, value), scalar_event(f"{tag} vs samples", samples, value)]
    path = tmp_path / NAME
    write_events(path, [version_event(), *events])
    for block_bytes in (1 << 20, 300, 50):
        monkeypatch.setattr(read_blocks, "__defaults__", (block_bytes,))
        found = points_of(read(path))
        assert found["lm loss vs samples"] == found["lm loss"]
        assert found["consumed_samples"] == [(s, 16.0 * s + max(s - 20, 0) * 16) for s in range(1, 40)]
    assert points_of(written(tmp_path, scalar_event("x vs samples", 640, 1.0))) == {"x vs samples": [(640, 1.0)]}


@pytest.mark.parametrize("wall_time", [0.0, math.nan, math.inf, 1e300])
def test_wall_times_that_are_none(tmp_path: Path, wall_time: float) -> None:
    event = scalar_event("loss", 3, 0.5)
    event.wall_time = wall_time
    known = scalar_event("acc", 4, 0.5)
    points = {p.name: p for p in only(written(tmp_path, event, known), Points)}
    assert points["loss"].wall_time is None
    assert points["acc"].wall_time.tolist() == [1_700_000_004_000_000]


@pytest.mark.parametrize(("dtype", "field", "value"), [(3, "int_val", 7), (9, "int64_val", -7), (10, "bool_val", True)])
def test_whole_numbers_and_booleans_as_tensors(tmp_path: Path, dtype: int, field: str, value: Any) -> None:
    event = EventMessage(wall_time=1.0, step=5)
    tensor = event.summary.value.add(tag="count").tensor
    tensor.dtype = dtype
    getattr(tensor, field).append(value)
    assert points_of(written(tmp_path, event)) == {"count": [(5, float(value))]}


def test_tensor_with_an_axis_of_one_and_raw_content(tmp_path: Path) -> None:
    event = EventMessage(wall_time=1.0, step=5)
    tensor = event.summary.value.add(tag="loss").tensor
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=1)
    tensor.tensor_content = np.float32(0.75).tobytes()
    assert points_of(written(tmp_path, event)) == {"loss": [(5, 0.75)]}


def test_tensors_that_are_no_scalars_are_no_points(tmp_path: Path) -> None:
    event = EventMessage(wall_time=1.0, step=5)
    tensor = event.summary.value.add(tag="curve").tensor
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=3)
    tensor.float_val.extend([1.0, 2.0, 3.0])
    assert points_of(written(tmp_path, event)) == {}


def test_session_start_begins_a_life_and_says_where(tmp_path: Path) -> None:
    first = [scalar_event("loss", step, 1.0) for step in range(5)]
    start = EventMessage(wall_time=1.7e9 + 60, step=3, session_log=SessionLog(status=SessionLog.START))
    second = [scalar_event("loss", step, 2.0) for step in range(3, 6)]
    records = written(tmp_path, *first, start, *second)
    (points,) = only(records, Points)
    assert points.segment.tolist() == [0] * 5 + [1] * 3
    (event,) = only(records, Event)
    assert (event.kind, event.step) == ("restart", 3)


def test_purge_step_at_the_head_of_a_file_is_a_restart_but_no_second_life(tmp_path: Path) -> None:
    start = EventMessage(wall_time=1.7e9, step=300, session_log=SessionLog(status=SessionLog.START))
    records = written(tmp_path, start, scalar_event("loss", 300, 1.0))
    (points,) = only(records, Points)
    assert points.segment.tolist() == [0]
    assert [(event.kind, event.step) for event in only(records, Event)] == [("restart", 300)]


def test_concatenated_files_are_several_lives(tmp_path: Path) -> None:
    path = tmp_path / NAME
    write_events(path, [version_event(), scalar_event("loss", 1, 1.0)])
    path.write_bytes(path.read_bytes() * 3)
    (points,) = only(read(path), Points)
    assert points.segment.tolist() == [0, 1, 2]


def test_checkpoint_and_log_messages_are_events(tmp_path: Path) -> None:
    saved = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path="model.ckpt-40")
    message = EventMessage(wall_time=1.0, step=41)
    message.log_message.message = "node lost"
    records = written(tmp_path, EventMessage(wall_time=1.0, step=40, session_log=saved), message)
    found = [(event.kind, event.step, event.text) for event in only(records, Event)]
    assert found == [("checkpoint", 40, "model.ckpt-40"), ("console", 41, "node lost")]


def text_event(tag: str, text: str, step: int = 0) -> EventMessage:
    event = EventMessage(wall_time=1.0, step=step)
    value = event.summary.value.add(tag=f"{tag}/text_summary")
    value.metadata.plugin_data.plugin_name = "text"
    value.tensor.dtype = 7
    value.tensor.string_val.append(text.encode())
    return event


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [
        ("args", '{"lr": 0.1, "optim": {"name": "adamw"}}', {"lr": 0.1, "optim": {"name": "adamw"}}),
        ("micro_batch_size", "4", {"micro_batch_size": "4"}),
        ("hyperparameters", "|param|value|\n|-|-|\n|lr|0.1|\n|seed|3|", {"lr": "0.1", "seed": "3"}),
        ("config", "lr: 0.0003  \nbatch_size: 64", {"lr": "0.0003", "batch_size": "64"}),
    ],
)  # fmt: skip
def test_settings_written_as_text_are_configuration(tmp_path: Path, tag: str, text: str, expected: Any) -> None:
    records = written(tmp_path, text_event(tag, text))
    assert [config.values for config in only(records, Config)] == [expected]
    assert not only(records, Event)


def test_other_text_is_an_event_and_no_scalar_is_lost_to_its_step_0(tmp_path: Path) -> None:
    steps = range(100, 110)
    records = written(tmp_path, *(scalar_event("loss", step, 1.0) for step in steps), text_event("note", "it is done"))
    assert points_of(records) == {"loss": [(step, 1.0) for step in steps]}
    assert [(event.kind, event.text) for event in only(records, Event)] == [("text", "note: it is done")]


@pytest.mark.parametrize(
    ("tag", "text", "kind"),
    [
        ("checkpoint", "saved checkpoint step-150.pt", "checkpoint"),
        ("checkpoint", "step-150.pt was saved", "checkpoint"),
        ("log", "failed to save checkpoint: no space left", "checkpoint-failed"),
        ("samples", "saved checkpoint\nand so the tale went on", "text"),
        ("samples", "it saved the checkpoint " * 20, "text"),
    ],
)
def test_a_message_written_as_text_is_the_event_it_tells_of(tmp_path: Path, tag: str, text: str, kind: str) -> None:
    records = written(tmp_path, text_event(tag, text, step=150))
    assert [(event.kind, event.step) for event in only(records, Event)] == [(kind, 150)]


def test_hyperparameters_plugin_is_configuration(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: PLC0415

    data = plugin_data_pb2.HParamsPluginData()
    data.session_start_info.hparams["lr"].number_value = 0.25
    data.session_start_info.hparams["opt"].string_value = "sgd"
    event = EventMessage(wall_time=1.0)
    value = event.summary.value.add(tag="_hparams_/session_start_info")
    value.metadata.plugin_data.plugin_name = "hparams"
    value.metadata.plugin_data.content = data.SerializeToString()
    assert [config.values for config in only(written(tmp_path, event), Config)] == [{"lr": 0.25, "opt": "sgd"}]


def histogram_event(values: np.ndarray, step: int) -> EventMessage:
    """As torch.utils.tensorboard writes it, with TensorBoard's exponential buckets."""
    positive = 1e-12 * 1.1 ** np.arange(776)
    limits = np.concatenate([-positive[::-1], [0.0], positive])
    counts, _ = np.histogram(values, np.append(limits, np.inf))
    event = EventMessage(wall_time=1.0, step=step)
    histogram = event.summary.value.add(tag="grad/layer_0").histo
    histogram.min, histogram.max, histogram.num = values.min(), values.max(), len(values)
    filled = np.flatnonzero(counts)
    first, last = filled[0], filled[-1] + 1
    histogram.bucket_limit.extend(limits[first : last + 1])
    histogram.bucket.extend([0, *counts[first:last]])
    return event


def test_old_histograms_become_quantiles_and_the_share_of_zeros(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=4000)
    values[:1000] = 0.0
    found = points_of(written(tmp_path, histogram_event(values, 7)))
    parts = {name.removeprefix("grad/layer_0/"): value for name, ((_, value),) in found.items()}
    assert parts["min"] == values.min()
    assert parts["max"] == values.max()
    assert parts["zero_fraction"] == pytest.approx(0.25, abs=0.001)
    assert parts["p01"] == pytest.approx(np.quantile(values, 0.01), rel=0.1)
    assert parts["p99"] == pytest.approx(np.quantile(values, 0.99), rel=0.1)
    assert abs(parts["median"]) < 0.05


def test_tensor_histograms_become_quantiles(tmp_path: Path) -> None:
    counts, edges = np.histogram(np.linspace(0.0, 30.0, 3001), 30)
    event = EventMessage(wall_time=1.0, step=7)
    value = event.summary.value.add(tag="act")
    value.metadata.plugin_data.plugin_name = "histograms"
    value.tensor.dtype = 2
    value.tensor.tensor_shape.dim.add(size=30)
    value.tensor.tensor_shape.dim.add(size=3)
    value.tensor.double_val.extend(np.column_stack([edges[:-1], edges[1:], counts]).ravel())
    found = {name: value for name, ((_, value),) in points_of(written(tmp_path, event)).items()}
    assert found["act/median"] == pytest.approx(15.0, abs=0.1)
    assert found["act/p99"] == pytest.approx(29.7, abs=0.1)
    assert (found["act/min"], found["act/max"]) == (0.0, 30.0)


@pytest.mark.parametrize(
    ("label", "name", "rank"),
    [
        (NAME, "loss", None),
        (f"tb/{NAME}", "loss", None),
        (f"lightning_logs/version_3/{NAME}", "loss", None),
        (f"runs/Jan05_12-00-01_node7/{NAME}", "loss", None),
        (f"1700000000.123/{NAME}", "loss", None),
        (f"Loss_train/{NAME}", "Loss_train/loss", None),
        (f"logs/validation/{NAME}", "validation/loss", None),
        (f"tensorboard/rank_3/{NAME}", "loss", 3),
    ],
)
def test_folders_that_say_something_are_part_of_the_name(
    tmp_path: Path, label: str, name: str, rank: int | None
) -> None:
    path = tmp_path / NAME
    write_events(path, [version_event(), scalar_event("loss", 1, 0.5)])
    (points,) = only(read(path, label), Points)
    assert (points.name, points.rank) == (name, rank)


def test_keras_epoch_tags_are_on_an_axis_of_epochs(tmp_path: Path) -> None:
    records = written(tmp_path, tensor_event("epoch_loss", 0, 1.0), tensor_event("epoch_accuracy", 0, 0.5))
    assert only(records, Axis) == [Axis("epoch", "epoch")]
    assert only(written(tmp_path, scalar_event("loss", 0, 1.0)), Axis) == [Axis("step", "step")]


def test_gzip_reads_like_the_plain_file(tmp_path: Path) -> None:
    path = tmp_path / NAME
    write_events(path, [version_event(), *(scalar_event("loss", step, 1.0) for step in range(9))])
    packed = path.with_name(NAME + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert points_of(read(packed)) == points_of(read(path))
    assert tensorboard.sniff(read_head(packed)) == 1.0


def test_sniffing_goes_by_content(tmp_path: Path) -> None:
    path = tmp_path / "metrics.bin"
    write_events(path, [version_event()])
    assert tensorboard.sniff(read_head(path)) == 1.0
    path.write_bytes(b"")
    assert tensorboard.sniff(read_head(path)) == 0.0
    path.write_bytes(random.Random(0).randbytes(500))
    assert tensorboard.sniff(read_head(path)) == 0.0
    empty = tmp_path / NAME
    empty.write_bytes(b"")
    assert 0.0 < tensorboard.sniff(read_head(empty)) < 1.0


def test_empty_file_and_bare_version_record_give_nothing_and_no_warning(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"")
    assert read(path) == []
    write_events(path, [version_event()])
    assert read(path) == []


def test_records_that_are_no_events_are_counted_once(tmp_path: Path) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

    path = tmp_path / NAME
    with path.open("wb") as stream:
        writer = RecordWriter(stream)
        for number in range(50):
            writer.write(b"\x0f" * (number + 1))
            writer.write(scalar_event("loss", number, 1.0).SerializeToString())
    records = read(path)
    assert len(points_of(records)["loss"]) == 50
    warnings = only(records, ReadWarning)
    assert [warning.kind for warning in warnings] == ["undecodable", "undecodable"]
    assert warnings[0].where == "byte 12"
    assert "50 records" in warnings[1].message


def test_a_record_larger_than_a_block_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / NAME
    graph = EventMessage(wall_time=1.0, graph_def=bytes(300_000))
    write_events(path, [scalar_event("loss", 1, 1.0), graph, scalar_event("loss", 2, 2.0)])
    with path.open("rb") as stream:
        blocks = list(read_blocks(stream, 1000))
    assert [int(size) for block in blocks for size in block.sizes][1] > 300_000
    assert sum(len(block.sizes) for block in blocks) == 3
    assert not any(block.losses for block in blocks)
