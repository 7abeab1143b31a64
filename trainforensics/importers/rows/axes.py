"""The step axis of row-shaped logs: the declared global step, else iterations (completed ones added; the updates of a
policy before the steps of its environment), else epochs, else samples, else the row number times the logging
interval."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers import configfile
from trainforensics.importers.base import EMPTY, NULL, VALUE
from trainforensics.importers.rows.block import ABSENT, Block, Cells
from trainforensics.importers.rows.times import find_wall_column
from trainforensics.model import Axis, AxisUnit
from trainforensics.roles import resolve

# Steps of an environment; of speech and video, where they do not rise, sizes of batches.
_FRAMES = ("frame", "frames", "num_frames", "n_frames", "total_frames", "env_frames", "frame_idx", "frame_num")
# Names of step columns in the order of trust. The last path component counts; what leads it must be a neutral folder.
_STEPS: tuple[tuple[str, ...], ...] = (
    ("global_step", "globalstep", "global_steps", "global_iter", "global_iteration", "total_step", "total_steps",
     "total_iter", "total_iters", "total_iterations"),
    ("step", "steps", "train_step", "training_step", "train_steps", "current_steps", "current_step", "opt_step",
     "optimizer_step", "optimizer_steps", "step_num", "num_steps", "max_steps"),
    ("total_timesteps", "timesteps", "timestep", "timesteps_total", "num_timesteps", "env_step", "env_steps",
     "timesteps_so_far", "timestepssofar", "totalenvinteracts", *_FRAMES),
    ("iteration", "iter", "iterations", "iters", "iter_num", "it", "itr", "current_iter", "cur_iter", "iteration_num",
     "num_iters", "numiters", "num_iter", "n_iter"),
    ("num_updates", "n_updates", "nupdates", "num_update"),
    ("updates", "update", "update_step"),  # of fairseq a share of the epoch
    ("batch", "batch_num", "batch_idx", "batches", "minibatch", "ba"),
    ("training_iteration",),
)  # fmt: skip
_TIME_STEPS = 2  # place of the environment's steps above
_UPDATES = frozenset((*_STEPS[3], "num_updates", "nupdates", "num_update", "updates", "update", "update_step"))
_PAIR = ("step/0", "step/1")  # a step that is written as the pair of epoch and iteration
_EPISODES = ("episode", "episodes")  # uneven, and better than nothing
_ROUNDS = ("generation", "generations", "comm_round", "server_round", "round", "rounds")  # of evolution, of clients
_FOLDERS = frozenset(
    {"total", "train", "trainer", "training", "time", "misc", "global", "progress", "metrics", "global_step"}
)
_ITERATIONS = frozenset(
    {
        "iter",
        "iteration",
        "iterations",
        "iters",
        "it",
        "itr",
        "batch",
        "batch_idx",
        "batch_num",
        "step",
        "i",
        "minibatch",
    }
)
_EPOCHS = ("epoch", "epochs", "epoch_num", "current_epoch", "epoch_idx", "epoch_id", "epoch_index", "ep", "pass")
_CHECKPOINTS = frozenset({"snapshot_pkl", "snapshot", "checkpoint", "checkpoint_path", "ckpt", "ckpt_path"})
_LAST_NUMBER = re.compile(r"(\d+)(?:\.[a-z]\w*)?/?$")
_SAMPLES = (
    "consumed_samples",
    "consumed_train_samples",
    "samples_seen",
    "examples_seen",
    "num_samples_seen",
    "consumed_tokens",
    "tokens_seen",
    "n_tokens_seen",
    "num_input_tokens_seen",
)
_KIMG = ("progress/kimg/mean", "progress/kimg")  # thousands of images, with decimals
_VALIDATION_WORD = re.compile(
    r"(?:^|[^a-z])(val|vali|valid|validation|eval|evaluation|test|dev|verification)(?:$|[^a-z])", re.IGNORECASE
)
_INTERVALS = frozenset(
    {
        "logging_steps",
        "log_interval",
        "log_every_n_steps",
        "log_every",
        "log_freq",
        "print_freq",
        "logging_interval",
        "print_every",
        "log_steps",
    }
)
_CONFIG_FILES = ("training_args.json", "args.json", "config.json", "train_config.json", "config.yaml", "hparams.yaml")
MAX_STEP = 2.0**62
_RARE_NULLS = 0.1
_CARRIED = 4  # times that a count goes over the end of an epoch: one of an epoch's own never does
_CONFIRMED = 2  # rows by which a count that began anew goes on from there

Kind = Literal["column", "epoch_iteration", "epoch", "sample", "checkpoint", "row"]


@dataclass(frozen=True, slots=True)
class Lost:
    """The row of a block at which the count of steps began anew; the step before and its own, and the epoch by then."""

    row: int
    before: int
    begins: int
    epoch: float


@dataclass(slots=True, eq=False)
class _Count:
    """A count of steps beside epochs. It was lost where it begins anew in a later epoch, having gone on over others."""

    offset: float = 0.0
    _carried: int = 0
    _step: float = math.nan  # of the row before
    _epoch: float = math.nan
    _apart: float = 1.0  # how far two rows stood apart last
    _lowest: float = math.inf
    _restarts: bool = False  # whether it begins anew for another reason, too

    def restored(self, step: NDArray[np.float64], epoch: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[Lost]]:
        """What is to be added to the step of each row, and where that becomes more."""
        ahead, passed = (np.diff(values, prepend=last) for values, last in ((step, self._step), (epoch, self._epoch)))
        turned = np.diff(np.floor(epoch), prepend=math.floor(self._epoch) if math.isfinite(self._epoch) else math.nan)
        offset = np.full(len(step), self.offset)
        lost: list[Lost] = []
        done = 0
        for row in np.flatnonzero(ahead < 0).tolist() if not self._restarts else ():
            self._pass(step[done:row], ahead[done:row], turned[done:row])
            done, before = row, float(step[row] - ahead[row])
            self._restarts = not (passed[row] > 0 and self._is_lost(step[row : row + 1 + _CONFIRMED], before))
            if self._restarts:
                break
            self.offset += before + (self._apart if self._lowest == step[row] == 0 else 0.0)
            offset[row:] = self.offset
            lost.append(Lost(row, int(before), int(step[row]), float(epoch[row])))
        self._pass(step[done:], ahead[done:], turned[done:])
        if len(step):
            self._step, self._epoch = float(step[-1]), float(epoch[-1])
        return offset, lost

    def _pass(self, step: NDArray[np.float64], ahead: NDArray[np.float64], turned: NDArray[np.float64]) -> None:
        """Rows in which the count goes on."""
        rising = ahead[ahead > 0]
        self._carried += int(np.count_nonzero((turned > 0) & (ahead > 0)))
        self._apart = float(np.median(rising)) if len(rising) else self._apart
        self._lowest = min(self._lowest, float(step.min())) if len(step) else self._lowest

    def _is_lost(self, step: NDArray[np.float64], before: float) -> bool:
        """Whether the rows from one on count from the start, and not only for one of them."""
        if len(step) <= _CONFIRMED or self._carried < _CARRIED:
            return False
        return 2 * step[0] < before and bool((step < before).all() and (np.diff(step) >= 0).all())


@dataclass(slots=True, eq=False)
class StepAxis:
    """A chosen axis, applied block after block. Rows without a step stay at the step of the row before."""

    axis: Axis
    kind: Kind
    column: str = ""
    epoch: str = ""
    per_epoch: float = 0.0
    first_epoch: float = 0.0
    marker: str = ""
    interval: int = 1
    used: frozenset[str] = frozenset()
    odd: int = 0  # rows whose step is there and is no number
    odd_line: int = 0
    unused: str = ""  # a step column that could not be used
    lost: list[Lost] = field(default_factory=list)  # of the last block
    _count: _Count = field(default_factory=_Count)
    _nulls: int = 0
    _null_line: int = 0
    _seen: int = 0
    _last: int = 0
    _rows: int = 0

    def steps(self, block: Block, validation: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Step of every row, int64, shape (n,)."""
        if self.kind == "row":
            return self._row_numbers(block)
        cells = block.columns.get(self.column)
        cells = _numbered(cells) if cells is not None and self.kind == "checkpoint" else cells
        n = len(block)
        number = np.full(n, np.nan) if cells is None else np.where(cells.state == VALUE, cells.number, np.nan)
        if self.kind == "epoch_iteration":
            epoch = block.columns.get(self.epoch)
            done = np.full(n, self.first_epoch) if epoch is None else epoch.number
            number = (done - self.first_epoch) * self.per_epoch + number
            if validation is not None:
                number = np.where(validation, np.nan, number)
        known = np.isfinite(number) & (np.abs(number) < MAX_STEP)
        self.lost = []
        if self.kind == "column" and self.epoch in block.columns:
            number = self._counted_on(block, number, known, validation)
        step = self._carried(np.where(known, number, 0.0).astype(np.int64), known)
        self._last = int(step[-1])
        if cells is not None and not known.all():
            self._note_odd(block, cells)
        self._seen += n
        return step

    def _counted_on(
        self, block: Block, number: NDArray[np.float64], known: NDArray[np.bool_], validation: NDArray[np.bool_] | None
    ) -> NDArray[np.float64]:
        """The steps with what was counted before added where the count was not restored at a restart."""
        epochs = block.columns[self.epoch]
        rows = known & (epochs.state == VALUE) & np.isfinite(epochs.number)
        at = np.flatnonzero(rows if validation is None else rows & ~validation)
        offset, lost = self._count.restored(number[at], epochs.number[at])
        self.lost = [replace(found, row=int(at[found.row])) for found in lost]
        if not len(at):
            return number + self._count.offset
        before = np.maximum(np.searchsorted(at, np.arange(len(number)), side="right") - 1, 0)
        return np.asarray(number + offset[before], dtype=np.float64)

    def odd_steps(self) -> tuple[int, int]:
        """Rows that got a neighbour's step because theirs is no number, and the line of the first; 0 and 0 if none.

        A null counts where it is rare; in a table that mixes kinds of rows it is how a step is left out.
        """
        if not self._nulls or self._nulls > _RARE_NULLS * self._seen:
            return self.odd, self.odd_line
        return self.odd + self._nulls, min(line for line in (self.odd_line, self._null_line) if line)

    def _note_odd(self, block: Block, cells: Cells) -> None:
        unusable = ~(np.isfinite(cells.number) & (np.abs(cells.number) < MAX_STEP))
        odd = np.flatnonzero(unusable & ~np.isin(cells.state, (NULL, EMPTY, ABSENT)))
        nulls = np.flatnonzero(cells.state == NULL)
        if len(odd):
            self.odd, self.odd_line = self.odd + len(odd), self.odd_line or int(block.line[odd[0]])
        if len(nulls):
            self._nulls, self._null_line = self._nulls + len(nulls), self._null_line or int(block.line[nulls[0]])

    def _carried(self, step: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
        if known.all():
            return step
        at = np.maximum.accumulate(np.where(known, np.arange(len(step)), -1))
        return np.where(at >= 0, step[np.maximum(at, 0)], self._last)

    def _row_numbers(self, block: Block) -> NDArray[np.int64]:
        marker = block.columns.get(self.marker)
        counts = np.zeros(len(block), bool) if marker is None else marker.state != ABSENT
        rows = self._rows + np.cumsum(counts)
        self._rows = int(rows[-1])
        return np.asarray(np.maximum(rows, 1) * self.interval, dtype=np.int64)


def choose(
    block: Block, validation: NDArray[np.bool_] | None, interval: int | None, declared: Sequence[str] = ()
) -> StepAxis:
    """The step axis of a source, judged on its first block; a column that the user `declared` comes before all."""
    epoch = _find(block, _EPOCHS) or (_PAIR[0] if set(_PAIR) <= block.columns.keys() else None)
    column = next((name for name in declared if name in block.columns), None) or _step_column(block, epoch)
    if column is not None:
        restarting = _restarting(block, column, epoch, validation)
        if restarting is not None and epoch is not None:
            used = frozenset({column})
            per_epoch, first = restarting
            axis = Axis(f"{epoch} x {per_epoch:g} + {column}", "step")
            return StepAxis(axis, "epoch_iteration", column, epoch, per_epoch, first, used=used)
        return StepAxis(Axis(column, "step"), "column", column, epoch or "", used=_step_like(block, column))
    thousands = next((name for name in block.columns if _plain(name) in _KIMG), None)
    if thousands is not None:
        return StepAxis(Axis("kimg", "step"), "column", thousands)
    if epoch is not None and _one_row_each(block, epoch):
        return StepAxis(Axis(epoch, "epoch"), "epoch", epoch)
    sample = _find(block, _SAMPLES)
    if sample is not None:
        return StepAxis(Axis(sample, "sample"), "sample", sample)
    checkpoint = next((name for name, cells in block.columns.items() if _names_checkpoints(name, cells)), None)
    if checkpoint is not None:
        return StepAxis(Axis(checkpoint, "step"), "checkpoint", checkpoint)
    interval = interval or 1
    unit: AxisUnit = "row" if interval == 1 else "step"
    name = "row" if interval == 1 else f"row x {interval}"
    unused = next((name for name in block.columns if _rank_of(name) is not None), "")
    return StepAxis(Axis(name, unit), "row", marker=_marker(block), interval=interval, unused=unused)


def says_validation(name: str) -> bool:
    """Whether a metric's name itself says that it was measured on validation data."""
    return _VALIDATION_WORD.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) is not None


