"""Rows without a number for the loss or for a norm, where that means that it was not finite; and rows of zeros for
evaluations that were not made.

JSON has no NaN and tables write it as an empty cell, so what was NaN often comes as nothing. Nothing also stands in
rows of another sort (an evaluation, a summary), which hold something that rows of training do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from trainforensics.model import ReadWarning
from trainforensics.signals.curve import Bools, Ints
from trainforensics.store.reader import StoredBlanks, StoredPoints, StoredSeries

ROLES = frozenset(
    {"train_loss", "val_loss", "grad_norm", "param_norm", "update_norm", "update_ratio", "activation_norm"}
)
COMPANIONS = frozenset({"learning_rate", "skipped_steps", "overflow", "loss_scale", "batch_size", "tokens_seen"})
EVALUATED, FEWEST_ZEROS = frozenset({"val_loss", "val_metric"}), 3  # series that are zero by no chance at once
FEWEST = 10  # rows with a number before a row without one says anything
SELDOM = 0.1  # of the rows with a number; a series with more rows without one is simply not logged in each row
AT_END = 3  # rows from the last number on; fewer may be a summary
EVEN = 4  # rows without a number at equal distances, which are of another sort unless they hold a row's companions


def with_blanks(
    stored: Sequence[StoredSeries], points: Mapping[int, StoredPoints], blanks: Mapping[int, StoredBlanks]
) -> tuple[dict[int, StoredPoints], list[ReadWarning]]:
    """The points with a NaN wherever a row lacks a number that it should hold, and what is to be said of it."""
    filled, warnings = dict(points), []
    for series in stored:
        own, blank = points.get(series.series.id), blanks.get(series.series.id)
        if own is None or blank is None or series.series.role not in ROLES or len(own.seq) < FEWEST:
            continue
        beside = [(s, points[s.series.id].seq) for s in stored if s.part == series.part and s.series.id in points]
        lost = _lost(own.seq, blank, [pair for pair in beside if pair[0] is not series])
        if series.series.role == "val_loss" and lost.sum() == 1:  # not made, as where the job ended
            message = f"{series.series.name}: 1 row holds no number for it; an evaluation that was not made"
            warnings.append(ReadWarning("blank", series.series.source, message))
            continue
        if lost.any():
            filled[series.series.id] = _merged(own, blank, lost)
            message = f"{series.series.name}: {int(lost.sum())} rows hold no number for it and are taken as NaN"
            warnings.append(ReadWarning("blank", series.series.source, message))
    return filled, warnings


def without_unmade(
    stored: Sequence[StoredSeries], points: Mapping[int, StoredPoints]
) -> tuple[dict[int, StoredPoints], list[ReadWarning]]:
    """The points without those rows of a source in which every loss and metric of validation is exactly zero, while
    others hold numbers: a table has cells for them in each row, and zero where no evaluation was made."""
    kept, warnings = dict(points), []
    for part in {series.part for series in stored}:
        own = [s for s in stored if s.part == part and s.series.role in EVALUATED and s.series.id in points]
        rows = [points[s.series.id].seq for s in own]
        if len(own) < FEWEST_ZEROS or not any(s.series.role == "val_loss" for s in own):
            continue
        if any(not np.array_equal(rows[0], other) for other in rows):
            continue
        made = np.any([points[s.series.id].value != 0 for s in own], axis=0)
        if made.all() or not made.any():
            continue
        for series in own:
            kept[series.series.id] = _taken(points[series.series.id], made)
        message = f"{int((~made).sum())} rows hold zero for all {len(own)} series of validation: none was made there"
        warnings.append(ReadWarning("blank", own[0].series.source, message))
    return kept, warnings


def _taken(points: StoredPoints, kept: Bools) -> StoredPoints:
    return replace(points, **{f.name: getattr(points, f.name)[kept] for f in fields(StoredPoints)})


def _lost(own: Ints, blank: StoredBlanks, beside: Sequence[tuple[StoredSeries, Ints]]) -> Bools:
    """Which blank rows are rows of training that lost their number, shape (number of blank rows,)."""
    usual = len(own) / (len(own) + len(blank.seq))
    lost = blank.seq > own[0]
    held, companions = np.zeros(len(blank.seq), dtype=bool), np.zeros(len(blank.seq), dtype=bool)
    for series, rows in beside:
        here = np.isin(blank.seq, rows)
        if np.isin(rows, own).mean() < usual / 2:
            lost &= ~here
        else:
            held |= here
            companions |= here & (series.series.role in COMPANIONS)
    lost &= held | blank.null
    after = lost & (blank.seq > own[-1])
    inside: Bools = lost & ~after
    if inside.sum() > max(1, SELDOM * len(own)):
        return np.zeros(len(lost), dtype=bool)
    if inside.sum() >= EVEN and np.ptp(np.diff(blank.seq[inside])) == 0:
        inside &= companions
    if after.sum() >= AT_END:
        inside |= after
    return inside


def _merged(own: StoredPoints, blank: StoredBlanks, lost: Bools) -> StoredPoints:
    columns = {
        f.name: np.concatenate([getattr(own, f.name), getattr(blank, f.name)[lost]]) for f in fields(StoredPoints)
    }
    order = np.argsort(columns["seq"], kind="stable")
    return replace(own, **{name: column[order] for name, column in columns.items()})
