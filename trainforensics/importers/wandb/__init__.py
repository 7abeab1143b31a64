"""W&B's binary log of a run (`run-<id>.wandb`): a LevelDB log of records, of which the history rows are the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainforensics.importers import protowire as wire
from trainforensics.importers.base import NO_TIME, Config, Head, Identity, Points, Record, Source, open_binary
from trainforensics.importers.framing import MAX_WARNINGS, summarise
from trainforensics.importers.messages import event_kind
from trainforensics.importers.wandb import axis as step_axis
from trainforensics.importers.wandb import leveldb
from trainforensics.importers.wandb.clock import Clock, Ints
from trainforensics.importers.wandb.items import Column, Columns, nested, path_of, split, text
from trainforensics.importers.wandb.messages import message_class
from trainforensics.importers.wandb.output import Output
from trainforensics.importers.wandb.provenance import batches
from trainforensics.model import Event, ReadWarning

FORMAT = "wandb-offline"

_HEADER = b":W&B\xe1\xbe\x00"  # name, magic number, version
_OWN_COLUMNS = frozenset({step_axis.OWN_COUNTER, "_timestamp", "_runtime"})
_RUN_FIELDS = ("run_id", "entity", "project", "display_name", "run_group", "job_type", "sweep_id", "host", "notes")


def sniff(head: Head) -> float:
    """1 for the magic number of a `.wandb` file; less for one whose first bytes are damaged."""
    if head.data.startswith(_HEADER[:6]):
        return 1.0
    return 0.6 if head.name.endswith(".wandb") else 0.0


def read(source: Source) -> Iterator[Record]:
    """Stream history and system metrics as points; configuration, console text, restarts and the exit beside them."""
    run = _RunFile(source)
    with open_binary(source.path) as stream:
        for batch in leveldb.read_batches(stream, _HEADER):
            yield from run.records(batch)
    yield from run.end()


class _RunFile:
    """State that runs through one file. Rows are numbered by their record's place in the file."""

    def __init__(self, source: Source) -> None:
        self._label = source.label
        self._parse = message_class("Record").FromString
        self._history, self._system = Columns(), Columns()
        self._rows: list[tuple[int, int]] = []  # record number and HistoryRecord.step of each history row of the batch
        self._samples: list[tuple[int, int]] = []  # record number and time of each row of system metrics
        self._clock = Clock()
        self._definitions: list[tuple[str, str]] = []
        self._summary: dict[bytes, bytes] = {}
        self._events: list[tuple[int, Event]] = []  # of the batch, with their record number; the step comes later
        self._output = Output(source)
        self._known = False
        self._undecodable = self._losses = self._lost_bytes = 0

    def records(self, batch: leveldb.Batch) -> Iterator[Record]:
        """Everything that a batch holds."""
        from google.protobuf.message import DecodeError  # noqa: PLC0415

        for number, payload in enumerate(batch.payloads, batch.first):
            try:
                record = self._parse(payload)
                what = record.WhichOneof("what")
                if what == "history":
                    history = record.history
                    self._history.add_row(history.item, number)
                    self._rows.append((number, history.step.num))
                elif what == "summary":
                    self._keep_summary(record.summary.update)
                elif what is not None:
                    yield from self._other(what, getattr(record, what), number)
            except (DecodeError, wire.WireError) as error:
                self._undecodable += 1
                if self._undecodable == 1:
                    yield ReadWarning("undecodable", f"record {number}", f"not a W&B record: {error}")
        yield from self._flush(batch)

    def end(self) -> Iterator[Record]:
        """The axis, what only the summary says, and what was too much to warn of one by one."""
        yield from self._placed_events()
        yield from self._output.end(self._clock)
        if self._clock.axis:
            yield self._clock.axis
        paths = ((path_of(head), value) for head, value in self._summary.items())
        logged = self._history.by_name
        summary = nested((path, value) for path, value in paths if ".".join(path) not in logged and path[0][:1] != "_")
        if summary:
            yield Config({"summary": summary})
        if dropped := self._output.dropped:
            steps = [step for step, _ in dropped]
            message = f"W&B refused {len(steps)} rows because step {dropped[0][1]} had been logged before them"
            yield ReadWarning("dropped-by-logger", f"steps {min(steps)} to {max(steps)}", message)
        if self._losses > MAX_WARNINGS:
            yield summarise(self._losses - MAX_WARNINGS, self._lost_bytes)
        if self._undecodable > 1:
            yield ReadWarning("undecodable", "file", f"{self._undecodable} records could not be decoded")

    def _keep_summary(self, items: Any) -> None:
        """Remember what no history row holds; the rest is repeated with every row."""
        self._summary |= self._history.unknown(items)

    def _other(self, what: str, record: Any, number: int) -> Iterator[Record]:
        """Records that are no rows of history."""
        if what == "stats":
            self._system.add_row(record.item, number)
            self._samples.append((number, _microseconds(record.timestamp)))
        elif what in {"output", "output_raw"}:
            self._output.add(number, record.output_type, text(record.line), _microseconds(record.timestamp))
        elif what == "metric" and record.step_metric:
            self._definitions.append((text(record.name or record.glob_name), text(record.step_metric)))
        elif what == "config":
            yield Config(_settings(record))
        elif what == "run":
            yield from self._run(record, number)
        elif what == "exit":
            self._event(number, "exit", f"exit code {record.exit_code}")
        elif what == "alert":
            message = f"{text(record.title)}: {text(record.text)}"
            self._event(number, event_kind(message) or "alert", message)
        elif what == "preempting":
            self._event(number, "preemption", "the run was about to be preempted")

    def _run(self, run: Any, number: int) -> Iterator[Record]:
        about: dict[str, Any] = {name: text(getattr(run, name)) for name in _RUN_FIELDS if getattr(run, name)}
        if run.tags:
            about["tags"] = [text(tag) for tag in run.tags]
        yield Config({**_settings(run.config), "wandb": about})
        if self._known:
            return
        self._known = True
        yield Identity(text(run.run_id))
        self._clock.start_at(run.starting_step)
        kind, what, step = _beginning(run)
        time = _seconds(run.start_time)
        self._events.append((number, Event(kind, step, time, text=what, source=self._label)))

    def _event(self, number: int, kind: str, what: str) -> None:
        self._events.append((number, Event(kind, text=what, source=self._label)))

    def _flush(self, batch: leveldb.Batch) -> Iterator[Record]:
        columns = self._history.take()
        self._clock.advance(self._rows, columns, self._definitions)
        self._rows = []
        for column in columns:
            if column.name not in _OWN_COLUMNS:
                record = np.array(column.rows, np.int64)
                step, time = self._clock.at(record)
                yield _points(column.name, column, record, step, time)
        yield from batches(columns, self._history.take_said(), self._clock)
        yield from self._system_points()
        yield from self._placed_events()
        yield from self._output.take(self._clock)
        yield from self._warnings(batch)

    def _system_points(self) -> Iterator[Points]:
        numbers = np.array([number for number, _ in self._samples], np.int64)
        times = np.array([time for _, time in self._samples], np.int64)
        for column in self._system.take():
            record = np.array(column.rows, np.int64)
            step, _ = self._clock.at(record)
            yield _points(f"system/{column.name}", column, record, step, times[np.searchsorted(numbers, record)])
        self._samples = []

    def _placed_events(self) -> Iterator[Event]:
        for number, event in self._events:
            step, time = self._clock.at(np.array([number]))
            yield Event(
                event.kind,
                int(step[0]) if event.step is None else event.step,
                event.wall_time if event.wall_time is not None or time[0] == NO_TIME else float(time[0]) / 1e6,
                text=event.text,
                source=event.source,
                line=event.line,
            )
        self._events = []

    def _warnings(self, batch: leveldb.Batch) -> Iterator[ReadWarning]:
        for loss in batch.losses:
            self._losses += 1
            if self._losses > MAX_WARNINGS:
                self._lost_bytes += loss.size
            else:
                yield loss.warning(*self._clock.around(loss.index))