def is_step_name(name: str) -> bool:
    """Whether a column of this name may hold the step, the epoch or the samples seen."""
    return _rank_of(name) is not None or _plain(name) in {*_EPOCHS, *_SAMPLES, "_step"}


def is_checkpoint_name(name: str) -> bool:
    """Whether a column of this name says which checkpoint was measured."""
    return _plain(name).rsplit("/", 1)[-1] in _CHECKPOINTS


def wall_column(columns: Mapping[str, Cells], used: frozenset[str]) -> str | None:
    """The wall-time column, leaving out what serves as the step."""
    return find_wall_column({name: cells for name, cells in columns.items() if name not in used})


def logging_interval(config: Mapping[str, Any]) -> int | None:
    """Steps per logged row as a configuration states it."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            found = logging_interval(value)
            if found:
                return found
        elif str(key).rsplit(".", 1)[-1].lower() in _INTERVALS and isinstance(value, int | float) and value >= 1:
            return int(value)
    return None


def logging_interval_beside(path: Path) -> int | None:
    """Steps per logged row as a configuration file beside the log states it."""
    for name in _CONFIG_FILES:
        file = path.parent / name
        try:
            if not file.is_file() or file.stat().st_size > 1 << 20:
                continue
            values = configfile.parse(name, file.read_bytes())
            found = logging_interval(values) if isinstance(values, Mapping) else None
        except (OSError, ValueError, RecursionError):
            continue
        if found:
            return found
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9_/]+", "_", name.strip().lower())


def _rank_of(name: str) -> int | None:
    """Place of a name in the order of trust, None if it names no step. `_step` is the logger's own counter: last."""
    plain = _plain(name)
    if plain == "_step":
        return len(_STEPS)
    if plain == _PAIR[1]:
        return 1
    *folders, last = plain.split("/")
    if any(folder not in _FOLDERS for folder in folders):
        return None
    if plain == "global_step/max_steps":
        return 0
    if last in _EPISODES:
        return len(_STEPS) + 2
    if not folders and last in _ROUNDS:
        return len(_STEPS) + 3
    return next((i for i, names in enumerate(_STEPS) if last in names and last != "max_steps"), None)


