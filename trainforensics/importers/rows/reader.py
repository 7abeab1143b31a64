"""What row-shaped formats share: from blocks of rows (JSON lines, tables, histories) to points on a step axis.

A format turns its rows into a `Block` of columns; `RowReader` chooses the step axis on the first block, keeps it, and
yields `Points` per column. A missing key, an empty cell, null, NaN and the string "NaN" stay five different things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import EMPTY, NULL, Points, Record, Source, naive_times
from trainforensics.importers.messages import event_kind
from trainforensics.importers.rows import axes
from trainforensics.importers.rows.block import ABSENT, TEXT, Block, Cells
from trainforensics.importers.rows.rewritten import Rewritten
from trainforensics.importers.rows.times import names_no_zone, wall_times
from trainforensics.model import Axis, Event, ReadWarning
from trainforensics.roles import resolve

_RANK_COLUMNS = frozenset(
    {"rank", "global_rank", "local_rank", "process", "process_index", "process_id", "dp_rank", "worker_rank"}
)
_RANK_IN_NAME = re.compile(
    r"(?:^|[/._-])(?:global_?)?(?:rank|worker|process|proc)[-_]?(\d+)(?=$|[/._-])", re.IGNORECASE
)
_SPLIT_COLUMNS = frozenset(
    {"mode", "split", "phase", "stage", "type", "kind", "event", "record", "subset", "prefix", "data"}
)
_VALIDATION = re.compile(
    r"(val|valid|validation|validate|eval|evaluation|test|dev)([_ /-](iter|epoch|step|batch|end))?"
)  # "val", "val_epoch"
_SET_COLUMNS = frozenset(
    {"dataset", "dataset_name", "eval_dataset", "eval_set", "test_set", "task", "task_name", "benchmark"}
    | {"domain", "language", "lang", "corpus", "source"}
)
_LONG_NAMES = frozenset({"metric", "tag", "name", "key", "variable", "series", "metric_name"})
_LONG_VALUES = frozenset({"value", "val", "metric_value"})
_INDEX_NAMES = frozenset({"", "unnamed: 0", "index", "level_0", "__index_level_0__"})
_RESULTS = frozenset({"train_loss", "val_loss", "grad_norm"})
_MESSAGE_COLUMNS = frozenset({"event", "type", "kind", "message", "msg", "status", "note", "event_type"})
_LONGEST_TEXT = 2000
_RESUMED = frozenset({"restart", "checkpoint-loaded"})
_SAMPLE_ROWS = 500  # what W&B's run.history() gives where it is not told otherwise
_SPARSE = 4  # missing cells per value beyond which a column is only logged now and then, and its gaps mean nothing


@dataclass(slots=True)
class _Reject:
    """Cells of a numeric column that hold a text."""

    count: int
    line: int
    example: str


@dataclass(slots=True, eq=False)
class RowReader:
    """Turns the blocks of one source into points. The step axis is chosen on the first block."""

    source: Source
    run: str = ""
    logging_interval: int | None = None
    segment: int = 0
    rewritten: Rewritten | None = None  # of a format whose header may come again
    steps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of the last block
    _axis: axes.StepAxis | None = None
    _seq: int = 0
    _counts_logs: bool = False  # the step is W&B's own `_step`
    _long: tuple[str, str] | None = None
    _rank: int | None = None
    _set_column: str | None = None  # says which of several sets a row evaluates
    _wall_column: str | None = None
    _naive: bool = False  # whether wall times state no zone
    _numeric: set[str] = field(default_factory=set)
    _sparse: dict[str, bool] = field(default_factory=dict)
    _rejects: dict[str, _Reject] = field(default_factory=dict)

    def add(self, block: Block) -> Iterator[Record]:
        """The points of further rows."""
        if not len(block):
            return
        if self._axis is None:
            yield self._begin(block)
        assert self._axis is not None
        seq = np.arange(self._seq, self._seq + len(block), dtype=np.int64)
        self._seq += len(block)
        validation = _validation_rows(block)
        step = self.steps = self._axis.steps(block, validation)
        yield from self._lost_counts(block)
        lives = np.full(len(block), self.segment, np.int32)
        if self.rewritten is not None:
            new = self.rewritten.sift(block, step, self._axis.used)
            block, step, seq = new.block, step[new.keep], seq[new.keep]
            validation = None if validation is None else validation[new.keep]
            lives = self._lives(len(block), new.begins)
        yield from self._events(block, step)
        wall = wall_times(block.columns, self._wall_column)
        self._naive = self._naive or names_no_zone(block.columns, self._wall_column)
        rank = _rank_column(block)
        self._set_column = self._set_column or _set_column(block, step, validation)
        sets = block.columns[self._set_column].text if self._set_column in block.columns else None
        shared = _Shared(step, seq, wall, lives, self.run, validation, sets)
        skipped = self._axis.used | _INDEX_NAMES | {self._wall_column}
        if self._long is not None:
            yield from self._long_points(block, shared, rank)
            return
        for name, cells in block.columns.items():
            if name.lower() in skipped or name in skipped or (rank is not None and name == rank[0]):
                continue
            yield from self._points(name, cells, shared, block, rank)

    def _lives(self, rows: int, begins: int | None) -> NDArray[np.int32]:
        """The process life of each row, of which another one `begins` with one of them."""
        lives = np.full(rows, self.segment, np.int32)
        if begins is not None:
            lives[begins:] += 1
            self.segment += 1
        return lives

    @property
    def started(self) -> bool:
        """Whether any row was read."""
        return self._seq > 0

    @property
    def last_step(self) -> int | None:
        """Step of the last row."""
        return int(self.steps[-1]) if len(self.steps) else None

    def finish(self) -> Iterator[Record]:
        """What could not be read as numbers, whether times state no zone, and whether the export is a sample."""
        if self._naive:
            yield naive_times(self.source.label)
        if self._seq == _SAMPLE_ROWS == len(self.steps) and self._counts_logs:
            gaps = np.unique(np.diff(self.steps))
            if len(gaps) > 2:  # a regular cadence is no sample
                message = f"exactly {_SAMPLE_ROWS} rows at irregular steps: W&B samples a history to so many"
                yield ReadWarning("sampled", self.source.label, message)
        if self._axis is not None:
            yield from _about_steps(self._axis)
        for name, reject in self._rejects.items():
            yield ReadWarning(
                "wrong-type",
                f"line {reject.line}",
                f"{reject.count} cells of {name!r} are text, first {reject.example!r}; they are no points",
            )

    def _lost_counts(self, block: Block) -> Iterator[Event]:
        """Where the count of steps was not restored at a restart."""
        assert self._axis is not None
        for lost in self._axis.lost:
            text = (
                f"{self._axis.column} begins anew, at {lost.begins} behind {lost.before}, while the epochs go on to "
                f"{lost.epoch:g}: it was not restored, and is counted on here"
            )
            line = int(block.line[lost.row])
            yield Event("counter-restart", int(self.steps[lost.row]), text=text, source=self.source.label, line=line)

    def _events(self, block: Block, step: NDArray[np.int64]) -> Iterator[Event]:
        """What text columns say happened at a row."""
        for name, cells in block.columns.items():
            if cells.text is None or name.lower().rsplit("/", 1)[-1] not in _MESSAGE_COLUMNS:
                continue
            kinds = {text: event_kind(text) for text in set(cells.text) if text is not None}
            if not any(kinds.values()):
                continue
            for row in np.flatnonzero(cells.state == TEXT).tolist():
                text = cells.text[row] or ""
                if kinds.get(text):
                    yield Event(
                        str(kinds[text]),
                        step=int(step[row]),
                        text=": ".join([text, *_resumed_from(kinds[text], block, row)])[:_LONGEST_TEXT],
                        source=self.source.label,
                        line=int(block.line[row]),
                    )

    def _begin(self, block: Block) -> Axis:
        interval = self.logging_interval or axes.logging_interval_beside(self.source.path)
        declared = [name for name, role in self.source.options.items() if role == "step"]
        self._axis = axes.choose(block, _validation_rows(block), interval, declared)
        self._counts_logs = self._axis.column == "_step"
        self._long = _long_form(block)
        found = _RANK_IN_NAME.search(self.source.label)
        self._rank = int(found[1]) if found else None
        self._wall_column = axes.wall_column(block.columns, self._axis.used)
        return self._axis.axis

    def _points(
        self, name: str, cells: Cells, shared: _Shared, block: Block, rank: tuple[str, NDArray[np.int64]] | None
    ) -> Iterator[Points]:
        mask = self._mask(name, cells, block)
        if mask is None:
            return
        groups: Iterable[tuple[int | None, NDArray[np.bool_]]] = [(self._rank, mask)]
        if rank is not None:
            groups = [(int(r), mask & (rank[1] == r)) for r in np.unique(rank[1])]
        for of_rank, rows in groups:
            for label, chosen in shared.split(name, rows):
                if chosen.any():
                    yield shared.points(label, cells, chosen, of_rank)

    def _mask(self, name: str, cells: Cells, block: Block) -> NDArray[np.bool_] | None:
        """The cells that are points: numbers, and the gaps of a column that is logged regularly."""
        given = cells.given
        n_given = int(np.count_nonzero(given))
        texts = cells.state == TEXT
        n_text = int(np.count_nonzero(texts)) if cells.text is not None else 0
        numeric = name in self._numeric or n_given >= n_text or _is_result(name)
        if n_text and numeric:
            self._reject(name, cells, texts, n_text, block)
        elif n_text > n_given:
            return None
        if n_given:
            self._numeric.add(name)
        if name not in self._numeric:
            return None
        gaps = (cells.state == NULL) | (cells.state == EMPTY)
        n_gaps = int(np.count_nonzero(gaps))
        sparse = self._sparse.setdefault(name, n_gaps > _SPARSE * n_given)
        return given if sparse or not n_gaps else given | gaps

    def _reject(self, name: str, cells: Cells, texts: NDArray[np.bool_], count: int, block: Block) -> None:
        assert cells.text is not None
        first = int(np.argmax(texts))
        known = self._rejects.setdefault(name, _Reject(0, int(block.line[first]), str(cells.text[first])[:40]))
        known.count += count

    def _long_points(
        self, block: Block, shared: _Shared, rank: tuple[str, NDArray[np.int64]] | None
    ) -> Iterator[Points]:
        """One metric a row: its name in one column, its value in another."""
        assert self._long is not None
        names, values = block.columns[self._long[0]], block.columns[self._long[1]]
        if names.text is None:
            return
        for name in dict.fromkeys(text for text in names.text if text is not None):
            rows = names.text == name
            cells = Cells(values.number, np.where(rows, values.state, np.uint8(ABSENT)), values.text)
            yield from self._points(str(name), cells, shared, block, rank)


def _about_steps(axis: axes.StepAxis) -> Iterator[ReadWarning]:
    """What the step column did not say."""
    if axis.unused:
        message = (
            f"step column {axis.unused!r} has no usable numbers (whole ones that change, in every row of episodes); "
            "rows are counted instead"
        )
        yield ReadWarning("odd-step", f"column {axis.unused}", message)
    count, line = axis.odd_steps()
    if count:
        message = f"{count} rows have a step that is no number ({axis.column!r}); they got that of the row before"
        yield ReadWarning("odd-step", f"line {line}", message)


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """What all columns of a block share."""

    step: NDArray[np.int64]
    seq: NDArray[np.int64]
    wall: NDArray[np.int64] | None
    lives: NDArray[np.int32]
    run: str
    validation: NDArray[np.bool_] | None
    sets: NDArray[np.object_] | None = None

    def split(self, name: str, rows: NDArray[np.bool_]) -> list[tuple[str, NDArray[np.bool_]]]:
        """Rows that say they are validation rows get names that say so, and of which of several sets."""
        if axes.says_validation(name):
            return self._by_set(name, rows)
        if self.validation is None:
            return [(name, rows)]
        return [(name, rows & ~self.validation), *self._by_set(f"val/{name}", rows & self.validation)]

    def _by_set(self, name: str, rows: NDArray[np.bool_]) -> list[tuple[str, NDArray[np.bool_]]]:
        if self.sets is None:
            return [(name, rows)]
        named = [text for text in dict.fromkeys(self.sets[rows].tolist()) if text]
        unnamed = rows & np.array([not text for text in self.sets], dtype=np.bool_)
        of_set = [(f"{name}/{re.sub(r'[/ ]+', '_', text)}", rows & (self.sets == text)) for text in named]
        return [(name, unnamed), *of_set]

    def points(self, name: str, cells: Cells, rows: NDArray[np.bool_], rank: int | None) -> Points:
        pick: slice | NDArray[np.bool_] = slice(None) if rows.all() else rows  # a slice copies nothing
        state, lives = cells.state[pick], self.lives[pick]
        return Points(
            name=name,
            step=self.step[pick],
            value=cells.number[pick],
            seq=self.seq[pick],
            wall_time=None if self.wall is None else self.wall[pick],
            state=state if state.any() else None,
            segment=lives if lives.any() else None,
            rank=rank,
            run=self.run,
        )


def _resumed_from(kind: str | None, block: Block, row: int) -> list[str]:
    """The checkpoint that a row names which says that the run was resumed."""
    columns = [cells for name, cells in block.columns.items() if axes.is_checkpoint_name(name)]
    texts = [cells.text[row] for cells in columns if cells.text is not None and cells.state[row] == TEXT]
    return [text for text in texts if text] if kind in _RESUMED else []


def _validation_rows(block: Block) -> NDArray[np.bool_] | None:
    """Mask of rows whose mode, split or type says validation; None where no row does."""
    for name, cells in block.columns.items():
        if cells.text is None or name.lower().strip("_") not in _SPLIT_COLUMNS:
            continue
        words = {text for text in set(cells.text) if isinstance(text, str) and _VALIDATION.fullmatch(text.lower())}
        if words:
            return np.isin(cells.text.astype(str), list(words))
    return None


def _set_column(block: Block, step: NDArray[np.int64], validation: NDArray[np.bool_] | None) -> str | None:
    """The column that tells the sets apart which are evaluated at one step; None where no step has several."""
    if validation is None:
        evaluated = [c.given for n, c in block.columns.items() if axes.says_validation(n)]
        validation = np.any(evaluated, axis=0) if evaluated else None
    if validation is None or not validation.any():
        return None
    for name, cells in block.columns.items():
        if cells.text is None or name.lower() not in _SET_COLUMNS:
            continue
        seen = [(at, text) for at, text in zip(step[validation].tolist(), cells.text[validation], strict=True) if text]
        if len(set(seen)) >= 1.5 * max(1, len({at for at, _ in seen})):
            return name
    return None


def _is_result(name: str) -> bool:
    """Whether a column of this name holds numbers by its meaning, so that texts in it are a loss."""
    return resolve(name).role in _RESULTS


def _rank_column(block: Block) -> tuple[str, NDArray[np.int64]] | None:
    """Name and values of the column that says which rank wrote a row."""
    for name, cells in block.columns.items():
        if name.lower() in _RANK_COLUMNS and cells.given.all() and np.all(cells.number == np.floor(cells.number)):
            return name, cells.number.astype(np.int64)
    return None


def _long_form(block: Block) -> tuple[str, str] | None:
    """The name and value columns of a table that holds one metric a row."""
    names = [n for n, c in block.columns.items() if n.lower() in _LONG_NAMES and c.text is not None]
    values = [n for n, c in block.columns.items() if n.lower() in _LONG_VALUES and c.given.any()]
    return (names[0], values[0]) if names and values else None
