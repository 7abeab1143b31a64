"""W&B's binary log of a run (`run-<id>.wandb`): a LevelDB log of records, of which the history rows are the metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers import protowire as wire
from trainforensics.importers.base import NO_TIME, Config, Head, Identity, Points, Record, Source, open_binary
from trainforensics.importers.framing import MAX_WARNINGS, summarise
from trainforensics.importers.messages import event_kind
from trainforensics.importers.wandb import axis as step_axis
from trainforensics.importers.wandb import leveldb
from trainforensics.importers.wandb.items import Column, Columns, nested, path_of, split, text
from trainforensics.importers.wandb.messages import message_class
from trainforensics.model import Axis, Event, ReadWarning

FORMAT = "wandb-offline"

_HEADER = b":W&B\xe1\xbe\x00"  # name, magic number, version
_CONSOLE_BYTES = 4096  # of text in one event
# "Tried to log to step 200 that is less than the current step 249", and how older SDKs put it.
_DROPPED = re.compile(r"[Ss]tep:? (\d+)(?: that)? (?:is less than (?:the )?current step:?|<) (\d+)")
_OWN_COLUMNS = frozenset({step_axis.OWN_COUNTER, "_timestamp", "_runtime"})
_RUN_FIELDS = ("run_id", "entity", "project", "display_name", "run_group", "job_type", "sweep_id", "host", "notes")

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


def sniff(head: Head) -> float:
    """1 for the magic number of a `.wandb` file; less for one whose first bytes are damaged."""
    if head.data.startswith(_HEADER[:6]):
        return 1.0
    return 0.6 if head.name.endswith(".wandb") else 0.0


def read(source: Source) -> Iterator[Record]:
    """Stream history and system metrics as points; configuration, console text, restarts and the exit beside them."""
    run = _RunFile(source.label)
    with open_binary(source.path) as stream:
        for batch in leveldb.read_batches(stream, _HEADER):
            yield from run.records(batch)
    yield from run.end()


class _RunFile:
    """State that runs through one file. Rows are numbered by their record's place in the file."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._parse = message_class("Record").FromString
        self._history, self._system = Columns(), Columns()
        self._rows: list[tuple[int, int]] = []  # record number and HistoryRecord.step of each history row of the batch
        self._samples: list[tuple[int, int]] = []  # record number and time of each row of system metrics
        self._clock = _Clock()
        self._definitions: list[tuple[str, str]] = []
        self._summary: dict[bytes, bytes] = {}
        self._events: list[tuple[int, Event]] = []  # of the batch, with their record number; the step comes later
        self._console: dict[int, _Console] = {}
        self._dropped: list[tuple[int, int]] = []  # step of a row that W&B refused, and the step it had reached
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
        self._events += [event for console in self._console.values() for event in console.take(everything=True)]
        yield from self._placed_events()
        if self._clock.axis:
            yield self._clock.axis
        paths = ((path_of(head), value) for head, value in self._summary.items())
        logged = self._history.by_name
        summary = nested((path, value) for path, value in paths if ".".join(path) not in logged and path[0][:1] != "_")
        if summary:
            yield Config({"summary": summary})
        if self._dropped:
            steps = [step for step, _ in self._dropped]
            message = f"W&B refused {len(steps)} rows because step {self._dropped[0][1]} had been logged before them"
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
            console = self._console.setdefault(record.output_type, _Console(self._label))
            self._events += console.add(number, text(record.line), _seconds(record.timestamp))
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
        yield from self._system_points()
        yield from self._placed_events()
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
            if event.kind == "console":
                self._dropped += [(int(step), int(reached)) for step, reached in _DROPPED.findall(event.text)]
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