def _step_column(block: Block, epoch: str | None) -> str | None:
    """The most trusted column that counts steps: whole numbers that change, and without an `epoch` rise."""
    candidates = []
    for order, (name, cells) in enumerate(block.columns.items()):
        rank = _rank_of(name)
        if rank is None and _rank_of(name.rsplit("/", 1)[-1]) is not None and not says_validation(name):
            rank = len(_STEPS) + 1  # in a folder of unknown meaning: better than nothing
        if rank is None or not _counts(cells) or (epoch is None and _falls(cells)):
            continue
        if _plain(name).rsplit("/", 1)[-1] in _FRAMES and not _rises(cells):
            continue
        if _plain(name) in _ROUNDS and (epoch is not None or not _one_row_each(block, name)):
            continue
        cover = np.count_nonzero(cells.state == VALUE) / len(block)
        if cover < 1 and "/" in name and _plain(name).rsplit("/", 1)[-1] in _EPISODES:
            continue  # rows between the ends of episodes hold other values
        candidates.append((cover < 0.5, rank, order, name))
    if not candidates:
        return None
    _, rank, _, best = min(candidates)
    if rank == _TIME_STEPS and not _plain(best).startswith("time/"):  # the folder of a logger that counts by them
        rows = (name for _, _, _, name in candidates if _plain(name).rsplit("/", 1)[-1] in _UPDATES)
        best = next((name for name in rows if _counts_evenly(block.columns[name])), best)
    return _finer(block, best)


