"""What a W&B run printed: text fragments among its records, read by the grammar of console text.

It is a log within the file, with two clocks: the step that it prints, and the history rows around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from trainforensics.importers.base import NAIVE_TIME, NO_TIME, Config, Inner, Points, Record, Source, inner_label
from trainforensics.importers.printed.reader import Reader
from trainforensics.importers.wandb.clock import Clock, Ints
from trainforensics.model import Axis, Event, ReadWarning

FORMAT = "console"

# "Tried to log to step 200 that is less than the current step 249", and how older SDKs put it.
_DROPPED = re.compile(r"[Ss]tep:? (\d+)(?: that)? (?:is less than (?:the )?current step:?|<) (\d+)")
_ENDS = re.compile(r"\r*\n|\r+")
_LONGEST = 1 << 20  # characters of a line that does not end
_ENOUGH = 8  # printed records that decide which clock counts
_ALIKE = 0.8  # share of them that must stand between the steps of the rows around them
_LAST = np.iinfo(np.int64).max  # behind every record
_LATE = 2  # rows by which text may be late or early: it takes another way into the file


@dataclass(slots=True)
class _Line:
    """A line with the record and the time (NO_TIME where unknown) of its first fragment."""

    text: str
    record: int
    time: int


@dataclass(slots=True)
class _Held:
    """Points or an event until it is known which clock counts; `history`: steps of the rows before them."""

    record: Points | Event
    history: Ints


class Output:
    """The printed text of one file. `dropped`: step of each row that W&B refused, and the step it had reached."""

    def __init__(self, source: Source) -> None:
        self._source = replace(source, label=inner_label(source.label, FORMAT))
        self._reader: Reader | None = None
        self._open: dict[int, _Line] = {}  # by stream
        self._lines: list[_Line] = []
        self._line = 1
        self._held: list[_Held] = []
        self._between = self._judged = 0
        self._timed = True  # whether every record says when it was printed
        self._own_steps: bool | None = None  # whether the steps that it prints are on the run's axis
        self.dropped: list[tuple[int, int]] = []

    def add(self, record: int, stream: int, fragment: str, time: int) -> None:
        """Take a fragment of a stream. What follows a carriage return is a progress bar, drawn at once."""
        self._timed &= time != NO_TIME
        line = self._open.pop(stream, None) or _Line("", record, time)
        at = 0
        for end in _ENDS.finditer(fragment):
            line.text += fragment[at : end.start()]
            self._lines.append(line)
            line, at = _Line("", record, time), end.end()
        redrawn = at and fragment[at - 1] == "\r"
        line.text += fragment[at:]
        if line.text and (redrawn or len(line.text) > _LONGEST):
            self._lines.append(line)
        elif line.text:
            self._open[stream] = line

    def take(self, clock: Clock) -> Iterator[Record]:
        """The records of the lines since the last call."""
        lines, self._lines = [line for line in self._lines if line.text], []
        if not lines:
            return
        self._reader = self._reader or Reader(self._source)
        text = "\n".join(line.text for line in lines)
        self.dropped += [(int(step), int(reached)) for step, reached in _DROPPED.findall(text)]
        numbers, times = np.array([line.record for line in lines]), np.array([line.time for line in lines])
        for record in self._reader.block(text, self._line):
            if isinstance(record, Points):
                at = np.searchsorted(self._reader.begins, record.seq, "right") - 1
                self._hold(record, numbers[at], times[at], clock)
            elif isinstance(record, Event):
                at = np.clip([(record.line or 0) - self._line], 0, len(lines) - 1)
                self._hold(record, numbers[at], times[at], clock)
        self._line += len(lines)
        yield from self._decide(clock, last=False)

    def end(self, clock: Clock) -> Iterator[Record]:
        """What only the end of the text decides."""
        self._lines += self._open.values()
        self._open = {}
        yield from self.take(clock)
        if self._reader is None:
            return
        said = list(self._reader.end())
        for event in said:
            if isinstance(event, Event):
                self._hold(event, np.array([_LAST]), np.array([NO_TIME]), clock)
        yield from self._decide(clock, last=True)
        for record in said:
            if isinstance(record, ReadWarning) and record.kind == NAIVE_TIME and self._timed:
                continue
            if isinstance(record, Config | ReadWarning) or (isinstance(record, Axis) and not clock.any):
                yield Inner(FORMAT, record)
        if self._own_steps is False and clock.axis is not None:
            message = (
                f"its steps are not those of {clock.axis.name}: it stands at the steps of the history rows around it"
            )
            yield Inner(FORMAT, ReadWarning("other-axis", "file", message))

    def _hold(self, record: Points | Event, number: Ints, time: Ints, clock: Clock) -> None:
        """Keep what was printed at these records and times until it is known which steps count."""
        history, _ = clock.at(number)
        if isinstance(record, Event):
            step = int(history[0]) if record.step is None and clock.any else record.step
            moment = record.wall_time if time[0] == NO_TIME else float(time[0]) / 1e6
            self._held.append(_Held(replace(record, step=step, wall_time=moment), history))
            return
        if record.wall_time is not None:
            time = np.where(time == NO_TIME, record.wall_time, time)
        known = time if (time != NO_TIME).any() else None
        self._held.append(_Held(replace(record, wall_time=known), history))
        if clock.any and self._own_steps is None:
            before, after = clock.between(number)
            slack = _LATE * clock.cadence
            self._between += int(np.count_nonzero((before - slack <= record.step) & (record.step <= after + slack)))
            self._judged += len(record.step)

    def _decide(self, clock: Clock, *, last: bool) -> Iterator[Record]:
        """Let go of what is held, once it is known which steps are its own."""
        if self._own_steps is None and (last or self._judged >= _ENOUGH):
            self._own_steps = not clock.any or self._between >= _ALIKE * self._judged
        if self._own_steps is None:
            return
        for held in self._held:
            yield Inner(FORMAT, held.record if self._own_steps else _at_rows(held))
        self._held = []


def _at_rows(held: _Held) -> Points | Event:
    """What is held, at the steps of the history; of points at one step the last."""
    record = held.record
    if isinstance(record, Event):
        return replace(record, step=int(held.history[0]))
    last = np.append(np.diff(held.history) != 0, True)
    return replace(
        record,
        step=held.history[last],
        value=record.value[last],
        seq=record.seq[last],
        wall_time=None if record.wall_time is None else record.wall_time[last],
        state=None if record.state is None else record.state[last],
    )
