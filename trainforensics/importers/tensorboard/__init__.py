"""TensorBoard event files: TFRecord framing, one Event a record.

Scalars are decoded by `tfevents`; histograms, text, hyper-parameters and whatever else holds a number go through
TensorBoard's own message classes, which are only loaded when a file has such records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers import protowire as wire
from trainforensics.importers.base import NO_TIME, Config, Head, Points, Record, Source, open_binary
from trainforensics.importers.framing import MAX_WARNINGS, summarise
from trainforensics.importers.messages import event_kind
from trainforensics.importers.tensorboard.events import Columns, Scalars, decode
from trainforensics.importers.tensorboard.records import Block, first_payload, read_blocks
from trainforensics.importers.tensorboard.summary import Number, Text, decode_value
from trainforensics.model import Axis, Event, ReadWarning

FORMAT = "tensorboard"

_VERSION = b"brain.Event:"
_VS_SAMPLES, _SAMPLES = " vs samples", "consumed_samples"
_FILE_VERSION, _SUMMARY, _LOG_MESSAGE, _SESSION_LOG = 3, 5, 6, 7  # fields of Event
_START, _CHECKPOINT = 1, 3  # SessionLog.SessionStatus
# Folders that only say "logs are here", or when they were written.
_PLAIN_FOLDER = re.compile(
    r"tb|tensorboard|tensorboard_logs?|tb_logs?|tfevents|summar(y|ies)|runs?|events?|logs?|output|lightning_logs|version_\d+"
    r"|[\d._:T-]+|[A-Z][a-z]{2}\d{1,2}_\d\d-\d\d-\d\d.*",
    re.IGNORECASE,
)
_MESSAGE = 300  # characters; a longer text is a sample or a description, whatever words it holds
_RANK_FOLDER = re.compile(r"(?:rank|worker|proc(?:ess)?|gpu|device)[_-]?(\d+)", re.IGNORECASE)


def sniff(head: Head) -> float:
    """1 for a first record with the version of an event file; less for a damaged, empty or headless one."""
    data, named = head.data, "tfevents" in head.name
    if _VERSION in data[:64]:
        return 1.0
    if not data:
        return 0.6 if named else 0.0
    record = first_payload(data)
    if record[:1] == b"\x09":  # an Event starts with its wall time; other records (tf.Example) do not
        return 0.95 if named else 0.8
    return 0.6 if named else 0.0


def read(source: Source) -> Iterator[Record]:
    """Stream scalars and histogram quantiles as points, text and hyper-parameters as configuration, and events."""
    file = _EventFile(source)
    with open_binary(source.path) as stream:
        for block in read_blocks(stream):
            yield from file.records(block)
    yield from file.end()


def folder_of(label: str) -> tuple[str, int | None]:
    """What the folders between the run and its file add to the series' names, and the rank they state."""
    rank: int | None = None
    kept = []
    for part in PurePath(label).parent.parts:
        if match := _RANK_FOLDER.fullmatch(part):
            rank = int(match[1])
        elif not _PLAIN_FOLDER.fullmatch(part):
            kept.append(part)
    return "/".join(kept), rank