def _counts(cells: Cells) -> bool:
    number = cells.number[cells.state == VALUE]
    number = number[np.abs(number) < MAX_STEP]  # neither NaN nor beyond what a step can be
    if not len(number) or np.any(number != np.floor(number)):
        return False
    return len(number) < 3 or bool(np.any(number != number[0]))


def _rises(cells: Cells) -> bool:
    """Whether numbers never fall, but where a run begins anew."""
    number = cells.number[cells.state == VALUE]
    return int(np.count_nonzero(np.diff(number) < 0)) <= len(number) // 10


def _counts_evenly(cells: Cells) -> bool:
    """Whether a column counts every row's update, one after another: what the environment has seen grows with it."""
    gaps = np.diff(cells.number)
    return bool((cells.state == VALUE).all()) and len(gaps) > 1 and gaps[0] > 0 and bool((gaps == gaps[0]).all())


def _falls(cells: Cells) -> bool:
    """Whether numbers fall more often than they rise, and none comes twice: sizes of batches rather than counts."""
    number = cells.number[cells.state == VALUE]
    falls = int(np.count_nonzero(np.diff(number) < 0))
    return (len(number) - 1) / 2 < falls < len(number) - 1 and len(np.unique(number)) == len(number)


def _names_checkpoints(name: str, cells: Cells) -> bool:
    """Whether a column names the checkpoint that each row measured, with a number that counts."""
    if cells.text is None or not is_checkpoint_name(name):
        return False
    numbered = _numbered(cells)
    return bool((numbered.state == VALUE).all()) and _counts(numbered)


