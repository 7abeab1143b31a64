"""The step of every record of a console log: what it declares, else the progress bar's, else the row's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainforensics.importers.printed.text.vocabulary import is_global
from trainforensics.model import Axis

_FINISHED = 0.95  # of the iterations of an epoch
_NO_EPOCH = -1  # before the log has said one
_FEW_ROWS = 3  # before the first step is stated
_CARRIED = 4  # times over the end of an epoch: no count of an epoch's own rises so often by chance
_STUCK = 3  # epochs at the only step that the log ever stated
_JUDGED, _BATCHES = 3, 10  # rows, and batches between two of them, by which samples are told from iterations


@dataclass(slots=True)
class _Count:
    """A count that may start again with every epoch, or piece of it."""

    offset: int = 0
    carried: int = 0  # how often it went on from one epoch to the next since it last began anew
    restarts: int = 0
    _raw: int = -1
    _epoch: tuple[int, int] | None = None
    _lowest: int = 0
    _apart: tuple[int, ...] = ()  # how far the rows of the epoch stood apart, first and last
    _offsets: dict[tuple[int, int], int] = field(default_factory=dict)  # by epoch and piece

    def step(self, raw: int, epoch: tuple[int, int], length: int) -> int:
        """The count as if it had not started again. `length`: of an epoch, 0 if the log does not say it."""
        if raw == 0 and epoch == self._epoch and self._raw == length - 1 > 0:
            raw = length  # its last step, as a remainder of the length
        if self._epoch is None:
            self._lowest = raw
        elif epoch > self._epoch and raw <= self._raw:
            cadence = raw - self._lowest if raw > self._lowest else self._regular
            seen = self._raw + (cadence if self._lowest == 0 else 0)
            self.offset += length if 0 < length >= self._raw else seen
            self._apart = ()
            self.restarts += 1
            self.carried = 0
        elif epoch > self._epoch:
            self.carried += 1
            self._apart = (*self._apart[:1], raw - self._raw)
        elif epoch < self._epoch:
            self.offset, self._apart = self._offsets.get(epoch, 0), ()
        elif raw > self._raw:
            self._apart = (*self._apart[:1], raw - self._raw)
        self._epoch, self._raw = epoch, raw
        self._offsets[epoch] = self.offset
        return raw + self.offset

    def lost_by(self, raw: int) -> bool:
        """Whether a count that went on over epochs was not restored if it is this in the next one."""
        return self.carried >= _CARRIED and 2 * raw < self._raw

    @property
    def last(self) -> int:
        """What was counted last."""
        return self._raw

    @property
    def _regular(self) -> int:
        """How far the next row would have stood from the last of an epoch: a last one out of step ends its epoch."""
        return self._apart[0] if self._apart and self._apart[0] == self._apart[-1] else 1


@dataclass(slots=True)
class Clock:
    """The last step seen, and what is known about how the log counts.

    `interval`: steps per row of a log that says no step. `planned`: how many steps it says it will do.
    """

    interval: int = 1
    step: int | None = None
    axis: Axis | None = None
    epoch: int | None = None
    planned: int = 0
    _first_epoch: int | None = None
    _per_epoch: int = 0
    _raw: int = -1  # the last iteration that was stated out of so many
    _raw_total: int = 0
    _laps: int = 0
    _pass: tuple[int | None, int, int] = (None, 0, 0)  # epoch, iteration and total that were stated last
    _apart: int = 0
    _ahead: int = 0  # how far an iteration lies behind the one before it in the same epoch
    _whole: bool = False  # iterations are counted out of all of the run
    _begun: tuple[int, ...] = ()  # the first iterations
    _stride: int = 0  # how far apart iterations were logged last
    _counts: dict[str, _Count] = field(default_factory=dict)  # by name
    _length: int = 0  # steps of an epoch, where the log says it
    out_of: int = 0  # the total of the last count that was stated with its epoch
    lost: str = ""  # of a count that was not restored
    alone: bool = False  # the last evaluation counted its own batches
    _evaluated: int | None = None  # the training's step when an evaluation stated one last
    _noted: int | None = None  # the epoch in which the axis was found
    freed: bool = False  # the axis turned out to be the epoch, behind rows of several
    _moved: bool = False  # steps other than the first were stated
    _stuck: set[int] = field(default_factory=set)  # the epochs at the first
    _row_step: int = 0
    _rows: int = 0

    @property
    def here(self) -> int | None:
        """Where the run stands: the last step, else the epoch under way where only epochs are counted."""
        return self.epoch if self.by_epoch and self.epoch is not None else self.step

    @property
    def by_epoch(self) -> bool:
        """Whether nothing finer than epochs was counted so far."""
        return self.axis is None or self.axis.unit == "epoch"

    @property
    def by_row(self) -> bool:
        """Whether nothing but rows was counted so far; many that were counted first are counted on."""
        return self.axis is None or self.axis.name.startswith("row") or self._rows > _FEW_ROWS

    def named(self, name: str) -> None:
        """The log states its step under this name."""
        self._note(Axis(name.split("/", maxsplit=1)[0] if name.endswith("max_steps") else name, "step"))

    def declared(self, raw: int, name: str, epoch: int | None = None, total: int = 0, piece: int = 0) -> int:
        """The step of a record that states it. A count that starts again with every epoch, or piece of it, goes on.

        The epoch is the record's, else the one that the log has said to be under way.
        """
        self.named(name)
        if epoch is None:
            self.planned = total or self.planned
        else:
            self.epoch, self.out_of = epoch, total
        whole = is_global(name)
        if whole and epoch is None:
            return self._stand(raw)
        count = self._counts.setdefault(name, _Count())  # one that is called global may begin again, too
        under_way = _NO_EPOCH if self.epoch is None else self.epoch
        last, lost = count.last, count.lost_by(raw)
        step = self._stand(count.step(raw, (under_way, piece), 0 if whole else total or self._length))
        if lost and count.restarts:
            self.lost = f"{name} begins anew, at {raw} behind {last}, while the epochs go on to {under_way}"
        if count.offset and self.planned == total:
            self.planned = 0
        return step

    def before_epochs(self, steps: Sequence[int], name: str) -> None:
        """Steps that were declared under a name before the log said an epoch."""
        count = self._counts[name] = _Count()
        for step in steps:
            count.step(step, (_NO_EPOCH, 0), 0)

    def carried_over(self, name: str, times: int) -> None:
        """A count went on from one epoch to the next so often before its rows were told."""
        self._counts.setdefault(name, _Count()).carried += times

    def evaluated(self, raw: int, name: str) -> int:
        """The step of an evaluation that states a count: the training's, unless its batches are counted."""
        self.named(name)
        count = self._counts.get(name)
        step = raw + count.offset if count else raw
        if self.step is not None:
            first = self._evaluated is None
            before = self.step if self._evaluated is None else min(self._evaluated, self.step)
            self._evaluated = self.step
            self.alone = step < before and (not first or 2 * step < before)
            if self.alone:
                return self.step
        self._stand(max(step, self.step or 0))
        return step

    def epoch_has(self, steps: int) -> None:
        """The log says how many steps an epoch has."""
        self._length = steps

    def iterated(self, iteration: int, total: int, epoch: int | None) -> int:
        """The step of a record that counts iterations within an epoch: completed ones are added."""
        if epoch is None:
            self._lap(iteration, total)
        epoch = self.epoch if epoch is None else epoch
        done = self._laps
        if epoch is not None:
            self.turned(epoch)
            done = max(done, epoch - (self._first_epoch or 0))
        self._whole = self._whole or self._goes_on(iteration, total, epoch)
        done = 0 if self._whole else done
        self._pass = (epoch, iteration, total)
        self._per_epoch = max(total, self._per_epoch)
        by_epoch = epoch is not None and not self._whole
        self._note(Axis(f"epoch x {self._per_epoch} + iteration" if by_epoch else "iteration", "step"))
        if self._counts_samples(iteration) and self.axis is not None:
            self.axis = Axis(self.axis.name.replace("iteration", "sample"), "sample")
        return self._stand(done * self._per_epoch + iteration)

    @property
    def iterates(self) -> bool:
        """Whether iterations of the training were stated out of so many."""
        return self._raw_total > 0

    def counts_on(self, iteration: int, total: int) -> bool:
        """Whether an evaluation that states an iteration is of the training's: "100/100 val" behind "90/100 train"."""
        return not self._laps and 0 < total == self._raw_total and iteration >= self._raw

    def _goes_on(self, iteration: int, total: int, epoch: int | None) -> bool:
        """Whether iterations go on in the next epoch as they did in the last, whose total was not reached: it is
        that of the run."""
        of, last, whole = self._pass
        if epoch is None or of is None or total != whole or epoch != of + 1:
            self._ahead = iteration - last if epoch == of and total == whole else 0
            return False
        ahead = 2 * self._ahead or (1 if iteration - epoch in {0, 1} else 0)  # a bar of epochs: one each
        on = last < iteration <= last + ahead and last < _FINISHED * total
        if on and self.axis is not None and self.axis.name.startswith("epoch x"):
            self.axis = Axis("iteration", "step")
        return on

    def passes_again(self, iteration: int, total: int, epoch: int) -> bool:
        """Whether iterations out of another total begin in an epoch whose own were done: a pass over other data."""
        of, last, whole = self._pass
        done = whole and max(last + max(self._apart, 1), last / _FINISHED) >= whole
        again = epoch == of and total != whole and bool(done)
        if epoch == of and total == whole and iteration > last:
            self._apart = iteration - last
        return again

    def _counts_samples(self, count: int) -> bool:
        """Whether the counts are multiples of the first one, a batch's samples: 64, 6464, 12864 of 60000."""
        if len(self._begun) == _JUDGED:
            return False
        self._begun = (*self._begun, count)
        if len(self._begun) < _JUDGED:
            return False
        first, second, third = self._begun
        apart = second - first
        return first > 1 and third - second == apart >= _BATCHES * first and apart % first == 0

    def _lap(self, iteration: int, total: int) -> None:
        """A count that begins again once its total was reached: an epoch that the record does not state."""
        ended = self._raw + self._stride >= total or self._raw >= _FINISHED * total
        if iteration < self._raw and total == self._raw_total and ended:
            self._laps += 1
        self._stride = iteration - self._raw if iteration > self._raw >= 0 else self._stride
        self._raw, self._raw_total = iteration, total

    def turned(self, epoch: int) -> None:
        """An epoch has begun. Epochs count from 0 or from 1; a log that begins later counts from 1."""
        if self._first_epoch is None or epoch < self._first_epoch:
            self._first_epoch = min(epoch, 1)
        self.epoch = epoch

    def of_epoch(self, epoch: int) -> int:
        """The step of a record that states only its epoch: the step reached, else the epoch itself."""
        self.turned(epoch)
        self._mind_stuck(epoch)
        if self.by_epoch:
            self._note(Axis("epoch", "epoch"))
            self.step = epoch
        return self.step or 0

    def _mind_stuck(self, epoch: int) -> None:
        """Epochs that go on while what was stated as a step never did are what the log counts."""
        if self.by_epoch or self._moved:
            return
        self._stuck.add(epoch)
        if len(self._stuck) == _STUCK:
            self.axis, self.freed = None, True

    def _stand(self, step: int) -> int:
        self._moved |= self.step not in {None, step}
        self.step = step
        return step

    def barred(self, count: int, total: int) -> int:
        """The step of a record beside a progress bar."""
        self._note(Axis("progress bar", "step"))
        self.planned = max(total, count)
        return self._stand(count)

    def row(self) -> int:
        """The step of the next row of a log that says none."""
        unit = "step" if self.interval > 1 else "row"
        self._note(Axis(f"row x {self.interval}" if self.interval > 1 else "row", "step" if unit == "step" else "row"))
        self._row_step += self.interval
        self._rows += 1
        return self._stand(self._row_step)

    def begun_anew(self) -> None:
        """Another training began in the same log."""
        self._row_step = 0

    def continued(self, step: int) -> None:
        """The run was taken up again at a step."""
        self._row_step = step

    def _note(self, axis: Axis) -> None:
        """The first axis stays, but stated steps are more than rows, and within the first epoch finer than epochs."""
        if self.axis is None:
            self.axis, self._noted = axis, self.epoch
        elif axis.unit == "step" and (
            self.axis.unit == "row" or (self.axis.unit == "epoch" and self.epoch == self._noted)
        ):
            self.axis = axis
