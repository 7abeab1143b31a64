"""Damage to binary logs: what was not hit keeps its values, and what was lost is reported with its place."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logwriters import (
    Span,
    history_record,
    points_of,
    scalar_event,
    tensor_event,
    version_event,
    write_event_payloads,
    write_events,
    write_wandb,
    write_wandb_payloads,
)

from trainforensics.importers import tensorboard, wandb
from trainforensics.importers.base import Source
from trainforensics.importers.tensorboard.records import read_blocks
from trainforensics.importers.wandb.leveldb import read_batches
from trainforensics.model import ReadWarning

Damage = Callable[[bytes, int, int], bytes]


def flip(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(byte ^ 0x5A for byte in data[at : at + size]) + data[at + size :]


def zero(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def remove(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + data[at + size :]


def insert(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + random.Random(at).randbytes(size) + data[at:]


DAMAGES = (flip, zero, remove, insert)


def value_at(step: int) -> float:
    return step / 4


class Log:
    """A binary log with the spans of its records, the step each record holds, and its reader."""

    def __init__(self, path: Path, read: Any, spans: list[list[Span]], steps: list[int | None]) -> None:
        self.path, self.read, self.spans, self.steps = path, read, spans, steps
        self.data = path.read_bytes()

    def unhit(self, at: int, size: int) -> set[int]:
        """Steps of the records that no damaged byte belongs to; size 0 for insertions."""
        return {
            step
            for step, spans in zip(self.steps, self.spans, strict=True)
            if step is not None and all(end <= at or start >= at + size for start, end in spans)
        }

    def contents(self, data: bytes) -> tuple[dict[int, float], list[ReadWarning]]:
        self.path.write_bytes(data)
        records = list(self.read(Source(self.path, self.path.name)))
        points = points_of(records).get("loss", [])
        return dict(points), [record for record in records if isinstance(record, ReadWarning)]


@pytest.fixture(scope="module")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    path = tmp_path_factory.mktemp("tb") / "events.out.tfevents.1700000000.host.1.0"
    steps = list(range(0, 600, 2))
    kinds = [scalar_event, tensor_event]
    events = [kinds[step % 3 == 0]("loss", step, value_at(step)) for step in steps]
    spans = write_events(path, [version_event(), *events])
    return Log(path, tensorboard.read, [[span] for span in spans], [None, *steps])


@pytest.fixture(scope="module")
def wandb_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """About 100 KB, with rows that cross blocks and one longer than a block."""
    path = tmp_path_factory.mktemp("wb") / "run-abc.wandb"
    steps = list(range(0, 900, 3))
    rows = [{"_step": step, "loss": value_at(step), "note": "x" * (40000 if step == 300 else 90)} for step in steps]
    spans = write_wandb(path, [history_record(row, number) for number, row in enumerate(rows, 1)])
    return Log(path, wandb.read, spans, list(steps))


@pytest.fixture(params=["tensorboard", "wandb"])
def log(request: pytest.FixtureRequest, event_log: Log, wandb_log: Log) -> Log:
    return event_log if request.param == "tensorboard" else wandb_log


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("size", [1, 5, 300])
def test_records_that_were_not_hit_keep_their_values(log: Log, damage: Damage, size: int) -> None:
    places = [*range(0, 40, 3), *range(40, len(log.data) - size, len(log.data) // 31), len(log.data) - size]
    for at in places:
        values, warnings = log.contents(damage(log.data, at, size))
        kept = log.unhit(at, 0 if damage is insert else size)
        assert kept <= set(values), f"{damage.__name__} {size} bytes at {at}: lost {sorted(kept - set(values))}"
        assert all(value == value_at(step) for step, value in values.items())
        lost = {step for step in log.steps if step is not None} - set(values)
        if lost:
            assert warnings, f"{damage.__name__} {size} bytes at {at}: {sorted(lost)} lost in silence"
            offsets = [int(warning.where.removeprefix("byte ")) for warning in warnings]
            assert any(abs(offset - at) <= 41000 for offset in offsets)
            assert len(warnings) <= 3


def test_cut_anywhere_keeps_what_came_before_and_warns_once(log: Log) -> None:
    for at in [*range(0, 60, 3), *range(60, len(log.data), 1997)]:
        values, warnings = log.contents(log.data[:at])
        assert log.unhit(at, len(log.data)) == set(values)
        assert len(warnings) <= 1
        if any(start < at < end for spans in log.spans for start, end in spans):
            assert [warning.kind for warning in warnings] == ["truncated"]


def test_a_long_stretch_of_zeros_or_noise_costs_itself_alone(log: Log) -> None:
    at = log.spans[100][0][0]
    for stretch in (bytes(96 * 32768), random.Random(0).randbytes(8 * 32768)):
        values, warnings = log.contents(log.data[:at] + stretch + log.data[at:])
        assert set(values) >= log.unhit(at, 0)
        assert len(warnings) == 1
        assert abs(int(warnings[0].where.removeprefix("byte ")) - at) < 41000


def test_two_damaged_places_are_told_apart(event_log: Log) -> None:
    first, second = event_log.spans[50][0][0] + 20, event_log.spans[200][0][0] + 3
    _, warnings = event_log.contents(flip(flip(event_log.data, first, 1), second, 1))
    assert [warning.where for warning in warnings] == [f"byte {event_log.spans[i][0][0]}" for i in (50, 200)]
    assert "between steps 96 and 100" in warnings[0].message


def test_many_damaged_places_give_a_bounded_number_of_warnings(log: Log) -> None:
    data = log.data
    hit = log.spans[2:202:2]
    for spans in hit:
        data = flip(data, spans[0][0] + 15, 1)
    values, warnings = log.contents(data)
    assert len(values) == sum(step is not None for step in log.steps) - len(hit)
    assert len(warnings) == 21
    assert warnings[-1].message.startswith(f"{len(hit) - 20} further damaged places")


def test_damaged_archive_keeps_what_could_be_decompressed(event_log: Log, tmp_path: Path) -> None:
    packed = gzip.compress(event_log.data * 40, mtime=0)
    path = tmp_path / "events.out.tfevents.1.gz"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    records = list(tensorboard.read(Source(path, path.name)))
    assert len(points_of(records)["loss"]) > 100
    assert any("archive is damaged" in r.message for r in records if isinstance(r, ReadWarning))


@settings(max_examples=60, deadline=None)
@given(block=st.integers(1, 5000), at=st.integers(0, 10**6), size=st.integers(1, 200), damage=st.sampled_from(DAMAGES))
def test_block_size_of_reading_does_not_matter(event_log: Log, block: int, at: int, size: int, damage: Damage) -> None:
    data = damage(event_log.data, at % len(event_log.data), size)

    def payloads(block_bytes: int) -> list[bytes]:
        return [b.payload(i) for b in read_blocks(io.BytesIO(data), block_bytes) for i in range(len(b.sizes))]

    assert payloads(block) == payloads(1 << 20)


@settings(max_examples=40, deadline=None)
@given(
    block=st.integers(1000, 60000), at=st.integers(0, 10**6), size=st.integers(1, 200), damage=st.sampled_from(DAMAGES)
)
def test_read_size_of_the_log_does_not_matter(wandb_log: Log, block: int, at: int, size: int, damage: Damage) -> None:
    data = damage(wandb_log.data, at % len(wandb_log.data), size)

    def payloads(read_bytes: int) -> list[bytes]:
        return [p for batch in read_batches(io.BytesIO(data), data[:7], read_bytes) for p in batch.payloads]

    assert payloads(block) == payloads(1 << 20)


def mutants(payload: bytes) -> st.SearchStrategy[bytes]:
    """The payload with some bytes replaced, or cut, or any bytes at all."""

    def changed(changes: dict[int, int]) -> bytes:
        return bytes(changes.get(place, byte) for place, byte in enumerate(payload))

    places = st.integers(0, len(payload) - 1)
    return st.one_of(
        st.dictionaries(places, st.integers(0, 255), min_size=1, max_size=4).map(changed),
        places.map(lambda cut: payload[:cut]),
        st.binary(max_size=60),
    )


EVENT = tensor_event("loss", 3, 0.5).SerializeToString()
ROW = history_record({"_step": 1, "loss": 0.5, "h.a": 1, "text": "x"}).SerializeToString()


def test_a_tensor_of_a_type_that_does_not_exist_is_reported_with_its_place(tmp_path: Path) -> None:
    event = tensor_event("loss", 3, 0.5)
    event.summary.value[0].tensor.dtype = 120
    path = tmp_path / "events.out.tfevents.1"
    good = [scalar_event("good", step, value_at(step)).SerializeToString() for step in range(3)]
    write_event_payloads(path, [good[0], event.SerializeToString(), *good[1:]])
    records = list(tensorboard.read(Source(path, path.name)))
    assert points_of(records)["good"] == [(step, value_at(step)) for step in range(3)]
    assert [warning.kind for warning in records if isinstance(warning, ReadWarning)] == ["undecodable"]


@settings(max_examples=150, deadline=None)
@given(st.lists(mutants(EVENT), min_size=1, max_size=4))
def test_sound_records_with_nonsense_inside_cost_themselves_alone(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("tb") / "events.out.tfevents.1"
    good = [scalar_event("good", step, value_at(step)).SerializeToString() for step in range(3)]
    write_event_payloads(path, [good[0], *payloads, *good[1:]])
    found = points_of(tensorboard.read(Source(path, path.name)))
    assert found["good"] == [(step, value_at(step)) for step in range(3)]


@settings(max_examples=150, deadline=None)
@given(st.lists(mutants(ROW), min_size=1, max_size=4))
def test_sound_rows_with_nonsense_inside_cost_themselves_alone(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("wb") / "run-abc.wandb"
    good = [history_record({"_step": step, "good": value_at(step)}).SerializeToString() for step in range(3)]
    write_wandb_payloads(path, [good[0], *payloads, *good[1:]])
    found = points_of(wandb.read(Source(path, path.name)))
    assert [value for _, value in found["good"]] == [value_at(step) for step in range(3)]