def _beginning(run: Any) -> tuple[str, str, int]:
    """Kind of event, text and step of a run's start."""
    origin = text(run.branch_point.run)
    if origin:
        step = int(run.branch_point.value)
        where = f"{text(run.branch_point.metric) or step_axis.OWN_COUNTER} {step}"
        if run.branch_point.run == run.run_id:
            return "restart", f"run rewound to {where}", step
        return "fork", f"run forked from run {origin} at {where}", step
    step = int(run.starting_step)
    return ("restart", "run resumed", step) if run.resumed or step else ("start", "run started", step)


def _settings(config: Any) -> dict[str, Any]:
    items = ((path_of(head), value) for head, value in map(split, config.update))
    return {name: value for name, value in nested(items).items() if name != "_wandb"}


def _points(name: str, column: Column, record: Ints, step: Ints, time: Ints) -> Points:
    state = None
    if column.odd:
        state = np.zeros(len(record), np.uint8)
        state[list(column.odd)] = list(column.odd.values())
    wall_time = time if (time != NO_TIME).any() else None
    return Points(name, step, np.array(column.values, np.float64), record, wall_time, state)


def _seconds(timestamp: Any) -> float | None:
    return timestamp.seconds + timestamp.nanos / 1e9 if timestamp.seconds else None


def _microseconds(timestamp: Any) -> int:
    return timestamp.seconds * 1_000_000 + timestamp.nanos // 1000 if timestamp.seconds else int(NO_TIME)