def _numbered(cells: Cells) -> Cells:
    """The last number in each name of a checkpoint ("network-snapshot-004000.pkl")."""
    if cells.text is None:
        return cells
    found = [_LAST_NUMBER.search(text) if text is not None else None for text in cells.text]
    number = np.array([float(match[1]) if match else np.nan for match in found])
    return Cells(number, np.where(np.isfinite(number), np.uint8(VALUE), cells.state))


def _finer(block: Block, chosen: str) -> str:
    """Prefer a second counter where it says the same but keeps rows apart that the chosen one confuses.

    W&B's `_step` where it follows the training step (evaluations then stand one later); `iter` of mmengine, whose
    `step` becomes the epoch on validation rows.
    """
    main = block.columns[chosen]
    for name, cells in block.columns.items():
        plain = _plain(name)
        if name == chosen or plain not in {"_step", "iter"} or not _counts(cells):
            continue
        both = (main.state == VALUE) & (cells.state == VALUE)
        if not both.any() or np.mean(main.number[both] == cells.number[both]) < 0.5:
            continue
        if plain == "_step":
            return name
        lone = (main.state == VALUE) & (cells.state != VALUE)
        if lone.any() and np.max(main.number[lone]) < np.max(cells.number[both]) / 2:
            return name
    return chosen


def _step_like(block: Block, chosen: str) -> frozenset[str]:
    """Columns that repeat the step and are no metrics."""
    return frozenset(name for name in block.columns if name == chosen or _plain(name) == "_step")


def _find(block: Block, names: tuple[str, ...]) -> str | None:
    for name, cells in block.columns.items():
        plain = _plain(name)
        *folders, last = plain.split("/")
        if last in names and all(f in _FOLDERS for f in folders) and (cells.state == VALUE).any():
            return name
    return None


def _restarting(
    block: Block, column: str, epoch: str | None, validation: NDArray[np.bool_] | None
) -> tuple[float, float] | None:
    """Iterations per epoch and the first epoch's number, where the iteration restarts with every epoch."""
    if epoch is None or not (column == _PAIR[1] or _plain(column).rsplit("/", 1)[-1] in _ITERATIONS):
        return None
    cells, epochs = block.columns[column], block.columns[epoch]
    rows = (cells.state == VALUE) & (epochs.state == VALUE)
    if validation is not None:
        rows &= ~validation
    number, done = cells.number[rows], epochs.number[rows]
    if len(number) < 2 or np.any(done != np.floor(done)):
        return None
    later = np.flatnonzero(np.diff(done) > 0) + 1
    if not len(later) or np.mean(number[later] < number[later - 1]) < 0.8:
        return None
    gaps = np.diff(number)
    gaps = gaps[gaps > 0]
    cadence = float(np.median(gaps)) if len(gaps) else 1.0
    per_epoch = float(number.max()) + (cadence if number.min() == 0 else 0.0)
    return per_epoch, 0.0 if done.min() == 0 else 1.0


def _one_row_each(block: Block, epoch: str) -> bool:
    """Whether whole epochs tell the rows of each metric apart."""
    cells = block.columns[epoch]
    known = cells.state == VALUE
    done = cells.number[known]
    if np.any(~np.isfinite(done)) or np.any(done != np.floor(done)):
        return False
    rows = (
        max(np.count_nonzero(c.given & known) for n, c in block.columns.items() if n != epoch)
        if len(block.columns) > 1
        else len(done)
    )
    changes = int(np.count_nonzero(np.diff(done))) + 1  # of several runs in one file every row tells another epoch too
    return max(len(np.unique(done)), changes) >= 0.5 * rows


def _marker(block: Block) -> str:
    """The metric whose rows are counted where nothing else counts: the training loss, else the one logged most."""
    counted = [
        (resolve(name).role != "train_loss", says_validation(name), -int(np.count_nonzero(cells.given)), order, name)
        for order, (name, cells) in enumerate(block.columns.items())
        if not is_step_name(name) and cells.given.any()
    ]
    return min(counted)[-1] if counted else ""
