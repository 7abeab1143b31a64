"""Reads console text line by line: records, progress bars, events and settings, in the order in which they stand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.axes import logging_interval, logging_interval_beside, says_validation
from trainforensics.importers.base import NULL, Config, Points, Record, Source
from trainforensics.importers.console.bars import Bar, find_bar
from trainforensics.importers.console.clock import Clock
from trainforensics.importers.console.happenings import Happenings
from trainforensics.importers.console.settings import settings_of
from trainforensics.importers.console.shapes import Shape, learn
from trainforensics.importers.console.tokens import number_of
from trainforensics.importers.times import NO_TIME, parse_time
from trainforensics.model import Event, ReadWarning

_ANSI = re.compile(r"\x1b(?:\[[\d;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])")
_GLUED = re.compile(r"(?<=[^\n\r])(?=\[rank\d+\]:)")
_BREAKS = re.compile(r"\r+|\x08+")
_RECORD_BEGINS = re.compile(
    r"(?<=\S)(?=\{'|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|\s+iteration\s+\d+\s*/|\bsteps?[:=]\s*\d|\bEpoch[: ]+\[?\d)"
)
# A line without a count or a result beside a number is no record; the words are a cheap look before the expression.
_WORDS = (
    "step", "iter", "epoch", "batch", "update", "s:", "train", "test", "val", "[", "loss", "acc", "ppl", "perplexity",
    "bpb", "bpc", "score", "reward", "norm", "error", "mse", "nll", "@",
)  # fmt: skip
_HINT = re.compile(
    r"(?:step|iter|ation|epoch|batch|update|\bs|train|test|val|ba|it)s?['\"]?(?:\([a-z]+\))?[\s:=\[(#]{0,6}\d"
    r"|(?:loss|acc|ppl|perplexity|bp[bc]|score|reward|norm|error|mse|nll|@\d)\w*['\"]?[\s:=(\[]{1,6}['\"]?[-+\d.ni]"
)
_LONG = 16_384
_MOST_SHAPES, _MOST_FRONT = 400, 8
_MOST_UNKNOWN = 20_000
_NUMBERS = re.compile(r"\d+")
_SOURCE_LINE = re.compile(r"(?:import |from \w[\w.]* import |def |class |@|\"\"\"|#!|# )")
_RULER = re.compile(r"^[=\-*#]{20,}\s*$")
_CONTINUED = re.compile(r"Continuing training from global step (\d+)")


@dataclass(slots=True, eq=False)
class Reader:
    """State that runs through one log."""

    source: Source
    clock: Clock = field(default_factory=Clock)
    records: int = 0
    _happenings: Happenings = field(init=False)
    _shapes: list[Shape] = field(default_factory=list)
    _behind_bars: list[Shape] = field(default_factory=list)
    _front: list[Shape] = field(default_factory=list)  # plain ones, tried first
    _latest: Shape | None = None  # whose last row the clock does not know yet
    _known: list[Shape] = field(default_factory=list)
    _unknown: set[str] = field(default_factory=set)
    _settings: dict[str, Any] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _bars: dict[int, int] = field(default_factory=dict)  # count by total
    _main: int | None = None  # total of the bar that counts the training's steps
    _main_seen: bool = False
    _last_bar: int | None = None
    _waiting: Shape | None = None  # its last row takes its step from the bar drawn next
    _bar_offset: int = 0
    _seq: int = 0
    _ranked: bool | None = None
    _interval_known: bool = False
    _in_source: bool = False
    _missing: set[frozenset[str]] = field(default_factory=set)
    _bad: int = 0
    _bad_example: str = ""

    def __post_init__(self) -> None:
        self._happenings = Happenings(self.source.label)

    # --- lines ---------------------------------------------------------------------------------------------------

    def block(self, text: str, line: int) -> Iterator[Record]:
        """The records of a block of whole lines, of which the first has the number `line`."""
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        if "[rank" in text:
            text = _GLUED.sub("\r", text)
        seq, alert = self._seq, True
        front = self._front
        for number, whole in enumerate(text.split("\n"), line):
            if not alert:
                for shape in front:
                    found = shape.pattern.match(whole)
                    if found is not None:
                        shape.rows.append(found.groups())
                        shape.seqs.append(seq)
                        seq += 1
                        self._latest = shape
                        break
                else:
                    alert = True
                if not alert:
                    continue
            self._seq = seq
            self._general(whole, number)
            seq, alert = self._seq, self._happenings.waits
        self._seq = seq
        yield from self._flush()

    def _general(self, whole: str, number: int) -> None:
        """A line that is no further row of a plain shape."""
        self._catch_up()
        for piece in _pieces(whole):
            if piece and not piece.isspace():
                self._line(piece, number)

    def _catch_up(self) -> None:
        """Tell the clock of the last row that was taken without it."""
        shape, self._latest = self._latest, None
        if shape is not None:
            self.records += 1
            self._waiting = None
            self.clock.declared(_whole(shape.rows[-1][shape.step - 1]), shape.step_name)

    def end(self) -> Iterator[Record]:
        """What only the end of the log decides."""
        self._catch_up()
        self._events += self._happenings.end(self.clock.step)
        yield from self._flush()
        if self.clock.axis is not None:
            yield self.clock.axis
        if self._settings:
            yield Config(dict(self._settings))
        if self._bad:
            message = f"{self._bad} values are no numbers, the first {self._bad_example!r}; they are no points"
            yield ReadWarning("wrong-type", self.source.label, message)

    def _line(self, line: str, number: int) -> None:
        at = line.find("%|")
        if at >= 0 and self._bar_line(line, at, number):
            return
        for i, shape in enumerate(self._shapes):
            found = shape.pattern.match(line)
            if found is not None:
                if i:
                    self._shapes.insert(0, self._shapes.pop(i))
                self._take(shape, found.groups(), number)
                if shape.dictionary and found.end() < len(line):
                    rest = line[found.end() :]
                    if not rest.isspace():
                        self._line(rest, number)
                return
        self._other(line, number)

    def _bar_line(self, line: str, at: int, number: int) -> bool:
        bar = find_bar(line, at)
        if bar is None:
            return False
        before, after = line[: bar.start], line[bar.end :]
        if before and not before.isspace():
            self._line(before, number)
        self._bar(bar)
        if after and not after.isspace():
            self._line(after, number)
        return True

    def _other(self, line: str, number: int) -> None:
        """A line of no known shape: a record of a new shape, or text."""
        if self._is_source(line):
            return
        low = line.lower()
        if any(word in low for word in _WORDS) and _HINT.search(low) is not None:
            skeleton = _NUMBERS.sub("#", line[:160])
            if skeleton not in self._unknown:
                learned = learn(line)
                if isinstance(learned, int) and 0 < learned < len(line):
                    self._line(line[:learned], number)
                    self._line(line[learned:], number)
                    return
                if isinstance(learned, Shape):
                    self._add(learned)
                    self._line(line, number)
                    return
                if len(self._unknown) < _MOST_UNKNOWN:
                    self._unknown.add(skeleton)
        self._text(line, number)

    def _is_source(self, line: str) -> bool:
        """Whether a line belongs to a program that was printed before its log."""
        if self._in_source:
            self._in_source = _RULER.match(line) is None
            return True
        if not self.records and _SOURCE_LINE.match(line) and line.startswith(("import ", "from ", '"""', "#!")):
            self._in_source = True
        return self._in_source

    def _text(self, line: str, number: int) -> None:
        self._events += self._happenings.look(line, number, self.clock.step)
        if not self.records or "=" in line or " ..." in line:
            self._settings = {**settings_of(line, len(self._settings)), **self._settings}
        if (found := _CONTINUED.search(line)) is not None:
            self.clock.continued(int(found[1]))

    def _add(self, shape: Shape) -> None:
        self._known.append(shape)
        if shape.plain and len(self._front) < _MOST_FRONT:
            self._front.append(shape)
        self._shapes.insert(0, shape)
        if len(self._shapes) > _MOST_SHAPES:
            self._shapes.pop()

    # --- records -------------------------------------------------------------------------------------------------

    def _take(self, shape: Shape, groups: tuple[str | None, ...], line: int) -> None:
        if shape.summary:
            self._events.append(
                Event("finish", self.clock.step, text="the trainer's summary", source=self.source.label, line=line)
            )
            return
        step = self._step(shape, groups)
        if step is None:
            return
        self._events += self._happenings.reached(step)
        if not shape.values:
            return
        self.records += 1
        if shape.inner and shape.validation and shape.steps and shape.steps[-1] == step:
            shape.rows[-1] = groups  # an evaluation's progress: its last line counts
            return
        shape.rows.append(groups)
        if not shape.plain:
            shape.steps.append(step)
        shape.seqs.append(self._seq)
        self._seq += 1
        self._waiting = shape if shape.dictionary and shape.training and not shape.step else None
        self._miss(shape, step, line)

    def _step(self, shape: Shape, groups: tuple[str | None, ...]) -> int | None:
        """The record's step; None for one that is to be left out."""
        epoch = int(float(groups[shape.epoch - 1] or 0)) if shape.epoch else None
        if shape.step:
            total = _whole(groups[shape.total - 1]) if shape.total and epoch is not None else 0
            return self.clock.declared(_whole(groups[shape.step - 1]), shape.step_name, epoch, total)
        if shape.bar:
            done = groups[shape.inner - 1] == groups[shape.total - 1]
            return self.clock.of_epoch(self.clock.epoch or 0) if done else None
        if shape.inner and not shape.validation:
            return self.clock.iterated(int(groups[shape.inner - 1] or 0), int(groups[shape.total - 1] or 0), epoch)
        if epoch is not None and not shape.validation:
            if shape.values:
                return self.clock.of_epoch(epoch)
            self.clock.turned(epoch)
            return None
        if shape.training and not shape.validation:
            return self._unsaid_step(shape)
        return self.clock.step or 0

    def _unsaid_step(self, shape: Shape) -> int:
        if not shape.dictionary:
            axis = self.clock.axis
            return self.clock.row() if axis is None or axis.name.startswith("row") else self.clock.step or 0
        if self._bars:
            if self._main not in self._bars or not self._main_seen:
                self._main = self._last_bar if self._last_bar is not None else self._main
            self._main_seen = False
            return self.clock.barred(self._bars.get(self._main or 0, 0))
        if not self._interval_known:
            self._interval_known = True
            found = logging_interval(self._settings) or logging_interval_beside(self.source.path)
            self.clock.interval = found or 1
        return self.clock.row()

    def _miss(self, shape: Shape, step: int, line: int) -> None:
        """Say once that a kind of record goes on without the loss that it held before."""
        if shape.training or not shape.step or not self.records or shape.names in self._missing:
            return
        self._missing.add(shape.names)
        for other in self._known:
            lost = other.names - shape.names
            if (
                other.training
                and other.step_name == shape.step_name
                and shape.names < other.names
                and len(lost) <= 2
                and other.seqs
            ):
                text = f"a record without {', '.join(sorted(lost))}, which those before it hold"
                self._events.append(Event("missing-loss", step, text=text, source=self.source.label, line=line))
                return

    # --- progress bars -------------------------------------------------------------------------------------------

    def _bar(self, bar: Bar) -> None:
        if not bar.total or bar.held_out:
            return
        previous = self._bars.get(bar.total, 0)
        self._bars[bar.total] = bar.count
        self._last_bar = bar.total
        if bar.total == self._main:
            self._main_seen = True
            if self._waiting is not None and self._waiting.steps and bar.count >= self._waiting.steps[-1]:
                self._waiting.steps[-1] = self.clock.barred(bar.count)
            self.clock.step = bar.count
        elif self._main is None and not self.records:
            self.clock.step = bar.count
        self._waiting = None
        if "=" in bar.postfix or ":" in bar.postfix:
            self._behind(bar, previous)

    def _behind(self, bar: Bar, previous: int) -> None:
        """The numbers behind a bar are a record; those of one count are drawn again and again, the last is right."""
        for shape in self._behind_bars:
            found = shape.pattern.match(bar.postfix)
            if found is not None:
                break
        else:
            learned = learn(bar.postfix, bar=True)
            if not isinstance(learned, Shape):
                return
            shape = learned
            found = shape.pattern.match(bar.postfix)
            self._behind_bars.append(shape)
            self._known.append(shape)
        if found is None or not shape.values:
            return
        if bar.epoch is not None:
            step = self.clock.iterated(bar.count, bar.total, bar.epoch)
        else:
            if bar.count < previous and previous >= 0.95 * bar.total:
                self._bar_offset += bar.total
            step = self.clock.barred(bar.count + self._bar_offset)
        self._events += self._happenings.reached(step)
        self.records += 1
        if shape.steps and shape.steps[-1] == step:
            shape.rows[-1] = found.groups()
            return
        shape.rows.append(found.groups())
        shape.steps.append(step)
        shape.seqs.append(self._seq)
        self._seq += 1

    # --- points --------------------------------------------------------------------------------------------------

    def _flush(self) -> Iterator[Record]:
        parts: dict[tuple[str, int | None], list[Points]] = {}
        for shape in self._known:
            if shape.rows:
                for points in self._points(shape):
                    parts.setdefault((points.name, points.rank), []).append(points)
                shape.rows, shape.steps, shape.seqs = [], [], []
        for pieces in parts.values():
            yield _in_order(pieces)
        yield from self._events
        self._events = []

    def _points(self, shape: Shape) -> Iterator[Points]:
        columns = list(zip(*shape.rows, strict=True))
        seq = np.array(shape.seqs, np.int64)
        step = np.array(shape.steps, np.int64)
        if shape.plain:
            step = np.nan_to_num(_values(columns[shape.step - 1])[0]).astype(np.int64)
        wall = _times(columns[shape.time - 1]) if shape.time else None
        ranks = np.array([int(float(r or 0)) for r in columns[shape.rank - 1]]) if shape.rank else None
        if ranks is not None and self._ranked is None:
            self._ranked = len(np.unique(ranks)) > 1
        for group, name in shape.values:
            label = f"val/{name}" if shape.validation and not says_validation(name) else name
            value, state, bad = _values(columns[group - 1])
            self._bad += len(bad)
            self._bad_example = self._bad_example or (f"{name} {bad[0]}" if bad else "")
            for rank in np.unique(ranks).tolist() if ranks is not None and self._ranked else [None]:
                rows = slice(None) if rank is None else ranks == rank
                yield Points(
                    label, step[rows], value[rows], seq[rows], None if wall is None else wall[rows],
                    None if state is None else state[rows], rank=rank,
                )  # fmt: skip


