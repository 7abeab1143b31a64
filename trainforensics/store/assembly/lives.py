"""Where the process lives within one source begin: where its steps go back, or its importer says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainforensics.importers.base import EMPTY, NO_TIME, NULL
from trainforensics.store.staging import Block, Staged

FALSE_START = 0.1  # a life that got less far than this share of the next was given up and begun again
_INTERLEAVED = 0.05  # share of backward steps beyond which a series is unordered rather than restarted
_FEW_RESTARTS = 8  # as many are restarts however short the series
_MOST_ANEW, _FOLD = 30, 5  # folds, seeds or trials that begin again where the log began; rows of each, at least


@dataclass(frozen=True, slots=True)
class Life:
    """One process life within a source: from row `start` on. Times in microseconds, NO_TIME where unknown.

    `naive`: they state no zone.
    """

    start: int
    first_step: int
    last_step: int
    max_step: int
    started: int
    ended: int
    naive: bool = False

    @property
    def timed(self) -> bool:
        """Whether it is known when it began."""
        return self.started != NO_TIME


def comparable(a: Life, b: Life) -> bool:
    """Whether the times of two lives are known, and of clocks that can be held against each other."""
    return a.timed and b.timed and a.naive == b.naive


def lives_of(staged: Staged, main: int) -> tuple[Life, ...]:
    """Process lives: a new one where the main series steps back, or where the importer says so."""
    lives = _scan_lives(staged, main, by_step=True)
    lives = lives if lives is not None else _scan_lives(staged, main, by_step=False) or []
    return tuple(replace(life, naive=True) for life in lives) if staged.naive_times else tuple(lives)


def _scan_lives(staged: Staged, main: int, *, by_step: bool) -> list[Life] | None:
    """One pass over the main series; None where it steps back so often that it is unordered rather than restarted."""
    lives: list[Life] = []
    n = back = anew = 0
    last_step = last_segment = 0
    for block in staged.spool.blocks(("series", "state", "seq", "step", "wall_time", "segment")):
        rows = np.flatnonzero((block["series"] == main) & ~np.isin(block["state"], (NULL, EMPTY)))
        if not len(rows):
            continue
        step, segment = block["step"][rows], block["segment"][rows]
        cut = np.diff(segment, prepend=last_segment if lives else segment[0]) != 0
        backward = np.diff(step, prepend=last_step if lives else step[0]) < 0
        begins = backward & (step <= (lives[0].first_step if lives else step[0]))
        n, back, anew = n + len(rows), back + int(np.sum(backward)), anew + int(np.sum(begins))
        if by_step:
            if back - (anew if anew <= min(_MOST_ANEW, n // _FOLD) else 0) > max(_FEW_RESTARTS, _INTERLEAVED * n):
                return None
            cut |= backward
        for start, end in pairwise(sorted({0, *np.flatnonzero(cut).tolist(), len(rows)})):
            life = _life(block, rows[start:end])
            lives.append(life if cut[start] or not lives else _joined(lives.pop(), life))
        last_step, last_segment = int(step[-1]), int(segment[-1])
    return [replace(lives[0], start=0), *lives[1:]] if lives else lives


def _life(block: Block, rows: NDArray[np.int64]) -> Life:
    step, wall = block["step"][rows], block["wall_time"][rows]
    known = wall[wall != NO_TIME]
    started, ended = (int(known[0]), int(known[-1])) if len(known) else (NO_TIME, NO_TIME)
    return Life(int(block["seq"][rows[0]]), int(step[0]), int(step[-1]), int(step.max()), started, ended)


def _joined(a: Life, b: Life) -> Life:
    """One life that two blocks hold in turn."""
    return Life(
        a.start,
        a.first_step,
        b.last_step,
        max(a.max_step, b.max_step),
        b.started if a.started == NO_TIME else a.started,
        a.ended if b.ended == NO_TIME else b.ended,
    )