class _EventFile:
    """State that runs through one event file."""

    def __init__(self, source: Source) -> None:
        self._label = source.label
        folder, self._rank = folder_of(source.label)
        self._prefix = f"{folder}/" if folder else ""
        self._scalars = Scalars()
        self._clock = _SampleClock()
        self._life = 0
        self._alive = False  # whether the current process life has logged a scalar
        self._last_step: int | None = None
        self._losses = self._lost_bytes = self._undecodable = 0

    def records(self, block: Block) -> Iterator[Record]:
        """Everything a block holds."""
        starts: list[int] = []
        for index in decode(block, self._scalars):
            payload = block.payload(index)
            try:
                kinds = {number for number, *_ in wire.fields(payload)}
                if kinds & {_FILE_VERSION, _SESSION_LOG}:
                    starts += [index] if _begins_life(payload) else []
                if kinds & {_SUMMARY, _LOG_MESSAGE, _SESSION_LOG}:
                    yield from self._general(payload, index)
            except ValueError as error:
                self._undecodable += 1
                if self._undecodable == 1:
                    where = f"byte {block.offset + int(block.starts[index])}"
                    yield ReadWarning("undecodable", where, f"record {block.first + index} is no event: {error}")
        logged, steps = self._scalars.steps()
        lives = self._lives(starts, logged)
        yield from self._warnings(block, logged, steps)
        for name, record, step, wall_time, value in self._clock.align(list(self._scalars.series())):
            yield Points(
                self._prefix + name,
                step,
                value,
                block.first + record,
                wall_time if (wall_time != NO_TIME).any() else None,
                segment=(self._life + np.searchsorted(lives, record, "right")).astype(np.int32),
                rank=self._rank,
            )
        self._life += len(lives)
        if len(steps):
            self._last_step = int(steps[-1])

    def end(self) -> Iterator[Record]:
        """The axis, and what was too much to warn of one by one."""
        if self._losses > MAX_WARNINGS:
            yield summarise(self._losses - MAX_WARNINGS, self._lost_bytes)
        if self._undecodable > 1:
            yield ReadWarning("undecodable", "file", f"{self._undecodable} records are no events")
        tags = list(self._scalars.tags)
        if tags:
            epochs = all(tag.startswith("epoch_") for tag in tags)  # Keras counts epochs where others count steps
            yield Axis("epoch", "epoch") if epochs else Axis("step", "step")

    def _lives(self, starts: list[int], logged: NDArray[np.int64]) -> list[int]:
        """The records of `starts` before which the life until then had logged a scalar."""
        lives = []
        seen = 0
        for start in starts:
            before = int(np.searchsorted(logged, start))
            if self._alive or before > seen:
                lives.append(start)
            self._alive, seen = False, before
        self._alive |= len(logged) > seen
        return lives

    def _warnings(self, block: Block, logged: NDArray[np.int64], steps: NDArray[np.int64]) -> Iterator[Record]:
        for loss in block.losses:
            self._losses += 1
            if self._losses > MAX_WARNINGS:
                self._lost_bytes += loss.size
                continue
            at = int(np.searchsorted(logged, loss.index - block.first))
            before = int(steps[at - 1]) if at else self._last_step
            after = int(steps[at]) if at < len(steps) else None
            yield loss.warning(before, after)

    def _general(self, payload: bytes, index: int) -> Iterator[Record]:
        """Events that are not plain scalars, through TensorBoard's messages."""
        from tensorboard.compat.proto import event_pb2  # noqa: PLC0415  (50 ms, rarely needed)

        event = wire.parse(event_pb2, "Event", payload)
        about = {"wall_time": event.wall_time or None, "step": event.step, "rank": self._rank, "source": self._label}
        what = event.WhichOneof("what")
        if what == "session_log":
            log = event.session_log
            if log.status == _START:
                yield Event("restart" if event.step > 0 or self._life else "start", text="SessionLog START", **about)
            elif log.status == _CHECKPOINT:
                yield Event("checkpoint", text=log.checkpoint_path or log.msg, **about)
        elif what == "log_message":
            yield Event("console", text=event.log_message.message, **about)
        elif what == "summary":
            for value in event.summary.value:
                for found in decode_value(value):
                    if isinstance(found, Number):
                        self._scalars.add(found.name, index, event.step, event.wall_time, found.value)
                    elif isinstance(found, Text):
                        yield Event(_told(found.text), text=found.text, **about)
                    else:
                        yield Config(found)


def _told(text: str) -> str:
    """The kind of event that a text tells of, "text" where it is no message of one line."""
    is_message = len(text) <= _MESSAGE and "\n" not in text.strip()
    return (event_kind(text) if is_message else None) or "text"


class _SampleClock:
    """Puts Megatron's "... vs samples" tags, whose step counts samples, on the steps of the tags they repeat."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # last step of each tag
        self._witness = ""  # the tag that gives the consumed samples

    def align(self, series: list[Columns]) -> Iterator[Columns]:
        """The block's series, and the samples consumed at each step as one more."""
        by_tag = {columns[0]: columns for columns in series}
        last = dict(self._last)
        self._last |= {tag: int(step[-1]) for tag, _, step, *_ in series}
        for columns in series:
            tag, record, samples, wall_time, value = columns
            base = tag.removesuffix(_VS_SAMPLES)
            if base == tag or base not in self._last:
                yield columns
                continue
            _, base_record, base_step, *_ = by_tag.get(base, (base, record[:0], samples[:0]))
            before = last[base] if base in last else base_step[0]
            step = np.append(before, base_step)[np.searchsorted(base_record, record, "right")]
            yield tag, record, step, wall_time, value
            self._witness = self._witness or tag
            if tag == self._witness and _SAMPLES not in self._last:
                yield _SAMPLES, record, step, wall_time, samples.astype(np.float64)


def _begins_life(payload: bytes) -> bool:
    """A file version (a writer opened the file) or SessionLog START."""
    for number, kind, start, end in wire.fields(payload):
        if number == _FILE_VERSION:
            return True
        if number == _SESSION_LOG and kind == wire.BYTES:
            log = wire.fields(payload, start, end)
            return any(n == 1 and wire.varint(payload, at)[0] == _START for n, _, at, _ in log)
    return False