def _pieces(line: str) -> Sequence[str]:
    """The parts of a line between carriage returns and backspaces; the records of a line of great length."""
    parts = _BREAKS.split(line) if "\r" in line or "\x08" in line else (line,)
    if len(line) <= _LONG:
        return parts
    return [piece for part in parts for piece in (_RECORD_BEGINS.split(part) if len(part) > _LONG else (part,))]


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else int(number_of(text or "0"))


def _values(texts: Sequence[str | None]) -> tuple[NDArray[np.float64], NDArray[np.uint8] | None, list[str]]:
    """Numbers, their states, and the texts that are no number (they get the state of a gap)."""
    try:
        return np.array(list(map(float, texts))), None, []  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    values, state = np.full(len(texts), math.nan), np.zeros(len(texts), np.uint8)
    bad: list[str] = []
    for i, text in enumerate(texts):
        try:
            values[i] = number_of(text or "None")
        except ValueError:
            state[i] = NULL
            if text not in {None, "None"}:
                bad.append(str(text))
    return values, state if state.any() else None, bad


def _times(texts: Sequence[str | None]) -> NDArray[np.int64]:
    plain = [(text or "").replace(",", ".", 1).replace("/", "-") for text in texts]
    if all(len(text) <= 26 and text[-1:].isdigit() and "+" not in text for text in plain):
        try:
            return np.array(plain, dtype="datetime64[us]").astype(np.int64)
        except ValueError:
            pass
    return np.array([parse_time(text) if text else NO_TIME for text in plain], np.int64)


def _in_order(pieces: list[Points]) -> Points:
    """One series that several shapes hold, in the order of the log."""
    if len(pieces) == 1:
        return pieces[0]
    seq = np.concatenate([piece.seq for piece in pieces])
    order = np.argsort(seq, kind="stable")
    wall = state = None
    if any(piece.wall_time is not None for piece in pieces):
        gaps = [p.wall_time if p.wall_time is not None else np.full(len(p.seq), NO_TIME) for p in pieces]
        wall = np.concatenate(gaps)[order]
    if any(piece.state is not None for piece in pieces):
        state = np.concatenate([p.state if p.state is not None else np.zeros(len(p.seq), np.uint8) for p in pieces])[
            order
        ]
    return Points(
        pieces[0].name,
        np.concatenate([piece.step for piece in pieces])[order],
        np.concatenate([piece.value for piece in pieces])[order],
        seq[order],
        wall,
        state,
        rank=pieces[0].rank,
    )
