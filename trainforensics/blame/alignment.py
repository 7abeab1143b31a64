"""How the steps of a manifest, or the samples it counts, meet the steps of the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from trainforensics.blame.consumed import SAMPLES, TOKENS, Consumed, consumed_samples, consumed_tokens, plain_name
from trainforensics.importers.manifest import SAMPLE_STARTS, TOKEN_STARTS
from trainforensics.signals import Signals
from trainforensics.signals.curve import Ints

LOOKED_AT = 4096  # steps from the middle of a manifest, by which it is known whether it holds them all
SPARSE = 1.5  # steps from one row to the next; up to that, gaps are rows that were lost
MULTIPLE = 0.01  # by which the reach of two counts may miss a whole multiple


@dataclass(frozen=True, slots=True)
class Alignment:
    """Step on the log's axis = manifest step // factor + offset. `slack`: steps by which it may still be off."""

    factor: int = 1
    offset: int = 0
    slack: int = 0
    note: str = ""

    @property
    def at(self) -> pl.Expr:
        """The log's step of each row."""
        return (pl.col("step") // self.factor + self.offset).cast(pl.Int64).alias("at")

    def within(self, after: int, upto: int) -> pl.Expr:
        """Filter for log steps in (after, upto], put on the manifest's own step column so that it is pushed down."""
        low, high = (after + 1 - self.offset) * self.factor, (upto + 1 - self.offset) * self.factor
        return (pl.col("step") >= low) & (pl.col("step") < high)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Step on the log's axis = the one that was fed the sample (or token) at `column` - `behind`.

    `behind` is 0 where rows give what was consumed before their batch, 1 where it counts the batch itself.
    """

    column: str
    behind: int
    consumed: Consumed
    slack: int
    note: str

    @property
    def at(self) -> pl.Expr:
        """The log's step of each row; rows outside the log's range must be filtered out before."""
        consumed, behind = self.consumed, self.behind

        def steps(column: pl.Series) -> pl.Series:
            return pl.Series(consumed.steps_of(column.cast(pl.Int64).to_numpy() - behind))

        return pl.col(self.column).map_batches(steps, return_dtype=pl.Int64).alias("at")

    def within(self, after: int, upto: int) -> pl.Expr:
        """Filter for log steps in (after, upto], put on the manifest's own column so that it is pushed down."""
        low, high = self.consumed.span(after, upto)
        return (pl.col(self.column) >= low + self.behind) & (pl.col(self.column) < high + self.behind)

    @property
    def inside(self) -> pl.Expr:
        """Filter for rows within the log's range."""
        low, high = int(self.consumed.edge[0]), self.consumed.total
        return (pl.col(self.column) >= low + self.behind) & (pl.col(self.column) < high + self.behind)


def align(first: int, last: int, grid: Ints, accumulation: int) -> Alignment | None:
    """How manifest steps `first`..`last` map to the log's; None if they share no step and no rule explains it.

    Proof by the ranges: both begin and end together (same axis); the manifest begins at 0 and ends one before the log
    (0- against 1-based); its range is `accumulation` times the log's (micro-steps). Otherwise the same axis is assumed.
    """
    low, high = int(grid[0]), int(grid[-1])
    cadence = max(1, int(np.median(np.diff(grid)))) if len(grid) > 1 else 1
    if accumulation > 1 and first in (0, 1) and abs((last + 1) / (high + 1) - accumulation) < 0.02 * accumulation:
        return Alignment(
            accumulation, 1 if low >= 1 and first == 0 else 0, 0 if high == low else 1,
            f"the manifest counts micro-steps, {accumulation} to a step",
        )  # fmt: skip
    if last < low - cadence or first > high:
        return None
    shift = high - last if first == 0 else 0
    if first == 0 and shift == 1 and low >= 1:
        return Alignment(offset=1, note="the manifest counts from 0, the log from 1")
    if last == high or (first == low and low == 0):
        return Alignment()
    if first == 0 and 0 < low <= cadence:
        return Alignment(offset=1, slack=1, note="the manifest seems to count from 0 and the log from 1")
    if first == 1 and low == 0:
        return Alignment(offset=-1, slack=1, note="the manifest seems to count from 1 and the log from 0")
    return Alignment(slack=1, note="manifest and log are taken to count steps alike; their ranges do not prove it")


def reach(last: int, grid: Ints, alignment: Alignment) -> str:
    """What a whole multiple between the ranges of manifest and log may mean; empty where there is none."""
    mine, theirs = last // alignment.factor + 1, int(grid[-1]) + 1
    ratio = max(mine, theirs) / max(1, min(mine, theirs))
    times = round(ratio)
    if times < 2 or abs(ratio - times) > MULTIPLE * times:
        return ""
    if mine > theirs:
        return (
            f"the manifest's steps reach {times} times as far as the log's: they may be micro-steps, "
            f"{times} to a step, which gradient_accumulation_steps in the run's configuration would say"
        )
    return (
        f"the log's steps reach {times} times as far as the manifest's, which either ends early or counts "
        f"one step to {times} of the log's"
    )


def density(frame: pl.LazyFrame, first: int, last: int, grid: Ints, alignment: Alignment) -> str:
    """What a manifest that leaves steps out cannot tell; empty for one that holds them all."""
    start = max(first, (first + last - LOOKED_AT) // 2)
    inside = pl.col("step").filter(pl.col("step").is_between(start, start + LOOKED_AT))
    held, low, high = (
        frame.select(inside.n_unique(), inside.min().alias("low"), inside.max().alias("high")).collect().row(0)
    )
    apart = (high - low) / (held - 1) / alignment.factor if held > 1 else 1.0
    if apart < SPARSE:
        return ""
    cadence = int(np.median(np.diff(grid))) if len(grid) > 1 else 1
    log = "every step" if cadence == 1 else f"every {cadence} steps"
    said = f"the manifest holds one step in {apart:.3g} (the log has one {log})"
    return f"{said}: it does not tell the data of the others"


def by_position(frame: pl.LazyFrame, signals: Signals) -> Positions | str | None:
    """How rows that count samples or tokens map to the log's steps, or why they do not; None where none is counted."""
    numeric = {plain_name(name): name for name, kind in frame.collect_schema().items() if kind.is_numeric()}
    for known, starts in ((SAMPLES, SAMPLE_STARTS), (TOKENS, TOKEN_STARTS)):
        names = sorted(numeric.keys() & (known | starts), key=lambda name: name not in starts)
        if names:
            consumed = consumed_samples(signals) if known is SAMPLES else consumed_tokens(signals)
            column = numeric[names[0]]
            if isinstance(consumed, str):
                return f"the manifest gives no step but {column}, and {consumed}"
            return _placed(frame, column, consumed, names[0] in starts)
    return None


def _placed(frame: pl.LazyFrame, column: str, consumed: Consumed, starts: bool) -> Positions | str:
    counted = pl.col(column).filter(pl.col(column).is_not_null())
    above = counted.filter(counted > counted.min())
    table = frame.select(counted.min().alias("low"), above.min().alias("next"), counted.max().alias("high"))
    low, following, high = table.collect(engine="streaming").row(0)
    if low is None:
        return f"the manifest's column {column} is empty"
    if high < consumed.edge[0] or low >= consumed.total:
        span = f"the log {consumed.edge[0]}-{consumed.total}"
        return f"the manifest covers {column} {low:.0f}-{high:.0f}, {span}: they share nothing"
    behind, slack, note = _counts(low, following, consumed, starts)
    how = f"placed by {column} and {consumed.source}"
    notes = "; ".join(filter(None, (how, note, consumed.note)))
    return Positions(column, behind, consumed, max(slack, consumed.slack), notes)


def _counts(low: float, following: float | None, consumed: Consumed, starts: bool) -> tuple[int, int, str]:
    """(behind, slack, note): whether a row's number stands before its own batch, or counts it."""
    if starts or low == 0:
        return 0, 0, ""
    begins = consumed.edge[0] == 0
    first_batch = (begins and low == consumed.edge[1]) or (following is not None and following - low == low)
    if first_batch:
        return 1, 0, ""
    return 1, 1, "rows are taken to count their own batch, which only their beginning would show"
