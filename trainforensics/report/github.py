"""GitHub workflow commands: an annotation for each alarm, printed by a step of a workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainforensics.kinds import Severity
from trainforensics.model import RunResult
from trainforensics.report import narrative
from trainforensics.report.junit import details, title
from trainforensics.report.text import one_line

COMMANDS: Mapping[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "notice"}


def render(results: Sequence[RunResult]) -> str:
    """One command a line; nothing for a stable run."""
    return "".join(line + "\n" for result in results for line in _lines(result))


def _lines(result: RunResult) -> Iterator[str]:
    if result.verdict == "undecided":
        yield _command("warning", f"{result.run}: could not be judged", str(narrative.headline(result)))
    for page in narrative.alarms(result):
        message = "; ".join([page.root.summary, *details(page.root)])
        yield _command(COMMANDS[page.root.severity], f"{result.run}: {title(page.root)}", message)


def _command(name: str, heading: str, message: str) -> str:
    escaped = one_line(message).replace("%", "%25")
    quoted = one_line(heading).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{name} title={quoted}::{escaped}"