class _Clock:
    """Step on the run's axis, and time, of every record of the current batch."""

    def __init__(self) -> None:
        self.axis: Axis | None = None
        self._record = np.zeros(0, np.int64)
        self._step = np.zeros(0, np.int64)
        self._time = np.zeros(0, np.int64)
        self._before = (0, int(NO_TIME))  # step and time of the last row before the batch
        self._any = False

    def start_at(self, step: int) -> None:
        """Where a resumed run takes up counting."""
        self._before = (step, self._before[1])

    def advance(self, rows: list[tuple[int, int]], columns: list[Column], definitions: list[tuple[str, str]]) -> None:
        """Take the rows of the next batch; the first of them decide the axis."""
        if len(self._step):
            self._before = (int(self._step[-1]), int(self._time[-1]))
        self._record = np.array([record for record, _ in rows], np.int64)
        by_name = {column.name: column for column in columns}
        if self.axis is None and rows:
            declared = step_axis.declared_counters(definitions)
            logged = {name: np.array(column.values) for name, column in by_name.items()}
            self.axis = step_axis.choose(declared, logged, len(rows))
        own = self._spread(by_name.get(step_axis.OWN_COUNTER))
        counter = np.where(np.isfinite(own), own, np.array([step for _, step in rows], float))
        if self.axis is not None and self.axis.name != step_axis.OWN_COUNTER:
            counter = self._spread(by_name.get(self.axis.name))
        self._step = self._carried(counter, self._before[0], backwards=not self._any)
        self._time = self._carried(self._spread(by_name.get("_timestamp")) * 1e6, self._before[1])
        self._any |= bool(rows)

    def at(self, record: _Ints) -> tuple[_Ints, _Ints]:
        """Step and time (microseconds) of the last row up to each record."""
        place = np.searchsorted(self._record, record, "right")
        step, time = np.append(self._before[0], self._step), np.append(self._before[1], self._time)
        return step[place], time[place]

    def around(self, record: int) -> tuple[int | None, int | None]:
        """Steps of the rows before and behind a record number, where there are any."""
        place = int(np.searchsorted(self._record, record))
        before = int(self._step[place - 1]) if place else None
        after = int(self._step[place]) if place < len(self._step) else None
        return before, after

    def _spread(self, column: Column | None) -> _Floats:
        """(rows,) values of a column, NaN in rows without."""
        spread = np.full(len(self._record), np.nan)
        if column is not None:
            spread[np.searchsorted(self._record, column.rows)] = column.values
        return spread

    def _carried(self, values: _Floats, before: int, backwards: bool = False) -> _Ints:
        """Whole numbers, the last known one where a value is missing (or the first, going back at the very start)."""
        known = np.isfinite(values) & (np.abs(values) < 2.0**62)
        whole = np.where(known, values, 0.0).round().astype(np.int64)
        last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1)) if len(values) else known
        if backwards and known.any():
            before = int(whole[np.argmax(known)])
        return np.where(last >= 0, whole[last], before) if len(values) else whole


class _Console:
    """Text that a run printed to one stream, in fragments; whole lines leave it in groups."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._text: list[str] = []
        self._size = 0
        self._line = 1
        self._begun: tuple[int, float | None] = (0, None)  # record and time of the first fragment

    def add(self, record: int, fragment: str, time: float | None) -> list[tuple[int, Event]]:
        """Add a fragment; gives an event once there is enough text."""
        if not self._text:
            self._begun = (record, time)
        self._text.append(fragment)
        self._size += len(fragment)
        return self.take() if self._size >= _CONSOLE_BYTES and "\n" in fragment else []

    def take(self, everything: bool = False) -> list[tuple[int, Event]]:
        """The whole lines gathered so far (or everything) as one event, with the record that began it."""
        gathered = "".join(self._text)
        cut = len(gathered) if everything else gathered.rfind("\n") + 1
        lines, rest = gathered[:cut], gathered[cut:]
        self._text, self._size = [rest] if rest else [], len(rest)
        if not lines.strip():
            self._line += lines.count("\n")
            return []
        record, time = self._begun
        event = Event("console", None, time, text=lines.rstrip("\n"), source=self._label, line=self._line)
        self._line += lines.count("\n")
        return [(record, event)]


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


def _points(name: str, column: Column, record: _Ints, step: _Ints, time: _Ints) -> Points:
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
