"""What the reader's own warnings say in a finding: places of a log that could not be read."""

from __future__ import annotations

import re

from trainforensics.kinds import Severity
from trainforensics.model import Event, Evidence, Finding, ReadWarning

WRITTEN_AGAIN = "written-again"  # kind of the warning of rows or headers that came again
MOST_ROWS = 10  # of evidence
_REFUSED = re.compile(r"[Ss]tep must only increase|less than (?:the )?current step")
_STEPS = re.compile(r"steps? (-?\d+)(?: (to|and) (-?\d+))?")


def unread(warnings: list[ReadWarning], severity: Severity, confidence: float) -> list[Finding]:
    """One finding for all of the warnings, from the first step that any of them names on; none without warnings."""
    if not warnings:
        return []
    spans = [span for warning in warnings if (span := _steps(warning)) is not None]
    onset = min((first for first, _ in spans), default=None)
    place = warnings[0]
    rest = len(warnings) - 1
    more = f"; and at {rest} more {'place' if rest == 1 else 'places'}" if rest else ""
    found = Finding(
        kind="import-integrity",
        series="",
        role=None,
        onset_step=onset,
        onset_interval=(onset, onset) if onset is not None else None,
        occurrences=(onset,) if onset is not None else (),
        end_step=max((last for _, last in spans), default=None),
        severity=severity,
        confidence=confidence,
        summary=_unfinished(warnings)
        or _written_again(warnings)
        or f"the log is damaged or partial ({place.kind}, {place.where}): {place.message}{more}",
        evidence=tuple(_row(warning) for warning in warnings[:MOST_ROWS]),
    )
    return [found]


def refused(events: tuple[Event, ...]) -> list[ReadWarning]:
    """What a logger printed of rows that it did not take, because a later step had been logged before them."""
    said = [event for event in events if event.kind == "warning" and _REFUSED.search(event.text)]
    return [ReadWarning("dropped-by-logger", event.source or "log", event.text[:160]) for event in said[:1]]


def _unfinished(warnings: list[ReadWarning]) -> str:
    """What to say where only last lines have no end, as in any log that is still written; empty where more is lost."""
    if any(warning.kind != "torn-line" for warning in warnings):
        return ""
    return f"the log ends within {', '.join(w.where for w in warnings)}, which was left out; nothing else is missing"


def _written_again(warnings: list[ReadWarning]) -> str:
    """What to say where rows or headers came again, which damages nothing; empty for anything else."""
    if any(warning.kind != WRITTEN_AGAIN for warning in warnings):
        return ""
    return "; ".join(f"from {w.where} on {w.message}" for w in warnings)


def _row(warning: ReadWarning) -> Evidence:
    span = _steps(warning)
    return Evidence(warning.where, span[0] if span else None, None, None, f"{warning.kind}: {warning.message}")


def _steps(warning: ReadWarning) -> tuple[int, int] | None:
    """First and last step that a warning is about: a range that was lost, or the neighbours of a gap."""
    match = _STEPS.search(warning.where) or _STEPS.search(warning.message)
    if match is None:
        return None
    first, last = int(match[1]), int(match[3] or match[1])
    return (last, last) if match[2] == "and" else (first, last)
