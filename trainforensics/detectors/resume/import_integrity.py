"""The log itself is damaged or partial, and what was concluded from it is capped by that.

What it detects:
    Places that could not be read (checksum gaps, undecodable records, damaged archives), rows that the logger refused,
    steps below zero, one step logged twice with different values, two jobs that write one file, an unfinished last
    line, a sampled export, two sources that disagree about the same metric, a loss that ends while the rows of training
    go on, a stretch without any row in a log that is regular on both sides of it, rows whose time since the start is
    another run's, a count of steps that begins anew at a restart though the epochs go on, rows that were written again
    and headers that change in the middle of a table.

Why it matters:
    An incident may lie in what is missing. A verdict over a damaged log is a verdict over the rest of it.

Evidence:
    The reader's own warnings with byte, line or step; the values that clash.

False positives:
    An unfinished last line (a run that crashed or still writes), a sampled export, and rows written again with equal
    values, which count once, are no damage: low. Replayed steps
    after a restart are another life's and no clash; ranks that log one step do so at one time and learning rate. A loss
    that another one takes over, rows of evaluation and a few last rows that were not flushed are no loss that ends. A
    stretch between two process lives may be another file's, and a log with several of them, or without an even cadence,
    is sampled.

Example:
    `50 bytes cannot be read: checksum does not match; between steps 3490 and 3500`

Parameters:
    See `META.params`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from trainforensics.detectors.base import Meta, Param, Params
from trainforensics.detectors.resume.unread import WRITTEN_AGAIN, refused, unread
from trainforensics.kinds import KINDS, Severity
from trainforensics.model import Clear, Evidence, Finding, Fired, Outcome
from trainforensics.signals import Curve, Signals
from trainforensics.signals.clashes import clashes, foreign_rows, most_clashing, share, two_writers
from trainforensics.signals.pace import total_time
from trainforensics.signals.rows import missing_stretch, rows_after_loss

META = Meta(
    kind=KINDS["import-integrity"],
    uses=("*",),
    params=(
        Param("rows", 10.0, "missing in one stretch; fewer are a few lost writes"),
        Param("caps", 0.05, "of the log's steps that are missing, from which events may have gone unseen"),
        Param("clash", 0.01, "share of a curve's points that repeat a step with another value; fewer are reprints"),
        Param(
            "jobs", 0.1, "the same for two jobs in one file, in the loss; a log's overlap with another is no accident"
        ),
    ),
)
FEWEST = 5  # points that must carry an impossible step
OF_ROWS = frozenset({"stage", "step_time", "dataloader_time"})  # what rows of training and evaluation carry alike
CAPPING = frozenset({"corrupt", "damaged-file", "damaged-archive", "dropped-by-logger"})
REMARKS = frozenset({"undecodable", "bad-line", "ragged-row", "torn-line", "archive-tail", "sampled", "cross-check"})


def detect(signals: Signals, params: Params) -> Outcome:
    """A finding for what was damaged, one for what is partial, one for what was written again, and one each for steps
    below zero, clashes and gaps."""
    damaged = [warning for warning in signals.warnings if warning.kind in CAPPING] or refused(signals.events)
    remarks = [warning for warning in signals.warnings if warning.kind in REMARKS]
    again = [warning for warning in signals.warnings if warning.kind == WRITTEN_AGAIN]
    curves = signals.every_curve()
    others = (
        _below_zero(curves),
        _clash(signals, curves, params),
        _ended(signals),
        _gap(signals, curves, params),
        _foreign(signals),
        _not_restored(signals),
    )
    told = (*unread(damaged, "medium", 0.9), *unread(remarks, "low", 0.8), *unread(again, "low", 0.9))
    found = (*told, *(f for f in others if f is not None))
    return Fired(found) if found else Clear()


def _below_zero(curves: tuple[Curve, ...]) -> Finding | None:
    """Steps below zero, which no counter reaches by itself."""
    ill = [curve for curve in curves if int((curve.step < 0).sum()) >= FEWEST]  # a lone -1 is a placeholder
    if not ill:
        return None
    curve = max(ill, key=lambda c: int((c.step < 0).sum()))
    below = curve.step[curve.step < 0]
    first = int(below.min())
    text = f"{len(below)} points of {curve.name} carry steps below zero, from {first} to {int(below.max())}"
    return _finding(curve, first, "medium", text, float(len(below)))


def _clash(signals: Signals, curves: tuple[Curve, ...], params: Params) -> Finding | None:
    """Several values for one step of one life: of two jobs, which is an alarm, or of one curve."""
    loss = two_writers(signals, params["jobs"])
    curve = loss if loss is not None else most_clashing(c for c in curves if c.series.role not in OF_ROWS)
    if curve is None or (part := share(clash := clashes(curve))) <= params["clash"]:
        return None
    step = int(curve.step[int(np.argmax(clash))])
    if loss is not None:
        text = f"two jobs write one log: {clash.sum()} steps of {curve.name} from step {step} on hold a value of each"
        return replace(_finding(curve, step, "medium", text, part), end_step=int(curve.step[-1]))
    text = f"{part:.0%} of the points of {curve.name} repeat a step with another value; the last one is no surer"
    return _finding(curve, step, "low", text, part)


def _ended(signals: Signals) -> Finding | None:
    """The loss ends while what was logged beside it goes on, and nothing says that it became NaN."""
    curve = signals.curve("train_loss")
    if curve is None:
        return None
    after = rows_after_loss(signals, curve)
    if not len(after):
        return None
    last = int(curve.step[-1])
    text = (
        f"{curve.name} ends at step {last} while its rows go on to step {int(after[-1])}: what followed is not judged"
    )
    finding = _finding(curve, int(after[0]), "medium", text, float(len(after)))
    return replace(finding, end_step=int(after[-1]))


def _gap(signals: Signals, curves: tuple[Curve, ...], params: Params) -> Finding | None:
    """The one long stretch without rows, in one process life, of a log that is even before and after it."""
    curve = signals.curve("train_loss") or max(curves, key=len, default=None)
    if curve is None or signals.axis.unit == "row":
        return None
    at = missing_stretch(curve, curves, params["rows"])
    if at is None:
        return None
    before, after, cadence = int(curve.step[at]), int(curve.step[at + 1]), curve.cadence
    missing = (after - before) // cadence - 1
    lost = (after - before - cadence) / max(1, int(curve.step[-1] - curve.step[0]))
    text = (
        f"{missing} rows are missing between steps {before} and {after}, {lost:.0%} of the log: nothing is known there"
    )
    severity: Severity = "medium" if lost >= params["caps"] else "low"
    finding = _finding(curve, before + cadence, severity, text, float(missing))
    return replace(finding, onset_interval=(before, before + cadence), end_step=after)


def _foreign(signals: Signals) -> Finding | None:
    """Rows in the middle of the log that a clock far ahead of all around them tells to be of another run."""
    clock = total_time(signals)
    rows = foreign_rows(clock) if clock is not None else None
    if clock is None or rows is None:
        return None
    first, last = (int(clock.step[at]) for at in rows)
    ahead, after = (float(clock.value[at]) for at in (rows[1], rows[1] + 1))
    text = (
        f"{clock.name} runs back from {ahead:.6g} to {after:.6g} behind step {last} and goes on as before step {first}:"
        " the rows between are of another run"
    )
    return replace(_finding(clock, first, "medium", text, ahead), end_step=last)


def _not_restored(signals: Signals) -> Finding | None:
    """A count of steps that begins anew though the epochs go on; one that does so again and again in a log is an
    epoch's own, of which few rows are printed."""
    events = [event for event in signals.events if event.kind == "counter-restart"]
    times = Counter(event.source for event in events)
    event = next((event for event in events if times[event.source] == 1), None)
    if event is None:
        return None
    row = Evidence(event.source or "log", event.step, None, None, event.text)
    return Finding(
        kind="import-integrity",
        series=event.source or "log",
        role=None,
        onset_step=event.step,
        severity="medium",
        confidence=0.9,
        summary=event.text,
        evidence=(row,),
    )


def _finding(curve: Curve, step: int, severity: Severity, text: str, value: float) -> Finding:
    return Finding(
        kind="import-integrity",
        series=curve.name,
        role=curve.series.role,
        onset_step=step,
        onset_interval=(step, step),
        occurrences=(step,),
        severity=severity,
        confidence=0.8,
        summary=text,
        evidence=(Evidence(curve.name, step, value, 0.0, text),),
    )
