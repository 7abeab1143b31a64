"""The training's progress bar: which of the bars that are drawn counts its steps, and what takes its step from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainforensics.importers.printed.records.learn import learn
from trainforensics.importers.printed.records.shape import Groups, Shape
from trainforensics.importers.printed.steps.bars import Bar
from trainforensics.importers.printed.steps.clock import Clock
from trainforensics.importers.printed.steps.pace import Order, Pace
from trainforensics.importers.printed.text.numbers import whole_number
from trainforensics.importers.printed.text.wordings import in_english

_MOST_SHAPES = 400
_FINISHED = 0.95  # of a bar that begins again: the next epoch


@dataclass(slots=True)
class Progress:
    """The bars drawn so far, told apart by their totals."""

    clock: Clock
    _counts: dict[int, int] = field(default_factory=dict)  # by total
    _main: int | None = None  # total of the bar that counts the training's steps
    _main_seen: bool = False  # since the last printed dictionary
    _last: int | None = None  # since then too
    _foreign: set[int] = field(default_factory=set)  # totals of bars that cannot be the training's
    _offset: int = 0
    _evaluated: bool = False  # since a bar with numbers was drawn
    _postfix: str = ""  # its numbers
    _epoch: int | None = None  # which was under way when the bar was drawn last
    _ahead: int = 0  # steps by which the bar is ahead of the step that it declares
    _waiting: Shape | None = None  # its last row takes its step from the bar drawn next
    _pace: Pace = field(default_factory=Pace)
    _order: Order = field(default_factory=Order)
    _shapes: list[Shape] = field(default_factory=list)  # of the numbers that bars show
    _held_out: list[Shape] = field(default_factory=list)

    @property
    def is_drawn(self) -> bool:
        """Whether a bar of the training was drawn."""
        return bool(self._counts)

    def goes_on(self, bar: Bar) -> bool:
        """Whether a bar stands further than when it was drawn last."""
        return 0 < self._counts.get(bar.total, 0) < bar.count

    def draw(self, bar: Bar, *, begun: bool) -> bool:
        """A bar was drawn, after rows if the log has `begun`; whether it is of the training."""
        if self._is_foreign(bar, begun=begun):
            return False
        previous = self._counts.get(bar.total, 0)
        self._counts[bar.total] = bar.count
        self._last = bar.total
        if bar.total == self._main:
            self._main_seen = True
            self._pace.drawn(bar.count)
            if self._waiting is not None and self._waiting.steps and bar.count >= self._waiting.steps[-1]:
                self._order.drawn(self._waiting, bar.count)
            self.clock.step = bar.count
        elif self._main is None and not begun:
            self.clock.step = bar.count
        self._waiting = None
        if bar.says_numbers:
            between = self._evaluated and bar.postfix != self._postfix
            again = bar.count < previous or (bar.count == previous and (between or self.clock.epoch != self._epoch))
            self._evaluated, self._postfix = False, bar.postfix
            if again and previous >= _FINISHED * bar.total:
                self._offset += bar.total
            self._epoch = self.clock.epoch
        return True

    def _is_foreign(self, bar: Bar, *, begun: bool) -> bool:
        """Whether a bar that comes after rows were counted without one is not the training's: it lags behind them.

        Otherwise it tells the steps of those rows.
        """
        counted = self.clock.step or 0
        if bar.total in self._foreign:
            return True
        if self._counts or not (begun and self.clock.axis and self.clock.by_row):
            return False
        if bar.count < counted or (bar.count == bar.total and counted < bar.total):
            self._foreign.add(bar.total)
            return True
        self._main, self.clock.axis = bar.total, None
        self.clock.barred(bar.count, bar.total)
        return False

    def shape_of(self, bar: Bar) -> tuple[Shape, Groups, bool] | None:
        """The shape of a bar's numbers, what it captures, and whether it is new; None where they are no record."""
        shapes = self._held_out if bar.held_out else self._shapes
        postfix = bar.postfix if bar.postfix.isascii() else in_english(bar.postfix)
        if bar.elapsed is not None and not bar.held_out:
            postfix = f"elapsed_time={bar.elapsed}, {postfix}"
        for shape in shapes:
            if (found := shape.pattern.match(postfix)) is not None:
                return shape, found.groups(), False
        learned = learn(postfix, bar=True) if len(shapes) < _MOST_SHAPES else None
        found = learned.pattern.match(postfix) if isinstance(learned, Shape) else None
        if not isinstance(learned, Shape) or found is None:
            return None
        learned.validation |= bar.held_out
        shapes.append(learned)
        return learned, found.groups(), True

    def step_of(self, bar: Bar, shape: Shape, groups: Groups) -> int:
        """The step of a bar's numbers: the one that they declare, which may begin anew with an epoch that the bar says;
        else the one that the bar counts.
        """
        if shape.step:
            self.clock.named(shape.step_name)
        if bar.epoch is not None:
            counted = self.clock.iterated(bar.count, bar.total, bar.epoch)
        else:
            counted = self.clock.barred(bar.count + self._offset, bar.total)
        if not shape.step:
            return counted
        declared = groups[shape.step - 1] or ""
        if "e" not in declared:  # else rounded: tqdm shows three digits
            self._ahead = counted - self.clock.declared(whole_number(declared), shape.step_name, bar.epoch)
        self.clock.step = counted - self._ahead
        return self.clock.step

    def step_beside(self, shape: Shape) -> int:
        """The step of a printed dictionary: that of the bar drawn last."""
        drawn, self._last = self._last, None
        known = self._main in self._counts
        if drawn is not None and not (known and (self._main_seen or self._counts[drawn] == drawn)):
            self._main = drawn
        elif known and not self._main_seen:
            self.clock.step = self._pace.after(self.clock.step or 0, shape)
            return self.clock.step
        self._main_seen = False
        return self.clock.barred(self._counts.get(self._main or 0, 0), self._main or 0)

    def adds(self, shape: Shape) -> bool:
        """Whether a printed dictionary adds to the one before: other results of the same step."""
        return self._pace.adds(shape)

    def row(self, shape: Shape, step: int) -> None:
        """A row of a shape was read: of printed dictionaries the bar drawn next may tell the step."""
        self._evaluated |= shape.held_out
        printed = shape.dictionary and not shape.step
        self._waiting = shape if printed and shape.training else None
        if self._waiting and self._counts:
            self._order.printed(shape, step)
        if printed:
            self._pace.note(shape)

    def counted_row(self) -> None:
        """A row that states its step was read."""
        self._waiting = None

    def taken(self) -> None:
        """The rows so far can no longer be changed."""
        self._pace.taken(self.clock.step or 0)
        self._order.taken()
